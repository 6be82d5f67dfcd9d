"""The columns that a log lacks, each computed once from columns that are there.

`fill` shows the order and what each step needs: the rows in order, steps and versions, the later times of a job, the
job before it, its start and its read, and the versions that reads and ends saw. Recorded columns are never changed.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    COMMIT_TIMES,
    NEVER,
    UNFINISHED_COLUMNS,
    BoolColumn,
    Fate,
    IntColumn,
    TimeColumn,
    group_of,
    previous_of_worker,
    refuse,
    reworded,
)
from asyncsim.trace._flat import COMMITTED, IDLE, Table, empty_of, fates
from asyncsim.trace._presence import Presence, presence

NO_ROW = -1  # of a job that the table lacks
UNKNOWN = empty_of("read_version")  # an empty cell of a version
READS = frozenset({"read_time", "read_version", "pull_version"})  # columns that say when a job read
REMEDY_FOR_ORDER = (
    "Rows with `version` are in order of application: did the server's clock step back? Correct its times."
)
REMEDY_FOR_READ = "A job is read before it commits: did a clock step back?"
REMEDY_FOR_GAP = "Rows before it are missing: add them, or leave out `version`."


class Filled(NamedTuple):
    """All columns of a trace."""

    commits: Table
    unfinished: Table
    rows: NDArray[np.int64]  # of the table, for each commit and then each job that never committed, or `NO_ROW`
    present: Presence | None  # who was there when, where that says when jobs began


def fill(table: Table, workers: int, resume: str) -> Filled:
    """Compute the columns that a flat table lacks (see `Trace.from_columns`)."""
    jobs = put_in_order(table, workers)
    with reworded(lambda error: error.renumber(jobs.rows)):
        steps = count_steps(jobs)
        ends = compute_ends(jobs)
        present = find_presence(jobs, workers)
        previous = find_previous(jobs, ends, present)
        starts = compute_starts(jobs, steps, ends, previous, resume)
        reads = count_reads(jobs, steps, previous, starts)
    # Each column has one source. The others of the log are in these, or none that a trace has.
    both = {name: jobs.columns[name] for name in ("worker", "commit_time")}
    columns = both | steps.columns() | ends._asdict() | starts._asdict() | reads | end_jobs(jobs, steps, ends)
    commits, rest = slice(jobs.commits), slice(jobs.commits, None)
    return Filled(
        {name: columns[name][commits] for name in COMMIT_COLUMNS},
        {name: columns[name][rest] for name in UNFINISHED_COLUMNS},
        jobs.rows,
        present,
    )


class LoggedJobs(NamedTuple):
    """The jobs of a table: commits in the order in which they were applied, then those that never committed."""

    # Those of the log, or `read_version` as the oldest of its groups', and those of jobs that were added.
    columns: Table
    commits: int
    rows: NDArray[np.int64]  # of the table, or `NO_ROW`

    @property
    def committed(self) -> BoolColumn:
        """(jobs,) whether it committed."""
        return np.arange(len(self.rows)) < self.commits


def put_in_order(table: Table, workers: int) -> LoggedJobs:
    """Sort the rows by their versions, or else by their times, where rows of one time keep their order."""
    fate = fates(table)
    committed = np.flatnonzero(fate == COMMITTED)
    is_ordered = "version" in table
    done = committed if is_ordered else committed[np.argsort(table["commit_time"][committed], kind="stable")]
    rows = np.concatenate([done, np.flatnonzero((fate != COMMITTED) & (fate != IDLE))])
    recorded = {name: values[rows] for name, values in table.items()}
    # A job begins with the oldest of its groups.
    by_group = [values for name, values in recorded.items() if group_of(name)]
    oldest = {"read_version": np.minimum.reduce(by_group)} if by_group else {}
    columns = oldest | recorded
    if "fate" in table or "read_time" in table:
        return LoggedJobs(columns, len(done), rows)
    # Each worker has just begun one more job.
    empty = {name: np.full(workers, empty_of(name), values.dtype) for name, values in columns.items()}
    begun = empty | {"worker": np.arange(workers, dtype=np.int32)}
    fate_of_all = np.repeat([COMMITTED, "in_flight"], [len(done), workers])
    both = {name: np.append(values, begun[name]) for name, values in columns.items()} | {"fate": fate_of_all}
    return LoggedJobs(both, len(done), np.append(rows, np.full(workers, NO_ROW)))


class Steps(NamedTuple):
    """The versions of the server."""

    closes_step: BoolColumn  # (jobs,)
    closed: NDArray[np.int64]  # (jobs,) steps closed by the job's row
    version: IntColumn  # (jobs,)
    pull_version: IntColumn  # (jobs,)
    close_time: TimeColumn  # (steps,)

    def columns(self) -> Table:
        """Return the columns of a trace."""
        return {name: getattr(self, name) for name in ("closes_step", "version", "pull_version")}

    def time_of(self, version: NDArray[Any]) -> TimeColumn:
        """Return when the server had a version, at the earliest."""
        return np.append(0.0, self.close_time)[np.clip(version, 0, len(self.close_time))]


def count_steps(jobs: LoggedJobs) -> Steps:
    """Count the steps that commits close, and the versions, which are those of rows in order."""
    time = jobs.columns["commit_time"][: jobs.commits]
    if "version" in jobs.columns:
        steps_back = np.append(False, np.diff(time) < 0)
        refuse(steps_back, "commit_time", time, "not precede that of the row before", REMEDY_FOR_ORDER)
    closes = jobs.columns["closes_step"] if "closes_step" in jobs.columns else find_closing(jobs)
    closed = np.cumsum(closes, dtype=np.int64)
    counted = np.where(jobs.committed, closed - closes, -1).astype(np.int32)
    version = jobs.columns.get("version", counted)
    close_time = time[closes[: jobs.commits]]
    return Steps(closes, closed, version, jobs.columns.get("pull_version", version), close_time)


def find_closing(jobs: LoggedJobs) -> BoolColumn:
    """Find the commits that close a step: every one or, where versions repeat, the last of each version."""
    version = jobs.columns.get("version", np.zeros(0))[: jobs.commits].astype(np.int64)
    growth = np.diff(version)
    if not len(version) or version[0] or (growth < 0).any():
        return jobs.committed  # The checks of a trace say what is wrong.
    refuse(np.append(False, growth > 1), "version", version, "grow by one at most from row to row", REMEDY_FOR_GAP)
    commits_of_step = np.bincount(version)
    # The last step is complete if it has as many commits as the one before.
    closes = np.append(growth > 0, len(commits_of_step) < 2 or commits_of_step[-1] >= commits_of_step[-2])
    return np.append(closes, np.zeros(len(jobs.rows) - jobs.commits, np.bool_))


class JobEnds(NamedTuple):
    """The end of each job's stages, and of the job."""

    finish_time: TimeColumn
    arrive_time: TimeColumn
    serve_time: TimeColumn
    end_time: TimeColumn  # of the commit, or of a job that ended without one, infinite for a job in flight


def compute_ends(jobs: LoggedJobs) -> JobEnds:
    """Time the stages after the computation: each takes no time if it was not recorded."""
    columns = jobs.columns
    for name in filter(columns.__contains__, COMMIT_TIMES):
        times = columns[name][: jobs.commits if name != "read_time" else None]
        bad = ~(np.isfinite(times) & (times >= 0))
        refuse(bad, name, times, "be finite and not negative", "Give seconds from the start of the run.")
    serve = columns.get("serve_time", columns["commit_time"])
    arrive = columns.get("arrive_time", serve)
    end = np.where(jobs.committed, columns["commit_time"], columns.get("end_time", np.inf))
    return JobEnds(columns.get("finish_time", arrive), arrive, serve, end)


def find_presence(jobs: LoggedJobs, workers: int) -> Presence | None:
    """Find who joined late where the log says of no job when it read, unless its workers are out of range."""
    worker = jobs.columns["worker"][: jobs.commits]
    in_range = not len(worker) or 0 <= worker.min() <= worker.max() < workers
    if READS.intersection(jobs.columns) or not in_range:
        return None
    return presence(worker, jobs.columns["commit_time"][: jobs.commits], workers)


class PreviousJobs(NamedTuple):
    """The job of the same worker before each job."""

    row: NDArray[np.intp]  # (jobs,) its previous job, or -1
    end: TimeColumn  # (jobs,) when that ended or, of the first job, when the worker joined
    is_commit: BoolColumn  # (jobs,) whether that committed


def find_previous(jobs: LoggedJobs, ends: JobEnds, present: Presence | None) -> PreviousJobs:
    """Find the job that each job's worker did before. A job without an end is the last of its worker."""
    worker = jobs.columns["worker"]
    row = previous_of_worker(worker, ends.end_time)
    end, is_commit = np.append(ends.end_time, 0.0)[row], (row >= 0) & (row < jobs.commits)
    if present is None:
        return PreviousJobs(row, end, is_commit)
    # A worker that joined late had read before the first recorded time of its job.
    earliest = np.minimum(present.joined[worker], jobs.columns.get("start_time", ends.finish_time))
    return PreviousJobs(row, np.where(jobs.committed & (row < 0), earliest, end), is_commit)


class JobStarts(NamedTuple):
    """The start of each job: how and when it read, and when its computation began."""

    resumes_own: BoolColumn
    state_lost: BoolColumn
    read_time: TimeColumn
    start_time: TimeColumn


def compute_starts(jobs: LoggedJobs, steps: Steps, ends: JobEnds, previous: PreviousJobs, resume: str) -> JobStarts:
    """Time reads and starts: by default, a worker reads and starts at the end of its previous job.

    One that goes on from its own value read when it pulled for its previous commit, at the earliest.
    """
    columns = jobs.columns
    state_lost = columns.get("state_lost", np.zeros(len(jobs.rows), np.bool_))
    resumes_own = columns.get("resumes_own", previous.is_commit & ~state_lost & (resume == "own"))
    by_default = np.where(resumes_own, previous.end, columns.get("read_time", previous.end))
    start = np.where(jobs.rows == NO_ROW, previous.end, columns.get("start_time", by_default))
    if "read_time" in columns:
        # The one mistake that would show as a wrong version.
        time = columns["commit_time"][: jobs.commits]
        bad = time < columns["read_time"][: jobs.commits]
        refuse(bad, "commit_time", time, "not precede `read_time`", REMEDY_FOR_READ)
        return JobStarts(resumes_own, state_lost, columns["read_time"], start)
    pulled = np.maximum(steps.time_of(steps.pull_version), start)[previous.row]
    earliest = np.where(resumes_own & previous.is_commit, pulled, previous.end)
    if "read_version" not in columns:
        return JobStarts(resumes_own, state_lost, earliest, start)
    # Nobody reads a version before the server has it.
    read = np.maximum(earliest, np.minimum(steps.time_of(columns["read_version"]), ends.finish_time))
    return JobStarts(resumes_own, state_lost, read, start if "start_time" in columns else np.maximum(start, read))


def count_reads(jobs: LoggedJobs, steps: Steps, previous: PreviousJobs, starts: JobStarts) -> Table:
    """Count the versions that reads saw: the steps closed by then or, right after an own commit, by this commit."""
    seen = np.searchsorted(steps.close_time, starts.read_time, side="right")
    # A job that takes no time by its clock has not read its own commit, nor later ones of that moment.
    by_time = np.where(jobs.committed, np.minimum(seen, steps.version), seen)
    # A worker goes on from the version that it pulled for its commit, and from its own step if the commit closed one.
    after_own_commit = (steps.pull_version + steps.closes_step)[previous.row]
    cases = {
        "goes on from its own value": (starts.resumes_own & previous.is_commit, after_own_commit),
        "read at the start": ((previous.row < 0) & (starts.read_time == 0), 0),
        "read at its own commit": (previous.is_commit & (previous.end == starts.read_time), steps.closed[previous.row]),
    }
    conditions, versions = zip(*cases.values(), strict=True)
    derived: IntColumn = np.select(conditions, versions, by_time).astype(np.int32)
    read: IntColumn = jobs.columns.get("read_version", derived)
    return {"read_version": np.where(read == UNKNOWN, derived, read)}


def end_jobs(jobs: LoggedJobs, steps: Steps, ends: JobEnds) -> Table:
    """Return the fates of jobs as numbers, -1 for a commit, and the versions at their ends."""
    texts = fates(jobs.columns)
    fate = np.select([texts == each.name.lower() for each in Fate], [*Fate], -1).astype(np.int8)
    ended = np.where(fate == Fate.IN_FLIGHT, NEVER, np.searchsorted(steps.close_time, ends.end_time, side="right"))
    version = jobs.columns.get("end_version", np.full(len(fate), UNKNOWN))
    return {"fate": fate, "end_version": np.where(version == UNKNOWN, ended, version).astype(np.int32)}
