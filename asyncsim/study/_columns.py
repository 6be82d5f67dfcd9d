"""Columns of tables: their values as arrays, and the rows that have the same values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from asyncsim import _checks as checks

SEEDS = ("seed", "schedule_seed")  # fields over which medians and means are taken
STATUS = "status"


def column(values: Sequence[Any], *, numbers: bool = False) -> np.ndarray:
    """Convert values to an array: whole numbers, switches, other numbers with NaN for None, or texts."""
    present = [value for value in values if value is not None]
    if len(present) == len(values):  # Arrays of switches and of integers have no NaN.
        for kind in (bool, int):
            if present and all(type(value) is kind for value in present):
                return np.array(values)
    if numbers or (present and all(isinstance(value, (int, float)) for value in present)):
        return np.array([np.nan if value is None else value for value in values], float)
    return np.array([_text(value) for value in values], np.str_)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={stride}" for name, stride in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def require_numbers(name: str, column: str, table: Mapping[str, np.ndarray]) -> None:
    """Refuse a column that a table does not have, or that does not hold numbers."""
    checks.require_one_of(
        name, column, choices=[title for title, values in table.items() if values.dtype.kind in "iuf"]
    )


def rows_by(table: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[tuple[Any, ...], list[int]]:
    """Group the rows that have the same values of some columns: values, as in `values_in` -> numbers of the rows."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    columns = [values_in(table[name]) for name in names]
    for row in range(rows_in(table)):
        groups.setdefault(tuple(column[row] for column in columns), []).append(row)
    return groups


def rows_in(table: Mapping[str, np.ndarray]) -> int:
    """Count the rows of a table."""
    return len(next(iter(table.values()), ()))


def values_in(column: np.ndarray) -> list[Any]:
    """List the values of a column, with None for NaN, which is not equal to itself."""
    return [None if value != value else value for value in column.tolist()]


def distinct(column: np.ndarray) -> set[Any]:
    """Return the different values of a column, as in `values_in`."""
    return {*values_in(column)}
