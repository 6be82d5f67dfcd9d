"""A trace as one flat table of equally long columns, and the types of its cells.

A table may hold jobs of both kinds, so that a cell which does not apply is empty: see `empty_of`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import refuse_mask
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    NEVER,
    UNFINISHED_COLUMNS,
    Fate,
    IntColumn,
    Tables,
    column_of,
    group_of,
    refuse,
    require_one_dimension,
)
from asyncsim.trace._values import as_numbers
from asyncsim.trace._variables import require_one_variable

Table = dict[str, NDArray[Any]]

COMMIT_TYPES = COMMIT_COLUMNS | {"staleness": np.int32}
TYPES = COMMIT_TYPES | {name: UNFINISHED_COLUMNS[name] for name in ("end_version", "end_time")}  # but that of `fate`
EMPTY = {name: np.inf if dtype is np.float64 else False if dtype is np.bool_ else -1 for name, dtype in TYPES.items()}
TIMES = frozenset(name for name, dtype in TYPES.items() if dtype is np.float64)
COMMITTED, IDLE = "committed", "idle"
FATES = (COMMITTED, *(fate.name.lower() for fate in Fate), IDLE)
COLUMNS = ("worker", "fate", "staleness", *(name for name in TYPES if name not in ("worker", "staleness")))
LOCAL_STEPS = "local_steps"  # a column that a trace may have, which is the same in all rows of a worker
KNOWN = (*COLUMNS, LOCAL_STEPS)


def to_columns(trace: Tables, unfinished: bool = False) -> Table:
    """Return the columns of the flat table (see `Trace.to_columns`)."""
    if not unfinished:
        groups = {column_of(name): reads for name, reads in zip(trace.groups, trace.group_read_version.T, strict=True)}
        table = {name: getattr(trace, name) for name in COLUMNS if name in COMMIT_TYPES} | groups
        table |= {"variable": trace.variable} if trace.variables > 1 else {}
        return table | {"worker": named(trace, trace.worker)} | _steps_of(trace, trace.worker)
    require_one_variable(trace, "A flat table has no place for mixings: use `Trace.to_csv` or `Trace.save`.")
    return whole_table(trace)


def whole_table(trace: Tables) -> Table:
    """Return the flat table of all jobs, also of those that never committed."""
    groups = {column_of(name): reads for name, reads in zip(trace.groups, trace.group_read_version.T, strict=True)}
    rest = trace.unfinished
    # A worker without any job has a row of its own, so that the table alone tells how many workers there are.
    idle = np.setdiff1d(np.arange(trace.workers, dtype=np.int32), np.concatenate([trace.worker, rest.worker]))
    names = np.array([fate.name.lower() for fate in Fate])
    columns = {
        "worker": (trace.worker, rest.worker, idle),
        "fate": (np.full(len(trace), COMMITTED), names[rest.fate], np.full(len(idle), IDLE)),
        "end_version": (None, np.where(rest.end_version == NEVER, -1, rest.end_version), None),
    }
    lengths = (len(trace), len(rest), len(idle))
    table = {}
    for name in COLUMNS:
        parts = columns.get(name, (getattr(trace, name, None), getattr(rest, name, None), None))
        filled = [np.full(n, EMPTY[name]) if part is None else part for part, n in zip(parts, lengths, strict=True)]
        # Texts have no type in `TYPES`: NumPy makes them as wide as the longest fate.
        joined = np.concatenate(filled)
        table[name] = joined if name == "fate" else joined.astype(TYPES[name])
    rest_rows = np.full(len(rest) + len(idle), empty_of("read_version"), np.int32)
    steps = _steps_of(trace, table["worker"])
    table["worker"] = named(trace, table["worker"])
    return table | {name: np.concatenate([reads, rest_rows]) for name, reads in groups.items()} | steps


def _steps_of(trace: Tables, worker: IntColumn) -> Table:
    return {} if trace.local_steps is None else {LOCAL_STEPS: trace.local_steps[worker]}


def named(trace: Tables, worker: IntColumn) -> NDArray[Any]:
    """Return the names of workers, or their numbers where they have none. No worker, -1, has an empty name."""
    return np.array([*trace.names, ""])[worker] if trace.names else worker


def fates(table: Table) -> NDArray[np.str_]:
    """Return the fate of every row, by default all are commits."""
    return table.get("fate", np.full(len(table["worker"]), COMMITTED))


def empty_of(name: str) -> Any:
    """Return the value of a cell that does not apply, also in the column of a parameter group."""
    return EMPTY["read_version"] if group_of(name) or name == LOCAL_STEPS else EMPTY[name]


def parse_column(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return one column in its type, as a new array."""
    array = np.asarray(refuse_mask(name, values))
    require_one_dimension(name, array)
    if name == "worker" and array.dtype == np.int32:  # as a simulation numbers them
        return array.copy()
    return in_type(name, as_numbers(name, array))


def in_type(name: str, numbers: NDArray[np.float64]) -> NDArray[Any]:
    """Return numbers in the type of their column, -1 in place of a missing whole number."""
    dtype = TYPES["read_version" if group_of(name) or name == LOCAL_STEPS else name]
    if dtype is np.float64:
        return numbers
    # Negative numbers pass: -1 marks an empty cell, and the checks of a trace refuse others in words of their own.
    limit = 1 if dtype is np.bool_ else np.iinfo(np.int32).max
    least = 0 if dtype is np.bool_ else -limit
    bad = ~((numbers >= least) & (numbers <= limit) & (numbers == np.trunc(numbers)))
    rule, remedy = ("be true or false", "Use 1 or 0.") if dtype is np.bool_ else ("be a whole number", "Count from 0.")
    refuse(bad, name, numbers, rule, remedy, _as_written)
    return numbers.astype(dtype)


def _as_written(number: float) -> float | int | None:
    """Return the number as it was probably written: a whole one without a point, and nothing for NaN."""
    return None if np.isnan(number) else int(number) if number.is_integer() else number
