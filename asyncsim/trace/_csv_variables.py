"""A trace of several variables as CSV: two more columns, and the mixings in a file of their own.

The columns `variable` and `variables` name the variable of each row and their number. The versions of such a table
count the changes of one variable, so that nothing is filled in: all columns must be there. Where servers of regions
push, `from_variable` and `from_version` say what.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace import _invariants as invariants
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    MIXING_COLUMNS,
    NEVER,
    UNFINISHED_COLUMNS,
    Fate,
    Faults,
    Mixings,
    Tables,
    TraceError,
    Unfinished,
    refuse,
    reworded,
)
from asyncsim.trace._flat import COLUMNS, COMMITTED, IDLE, Table, fates, whole_table
from asyncsim.trace._log import Log, read_log
from asyncsim.trace._source import contents_of
from asyncsim.trace._table import AnyTrace, count_workers, local_steps_of, names_of_all
from asyncsim.trace._typed import Typed
from asyncsim.trace._values import as_numbers, as_seconds
from asyncsim.trace._variables import is_on_graph, variable_of_worker

VARIABLE_COLUMNS = ("variable", "variables")
PUSH_COLUMNS = ("from_variable", "from_version")
REMEDY = "Write the table by `Trace.to_csv`."


def to_tables(trace: Tables) -> tuple[Table, Table]:
    """Return the columns of the jobs, and those of the mixings, which have rows only with several variables."""
    table = whole_table(trace)
    if trace.variables > 1 and trace.pushes_from is None and not is_on_graph(trace):
        raise ValueError(
            f"`trace` must have one variable, or one for each worker, in CSV; got {trace.variables} for "
            f"{trace.workers} workers. Use `Trace.save`."
        )
    if trace.variables > 1:
        variable = variable_of_worker(trace)
        rest = trace.unfinished.worker
        idle = np.setdiff1d(np.arange(trace.workers), np.concatenate([trace.worker, rest]))
        worker = np.concatenate([trace.worker, rest, idle])
        table["variable"] = variable[worker]
        table["variables"] = np.full(len(worker), trace.variables)
        if trace.pushes_from is not None:
            table["from_variable"] = trace.pushes_from[worker]
            table["from_version"] = np.append(trace.from_version, np.full(len(worker) - len(trace), -1, np.int32))
    return table, {name: getattr(trace.mixings, name) for name in MIXING_COLUMNS}


def read_mixings(path: Path, typed: Typed, unit: str) -> tuple[Mixings, Log]:
    """Return the mixings in a file, with times that count as those of the trace do, and their log."""
    if not path.is_file():
        remedy = f"Put {path.name!r} next to it, which `Trace.to_csv` wrote."
        raise TraceError("variables", "must come with a file of mixings", remedy, found="got none")
    with reworded(lambda error: error.replace(source=f"{path.name}: ")):
        log = read_log(contents_of(path), None, MIXING_COLUMNS)
        if len(log.columns) < len(MIXING_COLUMNS):
            rule = f"must have the columns {', '.join(MIXING_COLUMNS)}"
            raise TraceError(None, rule, REMEDY, found=f"got {', '.join(log.source.columns)}")
        with reworded(log.with_location):
            times = as_seconds({"time": log.columns["time"]}, unit)
            columns = {name: _parse(name, log, dtype) for name, dtype in MIXING_COLUMNS.items() if name != "time"}
            columns["time"] = times.columns["time"] - (typed.begin - times.origin)
            refuse(~np.isfinite(columns["time"]), "time", columns["time"], "be finite", REMEDY)
    return Mixings(**columns), log


def _parse(name: str, log: Log, dtype: Any) -> NDArray[Any]:
    """Return a column in its type."""
    numbers = as_numbers(name, log.columns[name])
    refuse(~np.isfinite(numbers), name, numbers, "be a finite number", REMEDY)
    if dtype is np.float64:
        return numbers
    low, high = (0, 1) if dtype is np.bool_ else (-(2**31), 2**31 - 1)
    bad = (numbers != np.trunc(numbers)) | (numbers < low) | (numbers > high)
    refuse(bad, name, numbers, "be true or false" if dtype is np.bool_ else "be a whole number", REMEDY)
    return numbers.astype(dtype)


def assemble_variables(
    make: type[AnyTrace], log: Log, typed: Typed, workers: int | None, faults: Faults, mixings: Mixings
) -> AnyTrace:
    """Return the checked trace of a whole table and its mixings."""
    table = typed.table
    needed = (*COLUMNS, *VARIABLE_COLUMNS, *(PUSH_COLUMNS if {*PUSH_COLUMNS} & {*log.columns} else ()))
    lacking = [name for name in needed if name not in log.columns]
    if lacking:
        raise TraceError(lacking[0], "must be given where there are several variables", REMEDY)
    count = _parse("variables", log, np.int32)
    refuse(count != count[:1], "variables", count, "be the same in all rows", REMEDY)
    fate, variable = fates(table), _parse("variable", log, np.int32)
    done = np.flatnonzero(fate == COMMITTED)
    rest = np.flatnonzero((fate != COMMITTED) & (fate != IDLE))
    unfinished = {name: table[name][rest] for name in UNFINISHED_COLUMNS if name != "fate"}
    unfinished["end_version"] = np.where(unfinished["end_version"] == -1, NEVER, unfinished["end_version"])
    numbers = {kind.name.lower(): kind for kind in Fate}
    n = count_workers(table["worker"], workers)
    commits: dict[str, Any] = {name: table[name][done] for name in COMMIT_COLUMNS}
    if "from_variable" in log.columns:
        pushes = {name: _parse(name, log, np.int32) for name in PUSH_COLUMNS}
        of_worker = {"worker_variable": np.zeros(n, np.int32), "pushes_from": np.full(n, -1, np.int32)}
        of_worker["worker_variable"][table["worker"]] = variable
        of_worker["pushes_from"][table["worker"]] = pushes["from_variable"]
        commits |= {**of_worker, "from_version": pushes["from_version"][done]}
    local_steps = local_steps_of(table, n)
    with reworded(lambda error: _in_table(error, done, rest)):
        trace = make(
            workers=n,
            **commits,
            unfinished=Unfinished(**unfinished, fate=np.array([numbers[name] for name in fate[rest]], np.int8)),
            faults=faults,
            local_steps=local_steps,
            names=names_of_all(typed.names, n),
            notes=typed.notes,
            derived=typed.derived,
            variables=int(count[0]) if len(count) else 1,
            variable=variable[done],
            mixings=mixings,
        )
        invariants.check(trace)
        staleness = table["staleness"][done]
        remedy = "Correct it or the versions."
        refuse(staleness != trace.staleness, "staleness", staleness, "be version - read_version", remedy)
    return trace


def _in_table(error: TraceError, done: NDArray[Any], rest: NDArray[Any]) -> TraceError:
    """Return the error with the row of the table, where it is not one of the mixings or faults."""
    column = error.column or ""
    if column.startswith(("mixings.", "faults.")):
        return error
    return error.renumber(rest if column.startswith("unfinished.") else done)
