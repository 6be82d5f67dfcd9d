"""Clusters of a million workers: a million starting events are not a cluster that stands still."""

from unittest import mock

import numpy as np
import pytest

from asyncsim.cluster import Cluster, Network, Server, protocols, simulate
from asyncsim.cluster._full import Full
from asyncsim.cluster._simulation import run
from asyncsim.delays import Constant, Exponential


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(300, Exponential(1.0)),
        Cluster(300, Constant(1.0), server=Server(service=Constant(1.0))),
        Cluster(300, Constant(1.0), protocol=protocols.KAsync(300)),
        Cluster(300, Constant(1.0), network=Network(latency=Constant(1.0))),
    ],
    ids=["plain", "queue", "protocol", "network"],
)
@pytest.mark.parametrize("how_long", [{"commits": 300}, {"seconds": 5.0}])
def test_more_starting_events_than_patience_are_no_standstill(cluster, how_long):
    with mock.patch("asyncsim.cluster._simulation.PATIENCE", 100):
        assert len(simulate(cluster, **how_long)) > 0


def test_workers_that_draw_much_go_on_in_their_own_stream():
    """Only the first delays of a worker are kept; its generator is made again when they are used up."""
    cluster = Cluster(3, [Exponential(1.0), Exponential(100.0), Exponential(0.1)])
    brief, full = simulate(cluster, commits=3000), run(Full(cluster, 0), 3000, None)
    np.testing.assert_array_equal(brief.commit_time, full.commit_time)
    np.testing.assert_array_equal(brief.worker, full.worker)
