"""Descriptions: describing, writing as JSON and reading again is the identity, for every component of the library."""

import dataclasses
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim import components, compressors, datasets, delays, faults, graphs, protocols, rules, workloads
from asyncsim.components._description import NotRebuilt, describe, from_description
from asyncsim.components._digest import digest
from tests.cluster.problems import clusters
from tests.code_beside import Bag
from tests.datasets.test_datasets import arrays, idx
from tests.datasets.test_images import write_cifar, write_photo
from tests.delays.laws import LAWS
from tests.problems import RULES, refusals

DIGITS, ONE = datasets.Digits(), delays.Exponential(1.0)
PARTITION = datasets.Partition(DIGITS, 4, alpha=0.5, least=8)
CLUSTER = asim.Cluster(4, delays.Gamma(1.0, 0.3), network=asim.Network(latency=delays.Exponential(0.1)))
SCENARIO = asim.Scenario(CLUSTER, rules.GEM(0.1), workloads.Quadratic([1.0, 0.1]), commits_per_worker=8, record=())
COMPRESSORS = [
    compressors.Identity(),
    compressors.TopK(0.1),
    compressors.RandK(k=3),
    compressors.QSGD(2),
    compressors.LowRank(2),
    compressors.Natural(),
    compressors.ScaledSign(),
]
PROTOCOLS = [
    protocols.Asynchronous(),
    protocols.SSP(2),
    protocols.Synchronous(1, cancel=True),
    protocols.KSync(2),
    protocols.KAsync(2),
    protocols.KAsync(2, bound=3),
    protocols.Periodic(0.5, k=4),
    protocols.KBatchSync(3),
    protocols.KBatchAsync(3),
    protocols.Rennala(4, cancel=True),
    protocols.Malenia(4),
    protocols.Ringmaster(3, stop=True),
    protocols.RoundRobin(),
]
FAULTS = [
    faults.Slowdown(worker=1, start=2.0, seconds=math.inf, factor=2.0),
    faults.Crash(worker=0, time=3.0, restart_after=None),
    faults.MessageLoss(probability=0.1, timeout=1.0, attempts=3),
    faults.Sessions(online=delays.Exponential(9.0), offline=delays.Constant(1.0), worker=2),
    faults.ServerPause(start=1.0, seconds=0.5, every=2.0),
]
OTHERS = [
    asim.Network(upload_bandwidth=math.inf, bandwidth=1e6, message_bytes=4.0),
    asim.Network(bandwidth=[1e6, math.inf, 1e5], message_bytes=4.0, shared=True, duplex="full"),
    asim.Network(bandwidth=1e6, message_bytes=4.0, collective="ring"),
    asim.Server(atomic=False, resume="own", pull_to_commit=delays.Constant(0.1)),
    asim.Gossip(workers=4, compute=delays.Gamma(1.0, 0.3), graph="torus", exchange="rounds", local_steps=2),
    *(
        graph()
        for graph in (graphs.Complete, graphs.Ring, graphs.Torus, graphs.Star, graphs.Exponential, graphs.OnePeer)
    ),
    graphs.RandomRegular(degree=4, seed=1),
    graphs.Edges([[0, 1], [1, 0]]),
    graphs.Directed([[0, 1, 1], [1, 0, 0], [0, 1, 0]]),
    graphs.Weights([[0.75, 0.25], [0.25, 0.75]]),
    asim.Gossip(workers=4, compute=delays.Constant(1.0), exchange="push_sum", network=asim.Network(bandwidth=1e6)),
    asim.Pipeline(stages=3, forward=delays.Gamma(1.0, 0.3), schedule="1f1b", micro_batches=4),
    asim.Rollouts(slots=4, group=2, batch=2, generate=delays.Exponential(1.0), train=delays.Constant(0.5), lead=1.5),
    asim.Rollouts(
        slots=4,
        group=2,
        batch=2,
        generate=delays.Exponential(1.0),
        train=delays.Constant(0.5),
        steps_per_take=2,
        signal=0.7,
        order="stalest",
        engines=2,
        faults=[asim.faults.Crash(worker=1, time=2.0)],
    ),
    delays.VariableSpeed(delays.Constant(1.0), delays.Profile((0.0, 1.0), (1.0, 0.5), period=2.0)),
    delays.VariableSpeed(
        delays.Gamma(1.0, 0.5), delays.SlowPeriods(4.0, fast=delays.Constant(9.0), slow=delays.Exponential(1.0))
    ),
    rules.compressed(rules.WithProxy(rules.Downpour(0.1)), compressors.TopK(k=3)),
    rules.local(
        rules.weighted(rules.GEM(0.1), by=rules.Polynomial(0.7, grace=1)),
        window=5,
        learning_rate=0.02,
        optimiser="adamw",
    ),
    rules.weighted(rules.AGN(0.1, window=(10, 5, 2)), by=rules.Exponential(0.1)),
    rules.local(rules.GEM(0.1), window=[5, 20], learning_rate=0.02),
    rules.weighted(rules.Downpour(0.1), by=rules.CosineGate(8, rate=0.1)),
    rules.scheduled(rules.Downpour(0.1), by=rules.CosineDecay(100, warmup=10, final=0.1)),
    rules.scheduled(rules.Downpour(0.1), by=rules.LinearDecay([100, 200])),
    rules.hierarchical(rules.MomentumSGD(0.1), rules.DelayedNesterov(0.15, momentum=0.5, interval=2)),
    asim.Hierarchy(
        [asim.Cluster(2, delays.Constant(1.0)), asim.Cluster(3, delays.Exponential(1.0))],
        commits_per_push=4,
        network=asim.Network(bandwidth=[1e6, 1e5], message_bytes=4.0),
    ),
    workloads.Quadratic(np.arange(1.0, 101.0), start=np.linspace(0.1, 0.2, 100)),
    workloads.Quadratic([1.0, 2.0], minima=np.arange(8.0).reshape(4, 2)),
    workloads.MLP(PARTITION, hidden=(4, 3), batch_size=8),
    workloads.Softmax(datasets.AsColour(datasets.Digits(test_fraction=0.5), size=16), batch_size=4),
    workloads.AlexNet(datasets.AsColour(DIGITS, size=32), batch_size=4),
    datasets.Text("to be or not to be, " * 10, context=8),
    workloads.Transformer(datasets.Markov(1, 4, sequences=40, context=4), layers=1, width=8, batch_size=4),
    workloads.Surface("booth", noise=0.1, start=(0.0, 1.0)),
    workloads.Bits([2, 3], bits=4, samples=8, estimator="gspo", lengths=[1.0, 3.0], counts="jobs"),
    asim.delays.Sum(asim.delays.LogNormal(1.0, 0.5), 3),
    asim.Power(busy=300.0, idle=60.0),
    asim.Price(2.0, billing_seconds=60.0),
    CLUSTER,
    SCENARIO,
    asim.Comparison({"one": SCENARIO, "two": SCENARIO.override(rule="downpour")}, title="Two"),
]
EXAMPLES = [*LAWS, *COMPRESSORS, *PROTOCOLS, *FAULTS, *(RULES[name][0]() for name in RULES), *OTHERS]
OF_FILES = {datasets.MNIST, workloads.ConvNet, datasets.CIFAR10, datasets.ImageFolder}  # which a test writes
BASES = {
    asim.Rule,
    asim.rules.Elementwise,
    asim.rules.StepSchedule,
    asim.rules.Weight,
    asim.Workload,
    compressors.Compressor,
}
BASES |= {datasets.Dataset, datasets.Sequences}
RESULTS = {datasets.Parts, workloads.Landscape}
NUMBERS = st.floats(0, 1e6, allow_subnormal=False) | st.just(math.inf)
PER_SEED = st.lists(st.floats(0, 0.99), min_size=1, max_size=4).map(np.array)
VALUES = {"number": NUMBERS | PER_SEED, "law": NUMBERS, "integer": st.integers(1, 20), "switch": st.booleans()}
for whole in ("integer", "number"):
    VALUES[f"{whole} by worker"] = VALUES["integer"] | st.lists(VALUES["integer"], min_size=1, max_size=4)


def assert_identity(component: Any) -> None:
    again = from_description(json.loads(json.dumps(describe(component), allow_nan=False)))
    assert again == component
    assert type(again) is type(component)
    assert hash(again) == hash(component)
    assert digest(again) == digest(component)


def contained(value: Any) -> Iterator[type]:
    """Classes of a component and of all that it contains."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from contained(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        for field in dataclasses.fields(value):
            yield from contained(getattr(value, field.name))


def test_every_component_of_the_library_has_an_example() -> None:
    families = [delays, asim.cluster, faults, protocols, compressors, rules, datasets, workloads]
    public = [getattr(family, name) for family in families for name in family.__all__]
    classes = {one for one in public if isinstance(one, type) and dataclasses.is_dataclass(one)}
    classes |= {asim.Scenario, asim.Comparison, asim.Power, asim.Price}
    assert classes - set(contained(EXAMPLES)) - OF_FILES == BASES | RESULTS


@pytest.mark.parametrize("component", EXAMPLES, ids=lambda one: f"{one!r:.60}")
@given(data=st.data())
@settings(max_examples=4, deadline=None)
def test_every_component_with_other_numbers(component: Any, data: st.DataObject) -> None:
    """Infinite ones, and one value per seed, where it takes them."""
    fields = [field for field in components.fields(component) if field.kind in VALUES]
    for field in data.draw(st.lists(st.sampled_from(fields), max_size=3)) if fields else []:
        value = data.draw(VALUES[field.kind])
        with suppress(ValueError, TypeError):
            component = components.override(component, **{field.name: value})
    assert_identity(component)


def test_data_sets_of_files(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    for name, array in arrays((28, 28)).items():
        (tmp_path / "mnist" / name).write_bytes(idx(array))
    write_cifar(tmp_path / "cifar")
    for part, label in [("train", "cat"), ("train", "dog"), ("val", "cat"), ("val", "dog")]:
        write_photo(tmp_path / "photos" / part / label / "one.png")
    assert_identity(workloads.ConvNet(datasets.MNIST(tmp_path / "mnist"), batch_size=4))
    assert_identity(datasets.CIFAR10(tmp_path / "cifar"))
    assert_identity(datasets.ImageFolder(tmp_path / "photos", size=8))


@given(clusters())
@settings(max_examples=25, deadline=None)
def test_a_cluster_equals_that_of_its_description(cluster: asim.Cluster) -> None:
    assert_identity(cluster)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8))
@settings(max_examples=50, deadline=None)
def test_any_plain_values_of_a_users_own_class(value: Any) -> None:
    """Infinity is no text, and a text is no infinity."""
    assert_identity(Bag((value,)))


KEYS = PLAIN | st.tuples(st.integers(), st.text(max_size=2))


@given(st.dictionaries(KEYS, PLAIN, max_size=4))
@settings(max_examples=100, deadline=None)
def test_dictionaries_keep_the_types_of_their_keys(value: dict[Any, Any]) -> None:
    again = from_description(json.loads(json.dumps(describe(value), allow_nan=False)))
    assert again == value
    assert {*map(type, again)} == {*map(type, value)}
    assert digest(again) == digest(value)


def test_keys_that_are_no_texts_are_written_as_pairs_in_any_order() -> None:
    assert describe({2: "b", 1: "a"}) == describe({1: "a", 2: "b"}) == {"kind": "dict", "items": [[1, "a"], [2, "b"]]}
    assert from_description(describe({1: "a", "1": "b"})) == {1: "a", "1": "b"}
    assert describe({"1": "a"}) == {"1": "a"}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
@pytest.mark.parametrize("shape", [(3,), (2, 2), (0, 4)])
def test_arrays_keep_type_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    again = from_description(json.loads(json.dumps(describe(array))))
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(again, array)


def test_only_what_differs_from_the_defaults_is_written() -> None:
    assert describe(asim.Network(latency=delays.Constant(0.0), bandwidth=math.inf)) == {"kind": "cluster.Network"}
    assert describe(asim.Cluster(2, ONE, asim.Network(), asim.Server(), protocols.Asynchronous(), ())) == {
        "kind": "cluster.Cluster",
        "workers": 2,
        "compute": {"kind": "delays.exponential", "mean": 1.0},
    }
    assert describe(asim.rules.GEM(0.1, kappa=1.0)) == describe(asim.rules.GEM(0.1))


test_what_no_description_can_hold = refusals(
    (Bag((math.nan,)), "`bag.values` must not be NaN"),
    (Bag(({"kind": 1},)), "`bag.values` must not have the key 'kind'"),
    (Bag(((number for number in [1]),)), "`bag` must not depend on a generator"),
    call=lambda component: describe(component, "bag"),
)


def test_a_large_array_is_refused_with_its_place() -> None:
    with pytest.raises(NotRebuilt, match=r"`law.values` is an array of shape \[2000\], of which only a hash is kept"):
        from_description(describe(Bag(np.arange(2000.0)), "law"), name="law")  # type: ignore[arg-type]


def test_another_numbers_digest_is_another() -> None:
    laws = [delays.Gamma(1.0, 0.3), delays.Gamma(1.0, 0.30000000000000004), delays.LogNormal(1.0, 0.3)]
    assert len({digest(law) for law in laws}) == len(laws)
