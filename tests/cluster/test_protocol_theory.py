"""Protocols against closed forms: staleness, seconds per step, and identities between them."""

import numpy as np
import pytest

from asyncsim.cluster import Cluster, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma, Pareto
from asyncsim.trace import Fate
from asyncsim.trace._columns import COMMIT_COLUMNS
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
