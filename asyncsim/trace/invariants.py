"""What is true of every trace, checked in whole columns at a time.

The conservation law, pathwise and in integers, for any compute times, cluster and protocol:

    Σ τ over commits + Σ (end_version - read_version) over jobs that never committed
        = number of pairs (commit that closes a step, other read outstanding at it),

a job in flight being counted up to the last step. Both sides count the same pairs: by job, a job is outstanding
at as many closing commits as the server made steps between its read and its own commit (or its end); by commit,
all outstanding reads but those already applied. Fully asynchronous workers each hold one job at any time, so there
the right side is (n - 1) · N. It is the remark of Koloskova, Stich and Jaggi 2022 that the average delay is set by
the concurrency.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace.columns import NEVER, Fate, Fault

if TYPE_CHECKING:
    from asyncsim.trace.trace import Trace

_CLOCKS = ("read_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")
_JOB_CLOCKS = ("read_time", "start_time", "finish_time", "end_time")


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
    _check_faults(trace)
    jobs = _all_jobs(trace)
    _check_no_overlap(trace, jobs)
    _check_moments(trace, jobs)


def conservation(trace: "Trace") -> tuple[int, int]:
    """The two sides of the conservation law, counted independently.

    Returns:
        Staleness summed over commits plus the ages of the jobs that never committed, from the versions; and the
        pairs of closing commit and other outstanding read, from the clocks (at a tie, a read or an end is among
        the commits of that very time where its version puts it). Equal for every valid trace.

    Example:
        >>> from asyncsim.trace import Trace
        >>> conservation(Trace.from_commits([0, 1, 2, 0, 1]))  # (3 - 1) · 5
        (10, 10)
    """
    jobs = _all_jobs(trace)
    close_row = np.flatnonzero(trace.closes_step)
    close_time, steps = trace.commit_time[close_row], len(close_row)
    aged = int((jobs.end_version.astype(np.int64) - jobs.read_version).sum())
    ended = slice(len(trace), None)
    reads = _before_each_close(jobs.read_time, jobs.read_version, close_time)
    ends = _before_each_close(jobs.end_time[ended], jobs.end_version[ended], close_time)
    return aged, int((reads - ends - close_row - 1)[:steps].sum())


def _before_each_close(
    time: NDArray[np.float64], version: NDArray[np.int32], close_time: NDArray[np.float64]
) -> NDArray[np.int64]:
    """How many of these moments come before each closing commit, by the clock; at a tie, by the version."""
    first = np.searchsorted(close_time, time, side="left")
    last = np.searchsorted(close_time, time, side="right")
    return np.cumsum(np.bincount(np.clip(version, first, last), minlength=len(close_time) + 1))[: len(close_time)]


class _Jobs(NamedTuple):
    """Committed jobs in order of application, then those that never committed."""

    worker: NDArray[np.int32]
    read_version: NDArray[np.int32]
    read_time: NDArray[np.float64]
    end_version: NDArray[np.int32]
    end_time: NDArray[np.float64]


def _all_jobs(trace: "Trace") -> _Jobs:
    rest, steps = trace.unfinished, np.int32(trace.steps)
    return _Jobs(
        worker=np.concatenate([trace.worker, rest.worker]),
        read_version=np.concatenate([trace.read_version, rest.read_version]),
        read_time=np.concatenate([trace.read_time, rest.read_time]),
        end_version=np.concatenate([trace.version, np.minimum(rest.end_version, steps)]),
        end_time=np.concatenate([trace.commit_time, rest.end_time]),
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
    rest, steps = trace.unfinished, trace.steps
    remedy = "See `asyncsim.trace.Fate` for those of this version."
    _refuse(~np.isin(rest.fate, list(Fate)), "unfinished.fate", rest.fate, "be a known fate", remedy)
    bad = (rest.read_version < 0) | (rest.read_version > steps)
    remedy = "A job reads a version that the server has reached."
    _refuse(bad, "unfinished.read_version", rest.read_version, f"be from 0 to {steps}", remedy)
    bad = ~(np.isfinite(rest.read_time) & (rest.read_time >= 0))
    remedy = "Give times in seconds from the start."
    _refuse(bad, "unfinished.read_time", rest.read_time, "be finite and not negative", remedy)
    for before, after in pairwise(_JOB_CLOCKS):
        column = getattr(rest, after)
        remedy = "A job is read, started and finished in this order, and ends last; what never happened is infinite."
        bad = ~(column >= getattr(rest, before)) & ~np.isinf(getattr(rest, before))
        _refuse(bad, f"unfinished.{after}", column, f"not precede `{before}`", remedy)
    in_flight = rest.fate == Fate.IN_FLIGHT
    rule, remedy = "be infinite for jobs in flight and for no others", "Only a job in flight has not ended."
    _refuse(np.isinf(rest.end_time) != in_flight, "unfinished.end_time", rest.end_time, rule, remedy)
    bad = np.where(in_flight, rest.end_version != NEVER, rest.end_version > steps)
    bad |= rest.end_version < rest.read_version
    rule = f"be from `read_version` to {steps}, or {NEVER} for jobs in flight"
    _refuse(bad, "unfinished.end_version", rest.end_version, rule, "A job ends at a version not before its read.")


def _check_faults(trace: "Trace") -> None:
    faults = trace.faults
    remedy = "See `asyncsim.trace.Fault` for those of this version."
    _refuse(~np.isin(faults.kind, list(Fault)), "faults.kind", faults.kind, "be a known fault", remedy)
    bad = (faults.worker < -1) | (faults.worker >= trace.workers)
    _refuse(bad, "faults.worker", faults.worker, f"be from 0 to {trace.workers - 1}, or -1 for the server", "Name one.")
    bad = ~(np.isfinite(faults.start_time) & (faults.start_time >= 0))
    remedy = "Give times in seconds from the start."
    _refuse(bad, "faults.start_time", faults.start_time, "be finite and not negative", remedy)
    bad = ~(faults.end_time >= faults.start_time)
    _refuse(bad, "faults.end_time", faults.end_time, "not precede `start_time`", "A fault that lasts ends at infinity.")


def _check_no_overlap(trace: "Trace", jobs: _Jobs) -> None:
    order = np.lexsort((jobs.read_version, jobs.read_time, jobs.end_time, jobs.worker))
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


def _check_moments(trace: "Trace", jobs: _Jobs) -> None:
    """The conservation law, job by job: the clock and the version say the same about each read and each end."""
    close_time = trace.commit_time[trace.closes_step]
    seen_last, unseen_first = np.append(0.0, close_time), np.append(close_time, np.inf)

    def refuse(what: str, time: NDArray[np.float64], version: NDArray[np.int32]) -> None:
        bad = (time < seen_last[version]) | (time > unseen_first[version])
        if bad.any():
            aged, pairs = conservation(trace)
            remedy = f"Staleness and ages of unfinished jobs sum to {aged}, outstanding reads at commits to {pairs}."
            rule = f"be the number of steps closed by `{what}_time`"
            _refuse_job(bad, f"{what}_version", version, len(trace), rule, remedy)

    refuse("read", jobs.read_time, jobs.read_version)
    refuse("end", jobs.end_time, jobs.end_version)


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
