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
