"""Tables: that of a sweep, with a row for each scenario, and those of figures, several in one dictionary.

A table is a dictionary of columns of one length, which becomes a CSV file.
"""

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim._description import from_description, hash_of
from asyncsim._metrics import KEYS, metric, own_metrics
from asyncsim.costs import Power, Price
from asyncsim.scenario._parts import STUDY_FIELDS
from asyncsim.scenario._parts import values_of as values_of_parts
from asyncsim.scenario._rebuild import LANES, lanes_of
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._entries import DONE, FAILURE, now
from asyncsim.store._files import atomic_write
from asyncsim.study._store import Store, spent_in

__all__ = [
    "Numbers",
    "SweepTable",
    "Table",
    "asked_for",
    "column",
    "columns_of",
    "from_csv",
    "groups",
    "names_of",
    "over_seeds",
    "pack",
    "remember",
    "stack",
    "table",
    "table_of",
    "to_csv",
    "values_of",
    "where",
]

STATUS, DIGEST, REASON = "status", "digest", "reason"

Table = dict[str, np.ndarray]
Numbers = Mapping[str, np.ndarray]  # several tables, as `pack` makes them


class SweepTable(dict[str, np.ndarray]):
    """Columns of one length by name, which pandas, polars and csv take as they are.

    Attributes:
        fields: Names of the columns that are fields in which the scenarios differ.

    Numbers that do not exist are NaN, texts that do not exist are empty.

    Example:
        >>> table = SweepTable({"workers": np.array([2, 4]), "final_loss": np.array([0.5, np.nan])}, ["workers"])
        >>> table.fields, len(table), table.rows
        (['workers'], 2, 2)
    """

    def __init__(self, columns: Mapping[str, Any], fields: Iterable[str]) -> None:
        super().__init__({name: np.asarray(column) for name, column in columns.items()})
        self.fields = list(fields)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values()), ()))

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The table as CSV with all digits and an empty cell for a missing value, also written to `path` if given."""
        text = _csv(self, _cell)
        if path is not None:
            atomic_write(path, lambda file: file.write(text.encode()))
        return text

    def to_pandas(self) -> Any:
        """The table as a pandas.DataFrame.

        Raises:
            ImportError: If pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-not-found]
        except ImportError as error:
            raise ImportError("`to_pandas` needs pandas, which is not installed. Run: pip install pandas") from error
        return pandas.DataFrame(dict(self))


def asked_for(scenarios: Sequence[Scenario]) -> dict[str, Any]:
    """The description of a sweep: "common" field -> value, the names of "fields" that differ, and "rows"."""
    values = [values_of(scenario) for scenario in scenarios]
    names = list(dict.fromkeys(name for one in values for name in one))
    differ = [name for name in names if any(one.get(name) != values[0].get(name) for one in values)]
    return {
        "common": {name: values[0].get(name) for name in names if name not in differ},
        "fields": differ,
        "rows": [
            [scenario.digest, *(one.get(name) for name in differ)]
            for scenario, one in zip(scenarios, values, strict=True)
        ],
    }


def remember(store: Store, scenarios: Sequence[Scenario]) -> None:
    """Keep the description of a sweep in its store."""
    description = asked_for(scenarios)
    store.write_sweep(hash_of(description["rows"]), {**description, "when": now()})


def values_of(scenario: Scenario) -> dict[str, Any]:
    """Field -> value, as plain data."""
    study = {name: getattr(scenario, name) for name in STUDY_FIELDS}
    study["record"] = None if scenario.record is None else scenario.strides  # the default depends on the workers
    lanes = lanes_of(scenario)
    study |= {} if lanes is None else {LANES: lanes}
    return {**values_of_parts(scenario.cluster, scenario.rule, scenario.workload), **study}


def table_of(
    store: Store, sweeps: Sequence[Mapping[str, Any]], power: Power | None = None, price: Price | None = None
) -> SweepTable:
    """The table of one or several sweeps. A scenario of several of them has one row.

    Energy and money are columns if you give the power or the prices. The schedules are then read.
    """
    rows: dict[str, dict[str, Any]] = {}
    for one in sweeps:
        for digest, *values in one["rows"]:
            row = {**one["common"], **dict(zip(one["fields"], values, strict=True))}
            rows.setdefault(digest, from_description(row))
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    first = next(iter(rows.values()), {})
    fields = [name for name in names if any(row.get(name) != first.get(name) for row in rows.values())]
    states = store.states(rows)
    found = {digest: store.summary(digest) if states[digest] == DONE else None for digest in rows}
    columns = {name: column([row.get(name) for row in rows.values()]) for name in fields}
    for name in (*KEYS, *own_metrics(filter(None, found.values()))):
        columns[name] = column([(summary or {}).get(name) for summary in found.values()], numbers=True)
    spent = [spent_in(store.folder(digest), summary or {}, power, price) for digest, summary in found.items()]
    for name in spent[0] if spent else ():
        columns[name] = column([one[name] for one in spent], numbers=True)
    if LANES not in fields and any(LANES in row for row in rows.values()):
        columns[LANES] = column([row.get(LANES) for row in rows.values()])
    columns[STATUS] = np.array(list(states.values()), np.str_)
    if FAILURE in states.values():
        failures = [store.failure(digest) or {} if states[digest] == FAILURE else {} for digest in rows]
        columns[REASON] = np.array([str(failure.get("reason", "")) for failure in failures], np.str_)
    columns[DIGEST] = np.array(list(rows), np.str_)
    return SweepTable(columns, fields)


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


def _cell(name: str, value: Any) -> str:
    """A cell of a CSV file. Whole numbers and switches keep their type where others of their column are absent."""
    if value != value:
        return ""
    kind = metric(name).kind
    exact = int(value) if kind in ("count", "commit") else bool(value) if kind == "switch" else value
    return repr(exact) if isinstance(exact, float) else str(exact)


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
    return _csv(columns, lambda name, value: _short(value)).encode()


def _csv(columns: Mapping[str, np.ndarray], cell: Callable[[str, Any], str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = ([cell(name, value) for value in column.tolist()] for name, column in columns.items())
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


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
