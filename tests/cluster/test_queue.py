"""The queue of the server and the messages of the network, by hand."""

import numpy as np
import pytest

from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.delays import Constant, Exponential, Gamma


def test_equal_workers_and_service_take_turns():
    """Constant times: one commit per service, exactly round robin."""
    trace = simulate(Cluster(4, Constant(1.0), server=Server(service=Constant(0.5))), commits=40)
    assert trace.worker.tolist() == [k % 4 for k in range(40)]
    np.testing.assert_allclose(np.diff(trace.commit_time), 0.5)
    assert (trace.staleness[4:] == 3).all()


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_no_more_commits_in_service_than_slots(slots):
    server = Server(slots=slots, service=Gamma(0.4, 0.8))
    trace = simulate(Cluster(8, Exponential(1.0), server=server), commits=2000, seed=3)
    times = np.r_[trace.serve_time, trace.commit_time]
    order = np.lexsort((np.repeat([1, -1], len(trace)), times))  # at a tie, a commit leaves before another enters
    in_service = np.cumsum(np.repeat([1, -1], len(trace))[order])
    assert in_service.max() == slots
    by_arrival = np.argsort(trace.arrive_time, kind="stable")
    assert (np.diff(trace.serve_time[by_arrival]) >= 0).all()  # first in, first out


def test_a_separate_pull_sees_an_older_version():
    server = Server(service=Exponential(0.1), atomic=False)
    trace = simulate(Cluster(8, Exponential(1.0), network=Network(latency=Constant(0.1)), server=server), commits=2000)
    between = trace.version - trace.pull_version
    assert (trace.pull_version >= trace.read_version).all()
    assert between.mean() > 1
    at_read = Server(service=Exponential(0.1), atomic=False, pull="at_read")
    trace = simulate(Cluster(8, Exponential(1.0), server=at_read), commits=500)
    assert (trace.pull_version == trace.read_version).all()


def test_messages_take_latency_and_bytes_over_bandwidth():
    network = Network(latency=Constant(0.1), bandwidth=10.0, upload_bandwidth=5.0, message_bytes=2.0, compression=0.5)
    trace = simulate(Cluster(1, Constant(1.0), network=network), commits=3)
    # The first job has version 0 already. Up: .1 + 1/5; down: .1 + 2/10.
    np.testing.assert_allclose(trace.commit_time, [1.3, 2.9, 4.5])
    np.testing.assert_allclose(trace.start_time - trace.read_time, [0.0, 0.3, 0.3])


def test_a_shared_link_carries_one_message_at_a_time():
    shared = Network(bandwidth=1.0, message_bytes=1.0, shared=True)
    own = Network(bandwidth=1.0, message_bytes=1.0)
    rates = [
        len(t) / t.seconds for t in (simulate(Cluster(8, Constant(1.0), network=n), commits=800) for n in (shared, own))
    ]
    assert rates[0] == pytest.approx(1 / 2, rel=0.02)  # two messages per commit, one second each
    assert rates[1] == pytest.approx(8 / 3, rel=0.02)
