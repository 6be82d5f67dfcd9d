"""Names and types of a trace's columns, and how arrays become columns."""

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim.trace._error import TraceError

IntColumn = NDArray[np.int32]
BoolColumn = NDArray[np.bool_]
TimeColumn = NDArray[np.float64]

MOST_COMMITS = 2**31 - 1  # what an int32 version can count
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


class Fate(enum.IntEnum):
    """Why a job never committed. The numbers stand in files: add new ones, never change one."""

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
    """What went wrong. The numbers stand in files: add new ones, never change one."""

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
