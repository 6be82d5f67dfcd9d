"""A trace as one flat table of equally long columns, and back from a table or log that lacks most of them.

`from_commits` starts from the order of commits alone, `from_columns` from a table for CSV, Parquet or data frames, say
the log of a real cluster: its columns get their types, are counted from the start, and are filled in.
"""

import re
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _memory as memory
from asyncsim._checks import brief, nearest, refuse_mask, require_all_finite, require_count, require_one_of
from asyncsim.components._frozen import owned
from asyncsim.trace import _invariants as invariants
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    COMMIT_TIMES,
    NEVER,
    UNFINISHED_COLUMNS,
    Fate,
    Faults,
    IntColumn,
    Tables,
    TimeColumn,
    TraceError,
    Unfinished,
    checked_names,
    column_of,
    group_of,
    previous_of_worker,
    previous_own_row,
    refuse,
    require_length,
    require_one_dimension,
    restated,
)

Start = float | Literal["first"] | None

LATEST = 2.0**53  # seconds: beyond it, a float64 cannot tell one second from the next
# Seconds, three years: a log that begins later, and is shorter, counts from another year, as Unix time does.
EPOCH = 1e8
# A log in which every worker commits this often does not begin this many times as late as it is long.
FAR = 10
Table = dict[str, NDArray[Any]]

OF_COMMITS = COMMIT_COLUMNS | {"staleness": np.int32}
TYPES = OF_COMMITS | {name: UNFINISHED_COLUMNS[name] for name in ("end_version", "end_time")}  # but that of `fate`
EMPTY = {name: np.inf if dtype is np.float64 else False if dtype is np.bool_ else -1 for name, dtype in TYPES.items()}
COMMITTED, IDLE = "committed", "idle"
NO_ROW = -1  # of a job that the table lacks
NOT_YET = -1.0  # a time that follows from a version
BYTES_PER_WORKER = 45  # columns of a job in flight

FATES = (COMMITTED, *(fate.name.lower() for fate in Fate), IDLE)
COLUMNS = ("worker", "fate", "staleness", *(name for name in TYPES if name not in ("worker", "staleness")))
NEEDED = ("worker", "commit_time")
RESUMES = ("central", "own")
TIMES = frozenset(name for name, dtype in TYPES.items() if dtype is np.float64)
ENDED_MUST_HAVE = ("read_version", "read_time")
MOST_COLUMNS = 1000  # of a table: more are refused before they are compared with those that a trace has
MOST_SHOWN = 20  # names in a message

AnyTrace = TypeVar("AnyTrace", bound=Tables)


def to_columns(trace: Tables, unfinished: bool = False) -> Table:
    """Return the columns of the flat table (see `Trace.to_columns`)."""
    groups = {column_of(name): reads for name, reads in zip(trace.groups, trace.group_read_version.T, strict=True)}
    if not unfinished:
        table = {name: getattr(trace, name) for name in COLUMNS if name in OF_COMMITS} | groups
        return table | {"worker": named(trace, trace.worker)}
    rest = trace.unfinished
    # A worker without any job has a row of its own, so that the table alone tells how many workers there are.
    idle = np.setdiff1d(np.arange(trace.workers, dtype=np.int32), np.concatenate([trace.worker, rest.worker]))
    names = np.array([fate.name.lower() for fate in Fate])
    columns = {
        "worker": (trace.worker, rest.worker, idle),
        "fate": (np.full(len(trace), COMMITTED), names[rest.fate], np.full(len(idle), IDLE)),
        "end_version": (None, np.where(rest.end_version == NEVER, -1, rest.end_version), None),
    }
    lengths = (len(trace), len(rest), len(idle))
    table = {}
    for name in COLUMNS:
        parts = columns.get(name, (getattr(trace, name, None), getattr(rest, name, None), None))
        filled = [np.full(n, EMPTY[name]) if part is None else part for part, n in zip(parts, lengths, strict=True)]
        # Texts have no type in `TYPES`: NumPy makes them as wide as the longest fate.
        joined = np.concatenate(filled)
        table[name] = joined if name == "fate" else joined.astype(TYPES[name])
    rest_rows = np.full(len(rest) + len(idle), empty_of("read_version"), np.int32)
    table["worker"] = named(trace, table["worker"])
    return table | {name: np.concatenate([reads, rest_rows]) for name, reads in groups.items()}


def named(trace: Tables, worker: IntColumn) -> NDArray[Any]:
    """Return the names of workers, or their numbers where they have none. No worker, -1, has an empty name."""
    return np.array([*trace.names, ""])[worker] if trace.names else worker


def from_columns(
    make: type[AnyTrace],
    columns: Mapping[str, Any],
    workers: int | None,
    faults: Faults | None,
    start: Start,
    resume: str,
) -> AnyTrace:
    """Return the checked trace of a flat table, whose columns need not have their types (see `Trace.from_columns`)."""
    require_names(columns)
    worker, names = parse_workers(columns["worker"])
    table, begin = typed({**columns, "worker": worker}, start)
    return assemble(make, since(begin, table), workers, faults or Faults(), resume, names)


def typed(columns: Mapping[str, Any], start: Start) -> tuple[Table, float]:
    """Return the columns of a flat table in their types, each row possible by itself, and when the run began."""
    table = {name: parse_column(name, values) for name, values in columns.items()}
    rows = len(table["worker"])
    # Commits that come without have the times 1, 2, 3, … See `require_names` for when they may.
    table = {"commit_time": np.arange(1.0, rows + 1)} | table
    for name, values in table.items():
        require_length(name, values, rows)
    require_plausible(table)
    if "version" not in table and "read_time" not in table:
        _require_different_commits(table)
    return table, start_of(table, start)


def _require_different_commits(table: Table) -> None:
    """Refuse a commit that stands in the table twice."""
    done = np.flatnonzero(fates(table) == COMMITTED)
    columns = [values[done] for name, values in table.items() if name != "fate"]
    # Equal rows are neighbours once the rows are sorted by all columns.
    order = np.lexsort(columns)
    same = np.all([values[order[1:]] == values[order[:-1]] for values in columns], axis=0)
    repeated = np.zeros(len(table["worker"]), bool)
    repeated[done[order[1:][same]]] = True
    remedy = "Remove the row; or, if it is another commit, give `read_time`, or number the commits in `version`."
    refuse(repeated, "commit_time", table["commit_time"], "differ from that of an otherwise equal row", remedy)


def assemble(
    make: type[AnyTrace],
    table: Table,
    workers: int | None,
    faults: Faults,
    resume: str = "central",
    names: tuple[str, ...] = (),
) -> AnyTrace:
    """Return the checked trace of a flat table whose columns have their types."""
    require_one_of("resume", resume, choices=RESUMES)
    bad = ~np.isin(fates(table), FATES)
    if bad.any():
        row = int(bad.argmax())
        value = str(table["fate"][row])
        near = nearest(value, FATES)
        remedy = f"Did you mean {near!r}?" if near else "Leave out the column if every row is a commit."
        raise TraceError("fate", f"must be one of {', '.join(FATES)}", remedy, row=row, value=value)
    workers = count_workers(table["worker"], workers)
    _require_what_applies(table)
    commits, ended, rows = from_table(table, workers, resume)
    # Workers that the table does not name have numbers after those of the others.
    names += tuple(f"worker {number}" for number in range(len(names), workers)) if names else ()
    parts = {"workers": workers, "unfinished": Unfinished(**owned(ended)), "faults": faults, "names": names}
    with restated(lambda error: _in_table(error, rows, len(commits["worker"]))):
        trace = make(**parts, **owned(commits))
        invariants.check(trace)
        if "staleness" in table:  # it adds nothing, but must not contradict the versions
            staleness = table["staleness"][rows[: len(trace)]]
            remedy = "Correct it or the versions, or leave it out."
            refuse(staleness != trace.staleness, "staleness", staleness, "be version - read_version", remedy)
    return trace


def require_names(names: Collection[str]) -> None:
    """Refuse columns that no trace has, and the lack of those that every trace needs."""
    if len(names) > MOST_COLUMNS:
        remedy = f"Keep those of {', '.join(COLUMNS)}."
        raise TraceError(None, f"must have at most {MOST_COLUMNS} columns", remedy, found=f"got {len(names)}")
    # Versions say which commits came before a pull, so that rows in their order need no times.
    order_is_known = "pull_version" in names and not TIMES.intersection(names)
    missing = [name for name in NEEDED if name not in names and not (order_is_known and name == "commit_time")]
    checked_names([group for name in names if (group := group_of(name))])
    unknown = [name for name in names if name not in COLUMNS and not group_of(name)]
    if missing:
        near = nearest(missing[0], unknown)
        remedy = f"Rename `{near}`, if that is it." if near else "Record who commits, and when."
        received = f"got {', '.join(map(repr, islice(names, MOST_SHOWN))) or 'no columns'}"
        raise TraceError(missing[0], "is missing", remedy, found=received)
    if unknown:
        near = nearest(unknown[0], [name for name in COLUMNS if name not in names])
        remedy = f"Did you mean `{near}`?" if near else f"Leave it out; known are {', '.join(COLUMNS)}."
        raise TraceError(unknown[0], "is not a column of a trace", remedy)


def _require_what_applies(table: Table) -> None:
    """Check that a commit has everything, a job without a commit has no commit, and a worker without a job nothing."""
    fate = fates(table)
    committed = fate == COMMITTED
    idle = fate == IDLE
    ended = ~(committed | idle)
    for name in [name for name in (*TYPES, *filter(group_of, table)) if name in table and name != "worker"]:
        known_as = "read_version" if group_of(name) else name
        values = table[name]
        filled = values != EMPTY[known_as]
        if known_as in OF_COMMITS and TYPES[known_as] is not np.bool_:  # an empty cell of these reads as False
            refuse(committed & ~filled, name, None, "be known for a commit", "Fill it in, or leave out the column.")
        if name in ENDED_MUST_HAVE:
            refuse(ended & ~filled, name, None, "be known for a job that began", "Fill it in.")
        empty = idle if known_as in OF_COMMITS else idle | committed
        # Columns of commits alone are empty for a job that ended without one.
        if name not in UNFINISHED_COLUMNS:
            empty = empty | ended
        refuse(empty & filled, name, values, "be empty where it does not apply", "Correct it or `fate`.")


def _in_table(error: TraceError, rows: NDArray[np.int64], commits: int) -> TraceError:
    """Return the error of a check with the row of the flat table, unless it is about a fault or a job without a row."""
    if error.row is None or error.column is None or error.column.startswith("faults."):
        return error
    # A flat table holds both kinds of jobs in one column, so its user knows no prefix.
    column = error.column.removeprefix("unfinished.")
    moved = error.renumber(rows if column == error.column else rows[commits:], column=column)
    return error if moved.row == NO_ROW else moved


def empty_of(name: str) -> Any:
    """Return the value of a cell that does not apply, also in the column of a parameter group."""
    return EMPTY["read_version"] if group_of(name) else EMPTY[name]


def parse_column(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return one column of a flat table in its type, as a new array."""
    array = np.asarray(refuse_mask(name, values))
    require_one_dimension(name, array)
    if name == "fate":
        return array.astype(str)
    if name == "worker" and array.dtype == np.int32:  # as a simulation numbers them
        return array.copy()
    dtype = TYPES["read_version" if group_of(name) else name]
    # NumPy would drop the imaginary part, and convert dates to nanoseconds or days by their type.
    if array.dtype.kind in "cmM":
        raise TraceError(
            name, "must be a column of numbers", "Convert it, times to seconds.", found=f"got {array.dtype}"
        )
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        # NumPy names neither the row nor the cell that it cannot convert.
        row, value = next((row, value) for row, value in enumerate(array.tolist()) if number_of(value) is None)
        raise TraceError(name, "must be a number", "Correct it.", row=row, value=value) from None
    if dtype is np.float64:
        return numbers
    # Negative numbers pass: -1 marks an empty cell, and the checks of a trace refuse others in words of their own.
    limit = 1 if dtype is np.bool_ else np.iinfo(np.int32).max
    least = 0 if dtype is np.bool_ else -limit
    bad = ~((numbers >= least) & (numbers <= limit) & (numbers == np.trunc(numbers)))
    rule, remedy = ("be true or false", "Use 1 or 0.") if dtype is np.bool_ else ("be a whole number", "Count from 0.")
    refuse(bad, name, numbers, rule, remedy, _as_written)
    return numbers.astype(dtype)


def number_of(value: Any) -> float | None:
    """Return a cell as a number, if it is one."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def parse_workers(values: ArrayLike) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return the numbers of workers and their names, which are none where they come as numbers."""
    array = np.asarray(refuse_mask("worker", values))
    if array.ndim != 1 or array.dtype.kind not in "UO" or not len(array):
        return parse_column("worker", array), ()
    # Each name is parsed once, however many rows it has.
    names, codes = np.unique(array.astype(str), return_inverse=True)
    return number_workers(names.tolist(), codes)


def number_workers(names: list[str], codes: NDArray[np.intp]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return the numbers of workers given by name, and their names in this order.

    Names that are whole numbers stand for themselves, and are not names.
    """
    whole = np.array([re.fullmatch(r"\s*-?\d{1,9}(\.0*)?\s*", name) is not None for name in names], dtype=bool)
    # Names are ranked in natural order, so that w10 follows w9.
    if not whole.any() and all(names):
        rank, order = np.empty(len(names), np.int32), sorted(range(len(names)), key=lambda n: _natural(names[n]))
        rank[order] = np.arange(len(names))
        return rank[codes], tuple(names[place] for place in order)
    if not whole.all():
        refuse((~whole)[codes], "worker", np.array(names)[codes], "be all numbers or all names", "Correct it.")
    return np.array([int(float(name)) for name in names], np.int32)[codes], ()


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts w2 before w10."""
    parts = re.split(r"(\d+)", name)
    return [(True, int(part), part) if part.isdecimal() else (False, 0, part) for part in parts]


def _as_written(number: float) -> float | int | None:
    """Return the number as it was probably written: a whole one without a point, and nothing for NaN."""
    return None if np.isnan(number) else int(number) if number.is_integer() else number


def start_of(table: Mapping[str, NDArray[Any]], start: Start) -> float:
    """Return the time at which the run began, in the log's own time."""
    if isinstance(start, str) and start != "first":
        remedy = 'Give the time at which the run began, or "first" for the earliest time in the log.'
        raise ValueError(f"`start` must be a number of seconds or 'first'; got {brief(start)}. {remedy}")
    if start is not None and start != "first":
        return require_all_finite("start", start)
    first, column, row = np.inf, "", 0
    for name, values in _times(table).items():
        # Empty cells are NaN and times that never came are infinite. Neither is a beginning.
        starts = np.where(np.isfinite(values), values, np.inf)
        if starts.min(initial=np.inf) < first:
            first, column, row = float(starts.min()), name, int(starts.argmin())
    if first == np.inf:
        return 0.0
    if start == "first":
        return first
    if _counts_from_elsewhere(first, table):
        remedy = 'Give `start` (`--start`): when the run began, "first" for this very time, or 0 if it is right.'
        raise TraceError(column, "must count from the start of the run", remedy, row=row, value=first)
    return 0.0


def _counts_from_elsewhere(first: float, table: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether the earliest time is too late to be one of a run that began at 0."""
    done = table["commit_time"][np.isfinite(table["commit_time"])]
    span = done.max(initial=first) - first
    # A log in Unix time begins some decades after 0.
    if first > max(EPOCH, span):
        return True
    # With few commits per worker, a late first one proves nothing: the workers may be slow.
    return span > 0 and first > FAR * span and len(done) >= FAR * len(np.unique(table["worker"]))


def require_plausible(table: Mapping[str, NDArray[Any]]) -> None:
    """Refuse times beyond `LATEST`."""
    for name, values in _times(table).items():
        bad = np.isfinite(values) & (np.abs(values) > LATEST)
        refuse(bad, name, values, f"be at most {LATEST:.1g} seconds", "Correct it, or give times in seconds.")


def since(start: float, table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns with times counted from `start`."""
    return dict(table) | {name: values - start for name, values in _times(table).items() if start}


def _times(table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: values for name, values in table.items() if name.endswith("_time")}


def from_commits(
    worker: ArrayLike,
    commit_time: ArrayLike | None,
    workers: int | None,
    start: Start,
    groups: Mapping[str, ArrayLike] | None,
) -> tuple[dict[str, Any], Table]:
    """Fill in the reads, where each worker reads right after its own commit (see `Trace.from_commits`)."""
    worker = parse_column("worker", worker)
    workers = count_workers(worker, workers)
    bad = (worker < 0) | (worker >= workers)
    refuse(bad, "worker", worker, f"be from 0 to {workers - 1}", "Number the workers 0, 1, 2, …")
    time = np.arange(1.0, len(worker) + 1) if commit_time is None else _commit_times(commit_time, worker, start)
    rows = np.arange(len(worker), dtype=np.int32)
    previous = previous_own_row(worker)
    last = np.full(workers, -1, dtype=np.int32)  # row of each worker's last commit
    np.maximum.at(last, worker, rows)
    time_after = np.append(time, 0.0)  # row -1, "no commit yet", finds time 0
    commits: dict[str, Any] = {
        "worker": worker,
        "read_version": previous + np.int32(1),
        "version": rows,
        "pull_version": rows,
        "closes_step": np.ones(len(worker), dtype=np.bool_),
        "read_time": time_after[previous],
        "start_time": time_after[previous],
        "finish_time": time,
        "arrive_time": time,
        "commit_time": time,
    }
    if groups:
        columns = {column_of(name): groups[name] for name in checked_names(list(groups))}
        by_group = {name: parse_column(name, values) for name, values in columns.items()}
        for name, reads in by_group.items():
            require_length(name, reads, len(worker))
        commits["read_version"] = np.minimum.reduce([*by_group.values()])
        _read_groups(commits, by_group, ("read_time", "start_time"))
    # At the end of a log every worker is at work on one more job, as it reads right after its commit.
    in_flight = {
        "worker": np.arange(len(last), dtype=np.int32),
        "read_version": last + np.int32(1),
        "read_time": time_after[last],
    }
    return owned(commits), owned(in_flight)


def _commit_times(commit_time: ArrayLike, worker: IntColumn, start: Start) -> TimeColumn:
    time = parse_column("commit_time", commit_time)
    if len(time) != len(worker):
        received = f"got {len(time)} for {len(worker)} commits"
        remedy = "Leave it out if the times are not known."
        raise TraceError("commit_time", "must have one entry per commit", remedy, found=received)
    table = {"worker": worker, "commit_time": time}
    if start is None or start == "first":  # whoever says when it began, say a simulation, may have any times
        require_plausible(table)
    return since(start_of(table, start), table)["commit_time"]


def _read_groups(commits: dict[str, Any], by_group: Table, unknown: Collection[str]) -> None:
    """Add the parameter groups of a trace, and the times that are unknown.

    Jobs that begin with a version later than the worker's last commit read it as soon as the server has it.
    """
    commits["groups"] = tuple(str(group_of(name)) for name in by_group)
    commits["group_read_version"] = np.stack([*by_group.values()], axis=1)
    time = commits["commit_time"]
    close_times = np.append(0.0, time[commits["closes_step"]])
    earliest = close_times[np.clip(commits["read_version"], 0, len(close_times) - 1)]
    commits |= dict.fromkeys(unknown, np.maximum(commits["read_time"], np.minimum(earliest, time)))


def count_workers(worker: NDArray[Any], workers: int | None) -> int:
    """Return the number of workers: as given, or by the numbers that occur, if they leave none out."""
    if workers is not None:
        workers = require_count("workers", workers, remedy="Use one worker or more.")
        memory.require(workers * BYTES_PER_WORKER, f"`workers` of {brief(workers)}", "Use fewer.")  # of jobs in flight
        return workers
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


def from_table(table: Table, workers: int, resume: str = "central") -> tuple[dict[str, Any], Table, NDArray[np.int64]]:
    """Fill in the columns that a flat table lacks (see `Trace.from_columns`). Also its row of each job, or `NO_ROW`."""
    fate = fates(table)
    done = np.flatnonzero(fate == COMMITTED)
    # The order of application is that of the versions, or else that of the times, where rows of one time keep theirs.
    if "version" not in table:
        done = done[np.argsort(table["commit_time"][done], kind="stable")]
    commits = len(done)
    rows = np.concatenate([done, np.flatnonzero((fate != COMMITTED) & (fate != IDLE))])
    picked = {name: values[rows] for name, values in table.items()}
    if "fate" not in table and "read_time" not in table:  # each worker has just begun one more job
        for name, values in picked.items():
            extra = np.arange(workers) if name == "worker" else np.full(workers, empty_of(name))
            picked[name] = np.append(values, extra.astype(values.dtype))
        picked["fate"] = np.repeat([COMMITTED, "in_flight"], [commits, workers])
        rows = np.append(rows, np.full(workers, NO_ROW))
    with restated(lambda error: error.renumber(rows)):
        previous = _fill_times(picked, commits, resume, has_fates="fate" in table)
    by_group = {name: picked[name][:commits] for name in table if group_of(name)}
    if by_group:
        oldest = np.minimum.reduce([*by_group.values()])
        picked.setdefault("read_version", np.append(oldest, np.full(len(rows) - commits, -1)))
    _fill_versions(picked, commits, previous)
    filled: dict[str, Any] = {name: picked[name][:commits] for name in COMMIT_COLUMNS}
    if by_group:
        times = () if "read_time" in table else ("read_time", "start_time")
        _read_groups(filled, by_group, [name for name in times if name not in table])
    return filled, {name: picked[name][commits:] for name in UNFINISHED_COLUMNS}, rows


def fates(table: Table) -> NDArray[np.str_]:
    """Return the fate of every row, by default all are commits."""
    return table.get("fate", np.full(len(table["worker"]), COMMITTED))


def _fill_times(table: Table, commits: int, resume: str, has_fates: bool) -> NDArray[np.intp]:
    """Fill in the times of jobs, commits first. Return the job that its worker did before each, -1 for its first."""
    for name in [name for name in COMMIT_TIMES if name in table]:
        times = table[name][: commits if name != "read_time" else None]
        bad = ~(np.isfinite(times) & (times >= 0))
        refuse(bad, name, times, "be finite and not negative", "Give seconds from the start of the run.")
    end = np.array(table.get("end_time", np.full(len(table["worker"]), np.inf)))
    end[:commits] = table["commit_time"][:commits]
    table["end_time"] = end
    # A job without an end is the last of its worker.
    previous = previous_of_worker(table["worker"], end)
    # A worker without a previous job begins at 0: index -1 reads the last entry.
    before = np.append(end, 0.0)[previous]
    follows_commit = (previous >= 0) & (previous < commits)
    if resume == "own" and "state_lost" in table:
        follows_commit &= ~table["state_lost"]
    continues = table.setdefault("resumes_own", follows_commit & (resume == "own"))
    if "read_time" in table:
        table.setdefault("start_time", np.where(continues, before, table["read_time"]))
    else:
        table.setdefault("start_time", before)
        table["read_time"] = np.where(continues, NOT_YET, before)
    later = table["commit_time"]
    for name in ("serve_time", "arrive_time", "finish_time"):  # by default, each is the next later one
        later = table.setdefault(name, later)
    # The added jobs begin where their workers' last commits end, and have no other times yet.
    if not has_fates:
        table["start_time"] = np.append(table["start_time"][:commits], before[commits:])
    # The one mistake that would show as a wrong version.
    times = table["commit_time"][:commits]
    bad = times < table["read_time"][:commits]
    refuse(bad, "commit_time", times, "not precede `read_time`", "A job is read before it commits.")
    return previous


def _fill_versions(table: Table, commits: int, previous: NDArray[np.intp]) -> None:
    rows = len(table["worker"])
    closes = table.setdefault("closes_step", np.arange(rows) < commits)[:commits]
    closed = np.cumsum(closes)
    table.setdefault("version", np.append(closed - closes, np.full(rows - commits, -1)).astype(np.int32))
    table.setdefault("pull_version", table["version"])
    table.setdefault("state_lost", np.zeros(rows, np.bool_))
    close_time = table["commit_time"][:commits][closes]
    after_commit = (previous >= 0) & (previous < commits)
    # Where a worker goes on from its own value, it read when it pulled for its previous commit: at the earliest.
    continuing = np.flatnonzero(table["resumes_own"] & after_commit)
    last = previous[continuing]
    pulled = np.append(0.0, close_time)[np.clip(table["pull_version"][last], 0, len(close_time))]
    earliest = np.maximum(pulled, table["start_time"][last])
    table["read_time"][continuing] = np.where(
        table["read_time"][continuing] == NOT_YET, earliest, table["read_time"][continuing]
    )
    # A read sees the steps closed by then or, right after an own commit, those closed by this commit.
    read_time = table["read_time"]
    closed_by_then = np.searchsorted(close_time, read_time, side="right").astype(np.int32)
    at_commit = after_commit & (np.append(table["end_time"], np.nan)[previous] == read_time)
    closed_by_then[at_commit] = closed[previous[at_commit]]
    closed_by_then[(previous < 0) & (read_time == 0)] = 0
    closed_by_then[continuing] = table["pull_version"][last] + closes[last]
    read = table.get("read_version", np.full(rows, -1, np.int32))
    table["read_version"] = np.where(read < 0, closed_by_then, read)
    numbers = np.full(rows, -1, np.int8)  # of commits
    for fate in Fate:
        numbers[fates(table) == fate.name.lower()] = fate
    ended = np.searchsorted(close_time, table["end_time"], side="right")
    end_version = table.get("end_version", np.full(rows, -1))
    end_version = np.where((end_version < 0) & (numbers != Fate.IN_FLIGHT), ended, end_version)
    table |= {"fate": numbers, "end_version": np.where(end_version < 0, NEVER, end_version).astype(np.int32)}
