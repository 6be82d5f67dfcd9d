"""The columns of a trace: their names, types and parameter groups, how arrays become columns, and errors."""

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntColumn = NDArray[np.int32]
BoolColumn = NDArray[np.bool_]
TimeColumn = NDArray[np.float64]

MOST_COMMITS = 2**31 - 1  # the most that an int32 version can count
NEVER = 2**31 - 1  # `end_version` of a job in flight: the integer that stands for infinity

COMMIT_COLUMNS: dict[str, type[np.generic]] = {
    "worker": np.int32,
    "read_version": np.int32,
    "version": np.int32,
    "pull_version": np.int32,
    "closes_step": np.bool_,
    "read_time": np.float64,
    "start_time": np.float64,
    "finish_time": np.float64,
    "arrive_time": np.float64,
    "serve_time": np.float64,
    "commit_time": np.float64,
    "state_lost": np.bool_,
    "resumes_own": np.bool_,
}
COMMIT_TIMES = tuple(name for name, dtype in COMMIT_COLUMNS.items() if dtype is np.float64)  # in the order of a job
UNFINISHED_COLUMNS: dict[str, type[np.generic]] = {
    "worker": np.int32,
    "read_version": np.int32,
    "read_time": np.float64,
    "start_time": np.float64,
    "finish_time": np.float64,
    "end_version": np.int32,
    "end_time": np.float64,
    "fate": np.int8,
    "resumes_own": np.bool_,
}
UNFINISHED_TIMES = tuple(name for name, dtype in UNFINISHED_COLUMNS.items() if dtype is np.float64)
FAULT_COLUMNS: dict[str, type[np.generic]] = {
    "kind": np.int8,
    "worker": np.int32,
    "start_time": np.float64,
    "end_time": np.float64,
}
GROUP_READS = "group_read_version"
_COLUMN = re.compile(r"read_version\[(.+)\]")
_SHOWN = "read_version[{}]"
_REMEDY = "Give each group a name of its own, without brackets or commas."
_LONGEST = 80  # characters of a value in a message


@dataclass(eq=False, repr=False)
class TraceError(ValueError):
    """A trace, or a log that should become one, breaks a rule."""

    column: str | None
    rule: str
    remedy: str
    _: KW_ONLY
    found: str = ""
    row: int | None = None
    value: object = None
    unit: str = "row"
    source: str = ""

    def __post_init__(self) -> None:
        subject = "it" if self.column is None else f"`{self.column}`"
        seen = self.found if self.row is None else f"{self.unit} {self.row} has {_shown(self.value)}"
        super().__init__(f"{self.source}{subject} {self.rule}{seen and '; '}{seen}. {self.remedy}")

    def replace(self, **changes: Any) -> "TraceError":
        """The same error with other fields."""
        return replace(self, **changes)

    def renumber(self, rows: NDArray[np.int64], **changes: Any) -> "TraceError":
        """The same error in another table, in which this table's row i is row `rows[i]`, and with other fields."""
        return self.replace(row=None if self.row is None else int(rows[self.row]), **changes)

    def __reduce__(self) -> Any:  # an exception is pickled by its message alone
        return partial(TraceError, **{one.name: getattr(self, one.name) for one in fields(self)}), ()


TraceError.__module__ = "asyncsim"  # the name in tracebacks, and where users find it


def refuse(bad: NDArray[np.bool_], column: str, values: NDArray[Any] | None, rule: str, remedy: str) -> None:
    """Raise for the first row in which `bad` holds."""
    if bad.any():
        row = int(bad.argmax())
        raise TraceError(column, f"must {rule}", remedy, row=row, value=None if values is None else values[row].item())


def previous_of_worker(worker: IntColumn, *keys: NDArray[Any]) -> NDArray[np.intp]:
    """For each row, the same worker's row before it, or -1 for its first, sorted by the last of the keys first."""
    order = np.lexsort((*keys, worker)) if keys else np.argsort(worker, kind="stable")
    before, after = order[:-1], order[1:]
    same_worker = worker[before] == worker[after]
    previous = np.full(len(worker), -1)
    previous[after[same_worker]] = before[same_worker]
    return previous


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


class Fate(enum.IntEnum):
    """Why a job never committed. The numbers are in files, so add new ones and never change one."""

    IN_FLIGHT = 0
    """It is still running when the trace ends."""
    CANCELLED = 1
    """Stopped by the protocol: its gradient was no longer wanted."""
    DROPPED = 2
    """It arrived, and the server ignored it as too old."""
    LOST = 3
    """Its message never arrived, and the worker gave up sending it."""
    CRASHED = 4
    """Its worker went down."""


class Fault(enum.IntEnum):
    """The kinds of faults. The numbers are in files, so add new ones and never change one."""

    SLOWDOWN = 0
    """A worker computes more slowly."""
    CRASH = 1
    """A worker is down, after a crash."""
    OFFLINE = 2
    """A worker is away, between two sessions."""
    MESSAGE_LOST = 3
    """A commit on its way to the server is lost; the end is when the worker notices."""
    SERVER_PAUSE = 4
    """The server takes up no new commit; the worker is -1."""


def set_columns(table: Any, types: Mapping[str, type[np.generic]], prefix: str = "") -> None:
    """Replace the fields of a frozen dataclass by read-only columns of the right types and equal length."""
    length = None
    for name, dtype in types.items():
        column = _column(prefix + name, getattr(table, name), dtype)
        length = len(column) if length is None else length
        require_length(prefix + name, column, length)
        object.__setattr__(table, name, column)


def require_length(name: str, column: NDArray[Any], rows: int) -> None:
    """Refuse a column that does not have one entry per row."""
    if len(column) != rows:
        found = f"got {len(column)} for {rows} rows"
        raise TraceError(name, "must have one entry per row", "Give columns of equal length.", found=found)


def require_one_dimension(name: str, column: NDArray[Any]) -> None:
    """Refuse a column that is not one-dimensional."""
    if column.ndim != 1:
        found = f"got shape {column.shape}"
        raise TraceError(name, "must be one-dimensional", "Give one entry per row.", found=found)


def _column(name: str, values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    given = np.asarray(values)
    require_one_dimension(name, given)
    if given.size == 0:
        given = given.astype(dtype)
    if not np.can_cast(given.dtype, dtype, casting="same_kind"):
        rule = f"must be a column of {np.dtype(dtype).name}"
        raise TraceError(name, rule, "Convert it first.", found=f"got {given.dtype}")
    column = given.astype(dtype, copy=False).view()
    if column.dtype.kind == "i" and not np.array_equal(column, given):
        row = int((column != given).argmax())
        rule = f"must fit {column.dtype}"
        raise TraceError(name, rule, "Number from 0.", row=row, value=given[row].item())
    column.flags.writeable = False
    return column


def column_of(group: str) -> str:
    """Name of a group's column in a flat table."""
    return _SHOWN.format(group)


def group_of(column: str) -> str | None:
    """The group of a column of a flat table, or None for any other column."""
    found = _COLUMN.fullmatch(column)
    return found[1] if found else None


def checked_names(groups: Any) -> tuple[str, ...]:
    """Names of groups, each once."""
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise TraceError("groups", "must be a sequence of names", _REMEDY, found=f"got {type(groups).__name__}")
    names = tuple(np.atleast_1d(groups).tolist() if isinstance(groups, np.ndarray) else groups)
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or set(name) & set('[],"'):
            raise TraceError("groups", "must be names", _REMEDY, found=f"got {name!r:.60}")
        if names.count(name) > 1:
            raise TraceError("groups", "must not name a group twice", _REMEDY, found=f"got {name!r} twice")
    return names


def checked_reads(groups: tuple[str, ...], values: ArrayLike | None, rows: int) -> NDArray[np.int32]:
    """The versions that groups were read at, a read-only (rows, groups) int32 array."""
    given = np.asarray([] if values is None else values)
    if not groups and given.size == 0:
        given = np.zeros((rows, 0), np.int32)  # also where rows of a trace without groups were left out
    if given.shape != (rows, len(groups)):
        rule = f"must have one row per commit and one column per group, shape {(rows, len(groups))}"
        remedy = "Name every group in `groups`." if groups else "Name the groups in `groups`."
        raise TraceError(GROUP_READS, rule, remedy, found=f"got shape {given.shape}")
    if given.size == 0:
        given = given.astype(np.int32)
    if not np.can_cast(given.dtype, np.int32, casting="same_kind"):
        raise TraceError(GROUP_READS, "must be whole numbers", "Convert it first.", found=f"got {given.dtype}")
    reads = given.astype(np.int32).view()
    reads.flags.writeable = False
    return reads


def reads_of(groups: Mapping[str, ArrayLike], rows: int) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Names and versions read, (rows, groups) int32, from a mapping of names to columns."""
    if not isinstance(groups, Mapping):
        remedy = 'Give {"stage0": versions, …}.'
        found = f"got {type(groups).__name__}"
        raise TraceError("groups", "must be a mapping from names to columns", remedy, found=found)
    names = checked_names(list(groups))
    columns = []
    for name in names:
        given = np.asarray(groups[name])
        whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given == np.trunc(given)).all()))
        if given.shape != (rows,) or not (whole or given.size == 0):
            found = f"got shape {given.shape} of {given.dtype}"
            remedy = "Give the server's version at which each commit's gradient was taken."
            raise TraceError(
                column_of(name), f"must be whole numbers, one for each of {rows} commits", remedy, found=found
            )
        columns.append(given.astype(np.int32))
    return names, np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int32)
