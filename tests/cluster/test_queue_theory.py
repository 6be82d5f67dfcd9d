"""The server's queue against closed forms: machine repairman, saturation, idle latency, start-up times of real runs."""

import numpy as np
import pytest

from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.trace import Trace
from tests.cluster.problems import after_warm_up, over_seeds

N = 16


def repairman(workers: int, ratio: float) -> tuple[float, float]:
    """Busy probability and mean number at the server of M/M/1//n; `ratio` is compute rate over service rate."""
    weights = np.cumprod([1.0, *(ratio * (workers - np.arange(workers)))])
    share = weights / weights.sum()
    return 1 - share[0], float((np.arange(workers + 1) * share).sum())


def at_server(trace: Trace) -> float:
    """Time average of the number of commits waiting or in service, by Little's law."""
    return float((trace.commit_time - trace.arrive_time).sum() / trace.seconds)


@pytest.mark.parametrize("service_rate", [32.0, 8.0, 2.0])
def test_throughput_and_queue_length_of_the_machine_repairman(service_rate):
    cluster = Cluster(N, Exponential(1.0), server=Server(service=Exponential(1 / service_rate)))
    busy, length = repairman(N, 1 / service_rate)
    (rate, queue), error = over_seeds(lambda t: (len(t) / t.seconds, at_server(t)), cluster, 8000)
    # The common start, when nobody queues, lasts a few of the hundreds of seconds of a run: less than the tolerance.
    assert abs(rate - busy * service_rate) < 4 * error[0] + 4e-3 * rate
    assert abs(queue - length) < 4 * error[1] + 4e-3 * N


@pytest.mark.parametrize("service_rate", [1000.0, 8.0, 2.0])
def test_mean_staleness_stays_n_minus_one_however_slow_the_server(service_rate):
    cluster = Cluster(N, Exponential(1.0), server=Server(service=Exponential(1 / service_rate)))
    mean, error = over_seeds(lambda t: t.staleness[after_warm_up(t)].mean(), cluster, 3000)
    assert abs(mean - (N - 1)) < 4 * error


@pytest.mark.parametrize("service", [Exponential(0.5), Exponential(0.25)])
def test_a_saturated_server_leaves_a_variance_that_does_not_depend_on_n(service):
    ratio = 1 / service.mean  # service rate over compute rate: r
    for workers in (N, 3 * N):
        cluster = Cluster(workers, Exponential(1.0), server=Server(service=service))
        variance, error = over_seeds(lambda t: t.staleness[after_warm_up(t)].var(), cluster, 4000)
        assert abs(variance - ratio * (1 + ratio)) < 4 * error


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


def mean_value_analysis(workers: int, delay: float, service: float) -> tuple[float, float]:
    """Throughput and mean number at the exponential FIFO server of a closed network with one delay station."""
    length = throughput = 0.0
    for customers in range(1, workers + 1):
        response = service * (1 + length)
        throughput = customers / (delay + response)
        length = throughput * response
    return throughput, length


@pytest.mark.parametrize(
    ("latency", "service", "law"),
    [(0.25, 1 / 12, Exponential), (0.25, 1 / 12, Constant), (1.0, 1 / 12, Exponential), (0.25, 0.001, Constant)],
)
def test_workers_idle_before_their_read_make_staleness_less_than_n_minus_one(latency, service, law):
    """Mean staleness is the mean number of others between read and application; delay stations may have any law.

    Idle: hearing of the commit and asking, two latencies. In flight: answer, compute, commit, queue.
    """
    network = Network(latency=law(latency))
    server = Server(service=Exponential(service), atomic=False, pull="at_read")
    delay = 4 * latency + 1.0
    rate, _ = mean_value_analysis(N, delay, service)
    others, queued = mean_value_analysis(N - 1, delay, service)
    expected = others * (delay - 2 * latency) + queued
    cluster = Cluster(N, Exponential(1.0), network=network, server=server)

    def measure(trace: Trace) -> tuple[float, float]:
        rows = after_warm_up(trace)
        span = trace.seconds - trace.commit_time[rows][0]
        return trace.staleness[rows].mean(), (len(trace.worker[rows]) - 1) / span

    (staleness, throughput), error = over_seeds(measure, cluster, 1500)
    assert abs(staleness - expected) < 4 * error[0]
    assert abs(throughput - rate) < 4 * error[1]
    assert expected < N - 1


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
