"""Descriptions: describing, writing as JSON and reading again is the identity, for every component of the library."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim import compressors, delays, faults, rules
from asyncsim._description import NotRebuilt, describe, digest, from_description
from tests.cluster.problems import clusters
from tests.delays.laws import LAWS
from tests.problems import RULES

DIGITS = asim.datasets.Digits()
NUMBERS = st.floats(0, 1e6, allow_subnormal=False)
PER_SEED = st.lists(NUMBERS, min_size=1, max_size=4).map(np.array)
COMPRESSORS = st.sampled_from(
    [compressors.Identity(), compressors.TopK(0.1), compressors.RandK(k=3), compressors.QSGD(2), compressors.LowRank(2)]
)
FAULTS = [
    faults.Slowdown(worker=1, start=2.0, seconds=math.inf, factor=2.0),
    faults.Crash(worker=0, time=3.0, restart_after=None),
    faults.MessageLoss(probability=0.1, timeout=1.0, attempts=3),
    faults.Sessions(online=delays.Exponential(9.0), offline=delays.Constant(1.0), worker=2),
    faults.ServerPause(start=1.0, seconds=0.5, every=2.0),
]
OTHERS = [
    asim.Network(upload_bandwidth=math.inf, bandwidth=1e6, message_bytes=4.0),
    asim.Server(atomic=False, resume="own", pull_to_commit=delays.Constant(0.1)),
    asim.Pipeline(stages=3, forward=delays.Gamma(1.0, 0.3), schedule="1f1b", micro_batches=4),
    delays.VariableSpeed(delays.Constant(1.0), delays.Profile((0.0, 1.0), (1.0, 0.5), period=2.0)),
    asim.workloads.Quadratic(np.arange(1.0, 101.0), start=np.linspace(0.1, 0.2, 100)),
    asim.workloads.Quadratic([1.0, 2.0], minima=np.arange(8.0).reshape(4, 2)),
    asim.workloads.MLP(asim.datasets.Partition(DIGITS, 4, alpha=0.5, least=8), hidden=(4, 3), batch_size=8),
    asim.workloads.Softmax(asim.datasets.AsColour(asim.datasets.Digits(test_fraction=0.5), size=16), batch_size=4),
    asim.workloads.Surface("booth", noise=0.1, start=(0.0, 1.0)),
    asim.workloads.Bits([2, 3], bits=4, samples=8, estimator="gspo", lengths=[1.0, 3.0], counts="jobs"),
]


def assert_identity(component: Any) -> None:
    again = from_description(json.loads(json.dumps(describe(component), allow_nan=False)))
    assert again == component
    assert type(again) is type(component)
    assert hash(again) == hash(component)
    assert digest(again) == digest(component)


@pytest.mark.parametrize("component", [*FAULTS, *OTHERS, *LAWS], ids=repr)
def test_parts(component: Any) -> None:
    assert_identity(component)


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    assert_identity(RULES[name][0]())


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_clusters(cluster: asim.Cluster) -> None:
    assert_identity(cluster)


@given(NUMBERS | PER_SEED, st.floats(0, 0.99) | st.lists(st.floats(0, 0.99), min_size=1).map(np.array), COMPRESSORS)
@settings(max_examples=60, deadline=None)
def test_one_value_per_seed_and_rules_in_rules(rate: Any, momentum: Any, compressor: compressors.Compressor) -> None:
    assert_identity(rules.compressed(rules.WithProxy(rules.MomentumSGD(rate, momentum=momentum)), compressor))


@dataclasses.dataclass(frozen=True)
class Bag:
    """A component of a user's, with values that JSON has no word for."""

    values: tuple[Any, ...]
    text: str = "inf"


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8))
@settings(deadline=None)
def test_any_plain_values_of_a_users_own_class(value: Any) -> None:
    """Infinity is no text, and a text is no infinity."""
    assert_identity(Bag((value,)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
@pytest.mark.parametrize("shape", [(3,), (2, 2), (0, 4)])
def test_arrays_keep_type_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    again = from_description(json.loads(json.dumps(describe(array))))
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(again, array)


def test_only_what_differs_from_the_defaults_is_written() -> None:
    assert describe(asim.Network(latency=delays.Constant(0.0), bandwidth=math.inf)) == {"kind": "cluster.Network"}
    assert describe(asim.rules.GEM(0.1, kappa=1.0)) == describe(asim.rules.GEM(0.1))


@pytest.mark.parametrize(
    ("component", "message"),
    [
        (Bag((math.nan,)), "`bag.values` must not be NaN"),
        (Bag(({"kind": 1},)), "`bag.values` must not have the key 'kind'"),
        (Bag(((number for number in [1]),)), "`bag` must not depend on a generator"),
    ],
    ids=["NaN", "a key", "a generator"],
)
def test_what_no_description_can_hold(component: Bag, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        describe(component, "bag")


def test_a_large_array_is_refused_with_its_place() -> None:
    with pytest.raises(NotRebuilt, match=r"`law.values` is an array of shape \[2000\], of which only a hash is kept"):
        from_description(describe(Bag(np.arange(2000.0)), "law"), name="law")  # type: ignore[arg-type]


def test_another_numbers_digest_is_another() -> None:
    laws = [delays.Gamma(1.0, 0.3), delays.Gamma(1.0, 0.30000000000000004), delays.LogNormal(1.0, 0.3)]
    assert len({digest(law) for law in laws}) == len(laws)
