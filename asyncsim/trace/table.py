"""A trace as one flat table of equally long columns, for CSV, Parquet and data frames, and back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.trace import infer_columns
from asyncsim.trace.columns import NEVER, Fate
from asyncsim.trace.infer_columns import COMMITTED, IDLE
from asyncsim.trace.parse import NOTHING, Table, column
from asyncsim.trace.table_rules import (
    COLUMNS,
    NUMBERS,
    Place,
    count_workers,
    located,
    require_fates,
    require_names,
    require_one_length,
    require_what_applies,
)
from asyncsim.trace.tables import Faults, Unfinished

if TYPE_CHECKING:
    from asyncsim.trace.trace import Trace


def to_columns(trace: "Trace") -> Table:
    """The trace as one flat table, a row a job: ready for a data frame or a Parquet file.

    First come the commits in the order of application, then the jobs that never committed; `fate` tells them apart:
    "committed", or the name of a `Fate` in small letters. A worker that never read at all has one row with fate
    "idle", so that no worker is forgotten. Faults are not jobs: they are in `trace.faults`.

    Returns:
        Name to array, all of one length: `worker`, `fate` (strings), the columns of the commits, and `end_version`
        and `end_time` of the jobs that did not commit. What does not apply to a row, or never happened, is infinite
        for times, -1 for whole numbers and False for what is true or false.

    Example:
        >>> from asyncsim.trace import Trace
        >>> columns = Trace.from_commits([0, 1, 0]).to_columns()
        >>> columns["fate"].tolist()
        ['committed', 'committed', 'committed', 'in_flight', 'in_flight']
        >>> columns["commit_time"].tolist()
        [1.0, 2.0, 3.0, inf, inf]
    """
    rest = trace.unfinished
    idle = np.setdiff1d(np.arange(trace.workers, dtype=np.int32), np.concatenate([trace.worker, rest.worker]))
    names = np.array([fate.name.lower() for fate in Fate])
    known = {
        "worker": (trace.worker, rest.worker, idle),
        "fate": (np.full(len(trace), COMMITTED), names[rest.fate], np.full(len(idle), IDLE)),
        "end_version": (None, np.where(rest.end_version == NEVER, -1, rest.end_version), None),
    }
    lengths = (len(trace), len(rest), len(idle))
    table = {}
    for name in COLUMNS:
        parts = known.get(name, (getattr(trace, name, None), getattr(rest, name, None), None))
        filled = [np.full(n, NOTHING[name]) if p is None else p for p, n in zip(parts, lengths, strict=True)]
        joined = np.concatenate(filled)
        table[name] = joined if name == "fate" else joined.astype(NUMBERS[name])
    return table


def from_columns(
    cls: type["Trace"], columns: Mapping[str, Any], workers: int | None = None, *, faults: Faults | None = None
) -> "Trace":
    """Make a trace from a flat table: one that `to_columns` gave, or the log of a real cluster.

    Only `worker` and `commit_time` are needed. What is missing is filled in:

    - `fate`: every row is a commit.
    - `closes_step`: every commit closes a step; `version`: the steps closed by the rows before.
    - `read_time`: the end of the worker's previous job; 0 for its first. If `fate` is missing too, each worker also
      has a job in flight in the end, as in `from_commits`.
    - `read_version`: the steps closed by `read_time`. Commits of others at that very time count, unless the worker
      itself commits then: it reads right after its own commit. A first read at time 0 sees version 0. So the log of
      an atomic server needs no `read_version`, even if times tie; give it for any other in which they do.
    - `start_time`: `read_time`. `finish_time`, `arrive_time`, `serve_time`: the next later one that is known.
    - `pull_version`: `version`. `state_lost`: never. `end_version`: the steps closed by `end_time`.

    Rows without `version` may come in any order, and are sorted by `commit_time`, ties as given; with `version` they
    must come in the order of application.

    Args:
        columns: Name to column, in seconds from the start of the run. Names of workers are numbered in their natural
            order ("worker-2" before "worker-10").
        workers: Number of workers; by default the largest number in `worker` plus one, where every smaller one
            occurs.
        faults: What went wrong; by default nothing.

    Returns:
        A checked trace.

    Raises:
        ValueError: If a column is missing, unknown, of another length or kind, or the trace breaks an invariant;
            names column, row, value and remedy.

    Example:
        >>> from asyncsim.trace import Trace
        >>> log = {"worker": ["b", "a", "b"], "read_time": [0.0, 0.2, 1.0], "commit_time": [1.0, 1.5, 2.5]}
        >>> trace = Trace.from_columns(log)
        >>> trace.worker.tolist(), trace.read_version.tolist(), trace.staleness.tolist()
        ([1, 0, 1], [0, 0, 1], [0, 1, 1])
    """
    require_names(columns)
    table = {name: column(name, values, "row {}".format) for name, values in columns.items()}
    return assemble(cls, table, workers, faults or Faults(), "row {}".format, "row {}".format)


def assemble(
    cls: type["Trace"], table: Table, workers: int | None, faults: Faults, place: Place, fault_place: Place
) -> "Trace":
    """The checked trace of typed columns; `place` and `fault_place` name their rows in errors."""
    require_one_length(table)
    require_fates(table, place)
    workers = count_workers(table["worker"], workers, place)
    require_what_applies(table, place)
    commits, ended, rows = infer_columns.complete(table, workers, place)
    try:
        trace = cls(workers=workers, unfinished=Unfinished(**ended), faults=faults, **commits)
        trace.check()
    except ValueError as error:
        raise ValueError(located(str(error), rows, len(commits["worker"]), place, fault_place)) from error
    return trace
