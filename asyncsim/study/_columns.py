"""Columns of tables: their values as arrays, and the rows that have the same values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from asyncsim import _checks as checks

SEEDS = ("seed", "schedule_seed")  # fields over which there are medians and means
STATUS = "status"


def column(values: Sequence[Any], *, numbers: bool = False) -> np.ndarray:
    """Values as an array: whole numbers, switches, other numbers with NaN for None, or texts."""
    given = [value for value in values if value is not None]
    if len(given) == len(values):
        for kind in (bool, int):
            if given and all(type(value) is kind for value in given):
                return np.array(values)
    if numbers or (given and all(isinstance(value, (int, float)) for value in given)):
        return np.array([np.nan if value is None else value for value in values], float)
    return np.array([_text(value) for value in values], np.str_)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={every}" for name, every in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def require_numbers(name: str, column: str, table: Mapping[str, np.ndarray]) -> None:
    """Refuse a column that a table does not have, or that does not hold numbers."""
    known = [one for one, values in table.items() if values.dtype.kind in "iuf"]
    checks.one_of(name, column, known)


def rows_by(table: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[tuple[Any, ...], list[int]]:
    """The values of some columns, with None for NaN as in `distinct` -> the rows that have them."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in range(len(next(iter(table.values()), ()))):
        values = (table[name][row].item() for name in names)
        found.setdefault(tuple(None if value != value else value for value in values), []).append(row)
    return found


def distinct(column: np.ndarray) -> set[Any]:
    """The values of a column, with None for NaN, which is not equal to itself."""
    return {None if value != value else value for value in column.tolist()}
