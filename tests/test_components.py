"""`asim.components`: one function each for laws, clusters, rules, workloads and scenarios."""

import dataclasses
import json

import pytest

import asyncsim as asim
from asyncsim import components

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


@pytest.mark.parametrize("component", EVERY_KIND, ids=lambda one: type(one).__name__)
def test_a_component_is_its_description_and_its_fields(component):
    again = components.from_description(json.loads(json.dumps(components.describe(component))))
    assert again == component
    assert components.digest(again) == components.digest(component)
    present = {field.name: field.value for field in components.fields(component)}
    shown = [field.show() for field in components.fields(component)]
    for name, value in present.items():
        if isinstance(value, int | float | str):
            same = components.override(component, **{name: value})
            assert [field.show() for field in components.fields(same)] == shown


def test_the_fields_of_what_it_contains_are_reached():
    changed = components.override(CLUSTER, workers=8, latency=0.5, slots=2)
    assert changed.network.latency == L.Exponential(0.5)
    assert (changed.workers, changed.server.slots) == (8, 2)
    assert changed.compute is CLUSTER.compute


def test_laws_are_set_by_their_mean_or_by_a_text():
    assert components.override(CLUSTER, compute=1.0).compute == L.Gamma(1.0, 0.25)
    assert components.override(CLUSTER, compute="lognormal:mean=3:cv=0.5").compute == L.LogNormal(3.0, 0.5)
    fleet = dataclasses.replace(CLUSTER, compute=(L.Constant(1.0), L.Constant(1.0), L.Constant(2.0), L.Constant(4.0)))
    assert components.override(fleet, compute=4.0).compute[3] == L.Constant(8.0)


def test_a_scenario_answers_itself():
    scenario = asim.Scenario(CLUSTER, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=8)
    assert components.override(scenario, rule="gem") == scenario.override(rule="gem")
    assert components.fields(scenario) == scenario.fields()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wokers": 3}, "`wokers` is not an argument of Cluster. Did you mean `workers`"),
        ({"compute": "gama:mean=1"}, "Did you mean 'gamma'"),
        ({"compute": "gamma:men=1"}, "'gamma:men=1' is no law"),
        ({"latency": float("nan")}, "`latency` must be finite"),
    ],
)
def test_mistakes(changes, message):
    with pytest.raises(ValueError, match=message):
        components.override(CLUSTER, **changes)
