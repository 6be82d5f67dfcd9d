"""Settings of the regions of a hierarchy, each by its number."""

import pytest

import asyncsim as asim
from asyncsim.delays import Constant, Exponential, Gamma

LAW = Gamma(1.0, 0.5)
REGION = asim.Cluster(4, LAW)
SCENARIO = asim.Scenario(
    asim.Hierarchy([REGION, REGION], network=asim.Network(latency=Constant(1.0))),
    asim.rules.hierarchical(asim.rules.Downpour(0.1)),
    asim.workloads.Quadratic([1.0]),
    commits=20,
)


@pytest.mark.parametrize(
    ("name", "value", "region"),
    [
        ("cluster.regions.1.workers", 3, asim.Cluster(3, LAW)),
        ("regions_1_workers", 3, asim.Cluster(3, LAW)),
        ("regions_1_compute", 7.0, asim.Cluster(4, Gamma(7.0, 0.5))),
        ("regions_1_compute", "exponential", asim.Cluster(4, Exponential(1.0))),
        ("regions_1_compute_mean", 7.0, asim.Cluster(4, Gamma(7.0, 0.5))),
        ("regions_1_compute_cv", 0.1, asim.Cluster(4, Gamma(1.0, 0.1))),
        ("regions_1_network_latency", 0.2, asim.Cluster(4, LAW, network=asim.Network(latency=Constant(0.2)))),
    ],
)
def test_a_setting_of_one_region_leaves_the_others(name, value, region):
    changed = SCENARIO.override(**{name: value})
    assert changed.cluster.regions == (REGION, region)
    assert SCENARIO.cluster.regions == (REGION, REGION)


def test_a_bare_name_means_the_hierarchy_and_no_region():
    changed = SCENARIO.override(latency=3.0, commits_per_push=2)
    assert changed.cluster.network.latency == Constant(3.0)
    assert changed.cluster.regions == (REGION, REGION)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"latency": -1.0}, "`latency` must be finite and not negative; got -1.0"),
        ({"latency_value": float("nan")}, "`latency_value` must be finite and not negative; got nan"),
        ({"latency": "exponental"}, "`latency` must be one of .* Did you mean 'exponential'"),
        ({"latency": "constant"}, "`latency` must have `value` for 'constant'.* Write constant:value="),
        ({"latency": "gamma:mean=1"}, "`latency` must have `cv` for 'gamma'; got 'gamma:mean=1'"),
        ({"regions_0_compute": "far"}, "`regions_0_compute` must be one of 'constant'"),
        ({"regions_0_compute": -1.0}, "`regions_0_compute` must be finite and not negative; got -1.0"),
        ({"regions_0_compute_mean": float("nan")}, "`regions_0_compute_mean` must be finite and positive; got nan"),
        ({"regions.0.compute.cv": -1.0}, "`regions.0.compute.cv` must be finite and positive; got -1.0"),
        ({"regions_1_workers": 0}, "`regions_1_workers` must be an integer of at least 1; got 0"),
        ({"rule_learning_rate": -0.1}, "`rule_learning_rate` must not be negative; got -0.1"),
        ({"global_rule": "heavy_ball", "global_rule_momentum": 2.0}, "`global_rule_momentum` must be"),
    ],
)
def test_errors_call_a_setting_as_it_was_called(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        SCENARIO.override(**changes)
