"""Protocols against closed forms: staleness, seconds per step, and identities between them."""

import numpy as np
import pytest

from asyncsim import faults, theory
from asyncsim.cluster import Cluster, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma, Pareto
from asyncsim.trace import Fate
from asyncsim.trace._columns import COMMIT_COLUMNS
from tests.theory.replicates import z_score
from tests.trace.test_trace import assert_equal

N = 16


def run(protocol, law=None, commits=2000, seed=0, workers=N):
    return simulate(Cluster(workers, law or Exponential(1.0), protocol=protocol), commits=commits, seed=seed)


@pytest.mark.parametrize("slack", [0, 1, 3, 10])
@pytest.mark.parametrize("law", [Exponential(1.0), Pareto(1.0, 1.5), Gamma(1.0, 0.1)])
def test_ssp_bound(slack, law):
    trace = run(protocols.SSP(slack), law, commits=4000)
    assert trace.staleness.max() <= (N - 1) * (2 * slack + 1)
    clock = np.zeros(N, int)
    for worker in trace.worker:
        assert clock[worker] - clock.min() <= slack  # when it read; the slowest can only have gained since
        clock[worker] += 1


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
        (protocols.SSP(0), protocols.Synchronous()),  # a step for each commit, and the timing of rounds
    ],
    ids=repr,
)
def test_protocols_that_are_equal_in_the_limit(one, other):
    columns = ("worker", "commit_time") if one == protocols.SSP(0) else COMMIT_COLUMNS
    assert_equal(run(one, commits=N * 50), run(other, commits=N * 50), columns)


def test_rennala_with_equal_workers_is_synchronous():
    """A batch of n, and equal constant times.

    With cancellation: without it, all but the last worker of a round have read the old version again by its end.
    """
    law, commits = Constant(1.0), N * 20
    rounds = run(protocols.Synchronous(), law, commits)
    assert_equal(run(protocols.Rennala(N, cancel=True), law, commits), rounds, COMMIT_COLUMNS)
    np.testing.assert_array_equal(rounds.commit_time, np.repeat(np.arange(1, 21), N))


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


def test_a_step_that_waits_for_the_oldest_takes_all_that_have_come():
    """S = 2, K = 2, n = 10: staleness 1.042(1) and 4.896(3) gradients a step, of an independent simulation."""
    traces = [run(protocols.KAsync(2, bound=2), commits=6000, seed=seed, workers=10) for seed in range(12)]
    staleness = [trace.staleness[600:].mean() for trace in traces]
    size = [len(trace) / trace.steps for trace in traces]
    for measured, value, error in ((staleness, 1.042, 0.001), (size, 4.896, 0.003)):
        assert abs(np.mean(measured) - value) < 3.5 * np.hypot(np.std(measured, ddof=1) / 12**0.5, error)
    assert max(trace.staleness.max() for trace in traces) == 2


@pytest.mark.parametrize("law", [Exponential(1.0), Pareto(1.0, 1.5), Gamma(1.0, 0.1)])
@pytest.mark.parametrize("bound", [0, 1, 4])
def test_no_gradient_exceeds_the_bound(law, bound):
    trace = run(protocols.KAsync(3, bound=bound), law)
    assert trace.staleness.max() <= bound
    per_step = np.bincount(trace.version)[:-1]
    assert per_step.min() >= (N if bound == 0 else 3)
    outstanding = N - per_step  # conservation: whoever is not in a step becomes a version older
    assert trace.staleness[: per_step.sum()].sum() <= outstanding.sum()


def test_a_loose_bound_is_none():
    one, other = protocols.KAsync(3, bound=10**6), protocols.KAsync(3)
    assert_equal(run(one, commits=800), run(other, commits=800), COMMIT_COLUMNS)


@pytest.mark.parametrize(("workers", "every"), [(2, 0.1), (10, 0.5), (10, 3.0)])
def test_steps_at_fixed_times_of_exponential_workers(workers, every):
    """Whether a job ends by the next time does not depend on its age, so that staleness is geometric."""
    protocol, predicted = (
        protocols.Periodic(every),
        theory.periodic_staleness_mean(workers=workers, rate=1.0, every=every),
    )
    traces = [run(protocol, commits=3000, seed=seed, workers=workers) for seed in range(12)]
    assert z_score([trace.staleness[300:].mean() for trace in traces], predicted) < 3.5 or workers == 1
    assert workers > 1 or max(trace.staleness.max() for trace in traces) == 0 == predicted
    for trace in traces:
        np.testing.assert_allclose(trace.commit_time / every, np.round(trace.commit_time / every), rtol=1e-9)
        assert (np.diff(trace.commit_time)[trace.closes_step[:-1]] > 0).all()
        assert (np.diff(trace.commit_time)[~trace.closes_step[:-1]] == 0).all()


def test_long_periods_are_rounds():
    """Whoever is faster than the period takes part in every step."""
    trace = run(protocols.Periodic(2.0), Gamma(1.0, 0.1), commits=N * 20)
    assert trace.staleness.max() == 0
    np.testing.assert_array_equal(trace.commit_time, np.repeat(np.arange(2.0, 42.0, 2.0), N))


def test_a_gradient_that_arrives_at_the_time_of_a_step_takes_part():
    trace = run(protocols.Periodic(3.0), Constant(3.0), commits=2 * N)
    np.testing.assert_array_equal(trace.commit_time, np.repeat([3.0, 6.0], N))


@pytest.mark.parametrize("every", [0.3, 1e6])
def test_a_step_comes_before_its_time_when_k_wait(every):
    """With times that never come it is K-async."""
    trace = run(protocols.Periodic(every, k=5), commits=600)
    assert np.bincount(trace.version).max() == 5
    if every == 1e6:
        other = run(protocols.KAsync(5), commits=600)
        assert_equal(trace, other, ("worker", "read_version", "version", "closes_step"))
        step = other.commit_time[other.closes_step][: trace.steps]
        np.testing.assert_allclose(trace.commit_time[trace.closes_step], step, rtol=1e-12)


def test_steps_at_fixed_times_go_on_without_a_worker_that_crashed():
    cluster = Cluster(3, Constant(1.0), protocol=protocols.Periodic(2.0), faults=[faults.Crash(worker=1, time=1.5)])
    trace = simulate(cluster, commits=6)
    assert set(trace.worker.tolist()) == {0, 2}
    assert trace.commit_time.tolist() == [2.0, 2.0, 4.0, 4.0, 6.0, 6.0]
    assert trace.staleness.tolist() == [0] * 6
    assert trace.unfinished.fate[trace.unfinished.worker == 1].tolist() == [Fate.CRASHED]
