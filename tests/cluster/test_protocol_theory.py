"""Protocols against closed forms: staleness, seconds per step, and identities between them."""

import math

import numpy as np
import pytest

from asyncsim.cluster import Cluster, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma, Pareto, ShiftedExponential
from asyncsim.trace import Fate
from asyncsim.trace._columns import COMMIT_COLUMNS
from tests.cluster.problems import after_warm_up, over_seeds

N = 16


def harmonic(n: int) -> float:
    return sum(1 / i for i in range(1, n + 1))


def run(protocol, law=None, commits=2000, seed=0, workers=N):
    return simulate(Cluster(workers, law or Exponential(1.0), protocol=protocol), commits=commits, seed=seed)


def mean_staleness(protocol, law, commits=3000):
    """Measured mean, and four standard errors plus the share of the jobs in flight at the ends of the window."""
    cluster = Cluster(N, law, protocol=protocol)
    mean, error = over_seeds(lambda t: t.staleness[after_warm_up(t)].mean(), cluster, commits)
    return mean, 4 * error + N * mean / commits


@pytest.mark.parametrize("law", [Exponential(1.0), Gamma(1.0, 0.5), Pareto(1.0, 1.5)])
@pytest.mark.parametrize("k", [4, 8])
def test_mean_staleness_of_k_async_for_any_law(law, k):
    mean, tolerance = mean_staleness(protocols.KAsync(k), law)
    assert abs(mean - (N / k - 1)) < tolerance


@pytest.mark.parametrize("law", [Exponential(1.0), Gamma(1.0, 0.5)])
@pytest.mark.parametrize("k", [4, 32])
def test_mean_staleness_of_k_batch_async_for_any_law(law, k):
    mean, tolerance = mean_staleness(protocols.KBatchAsync(k), law)
    assert abs(mean - (N - 1) / k) < tolerance


@pytest.mark.parametrize("k", [1, 4, 8])
def test_k_async_staleness_is_geometric_for_exponential_times(k):
    ages = np.arange(60)
    pmf = k / N * (1 - k / N) ** ages
    shares, error = over_seeds(
        lambda t: np.bincount(t.staleness[after_warm_up(t)], minlength=500)[:60] / len(t.staleness[after_warm_up(t)]),
        Cluster(N, Exponential(1.0), protocol=protocols.KAsync(k)),
        4000,
    )
    seen = pmf * 4000 * 16 > 50  # otherwise sixteen seeds are too few for a standard error
    assert (abs(shares - pmf)[seen] < 5 * error[seen]).all()


@pytest.mark.parametrize("k", [4, 16])
def test_k_batch_async_staleness_for_exponential_times(k):
    q, ages = 1 - 1 / N, np.arange(1, 30)
    tail = q ** (k * ages) * (q**-k - 1) / (k * (1 / q - 1))  # P(τ >= age)
    measured, error = over_seeds(
        lambda t: (t.staleness[after_warm_up(t)][:, None] >= ages).mean(axis=0),
        Cluster(N, Exponential(1.0), protocol=protocols.KBatchAsync(k)),
        4000,
    )
    seen = tail * 4000 * 16 > 50
    assert (abs(measured - tail)[seen] < 5 * error[seen]).all()


@pytest.mark.parametrize(
    ("protocol", "law", "seconds"),
    [
        (protocols.Synchronous(), Exponential(1.0), harmonic(N)),
        (protocols.Synchronous(), ShiftedExponential(1.0, 0.5), 1 + 0.5 * harmonic(N)),
        (protocols.Synchronous(backup=4), Exponential(1.0), harmonic(N) - harmonic(4)),
        (protocols.KSync(4), Exponential(1.0), harmonic(N) - harmonic(N - 4)),
        (protocols.KAsync(4), Exponential(1.0), harmonic(N) - harmonic(N - 4)),
        (protocols.KBatchSync(4), Exponential(1.0), 4 / N),
        (protocols.KBatchSync(40), Exponential(1.0), 40 / N),
        (protocols.Rennala(4, cancel=True), Exponential(1.0), 4 / N),
        (protocols.KBatchAsync(4), Exponential(1.0), 4 / N),
        (protocols.KBatchAsync(4), Gamma(1.0, 0.5), 4 / N),
        (protocols.Asynchronous(), Gamma(1.0, 0.5), 1 / N),
    ],
    ids=repr,
)
def test_seconds_per_step(protocol, law, seconds):
    # Equal workers that have just started together are below their long-run rate; the first tenth is warm-up.
    def measure(trace):
        closes = trace.commit_time[trace.closes_step]
        first = len(closes) // 10
        return (closes[-1] - closes[first]) / (len(closes) - 1 - first)

    measured, error = over_seeds(measure, Cluster(N, law, protocol=protocol), 2000)
    assert abs(measured - seconds) < 4 * error


def test_synchronous_gradients_are_never_stale():
    for protocol in (protocols.Synchronous(), protocols.KSync(3), protocols.KBatchSync(20), protocols.Rennala(5)):
        assert run(protocol).staleness.max() == 0


@pytest.mark.parametrize("slack", [0, 1, 3, 10])
@pytest.mark.parametrize("law", [Exponential(1.0), Pareto(1.0, 1.5), Gamma(1.0, 0.1)])
def test_ssp_bound(slack, law):
    trace = run(protocols.SSP(slack), law, commits=4000)
    assert trace.staleness.max() <= (N - 1) * (2 * slack + 1)
    clock = np.zeros(N, int)
    for worker in trace.worker:
        assert clock[worker] - clock.min() <= slack  # when it read; the slowest can only have gained since
        clock[worker] += 1


@pytest.mark.parametrize("slack", [0, 1, 3])
def test_ssp_with_two_exponential_workers(slack):
    cluster = Cluster(2, Exponential(1.0), protocol=protocols.SSP(slack))
    (mean, rate), error = over_seeds(lambda t: (t.staleness.mean(), len(t) / t.seconds), cluster, 5000)
    assert abs(mean - (2 * slack + 1) / (2 * slack + 2)) < 4 * error[0] + 1e-3
    assert abs(rate - 2 * (2 * slack + 2) / (2 * slack + 3)) < 4 * error[1] + 1e-3
    assert run(protocols.SSP(slack), workers=2, commits=5000).staleness.max() <= 2 * slack + 1


def test_ssp_without_slack_has_the_timing_of_synchronous_rounds():
    rounds = run(protocols.Synchronous(), commits=N * 50)
    barrier = run(protocols.SSP(0), commits=N * 50)
    np.testing.assert_array_equal(rounds.commit_time, barrier.commit_time)
    np.testing.assert_array_equal(rounds.worker, barrier.worker)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (protocols.KAsync(1), protocols.Asynchronous()),
        (protocols.KBatchAsync(1), protocols.Asynchronous()),
        (protocols.SSP(10**6), protocols.Asynchronous()),
        (protocols.Ringmaster(10**6), protocols.Asynchronous()),
        (protocols.KSync(N), protocols.Synchronous()),
        (protocols.KAsync(N), protocols.Synchronous()),
        (protocols.Rennala(5, cancel=True), protocols.KBatchSync(5)),
        (protocols.Synchronous(backup=6), protocols.KSync(N - 6)),
    ],
    ids=repr,
)
def test_protocols_that_are_equal_in_the_limit(one, other):
    one, other = run(one), run(other)
    for name in COMMIT_COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_rennala_with_equal_workers_is_synchronous():
    """A batch of n, and equal constant times.

    With cancellation: without it, all but the last worker of a round have read the old version again by its end.
    """
    trace = run(protocols.Rennala(N, cancel=True), Constant(1.0), commits=N * 20)
    np.testing.assert_array_equal(np.sort(trace.worker.reshape(20, N)), np.tile(np.arange(N), (20, 1)))
    np.testing.assert_array_equal(trace.commit_time, np.repeat(np.arange(1, 21), N))


@pytest.mark.parametrize("stop", [False, True])
def test_ringmaster_counts_no_gradient_that_is_too_old(stop):
    trace = run(protocols.Ringmaster(5, stop=stop))
    assert trace.staleness.max() == 4
    gone = trace.unfinished.fate[trace.unfinished.fate != Fate.IN_FLIGHT]
    assert (gone == (Fate.CANCELLED if stop else Fate.DROPPED)).all()
    age = (trace.unfinished.end_version - trace.unfinished.read_version)[trace.unfinished.fate != Fate.IN_FLIGHT]
    assert (age == 5).all() if stop else (age >= 5).all()


def test_stopping_is_faster_than_dropping():
    dropped, stopped = run(protocols.Ringmaster(3)), run(protocols.Ringmaster(3, stop=True))
    assert stopped.seconds < dropped.seconds
    assert run(protocols.Rennala(4, cancel=True)).seconds < run(protocols.Rennala(4)).seconds


def test_round_robin_for_any_law():
    trace = run(protocols.RoundRobin(), Pareto(1.0, 1.5))
    assert trace.worker.tolist() == [k % N for k in range(2000)]
    assert (trace.staleness[N:] == N - 1).all()
    arrived = np.maximum.accumulate(trace.arrive_time)
    np.testing.assert_array_equal(trace.commit_time, arrived)


def test_k_async_is_no_slower_than_k_sync_for_times_new_better_than_used():
    law = Gamma(1.0, 0.5)
    assert run(protocols.KAsync(4), law).seconds < run(protocols.KSync(4), law).seconds


def test_expected_maximum_of_exponential_rounds_grows_like_the_harmonic_numbers():
    times = [run(protocols.Synchronous(), workers=n, commits=n * 400).seconds / 400 for n in (2, 8, 32)]
    for n, seconds in zip((2, 8, 32), times, strict=True):
        spread = math.sqrt(sum(1 / i**2 for i in range(1, n + 1)) / 400)
        assert abs(seconds - harmonic(n)) < 4 * spread
