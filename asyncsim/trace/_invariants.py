"""The invariants of a trace, checked in whole columns at a time.

The conservation law, pathwise and in integers, for any compute times, cluster and protocol:

    Σ τ over commits + Σ (end_version - read_version) over jobs that never committed
        = number of pairs (commit that closes a step, other read outstanding at it),

where a job in flight counts up to the last step. Both sides count the same pairs. Job by job, the closing commits at
which a job is outstanding are the server's steps between its read and its own commit (or its end). Commit by commit,
all reads are outstanding but those already applied. Fully asynchronous workers each hold one job at any time, so that
the right side is (n - 1) · N for them. This is the remark of Koloskova, Stich and Jaggi 2022 that the concurrency sets
the average delay.

With several variables, both sides are sums over the variables: the law counts the changes of each (`_variables`).

A job that goes on from the worker's own value (`resumes_own`) read when the worker pulled for its previous commit. It
is outstanding from then on, except at this commit, whose message the worker knows.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace._columns import (
    COMMIT_TIMES,
    NEVER,
    UNFINISHED_TIMES,
    Fate,
    Fault,
    Tables,
    column_of,
    previous_of_worker,
    refuse,
)
from asyncsim.trace._variables import Changes, changes_of, check_variables, last_versions, variable_of_worker

_BLOCK = 1 << 18  # jobs that are sorted at once


def check(trace: Tables) -> None:
    """Raise for the first row that breaks an invariant (see `Trace.check`)."""
    check_variables(trace)
    changes = changes_of(trace)
    _check_commits(trace, changes)
    _check_unfinished(trace)
    _check_faults(trace)
    _check_own(trace)
    _check_groups(trace)
    _check_local_steps(trace)
    _check_no_overlap(trace)
    _check_moments(trace, changes)


def conservation(trace: Tables) -> tuple[int, int]:
    """Return the two sides of the conservation law, counted independently."""
    changes, jobs, pulled, pairs = changes_of(trace), _jobs(trace), _pulled_or_read(trace), 0
    aged = int((jobs.end_version.astype(np.int64) - jobs.read_version).sum())
    variable = variable_of_worker(trace)[jobs.worker]
    committed = np.arange(len(jobs.worker)) < len(trace)
    for number, (start, stop) in enumerate(pairwise(changes.first)):
        of_variable, time = variable == number, changes.time[start:stop]
        ended = of_variable & ~committed
        reads = _before_each_close(jobs.read_time[of_variable], pulled[of_variable], time)
        ends = _before_each_close(jobs.end_time[ended], jobs.end_version[ended], time)
        # A change that is a commit ends its own job, and comes after those of all commits before it.
        applied = np.searchsorted(
            2 * np.flatnonzero(trace.variable == number) + 1, changes.position[start:stop], "right"
        )
        pairs += int((reads - ends - applied).sum())
    # Where a worker goes on from its own value, `read_version` counts its own step next to the version it pulled.
    own_commits = int((jobs.read_version - pulled).sum())
    return aged, pairs - own_commits


def _before_each_close(
    time: NDArray[np.float64], version: NDArray[np.int32], close_time: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the number of these moments before each closing commit, by time and, at a tie, by the version."""
    # Moments at the time of a closing commit may be before or after it, and their version says which.
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


_ALL = slice(None)


def _jobs(trace: Tables, commits: Any = _ALL, ended: Any = _ALL) -> _Jobs:
    """Return the jobs in these rows of the two tables."""
    rest = trace.unfinished
    last = last_versions(trace)[rest.worker[ended]]
    return _Jobs(
        worker=np.append(trace.worker[commits], rest.worker[ended]),
        read_version=np.append(trace.read_version[commits], rest.read_version[ended]),
        read_time=np.append(trace.read_time[commits], rest.read_time[ended]),
        end_version=np.append(trace.version[commits], np.minimum(rest.end_version[ended], last)),
        end_time=np.append(trace.commit_time[commits], rest.end_time[ended]),
    )


def _check_commits(trace: Tables, changes: Changes) -> None:
    for name, column in (("worker", trace.worker), ("unfinished.worker", trace.unfinished.worker)):
        bad = (column < 0) | (column >= trace.workers)
        refuse(bad, name, column, f"be from 0 to {trace.workers - 1}", "Number the workers from 0.")
    rule = "count the rows before it that close a step"
    remedy = "It starts at 0 and grows by one after each row where `closes_step` is true."
    if trace.variables == 1:
        # The sum includes the row itself, which is not before itself.
        closed = np.cumsum(trace.closes_step) - trace.closes_step
    else:
        closed = changes.before(trace.variable, 2 * np.arange(len(trace)) + 1)
        rule = "count the changes of its variable before it"
        remedy = "It grows by one after each row of the variable, and each mixing of it that belongs to no commit."
    refuse(trace.version != closed, "version", trace.version, rule, remedy)
    bad = (trace.read_version < 0) | (trace.read_version > trace.version)
    refuse(bad, "read_version", trace.read_version, "be from 0 to `version`", "A job reads before it commits.")
    bad = (trace.pull_version < trace.read_version) | (trace.pull_version > trace.version)
    remedy = "A worker pulls between its read and its commit."
    refuse(bad, "pull_version", trace.pull_version, "be from `read_version` to `version`", remedy)
    for name in reversed(COMMIT_TIMES):  # the caller of `from_commits` knows `commit_time` only
        _require_finite(name, getattr(trace, name))
    backwards = np.diff(trace.commit_time, prepend=0.0) < 0
    remedy = "Put the rows in the order in which the server applied them."
    refuse(backwards, "commit_time", trace.commit_time, "not decrease from row to row", remedy)
    remedy = "A job is read, started, finished, sent and applied in this order."
    for before, after in pairwise(COMMIT_TIMES):
        column = getattr(trace, after)
        refuse(column < getattr(trace, before), after, column, f"not precede `{before}`", remedy)


def _require_finite(name: str, times: NDArray[np.float64]) -> None:
    bad = ~(np.isfinite(times) & (times >= 0))
    refuse(bad, name, times, "be finite and not negative", "Give times in seconds from the start.")


def _check_unfinished(trace: Tables) -> None:
    rest = trace.unfinished
    steps = last_versions(trace)[rest.worker]
    last = trace.steps if trace.variables == 1 else "the last version of the variable"
    remedy = "See `asyncsim.trace.Fate` for those of this version."
    refuse(~np.isin(rest.fate, list(Fate)), "unfinished.fate", rest.fate, "be a known fate", remedy)
    bad = (rest.read_version < 0) | (rest.read_version > steps)
    remedy = "A job reads a version that the server has reached."
    refuse(bad, "unfinished.read_version", rest.read_version, f"be from 0 to {last}", remedy)
    _require_finite("unfinished.read_time", rest.read_time)
    remedy = "A job is read, started and finished in this order, and ends last; a time that never came is infinite."
    for before, after in pairwise(UNFINISHED_TIMES):
        column = getattr(rest, after)
        # The negated comparison is also true for NaN, which no order would catch.
        bad = ~(column >= getattr(rest, before)) & ~np.isinf(getattr(rest, before))
        refuse(bad, f"unfinished.{after}", column, f"not precede `{before}`", remedy)
    in_flight = rest.fate == Fate.IN_FLIGHT
    rule = "be infinite for jobs in flight and for no others"
    remedy = "Only a job in flight has not ended."
    refuse(np.isinf(rest.end_time) != in_flight, "unfinished.end_time", rest.end_time, rule, remedy)
    # A job in flight ends after every version, for which `NEVER` stands.
    bad = np.where(in_flight, rest.end_version != NEVER, rest.end_version > steps)
    bad |= rest.end_version < rest.read_version
    rule = f"be from `read_version` to {last}, or {NEVER} for jobs in flight"
    refuse(bad, "unfinished.end_version", rest.end_version, rule, "A job does not end before the version it read.")


def _check_faults(trace: Tables) -> None:
    faults = trace.faults
    remedy = "See `asyncsim.trace.Fault` for those of this version."
    refuse(~np.isin(faults.kind, list(Fault)), "faults.kind", faults.kind, "be a known fault", remedy)
    bad = (faults.worker < -1) | (faults.worker >= trace.workers)
    rule = f"be from 0 to {trace.workers - 1}, or -1 for the server"
    refuse(bad, "faults.worker", faults.worker, rule, "Number the workers from 0.")
    _require_finite("faults.start_time", faults.start_time)
    # The negated comparison refuses NaN, too.
    bad = ~(faults.end_time >= faults.start_time)
    remedy = "A fault that has no end ends at infinity."
    refuse(bad, "faults.end_time", faults.end_time, "not precede `start_time`", remedy)


def _resumes_own(trace: Tables) -> NDArray[np.bool_]:
    return np.append(trace.resumes_own, trace.unfinished.resumes_own)


def read_versions(trace: Tables, pull_version: NDArray[np.int32], own_step: NDArray[Any]) -> NDArray[np.int32]:
    """Return the version that each job read: after its own value, that pulled for the last commit, and its step."""
    read = np.append(trace.read_version, trace.unfinished.read_version)
    rows = np.flatnonzero(_resumes_own(trace))
    if len(rows):
        last = _previous_job(_jobs(trace))[rows]
        read[rows] = pull_version[last] + own_step[last]
    return read


def _pulled_or_read(trace: Tables) -> NDArray[np.int32]:
    """Return the version of the central variable that each job knows."""
    return read_versions(trace, trace.pull_version, np.zeros(len(trace), np.int32))


def _previous_job(jobs: _Jobs) -> NDArray[np.intp]:
    """Return for each job the row of the same worker's job before it, or -1 for its first."""
    return previous_of_worker(jobs.worker, jobs.read_version, jobs.read_time, jobs.end_time)


def _check_own(trace: Tables) -> None:
    """Check that a worker going on from its own value knows the version pulled for its last commit, and that commit."""
    is_own = _resumes_own(trace)
    if not is_own.any():
        return
    jobs = _jobs(trace)
    previous = _previous_job(jobs)
    bad = is_own & ((previous < 0) | (previous >= len(trace)))
    rule = "be false unless the same worker's previous job was a commit"
    _refuse(trace, bad, "resumes_own", rule, "Only a commit leaves a worker with a value of its own.")
    fresh = np.append(trace.state_lost, np.zeros(len(trace.unfinished), np.bool_))
    remedy = "A worker that lost its state reads."
    _refuse(trace, is_own & fresh, "resumes_own", "be false where `state_lost`", remedy)
    last = np.where(is_own, previous, 0)  # of the others, any row
    pulled = trace.pull_version[last] + trace.closes_step[last]
    rule = "be the `pull_version` of the same worker's previous commit and its own step, where `resumes_own`"
    remedy = "It goes on from the value that it pulled for that commit, plus its own message."
    _refuse(trace, is_own & (jobs.read_version != pulled), "read_version", rule, remedy)
    started = np.append(trace.start_time, trace.unfinished.start_time)
    rule, remedy = "not precede the end of the same worker's previous job", "A worker does one job at a time."
    _refuse(trace, is_own & (started < trace.commit_time[last]), "start_time", rule, remedy)
    # Its read is the pull for the previous commit, which lies within that job.
    within = (trace.read_time[last] <= jobs.read_time) & (jobs.read_time <= trace.commit_time[last])
    rule = "be within the same worker's previous job, where `resumes_own`"
    _refuse(trace, is_own & ~within, "read_time", rule, "It is the time at which the worker pulled.")
    # The version right after the previous commit of the worker.
    least = (trace.version + trace.closes_step)[last[: len(trace)]]
    early = trace.resumes_own & (trace.pull_version < least)
    remedy = "A worker pulls after its previous commit."
    refuse(early, "pull_version", trace.pull_version, "include the same worker's previous commit", remedy)


def _check_local_steps(trace: Tables) -> None:
    if trace.local_steps is not None:
        steps = trace.local_steps
        refuse(steps < 1, "local_steps", steps, "be at least 1", "Give the gradients of each worker's jobs.")


def _check_groups(trace: Tables) -> None:
    """Check that a job begins with the oldest version that a group reads and has read every group before it pulls."""
    if not trace.groups:
        return
    is_own = trace.resumes_own
    remedy = "Leave out the groups: a worker that goes on from its own value has read no other."
    refuse(is_own, "resumes_own", is_own, "be false where there are groups", remedy)
    for name, reads in zip(trace.groups, trace.group_read_version.T, strict=True):
        bad = (reads < trace.read_version) | (reads > trace.version)
        remedy = "A group is read between the beginning of a job and its commit."
        refuse(bad, column_of(name), reads, "be from `read_version` to `version`", remedy)
        remedy = "A worker pulls for its commit when it has read every group."
        refuse(
            trace.pull_version < reads, "pull_version", trace.pull_version, f"not precede `{column_of(name)}`", remedy
        )
    oldest = trace.group_read_version.min(axis=1)
    rule = "be the smallest of the versions that the groups were read at"
    remedy = "A job begins with its first read."
    refuse(trace.read_version != oldest, "read_version", trace.read_version, rule, remedy)


def _check_no_overlap(trace: Tables) -> None:
    rows = len(trace) + len(trace.unfinished)
    overlap = np.zeros(rows, dtype=bool)
    unaware = np.zeros(rows, dtype=bool)
    tables = (trace.worker, trace.unfinished.worker)
    held = sum(np.bincount(worker, minlength=trace.workers) for worker in tables)
    # Workers are checked in blocks of about `_BLOCK` jobs, so that a long trace needs no second copy of itself.
    block = (np.cumsum(held) - held) // _BLOCK  # of each worker
    for number in np.unique(block):
        commits, ended = (np.flatnonzero((block == number)[worker]) for worker in tables)
        jobs = _jobs(trace, commits, ended)
        previous = _previous_job(jobs)
        after = np.flatnonzero(previous >= 0)
        before = previous[after]
        row = np.append(commits, ended + len(trace))[after]
        overlap[row] = jobs.read_time[after] < jobs.end_time[before]
        # A job that did not commit leaves the version as it was, so only commits add their step.
        after_own = jobs.end_version + np.append(trace.closes_step[commits], np.zeros(len(ended), dtype=bool))
        unaware[row] = jobs.read_version[after] < after_own[before]
    reads, remedy = ~_resumes_own(trace), "A worker does one job at a time."
    _refuse(trace, overlap & reads, "read_time", "not precede the end of the same worker's previous job", remedy)
    _refuse(trace, unaware & reads, "read_version", "include the same worker's previous commit", remedy)


def _check_moments(trace: Tables, changes: Changes) -> None:
    """Check the conservation law, job by job: the time and the version agree about each read and each end.

    Those of a commit agree by the order of the rows.
    """
    rest = trace.unfinished
    of_rest = variable_of_worker(trace)[rest.worker]

    def disagree(
        time: NDArray[np.float64], variable: NDArray[np.int32], version: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        # A version is the newest from the change that made it up to the next one, both times included.
        since, until = changes.spans(variable, version)
        return (time < since) | (time > until)

    versions = trace.read_version, rest.read_version
    if _resumes_own(trace).any():
        # An own value has no moment of its own. What was read at that time is the version that was pulled.
        versions = np.split(_pulled_or_read(trace), [len(trace)])
    read = np.append(
        disagree(trace.read_time, trace.variable, versions[0]), disagree(rest.read_time, of_rest, versions[1])
    )
    ended = disagree(rest.end_time, of_rest, np.minimum(rest.end_version, last_versions(trace)[rest.worker]))
    for event, bad in (("read", read), ("end", np.append(np.zeros(len(trace), np.bool_), ended))):
        if bad.any():
            aged, pairs = conservation(trace)
            remedy = f"Staleness and ages of unfinished jobs sum to {aged}, outstanding reads at commits to {pairs}."
            rule = f"be the number of steps closed by `{event}_time`"
            _refuse(trace, bad, f"{event}_version", rule, remedy)


def _refuse(trace: Tables, bad: NDArray[np.bool_], column: str, rule: str, remedy: str) -> None:
    """Call `refuse` for a column of all jobs, commits first."""
    commits = len(trace)
    for prefix, table, rows in (("", trace, bad[:commits]), ("unfinished.", trace.unfinished, bad[commits:])):
        if rows.any():
            refuse(rows, prefix + column, getattr(table, column), rule, remedy)
