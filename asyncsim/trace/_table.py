"""A trace as one flat table of equally long columns, and back from a table or log that lacks most of them.

`from_commits` starts from the order of commits alone, `from_columns` from a table for CSV, Parquet or data frames, say
the log of a real cluster: its columns get their types, are counted from the start, and are filled in.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _memory as memory
from asyncsim._checks import brief, nearest, refuse_mask, require_count, require_one_of
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
from asyncsim.trace._findings import with_findings
from asyncsim.trace._log import Log, log_of, note_others, note_units, require_columns
from asyncsim.trace._presence import presence
from asyncsim.trace._values import EPOCH, PER_SECOND, as_numbers, as_seconds, as_texts, start_in_seconds
from asyncsim.trace._variables import require_one_variable

Start = float | str | None  # a time, "first", or a date

LATEST = 2.0**53  # seconds: beyond it, a float64 cannot tell one second from the next
# A log in which every worker commits this often does not begin this many times as late as it is long.
FAR = 10
SECONDS_OF_TODAY = 1e11  # Unix times in seconds are below
LONGEST_NAME = 200  # characters of a worker
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
LOCAL_STEPS = "local_steps"  # a column that a trace may have, which is the same in all rows of a worker
KNOWN = (*COLUMNS, LOCAL_STEPS)
NEEDED = ("worker", "commit_time")
WHO = "Say who committed, or remove the row."
NO_COMMIT = "Fill it in, remove the row, or give `fate`, which is in_flight for a job that had read and not committed."
RESUMES = ("central", "own")
TIMES = frozenset(name for name, dtype in TYPES.items() if dtype is np.float64)
REPEATED = "Remove the row; or, if it is another commit, give `read_time`, or number the commits in `version`"
READS = frozenset({"read_time", "read_version", "pull_version"})  # columns that say when a job read
ENDED_MUST_HAVE = ("read_version", "read_time")

AnyTrace = TypeVar("AnyTrace", bound=Tables)


def to_columns(trace: Tables, unfinished: bool = False) -> Table:
    """Return the columns of the flat table (see `Trace.to_columns`)."""
    groups = {column_of(name): reads for name, reads in zip(trace.groups, trace.group_read_version.T, strict=True)}
    if not unfinished:
        table = {name: getattr(trace, name) for name in COLUMNS if name in OF_COMMITS} | groups
        table |= {"variable": trace.variable} if trace.variables > 1 else {}
        return table | {"worker": named(trace, trace.worker)} | _steps_of(trace, trace.worker)
    require_one_variable(trace, "A flat table has no place for mixings: use `Trace.save`.")
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
    steps = _steps_of(trace, table["worker"])
    table["worker"] = named(trace, table["worker"])
    return table | {name: np.concatenate([reads, rest_rows]) for name, reads in groups.items()} | steps


def _steps_of(trace: Tables, worker: IntColumn) -> Table:
    return {} if trace.local_steps is None else {LOCAL_STEPS: trace.local_steps[worker]}


def named(trace: Tables, worker: IntColumn) -> NDArray[Any]:
    """Return the names of workers, or their numbers where they have none. No worker, -1, has an empty name."""
    return np.array([*trace.names, ""])[worker] if trace.names else worker


def from_columns(
    make: type[AnyTrace],
    frame: Any,
    workers: int | None,
    faults: Faults | None,
    start: Start,
    resume: str,
    names: Mapping[str, str] | None,
    unit: str,
) -> AnyTrace:
    """Return the checked trace of a flat table, whose columns need not have their types (see `Trace.from_columns`)."""
    log = log_of(frame, names, KNOWN)
    with restated(log.in_place):
        typed = read_columns(log, workers, start, unit)
        return assemble(make, typed, workers, faults or Faults(), resume)


class Typed(NamedTuple):
    """The columns of a log in their types, each row possible by itself, with times from the start of the run."""

    table: Table
    names: tuple[str, ...]  # of the workers
    begin: float  # seconds, when the run began, in the log's own time
    notes: tuple[str, ...]
    derived: tuple[str, ...]  # columns of commits that the log does not have


def read_columns(log: Log, workers: int | None, start: Start, unit: str) -> Typed:
    """Return the columns of a log in their types."""
    require_one_of("unit", unit, choices=PER_SECOND)
    _require_names(log)
    worker, names, notes = parse_workers(log.columns["worker"], workers)
    table: Table = {"worker": worker}
    if "fate" in log.columns:
        codes, texts = as_texts("fate", log.columns["fate"])
        table["fate"] = np.array([*texts, ""])[codes]
    times = as_seconds({name: values for name, values in log.columns.items() if name in TIMES}, unit)
    numbers = {name: as_numbers(name, values) for name, values in log.columns.items() if _is_number(name)}
    notes = (*note_others(log), *notes, *times.notes)
    for name, values in (numbers | times.columns).items():
        require_length(name, values, len(worker))
        empty = np.isnan(values)
        if "fate" not in table and name not in NEEDED and empty.all() and len(worker):
            notes = (*notes, f"`{name}` has no values, and is taken to be missing.")
            continue
        if TYPES.get(name) is np.bool_:
            empty &= fates(table) != COMMITTED  # whether a commit closes its step cannot be left open
        table[name] = in_type(name, np.where(empty, empty_of(name), values))
    recorded = table.keys() | ({"read_version"} if any(map(group_of, table)) else set())
    derived = tuple(name for name in COMMIT_COLUMNS if name not in recorded)
    if "commit_time" not in table:  # See `_require_names` for when it may be missing.
        table["commit_time"] = np.arange(1.0, len(worker) + 1)
        times = times._replace(origin=0.0)
    require_plausible(table, times.origin)
    notes = (*notes, *_note_order(log, table))
    _require_different_commits(table)
    if not log.columns.keys() >= {*COLUMNS}:  # our own files, which hold no findings
        done = table["commit_time"][np.isfinite(table["commit_time"])]
        job = np.ptp(done) * len(np.unique(worker)) / len(done) if len(done) else 0.0
        columns = [table[name] for name in times.columns if name in table]
        notes = (*notes, *note_units(columns, job, unit, are_dates=times.are_dates))
    begin = start_of(table, start, times.origin, 1 if times.are_dates else PER_SECOND[unit], dated=times.are_dates)
    if times.are_dates and start is None and begin + times.origin:
        first = np.datetime64(round((begin + times.origin) * 1e6), "us")
        notes = (*notes, f"Times count from the earliest date, {first} UTC.")
    return Typed(since(begin, table), names, begin + times.origin, notes, derived)


def _is_number(name: str) -> bool:
    return (name in KNOWN or group_of(name) is not None) and name not in {"worker", "fate", *TIMES}


def _note_order(log: Log, table: Table) -> list[str]:
    """Say that rows were sorted, if they were."""
    done = np.flatnonzero((fates(table) == COMMITTED) & np.isfinite(table["commit_time"]))
    earlier = np.flatnonzero(np.diff(table["commit_time"][done]) < 0)
    if "version" in table or not len(earlier):
        return []
    place = log.source.place(int(done[earlier[0] + 1]))
    return [
        f"Rows are not in the order of `commit_time`, first in {place.unit} {place.number}: they were sorted by it."
    ]


def _require_different_commits(table: Table) -> None:
    """Refuse a commit that stands in the table twice."""
    done = np.flatnonzero(fates(table) == COMMITTED)
    # Equal rows are neighbours among those of their worker, sorted by time.
    order = done[np.lexsort((table["commit_time"][done], table["worker"][done]))]
    first, second = order[:-1], order[1:]
    same = np.all([values[first] == values[second] for name, values in table.items() if name != "fate"], axis=0)
    if "read_time" in table:  # Jobs that take no time may be equal.
        same &= table["read_time"][second] < table["commit_time"][second]
    repeated = np.zeros(len(table["worker"]), bool)
    repeated[second[same]] = True
    among = f" ({np.count_nonzero(same):,} rows are repeated)" if np.count_nonzero(same) > 1 else ""
    other = "Remove the row" if "read_time" in table or "version" in table else REPEATED
    rule = f"differ from that of an otherwise equal row{among}"
    refuse(repeated, "commit_time", table["commit_time"], rule, f"{other}.")


def _fill_steps(table: Table, commits: int) -> None:
    """Refuse versions and times that are not those of rows in order, and find the steps where versions repeat."""
    version, times = table["version"][:commits].astype(np.int64), table["commit_time"][:commits]
    back = np.append(False, np.diff(times) < 0)
    remedy = "Rows with `version` are in order of application: did the server's clock step back? Correct its times."
    refuse(back, "commit_time", times, "not precede that of the row before", remedy)
    growth = np.diff(version)
    if "closes_step" in table or not commits or version[0] or (growth < 0).any():
        return  # The checks of a trace say what is wrong.
    remedy = "Rows before it are missing: add them, or leave out `version`."
    refuse(np.append(False, growth > 1), "version", version, "grow by one at most from row to row", remedy)
    sizes = np.bincount(version)
    # The last step is complete if it has as many commits as the one before.
    closes = np.append(growth > 0, len(sizes) < 2 or sizes[-1] >= sizes[-2])
    rows = len(table["worker"])
    table["closes_step"] = np.append(closes, np.zeros(rows - commits, np.bool_))


def assemble(
    make: type[AnyTrace], typed: Typed, workers: int | None, faults: Faults, resume: str = "central"
) -> AnyTrace:
    """Return the checked trace of a flat table whose columns have their types."""
    table, names = typed.table, typed.names
    require_one_of("resume", resume, choices=RESUMES)
    bad = ~np.isin(fates(table), FATES)
    if bad.any():
        row = int(bad.argmax())
        value = str(table["fate"][row])
        near = nearest(value, FATES)
        remedy = f"Did you mean {near!r}?" if near else "Leave out the column if every row is a commit."
        raise TraceError("fate", f"must be one of {', '.join(FATES)}", remedy, row=row, value=value)
    workers = count_workers(table["worker"], workers)
    local_steps = _local_steps(table, workers)
    table = {name: values for name, values in table.items() if name != LOCAL_STEPS}
    _require_what_applies(table)
    commits, ended, rows = from_table(table, workers, resume)
    # Workers that the table does not name have numbers after those of the others.
    names += tuple(f"worker {number}" for number in range(len(names), workers)) if names else ()
    parts = {
        "workers": workers,
        "unfinished": Unfinished(**owned(ended)),
        "faults": faults,
        "names": names,
        "notes": typed.notes,
        "derived": typed.derived,
        "local_steps": local_steps,
    }
    with restated(lambda error: _in_table(error, rows, len(commits["worker"]))):
        trace = make(**parts, **owned(commits))
        invariants.check(trace)
        if "staleness" in table:  # it adds nothing, but must not contradict the versions
            staleness = table["staleness"][rows[: len(trace)]]
            remedy = "Correct it or the versions, or leave it out."
            refuse(staleness != trace.staleness, "staleness", staleness, "be version - read_version", remedy)
    # A table with fates is one of our own, of which the notes were written when it was read.
    return trace if "fate" in table or not trace.closes_step.all() else with_findings(trace)


def _local_steps(table: Table, workers: int) -> IntColumn | None:
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


def _require_names(log: Log) -> None:
    """Refuse a log that lacks a column which every trace needs."""
    checked_names([group for name in log.columns if (group := group_of(name))])
    # Versions say which commits came before a pull, so that rows in their order need no times.
    order_is_known = "pull_version" in log.columns and not TIMES.intersection(log.columns)
    require_columns(log, NEEDED[:1] if order_is_known else NEEDED, "Record who commits, and when.")


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
            remedy = NO_COMMIT if name in NEEDED else "Fill it in, or leave out the column."
            refuse(committed & ~filled, name, None, "be known for a commit", remedy)
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
    return EMPTY["read_version"] if group_of(name) or name == LOCAL_STEPS else EMPTY[name]


def parse_column(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return one column in its type, as a new array."""
    array = np.asarray(refuse_mask(name, values))
    require_one_dimension(name, array)
    if name == "worker" and array.dtype == np.int32:  # as a simulation numbers them
        return array.copy()
    return in_type(name, as_numbers(name, array))


def in_type(name: str, numbers: NDArray[np.float64]) -> NDArray[Any]:
    """Return numbers in the type of their column, -1 in place of a missing whole number."""
    dtype = TYPES["read_version" if group_of(name) or name == LOCAL_STEPS else name]
    if dtype is np.float64:
        return numbers
    # Negative numbers pass: -1 marks an empty cell, and the checks of a trace refuse others in words of their own.
    limit = 1 if dtype is np.bool_ else np.iinfo(np.int32).max
    least = 0 if dtype is np.bool_ else -limit
    bad = ~((numbers >= least) & (numbers <= limit) & (numbers == np.trunc(numbers)))
    rule, remedy = ("be true or false", "Use 1 or 0.") if dtype is np.bool_ else ("be a whole number", "Count from 0.")
    refuse(bad, name, numbers, rule, remedy, _as_written)
    return numbers.astype(dtype)


def parse_workers(values: Any, workers: int | None) -> tuple[NDArray[np.int32], tuple[str, ...], tuple[str, ...]]:
    """Return the numbers of workers, their names, which are none where they are numbered from 0, and notes."""
    if getattr(values, "dtype", np.dtype(object)).kind in "biuf":
        numbers = as_numbers("worker", values)
        refuse(np.isnan(numbers), "worker", None, "be known", WHO)
    else:
        codes, texts = as_texts("worker", values)
        refuse(codes < 0, "worker", None, "be known", WHO)
        long = np.array([len(text) > LONGEST_NAME for text in texts], bool)
        rule = f"have at most {LONGEST_NAME} characters"
        refuse(np.append(long, False)[codes], "worker", np.array([*texts, ""])[codes], rule, "Shorten it.")
        worker, names = number_workers(texts, codes)
        if names:
            return worker, names, ()
        numbers = worker.astype(np.float64)
    is_whole = np.isfinite(numbers) & (numbers == np.trunc(numbers))
    if workers is None and is_whole.all() and len(numbers) and numbers.min() > 0:
        # Process identifiers, or ranks from 1: names, since no worker has the numbers that are left out.
        different, codes = np.unique(numbers.astype(np.int64), return_inverse=True)
        names = tuple(map(str, different.tolist()))
        note = f"Workers have numbers from {names[0]} to {names[-1]}, and none the number 0: they were read as names."
        return codes.astype(np.int32), names, (note,)
    return in_type("worker", numbers), (), ()


def number_workers(names: list[str], codes: NDArray[np.intp]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return the numbers of workers given by name, and their names in this order.

    Names that are whole numbers stand for themselves, and are not names.
    """
    whole = np.array([re.fullmatch(r"\s*-?\d+(\.0*)?\s*", name) is not None for name in names], dtype=bool)
    numbers = [int(name.partition(".")[0]) for name in names] if whole.all() else []
    is_large = max(numbers, default=0) > np.iinfo(np.int32).max
    # Names are ranked in natural order, so that w10 follows w9.
    if (not whole.any() or is_large) and all(names):
        rank, order = np.empty(len(names), np.int32), sorted(range(len(names)), key=lambda n: _natural(names[n]))
        rank[order] = np.arange(len(names))
        return rank[codes], tuple(names[place] for place in order)
    refuse((~whole)[codes], "worker", np.array(names)[codes], "be all numbers or all names", "Correct it.")
    return np.array(numbers, np.int32)[codes], ()


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts w2 before w10."""
    parts = re.split(r"(\d+)", name)
    return [(True, int(part), part) if part.isdecimal() else (False, 0, part) for part in parts]


def _as_written(number: float) -> float | int | None:
    """Return the number as it was probably written: a whole one without a point, and nothing for NaN."""
    return None if np.isnan(number) else int(number) if number.is_integer() else number


def start_of(
    table: Mapping[str, NDArray[Any]], start: Start, origin: float = 0.0, per: int = 1, *, dated: bool = False
) -> float:
    """Return the time at which the run began, in seconds from `origin`, as the times of the table are.

    `start` is not, and `per` of its units are a second.
    """
    if start is not None and start != "first":
        return start_in_seconds(start, per) - origin
    first, column, row = np.inf, "", 0
    for name, values in _times(table).items():
        # Empty cells are NaN and times that never came are infinite. Neither is a beginning.
        starts = np.where(np.isfinite(values), values, np.inf)
        if starts.min(initial=np.inf) < first:
            first, column, row = float(starts.min()), name, int(starts.argmin())
    if first == np.inf:
        return 0.0
    # A date cannot count from the start of a run.
    if start == "first" or dated:
        return first
    if _counts_from_elsewhere(first, table, origin):
        remedy = 'Give `start` (`--start`): when the run began, "first" for this very time, or 0 if it is right.'
        remedy += (
            f' Unix times of today are below {SECONDS_OF_TODAY:.0e} s: if it is one, give `unit`, say "ms", too.'
            * (first + origin > SECONDS_OF_TODAY)
        )
        raise TraceError(column, "must count from the start of the run", remedy, row=row, value=first + origin)
    return -origin


def _counts_from_elsewhere(first: float, table: Mapping[str, NDArray[Any]], origin: float) -> bool:
    """Return whether the earliest time is too late to be one of a run that began at 0."""
    done = table["commit_time"][np.isfinite(table["commit_time"])]
    span = done.max(initial=first) - first
    first += origin
    # A log in Unix time begins some decades after 0.
    if first > max(EPOCH, span):
        return True
    # With few commits per worker, a late first one proves nothing: the workers may be slow.
    return span > 0 and first > FAR * span and len(done) >= FAR * len(np.unique(table["worker"]))


def require_plausible(table: Mapping[str, NDArray[Any]], origin: float = 0.0) -> None:
    """Refuse times beyond `LATEST`."""
    for name, values in _times(table).items():
        bad = np.isfinite(values) & (np.abs(values + origin) > LATEST)
        remedy = 'Correct it, or give the `unit` of the log, say "ns" (`--unit ns`).'
        refuse(bad, name, values, f"be at most {LATEST:.1g} seconds", remedy)


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
    groups: Mapping[str, ArrayLike] | None = None,
    *,
    may_join_late: bool = True,
) -> tuple[dict[str, Any], Table]:
    """Fill in the reads, where each worker reads right after its own commit (see `Trace.from_commits`).

    Of a simulation it is known that all workers read at the start, however long their first jobs last.
    """
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
    read_time, read_version = time_after[previous], previous + np.int32(1)
    if commit_time is not None and not groups and may_join_late:
        began = first_reads(worker, time, workers)
        late = (previous < 0) & (began > 0)
        read_time[late] = began[late]
        read_version[late] = np.searchsorted(time, began[late], side="right")
    commits: dict[str, Any] = {
        "worker": worker,
        "read_version": read_version,
        "version": rows,
        "pull_version": rows,
        "closes_step": np.ones(len(worker), dtype=np.bool_),
        "read_time": read_time,
        "start_time": read_time,
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
        if "version" in table:
            _fill_steps(picked, commits)
        previous = _fill_times(picked, commits, workers, resume, has_fates="fate" in table)
    by_group = {name: picked[name][:commits] for name in table if group_of(name)}
    if by_group:
        oldest = np.minimum.reduce([*by_group.values()])
        picked.setdefault("read_version", np.append(oldest, np.full(len(rows) - commits, -1)))
    _fill_versions(picked, commits, previous, table.keys())
    filled: dict[str, Any] = {name: picked[name][:commits] for name in COMMIT_COLUMNS}
    if by_group:
        times = () if "read_time" in table else ("read_time", "start_time")
        _read_groups(filled, by_group, [name for name in times if name not in table])
    return filled, {name: picked[name][commits:] for name in UNFINISHED_COLUMNS}, rows


def fates(table: Table) -> NDArray[np.str_]:
    """Return the fate of every row, by default all are commits."""
    return table.get("fate", np.full(len(table["worker"]), COMMITTED))


def _fill_times(table: Table, commits: int, workers: int, resume: str, has_fates: bool) -> NDArray[np.intp]:
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
    if not READS.intersection(table):
        began = first_reads(table["worker"][:commits], table["commit_time"][:commits], workers)
        before[:commits] = np.where(previous[:commits] < 0, began, before[:commits])
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


def first_reads(worker: IntColumn, commit_time: TimeColumn, workers: int) -> TimeColumn:
    """Return, (commits,), when its worker first read: at 0 or, if it joined late, a typical job before it committed."""
    if len(worker) and not 0 <= worker.min() <= worker.max() < workers:
        return np.zeros(len(worker))  # Such a trace is refused by its checks.
    present = presence(worker, commit_time, workers)
    began = np.maximum(np.where(present.late, present.first, 0.0) - present.typical, 0.0)
    return np.where(present.late, began, 0.0)[worker]


def _fill_versions(table: Table, commits: int, previous: NDArray[np.intp], recorded: Collection[str]) -> None:
    """Fill in versions, and the times of reads of which the version is known."""
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
    if "read_version" in recorded and "read_time" not in recorded:
        # Nobody reads a version before the server has it.
        there = np.append(0.0, close_time)[np.clip(table["read_version"], 0, len(close_time))]
        table["read_time"] = np.maximum(table["read_time"], np.minimum(there, table["finish_time"]))
        if "start_time" not in recorded:
            table["start_time"] = np.maximum(table["start_time"], table["read_time"])
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
