"""Addresses of settings: paths, the shorter names that mean them, and other values by either."""

import dataclasses

import pytest

import asyncsim as asim
from asyncsim import components, faults, protocols
from asyncsim.components._address import resolve, shorten
from asyncsim.components._field import Field
from asyncsim.components._settings import settings
from asyncsim.rules import WithProxy, compressed, local, weighted
from tests.problems import assert_refused, refusals

pytestmark = pytest.mark.quick

CLUSTER = asim.Cluster(
    4,
    asim.delays.Gamma(1.0, 0.3),
    network=asim.Network(latency=asim.delays.Gamma(0.1, 0.5)),
    protocol=protocols.KAsync(2),
    faults=[faults.MessageLoss(0.1, timeout=1.0)],
)
DIGITS = asim.datasets.Digits()
SCENARIOS = {
    "plain": asim.Scenario(CLUSTER, asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0, 0.5]), commits=8),
    "wrapped": asim.Scenario(
        CLUSTER,
        compressed(WithProxy(asim.rules.Downpour(0.1)), asim.compressors.TopK(k=3)),
        asim.workloads.Softmax(asim.datasets.partition(DIGITS, 4, by="quantity", cv=0.5), batch_size=8),
        commits_per_worker=2,
    ),
    "composed": asim.Scenario(
        CLUSTER,
        compressed(
            weighted(
                local(asim.rules.ServerOptimiser(0.1), window=5, learning_rate=0.02, optimiser="adam"),
                by=asim.rules.CosineGate(8),
            ),
            asim.compressors.TopK(k=1),
        ),
        asim.workloads.Quadratic([1.0, 0.5]),
        commits=8,
    ),
    "rollouts": asim.Scenario(
        asim.Rollouts(
            slots=4, group=2, batch=2, generate=asim.delays.Exponential(1.0), train=asim.delays.Constant(0.5)
        ),
        asim.rules.LocalSGD(0.05, window=2),
        asim.workloads.Bits(),
        commits=8,
    ),
    "recorded": asim.Scenario(
        asim.Trace.from_commits([0, 1, 0, 1]), asim.rules.Rennala(0.1, batch=2), asim.workloads.Quadratic([1.0])
    ),
}
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


@every_scenario
def test_every_setting_is_set_by_its_path_and_by_its_short_name(scenario: asim.Scenario) -> None:
    for path, field in scenario.settings().items():
        if field.value is not None:
            value = field.parse(field.show())
            assert scenario.override(**{path: value}) == scenario.override(**{field.name: value}) == scenario


@every_scenario
def test_short_names_differ_and_end_their_paths(scenario: asim.Scenario) -> None:
    found = scenario.settings()
    assert len({field.name for field in found.values()}) == len(found)
    for path, field in found.items():
        assert path.replace(".", "_").endswith(field.name)


@every_scenario
def test_the_settings_of_the_rule_are_those_of_the_innermost(scenario: asim.Scenario) -> None:
    assert scenario.settings()["rule.learning_rate"].value == scenario.rule.innermost.learning_rate
    changed = scenario.override(**{"rule.learning_rate": 0.3})
    assert changed.rule.innermost.learning_rate == 0.3
    assert (type(changed.rule), changed.cluster) == (type(scenario.rule), scenario.cluster)


def test_wrappers_and_the_partition_have_places_of_their_own() -> None:
    wrapped = SCENARIOS["wrapped"]
    changes = {"compressor.k": 5, "proxy.proxy_momentum": 0.5, "partition.cv": 0.1, "cluster.protocol.k": 3}
    changed = wrapped.override(**changes)
    values = {path: field.value for path, field in changed.settings().items()}
    assert {path: values[path] for path in changes} == changes
    assert changed.rule == compressed(
        WithProxy(asim.rules.Downpour(0.1), proxy_momentum=0.5), asim.compressors.TopK(k=5)
    )
    assert wrapped.override(compressor="none").rule == WithProxy(asim.rules.Downpour(0.1))
    assert wrapped.override(rule="gem").rule.rule == WithProxy(asim.rules.GEM(0.1))


def test_local_steps_and_weights_have_places_of_their_own() -> None:
    composed = SCENARIOS["composed"]
    changes = {
        "rule.learning_rate": 0.7,
        "local.window": 10,
        "local.learning_rate": 0.01,
        "local.optimiser": "sgd",
        "weight.limit": 5.0,
        "compressor.k": 2,
    }
    changed = composed.override(**changes)
    values = {path: field.value for path, field in changed.settings().items()}
    assert {path: values[path] for path in changes} == changes
    steps = local(asim.rules.ServerOptimiser(0.7), window=10, learning_rate=0.01)
    assert changed.rule == compressed(weighted(steps, by=asim.rules.CosineGate(5)), asim.compressors.TopK(k=2))
    assert changed.digest != composed.digest
    plain = changed.override(weight="none", compressor="none")
    assert plain.rule == steps
    exponential = plain.override(weight="exponential", weight_rate=0.1).rule
    assert exponential == local(
        weighted(asim.rules.ServerOptimiser(0.7), by=asim.rules.Exponential(0.1)), window=10, learning_rate=0.01
    )


def test_a_bare_window_is_that_of_local_steps_and_a_bare_learning_rate_that_of_the_rule() -> None:
    rule = local(asim.rules.Downpour(0.5), window=5, learning_rate=0.1)
    scenario = dataclasses.replace(SCENARIOS["plain"], rule=rule)
    changed = scenario.override(window=10, learning_rate=0.7, local_learning_rate=0.2)
    assert changed.rule == local(asim.rules.Downpour(0.7), window=10, learning_rate=0.2)
    assert [one.rule.window for one in asim.grid(scenario, window=[1, 2])] == [1, 2]
    assert scenario.override(rule="gem", rule_momentum=0.5).rule.rule == asim.rules.GEM(0.5, momentum=0.5)
    assert_refused(lambda: scenario.override(rule="agn"), "`rule` must send an update of one gradient; got 'agn'")
    assert SCENARIOS["plain"].override(rule="agn", window=3).rule == asim.rules.AGN(0.1, window=3)


def test_a_bare_name_is_that_of_the_cluster_and_mean_and_cv_those_of_the_compute_law() -> None:
    wrapped = SCENARIOS["wrapped"]
    changed = wrapped.override(k=3, cv=0.2, mean=2.0)
    assert changed.cluster.protocol == protocols.KAsync(3)
    assert changed.cluster.compute == asim.delays.Gamma(2.0, 0.2)
    assert (changed.rule, changed.workload.data.cv) == (wrapped.rule, 0.5)


def test_laws_elsewhere_are_reached_by_longer_names() -> None:
    for name in ("latency_cv", "network_latency_cv", "cluster.network.latency.cv", "latency.cv"):
        changed = SCENARIOS["plain"].override(**{name: 0.9})
        assert changed.cluster == dataclasses.replace(CLUSTER, network=asim.Network(asim.delays.Gamma(0.1, 0.9)))


def test_a_name_that_fits_several_settings_is_the_one_that_the_others_leave() -> None:
    rollouts = SCENARIOS["rollouts"]
    changed = rollouts.override(order="window", window=4, cluster_window=3)
    assert (changed.rule.window, changed.cluster.window) == (4, 3)
    assert_refused(lambda: rollouts.override(window=4), "`window` fits `rule.window` and `cluster.window`. Write ")


test_mistakes = refusals(
    (
        {"learning_rate": 0.2, "rule.learning_rate": 0.3},
        "`learning_rate` and `rule.learning_rate` are the same setting",
    ),
    (
        {"rule.lerning_rate": 0.2},
        "`rule.lerning_rate` is not a field of this scenario. Did you mean `rule_learning_rate`",
    ),
    ({"rule.slack": 2}, "`rule.slack` is not a field of this scenario"),
    ({"protocol.slack": 2}, "`protocol.slack` is not a field of protocol 'k_async', only of ssp; 'k_async' has `k`"),
    ({"compressor.k": 2}, "`compressor.k` is not a field of compressor 'none', only of top_k, rand_k"),
    ({"error_feedback": False}, "`error_feedback` must be left out without a `compressor`"),
    ({"rule": 3}, "`rule` must be one of .*; got 3"),
    ({"faults": 3}, "`faults` is not a field of this scenario"),
    call=lambda changes: SCENARIOS["plain"].override(**changes),
)


def test_a_scenario_is_a_component() -> None:
    plain = SCENARIOS["plain"]
    assert components.digest(plain) == plain.digest == components.digest(plain.override(commits_per_worker=2))
    assert components.fields(plain) == plain.fields()
    assert components.override(plain, **{"rule.kappa": 2.0}) == plain.override(kappa=2.0)


def test_two_numbers_of_one_name_are_told_apart_in_nested_rules() -> None:
    rule = WithProxy(asim.rules.Downpour(0.1), proxy_learning_rate=0.2)
    assert rule.numbers == {"rule.learning_rate": 0.1, "proxy_learning_rate": 0.2, "proxy_momentum": 0.9}
    assert rule.with_numbers({"rule.learning_rate": 0.3}).rule == asim.rules.Downpour(0.3)
    assert_refused(lambda: rule.with_numbers({"rule.learnin_rate": 0.3}), "`numbers` must be among .*Did you mean")


def test_an_unchanged_component_is_itself() -> None:
    for scenario in SCENARIOS.values():
        same = scenario.override(seed=3)
        assert same.rule is scenario.rule
        assert same.workload is scenario.workload
        assert same.cluster is scenario.cluster


def test_an_own_field_comes_before_those_of_parts() -> None:
    paths = {path: Field(path, "number", "") for path in ("k", "protocol.k", "x.protocol.k")}
    assert resolve(["k"], paths) == {"k": "k"}
    assert shorten(paths) == {"k": "k", "protocol.k": "protocol.k", "x.protocol.k": "x_protocol_k"}
    assert resolve(["protocol.k"], paths) == {"protocol.k": "protocol.k"}
    assert_refused(lambda: resolve(["protocol_k"], paths), "`protocol_k` fits `protocol.k` and `x.protocol.k`")


def test_settings_of_a_component_have_no_data_and_nothing_that_is_bound_later() -> None:
    workload = settings(asim.workloads.Softmax(DIGITS, batch_size=4))
    assert not {"data", "counts", "groups"} & workload.keys()
    assert "workers" not in settings(asim.rules.IA2SGD(0.1, workers=3))


def test_a_law_that_is_given_has_the_settings_below_it() -> None:
    constant = SCENARIOS["plain"].override(compute="constant", latency=0.0)
    changed = constant.override(
        compute="gamma:mean=2:cv=0.5", cv=0.2, latency="lognormal:mean=1:cv=0.5", latency_cv=0.1
    )
    assert changed.cluster.compute == asim.delays.Gamma(2.0, 0.2)
    assert changed.cluster.network.latency == asim.delays.LogNormal(1.0, 0.1)
    assert_refused(lambda: constant.override(latency_cv=0.1), "`latency_cv` is not a field of this scenario")
    for wrong in ([1, 2], 3j, object(), "gama", "gamma:men=1", -1.0):
        assert_refused(lambda wrong=wrong: constant.override(compute=wrong), "compute|is no law")
