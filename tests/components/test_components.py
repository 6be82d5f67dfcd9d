"""`asim.components`: one function each for laws, clusters, rules, workloads and scenarios."""

import dataclasses
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import components
from tests.problems import refusals

L = asim.delays
CLUSTER = asim.Cluster(4, L.Gamma(2.0, 0.25), network=asim.Network(latency=L.Exponential(0.1)))
EVERY_KIND = (
    L.LogNormal(1.0, 0.5),
    CLUSTER,
    asim.Pipeline(stages=2, forward=(L.Constant(1.0), L.Gamma(2.0, 0.5))),
    asim.Rollouts(slots=4, group=2, batch=2, generate=L.Exponential(1.0), train=L.Constant(0.5)),
    asim.rules.compressed(asim.rules.GEM(0.1), asim.compressors.TopK(k=3)),
    asim.workloads.Quadratic([1.0, 0.1], noise=0.1),
    asim.protocols.KAsync(3),
)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A component of a user's.

    Args:
        protocol: A protocol.
        k: A number that a protocol may have, too.
        cluster: A cluster.
    """

    protocol: asim.protocols.CommitProtocol
    k: int
    cluster: asim.Cluster


FRESH = (  # calls of a process that has imported `components` and nothing else
    "built_in_classes('weights')['exponential'](rate=1.0)",
    "from_description({'kind': 'protocols.k_async', 'k': 2})",
)


def test_families_are_there_in_a_fresh_process_that_has_imported_no_package_yet():
    imports = "from asyncsim.components import built_in_classes, from_description"
    commands = [[sys.executable, "-c", f"{imports}\n{call}"] for call in FRESH]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate()[1] for process in started] == [""] * len(FRESH)


@pytest.mark.parametrize("component", EVERY_KIND, ids=lambda one: type(one).__name__)
def test_a_field_can_be_set_to_its_own_value(component):
    """That its description makes it again is shown in `test_description.py`."""
    shown = [field.show() for field in components.fields(component)]
    for field in components.fields(component):
        if isinstance(field.value, int | float | str):
            same = components.override(component, **{field.name: field.value})
            assert [one.show() for one in components.fields(same)] == shown


def test_laws_are_set_by_their_mean_or_by_a_text():
    """With another mean a law keeps its shape, unless one of the two is 0."""
    assert components.override(CLUSTER, compute=1.0).compute == L.Gamma(1.0, 0.25)
    instant = components.override(CLUSTER, latency=0.0)
    assert instant.network.latency == L.Constant(0.0)
    assert components.override(instant, latency=0.3).network.latency == L.Constant(0.3)
    assert components.override(CLUSTER, compute="lognormal:mean=3:cv=0.5").compute == L.LogNormal(3.0, 0.5)
    fleet = dataclasses.replace(CLUSTER, compute=(L.Constant(1.0), L.Constant(1.0), L.Constant(2.0), L.Constant(4.0)))
    assert components.override(fleet, compute=4.0).compute[3] == L.Constant(8.0)


def test_another_choice_by_name_or_as_an_object_keeps_what_both_have():
    assert components.override(CLUSTER, protocol="ssp", slack=2).protocol == asim.protocols.SSP(2)
    k_async = components.override(CLUSTER, protocol=asim.protocols.KAsync(3))
    assert components.override(k_async, protocol="k_batch_async").protocol == asim.protocols.KBatchAsync(3)
    assert components.override(CLUSTER, compute="lognormal", latency="lognormal:mean=1:cv=2") == dataclasses.replace(
        CLUSTER, compute=L.LogNormal(2.0, 0.25), network=asim.Network(latency=L.LogNormal(1.0, 2.0))
    )
    proxied = asim.rules.WithProxy(asim.rules.Downpour(0.1))
    changed = components.override(proxied, rule="adaptive_staleness", learning_rate=0.2)
    assert changed == asim.rules.WithProxy(asim.rules.AdaptiveStaleness(0.2))
    names = [field.name for field in components.fields(k_async, protocol="ssp")]
    assert names[:5] == ["workers", "compute", "mean", "cv", "protocol"]
    assert "slack" in names
    assert "k" not in names


def test_a_users_component_has_choices_and_prefixes():
    pair = Pair(asim.protocols.KAsync(3), k=2, cluster=CLUSTER)
    assert [field.name for field in components.fields(pair)][:4] == ["protocol", "protocol_k", "bound", "k"]
    changed = components.override(pair, protocol_k=4, k=5, workers=7)
    assert changed == Pair(asim.protocols.KAsync(4), k=5, cluster=dataclasses.replace(CLUSTER, workers=7))


def test_a_scenario_takes_objects_and_answers_itself():
    scenario = asim.Scenario(CLUSTER, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=8)
    changed = scenario.override(rule=asim.rules.GEM(0.2), compute=3.0, workload=asim.workloads.Surface("booth"))
    assert (changed.rule, changed.cluster.compute) == (asim.rules.GEM(0.2), L.Gamma(3.0, 0.25))
    assert changed.workload == asim.workloads.Surface("booth")
    assert scenario.override(compressor=asim.compressors.TopK(0.1)).rule.compressor == asim.compressors.TopK(0.1)
    with pytest.raises(ValueError, match="`compressor` must be one of 'none'"):
        scenario.override(compressor=0.1)
    assert components.override(scenario, rule="gem") == scenario.override(rule="gem")
    assert components.fields(scenario) == scenario.fields()


CALLED = (  # base classes that can be called themselves: an object of a person's own functions or arrays
    (asim.Workload, {"init": np.zeros, "loss": np.sum}),
    (
        asim.datasets.Dataset,
        {
            "name": "own",
            **dict.fromkeys(("train_inputs", "test_inputs"), np.eye(2)),
            **dict.fromkeys(("train_labels", "test_labels"), np.arange(2)),
            "classes": 2,
        },
    ),
)


@pytest.mark.parametrize(("base", "arguments"), CALLED, ids=lambda part: getattr(part, "__name__", ""))
class TestBaseClassThatIsCalled:
    def test_objects_are_instances_of_the_class(self, base, arguments):
        thing = base(**arguments)
        assert isinstance(thing, base)
        assert repr(thing).startswith(base.__name__)

    def test_its_objects_survive_pickling_and_replacement(self, base, arguments):
        thing = base(**arguments)
        assert pickle.loads(pickle.dumps(thing)) == thing == dataclasses.replace(thing)

    def test_its_signature_lists_its_arguments(self, base, arguments):
        assert set(inspect.signature(base).parameters) >= set(arguments)

    def test_a_missing_argument_is_one_of_the_class_that_was_called(self, base, arguments):
        with pytest.raises(TypeError, match=rf"^{base.__name__}\.__init__\(\) missing .* '{next(iter(arguments))}'"):
            base()

    def test_a_subclass_has_arguments_and_objects_of_its_own(self, base, arguments):
        del arguments

        class Own(base, named=False):
            depth: int

            def check(self):
                """Nothing."""

        assert type(Own(depth=2)) is Own
        assert "depth" in inspect.signature(Own).parameters


test_mistakes = refusals(
    ({"slack": 3}, "`slack` is not a field of protocol 'asynchronous', only of ssp"),
    ({"wokers": 3}, "`wokers` is not an argument of Cluster. Did you mean `workers`"),
    ({"compute": "gamma:men=1"}, "'gamma:men=1' is no law"),
    # Only laws have arguments in their texts. Other choices are refused as what they are.
    ({"protocol": "k_sync:k=2"}, "`protocol` must be one of 'asynchronous', .*; got 'k_sync:k=2'"),
    call=lambda changes: components.override(CLUSTER, **changes),
)
