"""Network, server, protocol and faults as fields of a scenario."""

import dataclasses
from functools import partial

import jax.numpy as jnp
import pytest

import asyncsim as asim
from asyncsim import faults, protocols
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.scenario._scenario import all_fields
from tests.problems import assert_refused

CLUSTER = asim.Cluster(
    workers=6,
    compute=Gamma(mean=1.0, cv=0.3),
    network=asim.Network(latency=Exponential(0.1), bandwidth=1e3),
    server=asim.Server(slots=2, service=Gamma(0.2, 0.5)),
    protocol=protocols.KAsync(3),
    faults=[faults.Crash(1, 5.0, restart_after=2.0)],
)
QUADRATIC = asim.workloads.Quadratic([1.0, 0.5])
SCENARIO = asim.Scenario(CLUSTER, asim.rules.Downpour(0.1), QUADRATIC, commits_per_worker=10)


def test_all_other_fields_stay():
    changed = SCENARIO.override(workers=8)
    assert changed.cluster == dataclasses.replace(SCENARIO.cluster, workers=8)
    assert SCENARIO.override(slots=3, atomic=False, pull="at_read").cluster == dataclasses.replace(
        SCENARIO.cluster, server=asim.Server(slots=3, service=Gamma(0.2, 0.5), atomic=False, pull="at_read")
    )


def test_a_message_is_as_large_as_the_parameters():
    size = jnp.zeros(2).dtype.itemsize * 2
    assert SCENARIO.scheduled.network.message_bytes == size
    assert SCENARIO.override(message_bytes=100.0).scheduled.network.message_bytes == 100
    assert SCENARIO.override(bandwidth=float("inf")).scheduled.network.message_bytes is None
    assert len(SCENARIO.simulate()) == 60


def test_laws_made_of_laws_or_samples_have_only_their_numbers_as_fields():
    for law, names in (
        (asim.delays.Empirical([1.0, 2.0]), []),
        (asim.delays.Straggler(Gamma(1.0, 0.3), probability=0.05, factor=10.0), ["probability", "factor"]),
        (asim.delays.VariableSpeed(Constant(1.0), asim.delays.Profile([0.0], [1.0])), ["period"]),
    ):
        scenario = dataclasses.replace(SCENARIO, cluster=asim.Cluster(2, law))
        of_law = [field.name for path, field in scenario.settings().items() if path.startswith("cluster.compute.")]
        assert of_law == names
        assert scenario.override(workers=3).cluster.compute == law
    assert scenario.override(compute="gamma", cv=0.2).cluster.compute == Gamma(1.0, 0.2)


class TestArgumentsThatRulesAndClustersShare:
    def test_no_flag_has_two_meanings(self):
        names = [field.name for field in all_fields()]
        assert len(names) == len(set(names))

    def test_the_clusters_field_keeps_its_name_and_the_rules_is_prefixed(self):
        changed = SCENARIO.override(protocol="ringmaster", limit=4, rule="ringmaster", rule_limit=3)
        assert changed.cluster.protocol == protocols.Ringmaster(4)
        assert changed.rule.limit == 3
        assert changed.override(rule="drop_stale", oldest=3).rule.oldest == 3
        for field, name, argument in (("rule", "drop_stale", "oldest"), ("protocol", "ssp", "slack")):
            message = f"`{argument}` must be given as well with `{field}` '{name}'"
            assert_refused(partial(SCENARIO.override, **{field: name}), message)

    def test_a_rule_that_counts_the_workers_takes_their_number_from_the_cluster(self):
        changed = SCENARIO.override(rule="ia2sgd")
        assert changed.describe()["rule"]["workers"] == 6
        assert changed.override(workers=9).describe()["rule"]["workers"] == 9
        given = dataclasses.replace(changed, rule=asim.rules.IA2SGD(changed.rule.learning_rate, workers=6))
        assert given.digest == changed.digest
        assert given.override(workers=9).rule.workers == 9
        assert_refused(lambda: given.override(rule_workers=8), "`rule_workers` is not a field of this scenario")


WRAPPED = {
    "local": asim.rules.local(asim.rules.Downpour(0.2), window=3, learning_rate=0.1),
    "compressed": asim.rules.compressed(asim.rules.Downpour(0.2), asim.compressors.TopK(k=1)),
    "weighted": asim.rules.weighted(asim.rules.Downpour(0.2), by=asim.rules.Exponential(0.5)),
    "plain": asim.rules.Downpour(0.2),
}


@pytest.mark.parametrize("present", WRAPPED)
@pytest.mark.parametrize("chosen", [name for name in WRAPPED if name != "plain"])
def test_a_rule_in_wrappers_takes_the_place_of_the_whole_rule(present, chosen):
    scenario = asim.Scenario(CLUSTER, WRAPPED[present], QUADRATIC, commits=8)
    assert scenario.override(rule=WRAPPED[chosen]).rule == WRAPPED[chosen]
    assert scenario.override(rule=WRAPPED[chosen], learning_rate=0.4).rule.numbers["rule.learning_rate"] == 0.4
