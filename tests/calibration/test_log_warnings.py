"""Warnings about the log: each oddity is reported, and a log without oddities gives none."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration._stages import stages_of
from asyncsim.trace._findings import findings
from asyncsim.trace._presence import presence

CLUSTER = asim.Cluster(4, delays.Gamma(2.0, 0.3), server=asim.Server(service=delays.Constant(0.2)))
TRACE = asim.simulate(CLUSTER, commits=200, seed=4)


def present(trace):
    return presence(trace.worker, trace.commit_time, trace.workers)


def log_warnings(trace):
    return findings(trace, present(trace))


def alone(worker=TRACE.worker, times=TRACE.commit_time, workers=4):
    return asim.Trace.from_commits(worker, times, workers=workers, start=0.0)


def doubled():
    rows = np.sort(np.append(np.arange(200), [50, 51, 52]))
    return alone(TRACE.worker[rows], TRACE.commit_time[rows])


def paused(seconds, *places):
    """After some commits nothing happens for a while, ten times as long as a job takes."""
    return alone(times=TRACE.commit_time + seconds * sum(np.arange(200) > place for place in places))


def left():
    kept = (TRACE.worker != 2) | (np.arange(200) < 60)
    return alone(TRACE.worker[kept], TRACE.commit_time[kept])


def in_rounds(n):
    cluster = asim.Cluster(n, delays.Gamma(1.0, 0.3), protocol=asim.protocols.Synchronous())
    trace = asim.simulate(cluster, commits=200)
    return alone(trace.worker, trace.commit_time, n)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (doubled, "3 commits come at the very time of their worker's previous one"),
        (lambda: alone(times=np.ceil(TRACE.commit_time)), "have the same time as the one before"),
        (lambda: paused(500.0, 99), "Nothing was committed from"),
        (lambda: paused(20.0, 100), "Nothing was committed from"),
        (lambda: paused(20.0, 60, 150), ": pauses of the cluster"),
        (left, "Worker 2 committed nothing since"),
        (lambda: alone(workers=6), "Workers 4, 5 committed nothing, of"),
        (lambda: in_rounds(4), "they seem to wait for each other"),
        (lambda: in_rounds(12), "they seem to wait for each other"),
    ],
)
def test_each_fault_of_a_log_has_one_warning(make, words):
    found = log_warnings(make())
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize("law", [delays.Constant(1.0), delays.Gamma(1.0, 0.01), delays.Exponential(1.0)], ids=repr)
@pytest.mark.parametrize("n", [1, 2, 12])
@pytest.mark.parametrize("service", [0.0, 0.3])
def test_a_plain_log_has_no_warning(law, n, service):
    """Not even where constant times tie, or all workers commit in turn because the server is busy."""
    cluster = asim.Cluster(n, law, server=asim.Server(service=delays.Constant(service)))
    for seed in range(5):
        trace = asim.simulate(cluster, commits=240, seed=seed)
        assert log_warnings(trace) == []
        assert log_warnings(alone(trace.worker, trace.commit_time, n)) == []


def test_who_left_works_on_nothing():
    """Else their last jobs would count as ones that last and last."""
    trace = left()
    assert present(trace).left.tolist() == [False, False, True, False]
    assert len(stages_of(trace).compute.censored) == 2  # of one other worker the last commit ends the log
    fit = asim.calibrate(trace, law="gamma")
    assert fit.parameters["compute.mean"].estimate == pytest.approx(2.2, rel=0.1)
