"""Columns of a log in their types and counted from the start of the run, as data frames and files hold them."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import finite
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    UNFINISHED_COLUMNS,
    TraceError,
    group_of,
    refuse,
    require_one_dimension,
)

Start = float | Literal["first"] | None

LATEST = 2.0**53  # seconds: beyond it, a float64 cannot tell one second from the next
# Seconds, three years: a log that begins later, and is shorter, counts from another year, as Unix time does.
EPOCH = 1e8
# A log in which every worker commits this often does not begin this many times as late as it is long.
FAR = 10
Table = dict[str, NDArray[Any]]

TYPES = COMMIT_COLUMNS | UNFINISHED_COLUMNS | {"staleness": np.int32}
EMPTY = {name: np.inf if dtype is np.float64 else False if dtype is np.bool_ else -1 for name, dtype in TYPES.items()}


def empty_of(name: str) -> Any:
    """The value of a cell that does not apply, also in the column of a parameter group."""
    return EMPTY["read_version"] if group_of(name) else EMPTY[name]


def parse_column(name: str, values: ArrayLike) -> NDArray[Any]:
    """One column of a flat table in its type."""
    given = np.asarray(values)
    require_one_dimension(name, given)
    if name == "fate":
        return given.astype(str)
    if name == "worker" and given.dtype.kind in "UO" and len(given):
        names, codes = np.unique(given.astype(str), return_inverse=True)
        return number_workers(names.tolist(), codes)
    dtype = TYPES["read_version" if group_of(name) else name]
    numbers = _numbers(name, given)
    if dtype is np.float64:
        return numbers
    limit = 1 if dtype is np.bool_ else np.iinfo(np.int32).max
    least = 0 if dtype is np.bool_ else -limit
    bad = ~((numbers >= least) & (numbers <= limit) & (numbers == np.trunc(numbers)))
    if bad.any():
        row = int(bad.argmax())
        rule, remedy = ("true or false", "Use 1 or 0.") if dtype is np.bool_ else ("a whole number", "Count from 0.")
        value = None if np.isnan(numbers[row]) else plain_number(numbers[row].item())
        raise TraceError(name, f"must be {rule}", remedy, row=row, value=value)
    return numbers.astype(dtype)


def number_workers(names: list[str], codes: NDArray[np.intp]) -> NDArray[np.int32]:
    """The numbers of workers given by name. Names that are whole numbers stand for themselves."""
    whole = np.array([_is_whole(name) for name in names], dtype=bool)
    if not whole.any() and all(names):
        rank = np.empty(len(names), np.int32)
        rank[sorted(range(len(names)), key=lambda place: _natural(names[place]))] = np.arange(len(names))
        return rank[codes]
    if not whole.all():
        refuse((~whole)[codes], "worker", np.array(names)[codes], "be all numbers or all names", "Correct it.")
    return np.array([int(float(name)) for name in names], np.int32)[codes]


def plain_number(number: float) -> float | int:
    """The number as it was probably written: a whole one without a point."""
    return int(number) if number.is_integer() else number


def _is_whole(name: str) -> bool:
    return re.fullmatch(r"\s*-?\d{1,9}(\.0*)?\s*", name) is not None


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that sorts w2 before w10."""
    parts = re.split(r"(\d+)", name)
    return [(True, int(part), part) if part.isdecimal() else (False, 0, part) for part in parts]


def _numbers(name: str, given: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError):
        row, value = next((row, value) for row, value in enumerate(given.tolist()) if not _is_number(value))
    raise TraceError(name, "must be a number", "Correct it.", row=row, value=value)


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def start_of(table: Mapping[str, NDArray[Any]], start: Start) -> float:
    """The time at which the run began, in the log's own time."""
    if isinstance(start, str) and start != "first":
        remedy = 'Give the time at which the run began, or "first" for the earliest time in the log.'
        raise ValueError(f"`start` must be a number of seconds or 'first'; got {start!r}. {remedy}")
    if start is not None and start != "first":
        return finite("start", start)
    times = _times(table)
    name, row = _earliest(times)
    if row is None:
        return 0.0
    first = float(times[name][row])
    if start == "first":
        return first
    if _counts_from_elsewhere(first, table):
        remedy = 'Give `start` (`--start`): when the run began, "first" for this very time, or 0 if it is right.'
        raise TraceError(name, "must count from the start of the run", remedy, row=row, value=first)
    return 0.0


def require_plausible(table: Mapping[str, NDArray[Any]]) -> None:
    """Refuse times beyond `LATEST`."""
    for name, values in _times(table).items():
        bad = np.isfinite(values) & (np.abs(values) > LATEST)
        refuse(bad, name, values, f"be at most {LATEST:.1g} seconds", "Correct it, or give times in seconds.")


def since(start: float, table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The columns with times counted from `start`."""
    return dict(table) | {name: values - start for name, values in _times(table).items() if start}


def _times(table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: values for name, values in table.items() if name.endswith("_time")}


def _earliest(times: Mapping[str, NDArray[np.float64]]) -> tuple[str, int | None]:
    """Column and row of the earliest finite time. The row is None if there is none."""
    least, place = np.inf, ("", None)
    for name, values in times.items():
        known = np.where(np.isfinite(values), values, np.inf)
        if len(known) and known.min() < least:
            least, place = known.min(), (name, int(known.argmin()))
    return place


def _counts_from_elsewhere(first: float, table: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the earliest time is too late to be one of a run that began at 0."""
    done = table["commit_time"][np.isfinite(table["commit_time"])]
    span = done.max(initial=first) - first
    if first > max(EPOCH, span):
        return True
    return span > 0 and first > FAR * span and len(done) >= FAR * len(np.unique(table["worker"]))
