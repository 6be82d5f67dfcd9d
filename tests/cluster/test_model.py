"""Clusters as values: equal, hashable, and described in one line."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import faults, protocols
from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.delays import Constant, Empirical, Exponential, Gamma

pytestmark = pytest.mark.quick

ONE = Constant(1.0)


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(2, ONE, network=Network(latency=asim.delays.Gamma(1.0, 1.0))),
        Cluster(2, ONE, server=Server(service=Constant(0.5), atomic=False)),
        Cluster(2, asim.delays.VariableSpeed(ONE, asim.delays.SlowPeriods(3.0, Exponential(5.0), Exponential(1.0)))),
    ],
)
def test_clusters_are_values(cluster):
    assert hash(cluster) == hash(cluster)
    assert cluster == Cluster(**vars(cluster))
    assert not cluster.takes_fast_path


def test_variable_speed_slows_workers_down():
    """Work of a second at speeds 1 and 1/3, in periods of 5 and 1 s on average: mean speed (5 + 1/3)/6."""
    speed = asim.delays.SlowPeriods(3.0, Exponential(5.0), Exponential(1.0))
    trace = simulate(Cluster(4, asim.delays.VariableSpeed(Constant(1.0), speed)), seconds=4000.0)
    # Variance of the slow share over t seconds, as for any on/off process: 2·(5·1)²/6³/t, of speed (2/3)² of it.
    spread = 2 / 3 * np.sqrt(2 * 25 / 216 / 4000 / 4)
    assert abs(len(trace) / 4000 / 4 - (5 + 1 / 3) / 6) < 4 * spread + 1 / 4000


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (Cluster(20, Gamma(1.0, 0.3)), "Cluster(20 workers, Gamma(mean=1.0, cv=0.3))"),
        (Cluster(1, ONE), "Cluster(1 worker, Constant(value=1.0))"),
        (Cluster(2, [ONE, ONE]), "Cluster(2 workers, Constant(value=1.0))"),
        (Cluster(3, [ONE, Constant(2.0), ONE]), "Cluster(3 workers, 2 different laws)"),
        (Cluster(4, ONE, protocol=protocols.KAsync(2)), "Cluster(4 workers, Constant(value=1.0), KAsync(k=2))"),
        (
            Cluster(4, ONE, Network(bandwidth=1e9), Server(slots=2, atomic=False)),
            "Cluster(4 workers, Constant(value=1.0), Network(bandwidth=1000000000.0), Server(slots=2, atomic=False))",
        ),
        (
            Cluster(4, ONE, faults=[faults.Crash(1, 3.0), faults.Crash(2, 3.0), faults.ServerPause(1.0, 2.0)]),
            "Cluster(4 workers, Constant(value=1.0), 3 faults (Crash, ServerPause))",
        ),
    ],
)
def test_repr_names_what_differs_from_the_defaults(cluster, expected):
    assert repr(cluster) == expected


def test_repr_is_one_short_line_whatever_the_parts():
    text = repr(Cluster(5, Empirical(np.linspace(0.0, 1.0, 1000)), Network(latency=[Exponential(1.0)] * 5)))
    assert "\n" not in text
    assert len(text) < 250
