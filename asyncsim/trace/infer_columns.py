"""From a recorded log, which may lack most columns, to every column of a trace."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace.columns import COMMIT_COLUMNS, NEVER, UNFINISHED_COLUMNS, Fate, IntColumn, TimeColumn
from asyncsim.trace.parse import NOTHING, Table

COMMITTED, IDLE = "committed", "idle"
LATER_CLOCKS = ("serve_time", "arrive_time", "finish_time")  # each by default the one before it in this list


class _Jobs(NamedTuple):
    """Commits in order of application, then the others; see `_order` for `previous`."""

    commits: int
    worker: NDArray[np.int32]
    end_time: NDArray[np.float64]
    previous: NDArray[np.intp]


def complete(table: Table, workers: int, place: Callable[[int], str]) -> tuple[Table, Table, NDArray[np.int64]]:
    """Fill in what a flat table lacks; see `Trace.from_columns`.

    Args:
        table: Typed columns, at least `worker` and `commit_time`.
        workers: Number of workers.
        place: Names a row of the table in errors.

    Returns:
        The columns of the commits, those of the other jobs, and for each of all these jobs its row in the table, -1
        if it has none.

    Raises:
        ValueError: If a time is not finite, or a commit precedes its read.
    """
    rows = _rows(table)
    commits = int(np.count_nonzero(fates(table)[rows] == COMMITTED))
    picked = {name: values[rows] for name, values in table.items()}
    _require_times(picked, commits, lambda row: place(int(rows[row])))
    if "fate" not in table and "read_time" not in table:
        picked = {name: _with_in_flight(name, values, workers) for name, values in picked.items()}
        picked["fate"] = np.repeat([COMMITTED, "in_flight"], [commits, workers])
        rows = np.append(rows, np.full(workers, -1))
    jobs = _order(picked, commits)
    _fill_times(picked, jobs)
    if "fate" not in table:
        picked["start_time"] = np.append(picked["start_time"][:commits], picked["read_time"][commits:])
    _require_order(picked, commits, lambda row: place(int(rows[row])))
    _fill_versions(picked, jobs)
    done = {name: picked[name][:commits] for name in COMMIT_COLUMNS}
    return done, {name: picked[name][commits:] for name in UNFINISHED_COLUMNS}, rows


def fates(table: Table) -> NDArray[np.str_]:
    """The fate of every row; by default all are commits."""
    return table.get("fate", np.full(len(table["worker"]), COMMITTED))


def _rows(table: Table) -> NDArray[np.int64]:
    """Rows of the commits in order of application, then of the other jobs; workers without a job have none."""
    fate = fates(table)
    done, rest = np.flatnonzero(fate == COMMITTED), np.flatnonzero((fate != COMMITTED) & (fate != IDLE))
    if "version" not in table:
        done = done[np.argsort(table["commit_time"][done], kind="stable")]
    return np.concatenate([done, rest])


def _with_in_flight(name: str, values: NDArray[Any], workers: int) -> NDArray[Any]:
    """The column with one more row a worker, which has just begun a job."""
    more = np.arange(workers) if name == "worker" else np.full(workers, NOTHING[name])
    return np.append(values, more.astype(values.dtype))


def _order(table: Table, commits: int) -> _Jobs:
    """`previous`: the job that the worker did before this one, -1 for its first."""
    rest = len(table["worker"]) - commits
    end = table.get("end_time", np.full(commits + rest, np.inf))
    end = np.concatenate([table["commit_time"][:commits], end[commits:]])
    worker = table["worker"]
    order = np.lexsort((end, worker))
    same = worker[order[1:]] == worker[order[:-1]]
    previous = np.full(commits + rest, -1)
    previous[order[1:][same]] = order[:-1][same]
    return _Jobs(commits, worker, end, previous)


def _fill_times(table: Table, jobs: _Jobs) -> None:
    table["end_time"] = jobs.end_time
    table.setdefault("read_time", np.append(jobs.end_time, 0.0)[jobs.previous])
    table.setdefault("start_time", table["read_time"])
    known = table["commit_time"]
    for name in LATER_CLOCKS:
        known = table.setdefault(name, known)


def _fill_versions(table: Table, jobs: _Jobs) -> None:
    commits, rows = jobs.commits, len(jobs.worker)
    closes = table.setdefault("closes_step", np.arange(rows) < commits)[:commits]
    closed = np.cumsum(closes)
    table.setdefault("version", np.append(closed - closes, np.full(rows - commits, -1)).astype(np.int32))
    table.setdefault("pull_version", table["version"])
    table.setdefault("state_lost", np.zeros(rows, np.bool_))
    close_time = table["commit_time"][:commits][closes]
    read = table.get("read_version", np.full(rows, -1, np.int32))
    seen = _read_versions(jobs, table["read_time"], close_time, closed)
    table["read_version"] = np.where(read < 0, seen, read)
    ended = np.searchsorted(close_time, jobs.end_time, side="right")
    table["fate"] = _fate_numbers(fates(table))
    given = table.get("end_version", np.full(rows, -1))
    given = np.where((given < 0) & (table["fate"] != Fate.IN_FLIGHT), ended, given)
    table["end_version"] = np.where(given < 0, NEVER, given).astype(np.int32)


def _read_versions(jobs: _Jobs, read_time: TimeColumn, close_time: TimeColumn, closed: NDArray[Any]) -> IntColumn:
    """The steps closed by a read; right after an own commit, those closed by this commit."""
    read = np.searchsorted(close_time, read_time, side="right")
    own = (jobs.previous >= 0) & (jobs.previous < jobs.commits)
    own &= np.append(jobs.end_time, np.nan)[jobs.previous] == read_time
    read[own] = closed[jobs.previous[own]]
    read[(jobs.previous < 0) & (read_time == 0)] = 0
    return read.astype(np.int32)


def _fate_numbers(fate: NDArray[np.str_]) -> NDArray[np.int8]:
    numbers = np.full(len(fate), -1, np.int8)  # of commits
    for known in Fate:
        numbers[fate == known.name.lower()] = known
    return numbers


def _require_times(table: Table, commits: int, place: Callable[[int], str]) -> None:
    """Before anything is made of them."""
    for name in [name for name in table if name.endswith("_time") and name != "end_time"]:
        times = table[name][: commits if name != "read_time" else None]
        bad = ~(np.isfinite(times) & (times >= 0))
        _refuse(bad, name, times, "be finite and not negative", "Give seconds from the start of the run.", place)


def _require_order(table: Table, commits: int, place: Callable[[int], str]) -> None:
    """The one mistake that would show as a wrong version."""
    times, read = table["commit_time"][:commits], table["read_time"][:commits]
    _refuse(times < read, "commit_time", times, "not precede `read_time`", "A job is read before it commits.", place)


def _refuse(
    bad: NDArray[np.bool_], name: str, values: NDArray[Any], rule: str, remedy: str, place: Callable[[int], str]
) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"`{name}` must {rule}; {place(row)} has {values[row]}. {remedy}")
