"""Tables of numbers that belong to a figure: packed into one dictionary, stacked, selected and written.

A table is a dictionary of columns of one length.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.study.table import csv_text

Table = dict[str, np.ndarray]
Numbers = Mapping[str, np.ndarray]  # several tables, as `pack` makes them


def pack(**tables: Mapping[str, Any]) -> Table:
    """Several tables in one dictionary, whose keys are "table.column"."""
    for name, columns in tables.items():
        lengths = {column: len(values) for column, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"`{name}` must have columns of equal length; got lengths {lengths}. Put the others in another table."
            )
    return {f"{name}.{column}": np.asarray(v) for name, columns in tables.items() for column, v in columns.items()}


def table(numbers: Numbers, name: str) -> Table:
    """One of the tables in a dictionary made by `pack`."""
    return {key.split(".", 1)[1]: values for key, values in numbers.items() if key.split(".", 1)[0] == name}


def names_of(numbers: Numbers) -> list[str]:
    """The names of the tables in a dictionary made by `pack`, in order."""
    return list(dict.fromkeys(key.split(".", 1)[0] for key in numbers))


def where(columns: Mapping[str, np.ndarray], **values: Any) -> Table:
    """The rows of a table in which columns have the given values."""
    chosen = np.ones(len(next(iter(columns.values()))), bool)
    for name, value in values.items():
        chosen &= columns[name] == value
    return {name: column[chosen] for name, column in columns.items()}


def stack(parts: Iterable[Mapping[str, Any]]) -> Table:
    """Tables with the same columns, one below the other. A scalar is repeated in every row of its table."""
    rows = [dict(zip(part, np.broadcast_arrays(*map(np.atleast_1d, part.values())), strict=True)) for part in parts]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def over_seeds(seeds: Sequence[Numbers], name: str, column: str, **values: Any) -> np.ndarray:
    """(seeds, rows): a column of one of the tables, in the rows that have the given values."""
    return np.stack([where(table(numbers, name), **values)[column] for numbers in seeds])


def columns_of(seeds: Mapping[int, Numbers], name: str) -> Table:
    """One of the tables of every seed, one below the other, with a column `seed`."""
    return stack({"seed": seed, **table(numbers, name)} for seed, numbers in seeds.items())


def to_csv(columns: Mapping[str, np.ndarray]) -> bytes:
    """The table as CSV: numbers with up to six significant digits, NaN as an empty cell."""
    return csv_text(columns, lambda name, value: _short(value)).encode()


def from_csv(path: Path) -> Table:
    """A table from a CSV file: columns of numbers as floats, all others as strings."""
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return {name: _parsed(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}


def groups(columns: Mapping[str, np.ndarray], name: str) -> Iterator[tuple[Any, Table]]:
    """The distinct values of a column, in the order of their first rows, each with its rows."""
    for value in dict.fromkeys(columns[name].tolist()):
        yield value, where(columns, **{name: value})


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if np.isnan(value) else f"{value:.6g}"


def _parsed(values: Sequence[str]) -> np.ndarray:
    try:
        return np.array([float(value) if value else np.nan for value in values])
    except ValueError:
        return np.array(values)
