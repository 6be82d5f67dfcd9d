"""Logs of a server that collects commits into steps: their `version` repeats, and nobody waits for a step."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.calibration._waiting import find_round, waits_for_steps
from asyncsim.cluster import protocols
from asyncsim.delays import Gamma

CLUSTER = asim.Cluster(8, Gamma(1.0, 0.4))
TRACE = asim.simulate(CLUSTER, commits=480, seed=3)


def log_of(size, *more, rows=480):
    columns = {name: getattr(TRACE, name)[:rows] for name in ("worker", "commit_time", *more)}
    return columns | {"version": np.arange(rows) // size}


@pytest.mark.parametrize("more", [(), ("read_time",)], ids=["commits", "reads"])
@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_repeated_version_says_which_commits_close_a_step(size, more):
    trace = asim.Trace.from_columns(log_of(size, *more))
    assert (trace.closes_step == (np.arange(1, 481) % size == 0)).all()
    assert trace.steps == 480 // size
    cluster = asim.Cluster(8, Gamma(1.0, 0.4), protocol=protocols.KBatchAsync(k=size))
    collected = asim.simulate(cluster, commits=480, seed=3)
    assert (trace.worker == collected.worker).all()
    assert (trace.staleness == collected.staleness).all()


@pytest.mark.parametrize("rows", [478, 479])
def test_a_last_step_that_is_not_complete_stays_open(rows):
    trace = asim.Trace.from_columns(log_of(4, rows=rows))
    assert trace.steps == 119
    assert not trace.closes_step[-1]


@pytest.mark.parametrize("size", [2, 8])
def test_the_law_is_that_of_the_same_commits_one_by_one(size):
    collected = asim.calibrate(asim.Trace.from_columns(log_of(size)), law="gamma")
    alone = asim.calibrate(asim.Trace.from_columns(log_of(1)), law="gamma")
    assert repr(collected.parameters) == repr(alone.parameters)
    assert collected.log.statistics == alone.log.statistics
    assert any(f"KBatchAsync(k={size})" in note for note in collected.notes)


@pytest.mark.parametrize("columns", [(), ("read_time",)], ids=["commits", "reads"])
def test_who_waits_for_a_step_is_in_no_fit(columns):
    """In a synchronous cluster the time between two commits of a worker is that of the slowest."""
    trace = asim.simulate(asim.Cluster(8, Gamma(1.0, 0.4), protocol=protocols.Synchronous()), commits=480)
    log = {name: getattr(trace, name) for name in ("worker", "commit_time", "version", *columns)}
    with pytest.raises(ValueError, match="must be of an asynchronous cluster"):
        asim.calibrate(asim.Trace.from_columns(log))


def collecting(protocol, *more, workers=12, cv=0.4, network=None, commits=1200):
    """A log of a cluster whose server collects commits, with some of its columns."""
    cluster = asim.Cluster(workers, Gamma(1.0, cv), protocol=protocol, network=network or asim.Network())
    trace = asim.simulate(cluster, commits=commits, seed=1)
    return asim.Trace.from_columns({name: getattr(trace, name) for name in ("worker", "commit_time", *more)}, workers)


SIZES = [(2, 0.2), (4, 0.5), (8, 0.5), (8, 1.0), (12, 0.5)]
MESSAGES = asim.Network(latency=Gamma(0.05, 0.5))


@pytest.mark.parametrize(("k", "cv"), SIZES)
@pytest.mark.parametrize("network", [None, MESSAGES], ids=["no messages", "messages"])
@pytest.mark.parametrize("more", [("version",), ("version", "read_time")], ids="+".join)
def test_who_waits_for_a_step_of_some_commits_is_in_no_fit(k, cv, network, more):
    """Without reads the wait is seen in the times to the next commits: they were fitted as if nobody waited."""
    with pytest.raises(ValueError, match=r"must be of an asynchronous cluster; .* workers wait for its end"):
        asim.calibrate(collecting(protocols.KAsync(k), *more, cv=cv, network=network))


@pytest.mark.parametrize(("share", "waits"), [(0.0, True), (0.05, True), (0.2, False), (0.4, False)])
def test_workers_wait_unless_a_tenth_of_them_reads_before_the_end_of_a_step(share, waits):
    """A few reads are early where workers restart. Of many, the others only happen to read after the step."""
    log = collecting(protocols.KAsync(4), "version", "read_time")
    columns = {name: getattr(log, name).copy() for name in ("worker", "commit_time", "version", "read_time")}
    last = {}
    again = [(row, last.get(worker), last.update({worker: row})) for row, worker in enumerate(columns["worker"])]
    # A read just after the worker's own commit, which does not close the step, is early.
    open_steps = [(row, own) for row, own, _ in again if own is not None and not log.closes_step[own]]
    count = sum(own is not None for _, own, _ in again)
    early = np.random.default_rng(0).permutation(len(open_steps))[: round(share * count)]
    for row, own in (open_steps[at] for at in early):
        columns["read_time"][row] = columns["commit_time"][own]
    assert waits_for_steps(asim.Trace.from_columns(columns, log.workers)) == (waits, 0.0)


@pytest.mark.parametrize(("k", "cv"), [(2, 0.2), (4, 0.5), (8, 1.0)])
def test_rounds_without_versions_are_noticed(k, cv):
    fit = asim.calibrate(collecting(protocols.KAsync(k), cv=cv), law="gamma")
    assert any(f"The commits come in rounds of {k}, and who has committed seems to wait" in note for note in fit.notes)
    assert not fit.parameters["compute.mean"].identifiable
    with pytest.raises(ValueError, match="its jobs may contain a wait for the end of a step"):
        fit.what_if(workers=24)


@pytest.mark.parametrize("more", [("version",), ("version", "read_time")], ids="+".join)
@pytest.mark.parametrize(("k", "cv"), SIZES)
def test_who_goes_on_at_once_is_fitted(k, cv, more):
    fit = asim.calibrate(collecting(protocols.KBatchAsync(k), *more, cv=cv), law="gamma")
    mean = fit.parameters["compute.mean"]
    assert mean.identifiable
    assert abs(mean.estimate - 1) < 4 * (mean.high - mean.low) / 3.29
    assert any(f"KBatchAsync(k={k})" in note and "nobody seems to wait" in note for note in fit.notes)
    assert not any("to be sure" in note for note in fit.notes)


@pytest.mark.parametrize("protocol", [protocols.KAsync(2), protocols.KBatchAsync(2)], ids=repr)
def test_a_log_that_shows_neither_has_a_note_with_the_share_of_the_wait(protocol):
    """Of 16 workers with exponential jobs and steps of two commits, the wait would be 3 % of a job."""
    fit = asim.calibrate(collecting(protocol, "version", workers=16, cv=1.0), law="gamma")
    assert any("log `read_time` to be sure: if they wait, their jobs are 3." in note for note in fit.notes)
    may_wait = any("for which workers may wait" in note for note in fit.notes)
    assert fit.parameters["compute.mean"].identifiable is not may_wait


def test_short_logs_have_no_rounds_by_chance():
    """Chance alone gives weak evidence for rounds of some size in one or the other of 24 logs."""
    for workers in (2, 3, 4, 6):
        for seed in range(6):
            log = asim.simulate(asim.Cluster(workers, Gamma(1.0, 0.3)), commits=120, seed=seed)
            assert find_round(asim.Trace.from_commits(log.worker, log.commit_time, workers=workers)) == 0


def test_a_queue_makes_no_rounds():
    """Workers that wait for the server, not for each other, have jobs that depend on no place in a round."""
    for mean, cv in ((0.05, 0.5), (0.2, 1.0), (1.0, 0.5)):
        server = asim.Server(service=Gamma(mean, cv))
        for seed in range(3):
            trace = asim.simulate(asim.Cluster(12, Gamma(1.0, 0.3), server=server), commits=1200, seed=seed)
            alone = asim.Trace.from_commits(trace.worker, trace.commit_time, workers=12)
            assert find_round(alone) == 0


REPEATED = np.sort(np.append(np.arange(480), np.arange(200, 260)))


@pytest.mark.parametrize("more", [(), ("read_time",), ("read_time", "version"), ("version",)], ids=str)
@pytest.mark.parametrize("rows", [REPEATED, np.append(np.arange(480), np.arange(200, 260))], ids=["next", "end"])
def test_rows_that_are_logged_twice_are_named(more, rows):
    columns = {name: getattr(TRACE, name)[rows] for name in ("worker", "commit_time", *more)}
    first = int(np.flatnonzero(rows[1:] <= rows[:-1])[0]) + 1 if rows is REPEATED else 480
    with pytest.raises(asim.TraceError, match=rf"otherwise equal row \(60 rows are repeated\); row {first} has"):
        asim.Trace.from_columns(columns)


def test_a_clock_that_steps_back_is_named_where_it_does():
    times = TRACE.commit_time - 3.0 * (np.arange(480) >= 200)
    columns = {"worker": TRACE.worker, "commit_time": times, "version": np.arange(480)}
    for more in ({}, {"read_time": np.minimum(TRACE.read_time, times)}):
        with pytest.raises(asim.TraceError, match="`commit_time` must not precede that of the row before; row 200 has"):
            asim.Trace.from_columns(columns | more)


def test_rows_that_are_lost_are_named():
    kept = np.append(np.arange(200), np.arange(230, 480))
    columns = {name: getattr(TRACE, name)[kept] for name in ("worker", "commit_time", "version")}
    with pytest.raises(asim.TraceError, match="`version` must grow by one at most from row to row; row 200 has 230"):
        asim.Trace.from_columns(columns)
