"""The columns of a flat table in their types: numbers, names or text, as data frames and logs hold them."""

import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim.trace._columns import COMMIT_COLUMNS, UNFINISHED_COLUMNS, require_one_dimension
from asyncsim.trace._error import TraceError, refuse
from asyncsim.trace._groups import group_of

Table = dict[str, NDArray[Any]]

TYPES = COMMIT_COLUMNS | UNFINISHED_COLUMNS | {"staleness": np.int32}
EMPTY = {name: np.inf if dtype is np.float64 else False if dtype is np.bool_ else -1 for name, dtype in TYPES.items()}


def empty_of(name: str) -> Any:
    """What stands in a column where nothing applies: also in that of a parameter group."""
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
    """The numbers of workers given by name; names that are whole numbers stand for themselves."""
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
