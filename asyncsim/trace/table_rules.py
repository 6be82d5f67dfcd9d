"""Which flat tables are traces: their columns, and what each kind of row must and must not have."""

import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.checks import nearest, require_integer
from asyncsim.trace.columns import COMMIT_COLUMNS, UNFINISHED_COLUMNS, Fate
from asyncsim.trace.infer_columns import COMMITTED, IDLE, fates
from asyncsim.trace.parse import NOTHING, Table

FATES = (COMMITTED, *(fate.name.lower() for fate in Fate), IDLE)
NUMBERS = COMMIT_COLUMNS | {name: UNFINISHED_COLUMNS[name] for name in ("end_version", "end_time")}
COLUMNS = ("worker", "fate", *(name for name in NUMBERS if name != "worker"))
NEEDED = ("worker", "commit_time")
ENDED_MUST_HAVE = ("read_version", "read_time")

Place = Callable[[int], str]  # row of the given columns -> how to name it: "row 3"


def require_names(names: Collection[str]) -> None:
    """Refuse columns that no trace has, and the lack of those that every trace needs."""
    missing = [name for name in NEEDED if name not in names]
    unknown = [name for name in names if name not in COLUMNS]
    near = nearest(missing[0], unknown) if missing else None
    if missing:
        hint = f"Rename `{near}`, if that is it." if near else "Record who commits, and when."
        raise ValueError(f"`{missing[0]}` is missing; got {', '.join(map(repr, names)) or 'no columns'}. {hint}")
    if unknown:
        near = nearest(unknown[0], [name for name in COLUMNS if name not in names])
        hint = f"Did you mean `{near}`?" if near else f"Leave it out; known are {', '.join(COLUMNS)}."
        raise ValueError(f"`{unknown[0]}` is no column of a trace. {hint}")


def require_one_length(table: Table) -> None:
    """Refuse columns of several lengths."""
    rows = len(table["worker"])
    for name, values in table.items():
        if len(values) != rows:
            raise ValueError(
                f"`{name}` must have one entry per row; got {len(values)} for {rows} rows. Give columns of one length."
            )


def require_fates(table: Table, place: Place) -> None:
    """Refuse a fate that nobody knows."""
    bad = ~np.isin(fates(table), FATES)
    if bad.any():
        row = int(bad.argmax())
        value = str(table["fate"][row])
        near = nearest(value, FATES)
        hint = f"Did you mean {near!r}?" if near else "Leave out the column if every row is a commit."
        raise ValueError(f"`fate` must be one of {', '.join(FATES)}; {place(row)} has {value!r}. {hint}")


def count_workers(worker: NDArray[Any], workers: int | None, place: Place) -> int:
    """The number of workers: as given, or by the numbers that occur, if they leave none out."""
    if workers is not None:
        return require_integer("workers", workers, least=1, remedy="Use one worker or more.")
    seen = np.unique(worker[worker >= 0])
    if len(seen) == 0:
        raise ValueError("`worker` must name at least one worker; got none. Give `workers` for an empty trace.")
    gaps = np.flatnonzero(seen != np.arange(len(seen)))
    if len(gaps):
        where = place(int((worker > gaps[0]).argmax()))
        beyond = worker[worker > gaps[0]][0]
        remedy = "Number the workers from 0, or give `workers`"
        raise ValueError(f"`worker` must leave no number out; {where} has {beyond}, and none has {gaps[0]}. {remedy}.")
    return len(seen)


def require_what_applies(table: Table, place: Place) -> None:
    """A commit has everything, a job that did not commit has no commit, a worker without a job has nothing."""
    fate = fates(table)
    committed, idle = fate == COMMITTED, fate == IDLE
    ended = ~(committed | idle)
    for name in [name for name in NUMBERS if name in table and name != "worker"]:
        of_commits, may_be_false = name in COMMIT_COLUMNS, NUMBERS[name] is np.bool_
        given = table[name] != NOTHING[name]
        if of_commits and not may_be_false:
            _refuse(committed & ~given, name, "be known for a commit", "nothing", "Or leave out the column", place)
        if name in ENDED_MUST_HAVE:
            _refuse(ended & ~given, name, "be known for a job that began", "nothing", "Fill it in", place)
        empty = idle if of_commits else idle | committed
        if name not in UNFINISHED_COLUMNS:
            empty = empty | ended
        _refuse(empty & given, name, "be empty where it does not apply", table[name], "Correct it or `fate`", place)


def _refuse(bad: NDArray[np.bool_], name: str, rule: str, values: Any, remedy: str, place: Place) -> None:
    if bad.any():
        row = int(bad.argmax())
        value = values if isinstance(values, str) else values[row]
        raise ValueError(f"`{name}` must {rule}; {place(row)} has {value}. {remedy}.")


def located(message: str, rows: NDArray[np.int64], commits: int, place: Place, fault_place: Place) -> str:
    """The message of a check with the row of the given table instead of that of the trace's."""
    found = re.match(r"`(unfinished\.|faults\.)?\w+` .*?; row (\d+) has ", message)
    if found is None:
        return message
    kind, row = found[1], int(found[2])
    where = fault_place(row) if kind == "faults." else place(int(rows[row + (commits if kind else 0)]))
    return message.replace("`unfinished.", "`").replace(f"; row {row} has ", f"; {where} has ", 1)
