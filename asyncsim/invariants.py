"""What is true of every trace, checked in whole columns at a time.

The conservation law, pathwise and in integers, for any compute times, cluster and protocol:

    Σ τ over commits + Σ (steps - read_version) over jobs in flight
        = number of pairs (commit that closes a step, other read outstanding at it).

Both sides count the same pairs: by job, a job is outstanding at as many closing commits as the server made
steps between its read and its own commit (or the end); by commit, all outstanding reads but the one just
applied. Fully asynchronous workers each hold one job at any time, so there the right side is (n - 1) · N.
It is the remark of Koloskova, Stich and Jaggi 2022 that the average delay is set by the concurrency.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace_columns import Fate

if TYPE_CHECKING:
    from asyncsim.trace import Trace

_CLOCKS = ("read_time", "start_time", "finish_time", "arrive_time", "commit_time")


def check(trace: "Trace") -> None:
    """Raise for the first row that breaks an invariant; see `Trace.check`.

    Jobs in flight never exceed the workers, because worker numbers are in range and one worker's jobs do not
    overlap; neither condition needs a count of its own.

    Raises:
        ValueError: Names the column, row and value, and what to do.
    """
    _check_workers(trace)
    _check_versions(trace)
    _check_clocks(trace)
    _check_unfinished(trace)
    jobs = _all_jobs(trace)
    _check_no_overlap(trace, jobs)
    _check_reads(trace, jobs)


def conservation(trace: "Trace") -> tuple[int, int]:
    """The two sides of the conservation law, counted independently.

    Returns:
        Staleness summed over commits plus the ages of the jobs in flight, from the versions; and the pairs of
        closing commit and other outstanding read, from the clocks (at a tie, a read is among the commits of
        that very time where its version puts it). Equal for every valid trace.

    Example:
        >>> from asyncsim.trace import Trace
        >>> conservation(Trace.from_commits([0, 1, 2, 0, 1]))  # (3 - 1) · 5
        (10, 10)
    """
    jobs = _all_jobs(trace)
    close_row = np.flatnonzero(trace.closes_step)
    steps = len(close_row)
    aged = int((jobs.end_version.astype(np.int64) - jobs.read_version).sum())
    close_time = trace.commit_time[close_row]
    first = np.searchsorted(close_time, jobs.read_time, side="left")
    last = np.searchsorted(close_time, jobs.read_time, side="right")
    closed_at_read = np.clip(jobs.read_version, first, last)
    reads = np.cumsum(np.bincount(closed_at_read, minlength=steps + 1))[:steps]
    return aged, int((reads - close_row - 1).sum())


class _Jobs(NamedTuple):
    """Committed jobs in order of application, then the unfinished, which end with the trace."""

    worker: NDArray[np.int32]
    read_version: NDArray[np.int32]
    read_time: NDArray[np.float64]
    end_version: NDArray[np.int32]
    end_time: NDArray[np.float64]


def _all_jobs(trace: "Trace") -> _Jobs:
    rest = trace.unfinished
    steps = np.count_nonzero(trace.closes_step)
    return _Jobs(
        worker=np.concatenate([trace.worker, rest.worker]),
        read_version=np.concatenate([trace.read_version, rest.read_version]),
        read_time=np.concatenate([trace.read_time, rest.read_time]),
        end_version=np.concatenate([trace.version, np.full(len(rest), steps, np.int32)]),
        end_time=np.concatenate([trace.commit_time, np.full(len(rest), np.inf)]),
    )


def _check_workers(trace: "Trace") -> None:
    for name, column in (("worker", trace.worker), ("unfinished.worker", trace.unfinished.worker)):
        bad = (column < 0) | (column >= trace.workers)
        _refuse(bad, name, column, f"be from 0 to {trace.workers - 1}", "Number the workers from 0.")


def _check_versions(trace: "Trace") -> None:
    closed = np.cumsum(trace.closes_step) - trace.closes_step
    rule = "count the rows before it that close a step"
    remedy = "It starts at 0 and grows by one after each row where `closes_step` is true."
    _refuse(trace.version != closed, "version", trace.version, rule, remedy)
    remedy = "A job reads before it commits."
    bad = (trace.read_version < 0) | (trace.read_version > trace.version)
    _refuse(bad, "read_version", trace.read_version, "be from 0 to `version`", remedy)
    remedy = "A worker pulls between its read and its commit."
    bad = (trace.pull_version < trace.read_version) | (trace.pull_version > trace.version)
    _refuse(bad, "pull_version", trace.pull_version, "be from `read_version` to `version`", remedy)


def _check_clocks(trace: "Trace") -> None:
    for name in reversed(_CLOCKS):  # the caller of `from_commits` knows `commit_time` only
        column = getattr(trace, name)
        bad = ~(np.isfinite(column) & (column >= 0))
        _refuse(bad, name, column, "be finite and not negative", "Give times in seconds from the start.")
    backwards = np.diff(trace.commit_time, prepend=0.0) < 0
    remedy = "Put the rows in the order in which the server applied them."
    _refuse(backwards, "commit_time", trace.commit_time, "not decrease from row to row", remedy)
    for before, after in pairwise(_CLOCKS):
        column = getattr(trace, after)
        remedy = "A job is read, started, finished, sent and applied in this order."
        _refuse(column < getattr(trace, before), after, column, f"not precede `{before}`", remedy)


def _check_unfinished(trace: "Trace") -> None:
    rest = trace.unfinished
    remedy = "See `asyncsim.trace.Fate` for those of this version."
    _refuse(~np.isin(rest.fate, list(Fate)), "unfinished.fate", rest.fate, "be a known fate", remedy)
    steps = np.count_nonzero(trace.closes_step)
    bad = (rest.read_version < 0) | (rest.read_version > steps)
    remedy = "A job reads a version that the server has reached."
    _refuse(bad, "unfinished.read_version", rest.read_version, f"be from 0 to {steps}", remedy)
    bad = ~(np.isfinite(rest.read_time) & (rest.read_time >= 0))
    remedy = "Give times in seconds from the start."
    _refuse(bad, "unfinished.read_time", rest.read_time, "be finite and not negative", remedy)


def _check_no_overlap(trace: "Trace", jobs: _Jobs) -> None:
    order = np.argsort(jobs.worker, kind="stable")
    before, after = order[:-1], order[1:]
    same_worker = jobs.worker[before] == jobs.worker[after]
    overlap = np.zeros(len(order), dtype=bool)
    overlap[after] = same_worker & (jobs.read_time[after] < jobs.end_time[before])
    rule = "not precede the end of the same worker's previous job"
    _refuse_job(overlap, "read_time", jobs.read_time, len(trace), rule, "A worker does one job at a time.")
    after_own = jobs.end_version + np.append(trace.closes_step, np.zeros(len(trace.unfinished), dtype=bool))
    overlap[after] = same_worker & (jobs.read_version[after] < after_own[before])
    rule = "include the same worker's previous commit"
    _refuse_job(overlap, "read_version", jobs.read_version, len(trace), rule, "A worker does one job at a time.")


def _check_reads(trace: "Trace", jobs: _Jobs) -> None:
    """The conservation law, job by job: the clock and the version say the same about each read."""
    close_time = trace.commit_time[trace.closes_step]
    seen_last = np.append(0.0, close_time)[jobs.read_version]
    unseen_first = np.append(close_time, np.inf)[jobs.read_version]
    bad = (jobs.read_time < seen_last) | (jobs.read_time > unseen_first)
    if bad.any():
        aged, pairs = conservation(trace)
        remedy = f"Staleness and ages in flight sum to {aged}, outstanding reads at commits to {pairs}."
        rule = "be the number of steps closed by `read_time`"
        _refuse_job(bad, "read_version", jobs.read_version, len(trace), rule, remedy)


def _refuse_job(
    bad: NDArray[np.bool_], column: str, values: NDArray[Any], commits: int, rule: str, remedy: str
) -> None:
    """`_refuse` for a column of `_Jobs`, naming the table and the row there."""
    _refuse(bad[:commits], column, values[:commits], rule, remedy)
    _refuse(bad[commits:], f"unfinished.{column}", values[commits:], rule, remedy)


def _refuse(bad: NDArray[np.bool_], column: str, values: NDArray[Any], rule: str, remedy: str) -> None:
    """Raise for the first row where `bad` holds."""
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"`{column}` must {rule}; row {row} has {values[row]}. {remedy}")
