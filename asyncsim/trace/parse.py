"""Columns of a flat table in their types: what may be given as numbers, names or text."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim.trace.columns import COMMIT_COLUMNS, UNFINISHED_COLUMNS

Table = dict[str, NDArray[Any]]

TYPES = COMMIT_COLUMNS | UNFINISHED_COLUMNS
NOTHING = {name: np.inf if dtype is np.float64 else False if dtype is np.bool_ else -1 for name, dtype in TYPES.items()}


def column(name: str, values: ArrayLike, place: Callable[[int], str]) -> NDArray[Any]:
    """One column of a flat table in its type; `place` names a row in errors.

    Whole numbers may come as floats, and what is true or false as 0 and 1, because tables with gaps hold them so.

    Raises:
        ValueError: If an entry does not fit; names the column, the row and the value.

    Example:
        >>> column("version", [0.0, 1.0], "row {}".format)
        array([0, 1], dtype=int32)
    """
    given = np.asarray(values)
    if given.ndim != 1:
        raise ValueError(f"`{name}` must be one-dimensional; got shape {given.shape}. Give one entry per row.")
    if name == "fate":
        return given.astype(str)
    if name == "worker" and given.dtype.kind in "UO" and len(given):
        names, codes = np.unique(given.astype(str), return_inverse=True)
        return number_workers(names.tolist(), codes, place)
    dtype = TYPES[name]
    numbers = _numbers(name, given, place)
    if dtype is np.float64:
        return numbers
    limit = 1 if dtype is np.bool_ else np.iinfo(np.int32).max
    least = 0 if dtype is np.bool_ else -limit
    bad = ~((numbers >= least) & (numbers <= limit) & (numbers == np.trunc(numbers)))
    if bad.any():
        row = int(bad.argmax())
        what, remedy = ("true or false", "Use 1 or 0") if dtype is np.bool_ else ("a whole number", "Count from 0")
        value = "nothing" if np.isnan(numbers[row]) else f"{numbers[row]:.15g}"
        raise ValueError(f"`{name}` must be {what}; {place(row)} has {value}. {remedy}.")
    return numbers.astype(dtype)


def number_workers(names: list[str], codes: NDArray[np.intp], place: Callable[[int], str]) -> NDArray[np.int32]:
    """The numbers of workers given by name; names that are whole numbers stand for themselves.

    Args:
        names: The distinct names.
        codes: (rows,) which of them.
        place: Names a row in errors.

    Raises:
        ValueError: If some are numbers and some are not.

    Example:
        >>> number_workers(["w10", "w9"], np.array([0, 1, 0]), "row {}".format).tolist()
        [1, 0, 1]
    """
    whole = np.array([_is_whole(name) for name in names], dtype=bool)
    if not whole.any() and all(names):
        rank = np.empty(len(names), np.int32)
        rank[sorted(range(len(names)), key=lambda place: _natural(names[place]))] = np.arange(len(names))
        return rank[codes]
    if not whole.all():
        row = int((~whole)[codes].argmax())
        raise ValueError(
            f"`worker` must be all numbers or all names; {place(row)} has {names[codes[row]]!r}. Correct it."
        )
    return np.array([int(float(name)) for name in names], np.int32)[codes]


def _is_whole(name: str) -> bool:
    return re.fullmatch(r"\s*-?\d{1,9}(\.0*)?\s*", name) is not None


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that sorts w2 before w10."""
    parts = re.split(r"(\d+)", name)
    return [(True, int(part), part) if part.isdecimal() else (False, 0, part) for part in parts]


def _numbers(name: str, given: NDArray[Any], place: Callable[[int], str]) -> NDArray[np.float64]:
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError):
        row, value = next((row, value) for row, value in enumerate(given.tolist()) if not _is_number(value))
    raise ValueError(f"`{name}` must be a number; {place(row)} has {value!r}. Correct it.")


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
