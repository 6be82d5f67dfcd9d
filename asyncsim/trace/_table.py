"""A trace as one flat table of equally long columns, for CSV, Parquet and data frames, and back."""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import nearest, one_of
from asyncsim.trace import _infer_columns as infer_columns
from asyncsim.trace import _invariants as invariants
from asyncsim.trace._columns import (
    NEVER,
    UNFINISHED_COLUMNS,
    Fate,
    Faults,
    Tables,
    TraceError,
    Unfinished,
    checked_names,
    column_of,
    group_of,
    refuse,
    require_length,
    restated,
)
from asyncsim.trace._infer_columns import (
    COMMITTED,
    EMPTY,
    IDLE,
    NO_ROW,
    OF_COMMITS,
    TYPES,
    Start,
    Table,
    empty_of,
    fates,
    parse_column,
    require_plausible,
    since,
    start_of,
)

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
    """The columns of the flat table (see `Trace.to_columns`)."""
    groups = {column_of(name): reads for name, reads in zip(trace.groups, trace.group_read_version.T, strict=True)}
    if not unfinished:
        return {name: getattr(trace, name) for name in COLUMNS if name in OF_COMMITS} | groups
    rest = trace.unfinished
    idle = np.setdiff1d(np.arange(trace.workers, dtype=np.int32), np.concatenate([trace.worker, rest.worker]))
    names = np.array([fate.name.lower() for fate in Fate])
    known = {
        "worker": (trace.worker, rest.worker, idle),
        "fate": (np.full(len(trace), COMMITTED), names[rest.fate], np.full(len(idle), IDLE)),
        "end_version": (None, np.where(rest.end_version == NEVER, -1, rest.end_version), None),
    }
    lengths = (len(trace), len(rest), len(idle))
    table = {}
    for name in COLUMNS:
        parts = known.get(name, (getattr(trace, name, None), getattr(rest, name, None), None))
        filled = [np.full(n, EMPTY[name]) if part is None else part for part, n in zip(parts, lengths, strict=True)]
        joined = np.concatenate(filled)
        table[name] = joined if name == "fate" else joined.astype(TYPES[name])
    rest_rows = np.full(len(rest) + len(idle), empty_of("read_version"), np.int32)
    return table | {name: np.concatenate([reads, rest_rows]) for name, reads in groups.items()}


def from_columns(
    make: type[AnyTrace],
    columns: Mapping[str, Any],
    workers: int | None,
    faults: Faults | None,
    start: Start,
    resume: str,
) -> AnyTrace:
    """The checked trace of a flat table, whose columns need not have their types (see `Trace.from_columns`)."""
    require_names(columns)
    table, begin = typed(columns, start)
    return assemble(make, since(begin, table), workers, faults or Faults(), resume)


def typed(columns: Mapping[str, Any], start: Start) -> tuple[Table, float]:
    """The columns of a flat table in their types, each row possible by itself, and when the run began."""
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
    order = np.lexsort(columns)
    same = np.all([values[order[1:]] == values[order[:-1]] for values in columns], axis=0)
    repeated = np.zeros(len(table["worker"]), bool)
    repeated[done[order[1:][same]]] = True
    remedy = "Remove the row; or, if it is another commit, give `read_time`, or number the commits in `version`."
    refuse(repeated, "commit_time", table["commit_time"], "differ from that of an otherwise equal row", remedy)


def assemble(
    make: type[AnyTrace], table: Table, workers: int | None, faults: Faults, resume: str = "central"
) -> AnyTrace:
    """The checked trace of a flat table whose columns have their types."""
    one_of("resume", resume, RESUMES)
    bad = ~np.isin(fates(table), FATES)
    if bad.any():
        row = int(bad.argmax())
        value = str(table["fate"][row])
        near = nearest(value, FATES)
        remedy = f"Did you mean {near!r}?" if near else "Leave out the column if every row is a commit."
        raise TraceError("fate", f"must be one of {', '.join(FATES)}", remedy, row=row, value=value)
    workers = infer_columns.count_workers(table["worker"], workers)
    _require_what_applies(table)
    commits, ended, rows = infer_columns.from_table(table, workers, resume)
    with restated(lambda error: _in_table(error, rows, len(commits["worker"]))):
        trace = make(workers=workers, unfinished=Unfinished(**ended), faults=faults, **commits)
        invariants.check(trace)
        if "staleness" in table:  # it adds nothing, but must not contradict the versions
            given = table["staleness"][rows[: len(trace)]]
            remedy = "Correct it or the versions, or leave it out."
            refuse(given != trace.staleness, "staleness", given, "be version - read_version", remedy)
    return trace


def require_names(names: Collection[str]) -> None:
    """Refuse columns that no trace has, and the lack of those that every trace needs."""
    if len(names) > MOST_COLUMNS:
        remedy = f"Keep those of {', '.join(COLUMNS)}."
        raise TraceError(None, f"must have at most {MOST_COLUMNS} columns", remedy, found=f"got {len(names)}")
    order_is_known = "pull_version" in names and not TIMES.intersection(names)
    missing = [name for name in NEEDED if name not in names and not (order_is_known and name == "commit_time")]
    checked_names([group for name in names if (group := group_of(name))])
    unknown = [name for name in names if name not in COLUMNS and not group_of(name)]
    if missing:
        near = nearest(missing[0], unknown)
        remedy = f"Rename `{near}`, if that is it." if near else "Record who commits, and when."
        found = f"got {', '.join(map(repr, islice(names, MOST_SHOWN))) or 'no columns'}"
        raise TraceError(missing[0], "is missing", remedy, found=found)
    if unknown:
        near = nearest(unknown[0], [name for name in COLUMNS if name not in names])
        remedy = f"Did you mean `{near}`?" if near else f"Leave it out; known are {', '.join(COLUMNS)}."
        raise TraceError(unknown[0], "is not a column of a trace", remedy)


def _require_what_applies(table: Table) -> None:
    """A commit has everything, a job that did not commit has no commit, a worker without a job has nothing."""
    fate = fates(table)
    committed = fate == COMMITTED
    idle = fate == IDLE
    ended = ~(committed | idle)
    for name in [name for name in (*TYPES, *filter(group_of, table)) if name in table and name != "worker"]:
        known_as = "read_version" if group_of(name) else name
        values = table[name]
        given = values != EMPTY[known_as]
        if known_as in OF_COMMITS and TYPES[known_as] is not np.bool_:  # an empty cell of these reads as False
            refuse(committed & ~given, name, None, "be known for a commit", "Fill it in, or leave out the column.")
        if name in ENDED_MUST_HAVE:
            refuse(ended & ~given, name, None, "be known for a job that began", "Fill it in.")
        empty = idle if known_as in OF_COMMITS else idle | committed
        if name not in UNFINISHED_COLUMNS:
            empty = empty | ended
        refuse(empty & given, name, values, "be empty where it does not apply", "Correct it or `fate`.")


def _in_table(error: TraceError, rows: NDArray[np.int64], commits: int) -> TraceError:
    """The error of a check with the row of the flat table, unless it is about a fault or a job without a row."""
    if error.row is None or error.column is None or error.column.startswith("faults."):
        return error
    column = error.column.removeprefix("unfinished.")
    moved = error.renumber(rows if column == error.column else rows[commits:], column=column)
    return error if moved.row == NO_ROW else moved
