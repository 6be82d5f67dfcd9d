"""From a flat table, the log of a real cluster, or the order of commits alone to a checked trace."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _memory as memory
from asyncsim._checks import brief, require_count, require_one_of
from asyncsim.components._frozen import owned
from asyncsim.trace import _invariants as invariants
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    Faults,
    IntColumn,
    Tables,
    TimeColumn,
    TraceError,
    Unfinished,
    checked_names,
    column_of,
    group_of,
    previous_own_row,
    refuse,
    require_length,
    reworded,
)
from asyncsim.trace._durations import DURATION
from asyncsim.trace._fill import NO_ROW, fill
from asyncsim.trace._findings import with_findings
from asyncsim.trace._flat import IDLE, KNOWN, LOCAL_STEPS, Table, parse_column
from asyncsim.trace._log import log_of
from asyncsim.trace._presence import presence
from asyncsim.trace._typed import Start, Typed, count_from, read_columns, require_plausible, start_of
from asyncsim.trace._values import Units

BYTES_PER_WORKER = 45  # columns of a job in flight
RESUMES = ("central", "own")

AnyTrace = TypeVar("AnyTrace", bound=Tables)


def from_columns(
    make: type[AnyTrace],
    frame: Any,
    workers: int | None,
    faults: Faults | None,
    start: Start,
    resume: str,
    names: Mapping[str, str] | None,
    unit: Units,
) -> AnyTrace:
    """Return the checked trace of a flat table, whose columns need not have their types (see `Trace.from_columns`)."""
    log = log_of(frame, names, (*KNOWN, DURATION))
    with reworded(log.with_location):
        return assemble(make, read_columns(log, workers, start, unit), workers, faults or Faults(), resume)


def assemble(
    make: type[AnyTrace], typed: Typed, workers: int | None, faults: Faults, resume: str = "central"
) -> AnyTrace:
    """Return the checked trace of a flat table whose columns have their types."""
    table = typed.table
    require_one_of("resume", resume, choices=RESUMES)
    count = count_workers(table["worker"], workers)
    local_steps = local_steps_of(table, count)
    filled = fill({name: values for name, values in table.items() if name != LOCAL_STEPS}, count, resume)
    parts = {
        "workers": count,
        "unfinished": Unfinished(**owned(filled.unfinished)),
        "faults": faults,
        "names": names_of_all(typed.names, count),
        "notes": typed.notes,
        "derived": typed.derived,
        "local_steps": local_steps,
    }
    by_group = {name: values for name, values in table.items() if group_of(name)}
    with reworded(lambda error: _in_table(error, filled.rows, len(filled.commits["worker"]))):
        rows = filled.rows[: len(filled.commits["worker"])]
        groups = _groups({name: values[rows] for name, values in by_group.items()})
        trace = make(**parts, **owned(filled.commits | groups))
        invariants.check(trace)
        if "staleness" in table:  # it adds nothing, but must not contradict the versions
            staleness = table["staleness"][rows]
            remedy = "Correct it or the versions, or leave it out."
            refuse(staleness != trace.staleness, "staleness", staleness, "be version - read_version", remedy)
    # A table with fates is one of our own, of which the notes were written when it was read.
    return trace if "fate" in table or not trace.closes_step.all() else with_findings(trace, filled.present)


def _groups(by_group: Table) -> dict[str, Any]:
    """Return the fields of a trace with parameter groups, none without them."""
    if not by_group:
        return {}
    names = tuple(str(group_of(name)) for name in by_group)
    return {"groups": names, "group_read_version": np.stack([*by_group.values()], axis=1)}


def names_of_all(names: tuple[str, ...], workers: int) -> tuple[str, ...]:
    """Return the names of all workers: those that the table does not name have numbers after those of the others."""
    return (*names, *(f"worker {number}" for number in range(len(names), workers))) if names else ()


def local_steps_of(table: Table, workers: int) -> IntColumn | None:
    """Return the number of gradients of each worker's jobs, or None for a table that does not say it."""
    if LOCAL_STEPS not in table or not len(table["worker"]):
        return None
    steps, worker = table[LOCAL_STEPS], table["worker"]
    refuse(steps < 1, LOCAL_STEPS, steps, "be at least 1", "Give the number of gradients of the worker's jobs.")
    numbers, first, place = np.unique(worker, return_index=True, return_inverse=True)
    rule, remedy = "be the same in all rows of a worker", "Leave out the column if its jobs differ."
    refuse(steps != steps[first][place], LOCAL_STEPS, steps, rule, remedy)
    lacking = np.setdiff1d(np.arange(workers), numbers)
    if len(lacking) and len(np.unique(steps)) > 1:
        remedy = f"Give worker {lacking[0]} a row with the fate {IDLE}."
        raise TraceError(LOCAL_STEPS, "must be known for every worker", remedy, found=f"got none for {lacking[0]}")
    each = np.full(max(workers, numbers[-1] + 1), steps[0])
    each[numbers] = steps[first]
    return each[:workers]


def _in_table(error: TraceError, rows: NDArray[np.int64], commits: int) -> TraceError:
    """Return the error of a check with the row of the flat table, unless it is about a fault or a job without a row."""
    if error.row is None or error.column is None or error.column.startswith("faults."):
        return error
    # A flat table holds both kinds of jobs in one column, so its user knows no prefix.
    column = error.column.removeprefix("unfinished.")
    moved = error.renumber(rows if column == error.column else rows[commits:], column=column)
    return error if moved.row == NO_ROW else moved


def count_workers(worker: NDArray[Any], workers: int | None) -> int:
    """Return the number of workers: as given, or by the numbers that occur, if they leave none out."""
    if workers is not None:
        count = require_count("workers", workers, remedy="Use one worker or more.")
        memory.require(count * BYTES_PER_WORKER, f"`workers` of {brief(workers)}", "Use fewer.")  # of jobs in flight
        return count
    numbers = np.unique(worker[worker >= 0])
    if len(numbers) == 0:
        remedy = "Give `workers` for an empty trace."
        raise TraceError("worker", "must name at least one worker", remedy, found="got an empty column")
    # A number that is left out is more likely a mistake than a worker without any job.
    gaps = np.flatnonzero(numbers != np.arange(len(numbers)))
    if len(gaps):
        rule = f"not leave out {gaps[0]} if it names larger numbers"
        refuse(worker > gaps[0], "worker", worker, rule, "Number the workers from 0, or give `workers`.")
    return len(numbers)


def from_commits(
    make: type[AnyTrace],
    worker: ArrayLike,
    commit_time: ArrayLike | None,
    workers: int | None,
    start: Start,
    groups: Mapping[str, ArrayLike] | None,
) -> AnyTrace:
    """Return the checked trace of an order of commits (see `Trace.from_commits`)."""
    order = parse_column("worker", worker)
    count = count_workers(order, workers)
    bad = (order < 0) | (order >= count)
    refuse(bad, "worker", order, f"be from 0 to {count - 1}", "Number the workers 0, 1, 2, …")
    time = np.arange(1.0, len(order) + 1) if commit_time is None else _commit_times(commit_time, order, start)
    columns = {column_of(name): groups[name] for name in checked_names(list(groups))} if groups else {}
    by_group = {name: parse_column(name, values) for name, values in columns.items()}
    for name, reads in by_group.items():
        require_length(name, reads, len(order))
    present = None if commit_time is None else presence(order, time, count)
    began = present.joined[order] if present and not groups else np.zeros(len(order))
    commits, in_flight = after_own_commits(order, time, count, began)
    of_groups: dict[str, Any] = {}
    if by_group:
        oldest = np.minimum.reduce([*by_group.values()])
        # The server has version v from row v - 1 on.
        had = np.append(0.0, time)[np.clip(oldest, 0, len(time))]
        read_time = np.maximum(commits["read_time"], np.minimum(had, time))
        of_groups = {"read_version": oldest, "read_time": read_time, "start_time": read_time, **_groups(by_group)}
    recorded = {"worker"} | ({"commit_time"} if present else set()) | ({"read_version"} if by_group else set())
    derived = tuple(name for name in COMMIT_COLUMNS if name not in recorded)
    parts = {"unfinished": Unfinished(**owned(in_flight)), "derived": derived, **owned(commits | of_groups)}
    trace = make(workers=count, **parts)
    invariants.check(trace)
    return with_findings(trace, present) if present else trace


def after_own_commits(
    worker: IntColumn, time: TimeColumn, workers: int, began: TimeColumn
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of commits and of jobs in flight, where each worker reads right after its own commit.

    `began` is when the worker of each commit first read.
    """
    rows = np.arange(len(worker), dtype=np.int32)
    previous = previous_own_row(worker)
    last = np.full(workers, -1, dtype=np.int32)  # row of each worker's last commit
    np.maximum.at(last, worker, rows)
    read_time, read_version = np.where(previous < 0, began, time[previous]), previous + np.int32(1)
    late = (previous < 0) & (began > 0)
    read_version[late] = np.searchsorted(time, began[late], side="right")
    versions = {"read_version": read_version, "version": rows, "pull_version": rows}
    begins = {"read_time": read_time, "start_time": read_time}
    ends = {"finish_time": time, "arrive_time": time, "commit_time": time}
    commits = {"worker": worker, "closes_step": np.ones(len(worker), dtype=np.bool_)} | versions | begins | ends
    # At the end of a log every worker is at work on one more job, as it reads right after its commit.
    began_last = np.append(time, 0.0)[last]
    in_flight = {"worker": np.arange(workers, dtype=np.int32), "read_version": last + np.int32(1)}
    return commits, in_flight | {"read_time": began_last}


def _commit_times(commit_time: ArrayLike, worker: IntColumn, start: Start) -> TimeColumn:
    time = parse_column("commit_time", commit_time)
    if len(time) != len(worker):
        received = f"got {len(time)} for {len(worker)} commits"
        remedy = "Leave it out if the times are not known."
        raise TraceError("commit_time", "must have one entry per commit", remedy, found=received)
    table = {"worker": worker, "commit_time": time}
    if start is None or start == "first":  # whoever says when it began, say a simulation, may have any times
        require_plausible(table)
    return count_from(start_of(table, start), table)["commit_time"]
