"""Memory grows with the commits only, too much is refused beforehand, and a million workers can start."""

import tracemalloc
from unittest import mock

import numpy as np
import pytest

from asyncsim import _memory as memory
from asyncsim.cluster import Cluster, Network, Server, protocols, simulate
from asyncsim.cluster._full import FullSimulation
from asyncsim.cluster._simulation import BYTES_PER_COMMIT, BYTES_PER_WORKER, expected_seconds, run
from asyncsim.delays import Constant, Exponential, Gamma

QUEUE = Server(service=Exponential(0.1))
TWO_SLOTS = Server(slots=2, service=Exponential(0.1))


def peak(commits, workers=20, server=QUEUE):
    """Measure what a simulation takes at most, in bytes: the least of three, because other threads allocate too."""
    cluster = Cluster(workers, Exponential(1.0), server=server)
    peaks = []
    for _ in range(3):
        tracemalloc.start()
        try:
            simulate(cluster, commits=commits)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)


def test_memory_is_linear_in_commits():
    peak(100)  # whatever is allocated only once
    one, two, four = (peak(commits) for commits in (2500, 5000, 10_000))
    a_commit = (four - two) / 5000
    assert a_commit < 1000  # bytes: twelve columns, while they are logged, collected and checked
    assert two - one < 1.5 * 2500 * a_commit


@pytest.mark.parametrize(
    ("workers", "server", "length", "message"),
    [
        (2, Server(), {"commits": 10**9}, "`commits` of 1000000000 takes at least 90 GB of memory; this .* 1 GB"),
        (2, TWO_SLOTS, {"commits": 10**8}, "`commits` of 100000000 takes at least 15 GB"),
        (2, Server(), {"seconds": 1e8}, r"`seconds` of 100000000\.0 takes at least 18 GB"),
        (10**12, QUEUE, {"commits": 5}, "`workers` of 1000000000000 takes at least 200 TB"),
        (10**12, Server(), {"seconds": 5}, "`workers` of 1000000000000 takes at least 200 TB"),
    ],
)
def test_absurd_sizes_are_refused_before_they_begin(monkeypatch, workers, server, length, message):
    monkeypatch.setattr(memory, "total", lambda: 1e9)
    with pytest.raises(ValueError, match=message):
        simulate(Cluster(workers, Gamma(1.0, 0.3), server=server), **length)


@pytest.mark.parametrize("server", [Server(), QUEUE, TWO_SLOTS])
def test_nothing_that_fits_is_refused(server):
    """The estimate is less than what a simulation takes."""
    peak(100, server=server)
    fast = server.slots == 1
    commits, workers = peak(6000, server=server), peak(100, 1000, server)
    assert BYTES_PER_COMMIT[not fast] < (commits - peak(1000, server=server)) / 5000
    assert workers / 1000 > BYTES_PER_WORKER


def test_time_grows_with_commits_and_workers():
    small, slow = Cluster(2, Exponential(1.0)), Cluster(2, Exponential(1.0), server=TWO_SLOTS)
    assert expected_seconds(small, 10**8, None) == pytest.approx(expected_seconds(small, None, 5e7))
    assert expected_seconds(slow, 10**8, None) > expected_seconds(small, 10**8, None) > 60


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
    with mock.patch("asyncsim.cluster._events.MOST_IDLE_EVENTS", 100):
        assert len(simulate(cluster, **how_long)) > 0


def test_workers_that_draw_much_go_on_in_their_own_stream():
    """Only the first delays of a worker are kept; its generator is made again when they are used up."""
    cluster = Cluster(3, [Exponential(1.0), Exponential(100.0), Exponential(0.1)])
    brief, full = simulate(cluster, commits=3000), run(FullSimulation(cluster, 0), 3000, None)
    np.testing.assert_array_equal(brief.commit_time, full.commit_time)
    np.testing.assert_array_equal(brief.worker, full.worker)
