"""The trace itself: one row per commit, and the tables beside it."""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim import npz
from asyncsim.checks import require_integer
from asyncsim.trace import commit_order, invariants
from asyncsim.trace import table as tables
from asyncsim.trace.columns import (
    COMMIT_COLUMNS,
    FAULT_COLUMNS,
    UNFINISHED_COLUMNS,
    BoolColumn,
    IntColumn,
    TimeColumn,
    set_columns,
)
from asyncsim.trace.io import chrome
from asyncsim.trace.io import csv as csv_file
from asyncsim.trace.tables import Faults, Unfinished

FORMAT_VERSION = 2
TABLES = {"unfinished": UNFINISHED_COLUMNS, "faults": FAULT_COLUMNS}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Trace:
    """One row per commit, in the order in which the server applied them.

    `simulate`, `from_commits` and `load` return checked traces. A trace put together column by column is not
    checked (so that a damaged one can be looked at): call `check()`. Columns are read-only.

    Attributes:
        workers: Number of workers n.
        worker: (commits,) int32, who committed, 0 to n - 1.
        read_version: (commits,) int32, server version at which the gradient was taken.
        version: (commits,) int32, server version just before this commit is applied.
        pull_version: (commits,) int32, server version that a rule which pulls just before committing saw;
            equals `version` where pull and commit are atomic.
        closes_step: (commits,) bool, whether the server's version grows with this row.
        read_time, start_time, finish_time, arrive_time, serve_time, commit_time: (commits,) float64, in seconds:
            when the worker read, began and ended the computation, and when the server got the commit, took it
            up and applied it.
        state_lost: (commits,) bool, whether the worker had lost what its rule remembers when it read for this job.
        unfinished: Jobs that never committed.
        faults: What went wrong.

    Example:
        >>> trace = Trace.from_commits([0, 1, 1, 0])
        >>> trace
        Trace(4 commits by 2 workers in 4.0 s)
        >>> trace.staleness.tolist()
        [0, 1, 0, 2]
    """

    workers: int
    worker: IntColumn
    read_version: IntColumn
    version: IntColumn
    pull_version: IntColumn
    closes_step: BoolColumn
    read_time: TimeColumn
    start_time: TimeColumn
    finish_time: TimeColumn
    arrive_time: TimeColumn
    commit_time: TimeColumn
    unfinished: Unfinished
    serve_time: TimeColumn = None  # type: ignore[assignment]  # by default a server that takes no time
    state_lost: BoolColumn = None  # type: ignore[assignment]  # by default never
    faults: Faults = field(default_factory=lambda: Faults())

    def __post_init__(self) -> None:
        workers = require_integer("workers", self.workers, least=1, remedy="Use one worker or more.")
        object.__setattr__(self, "workers", workers)
        if self.serve_time is None:
            object.__setattr__(self, "serve_time", self.commit_time)
        if self.state_lost is None:
            object.__setattr__(self, "state_lost", np.zeros(np.shape(self.worker), np.bool_))
        set_columns(self, COMMIT_COLUMNS)

    def __len__(self) -> int:
        return len(self.worker)

    def __repr__(self) -> str:
        return f"Trace({len(self)} commits by {self.workers} workers in {self.seconds} s)"

    @property
    def staleness(self) -> IntColumn:
        """(commits,) int32: server versions between the read and the application, version - read_version."""
        return self.version - self.read_version

    @property
    def steps(self) -> int:
        """Steps that the server made: commits that close one."""
        return int(np.count_nonzero(self.closes_step))

    @property
    def seconds(self) -> float:
        """Time of the last commit; 0 without commits."""
        return float(self.commit_time[-1]) if len(self) else 0.0

    def check(self) -> None:
        """Check every invariant; a million rows take about 0.1 s.

        Times are finite, not negative, in order within a job and not decreasing from row to row; versions
        count the closed steps; worker numbers are in range and a worker's jobs do not overlap (so no more
        than n are in flight); and every read saw the steps closed by then, as did every end of a job, which makes
        staleness obey the conservation law in exact integers (see `asyncsim.trace.invariants`).

        Raises:
            ValueError: For the first row that breaks one, naming column, row, value and remedy.

        Example:
            >>> import dataclasses
            >>> trace = Trace.from_commits([0, 1, 0])
            >>> dataclasses.replace(trace, version=[0, 1, 1]).check()
            Traceback (most recent call last):
            ValueError: `version` must count the rows before it that close a step; row 2 has 1. It starts \
at 0 and grows by one after each row where `closes_step` is true.
        """
        invariants.check(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as `.npz`, whole or not at all; the name is used as it is.

        Raises:
            OSError: If the file cannot be written, say on a full disk; the file that was there stays whole.
        """
        columns: dict[str, Any] = {"workers": self.workers, **{name: getattr(self, name) for name in COMMIT_COLUMNS}}
        for table, names in TABLES.items():
            columns |= {f"{table}.{name}": getattr(getattr(self, table), name) for name in names}
        npz.write(path, columns, version=FORMAT_VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Read and check a trace that `save` wrote.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is damaged, no trace, written by a newer asyncsim, lacks a column, or
                holds a trace that breaks an invariant.

        Example:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "trace.npz")
            ...     Trace.from_commits([0, 1, 0]).save(path)
            ...     Trace.load(path)
            Trace(3 commits by 2 workers in 3.0 s)
        """
        beside = [f"{table}.{name}" for table, names in TABLES.items() for name in names]
        columns = npz.read(path, ["workers", *COMMIT_COLUMNS, *beside], kind="trace", version=FORMAT_VERSION)
        tables = {table: {name: columns.pop(f"{table}.{name}") for name in names} for table, names in TABLES.items()}
        try:
            unfinished, faults = Unfinished(**tables["unfinished"]), Faults(**tables["faults"])
            trace = cls(workers=columns.pop("workers").tolist(), unfinished=unfinished, faults=faults, **columns)
            trace.check()
        except ValueError as error:
            raise ValueError(f"{str(path)!r} holds no valid trace: {error}") from error
        return trace

    @classmethod
    def from_commits(
        cls, worker: ArrayLike, commit_time: ArrayLike | None = None, *, workers: int | None = None
    ) -> "Trace":
        """Make a trace from the order of commits alone, say one recorded on a real cluster.

        Each worker reads right after its own commit, the first time version 0 at time 0, so the order fixes
        every version: a commit's staleness is the number of commits by others since the worker's last.

        Args:
            worker: (commits,) who committed, in the order of application, numbered from 0.
            commit_time: (commits,) when, in seconds from the start of the run, at which all workers read (not
                Unix time: subtract the start); by default 1, 2, 3, …
            workers: Number of workers; by default the largest number in `worker` plus one, where every smaller
                number occurs. Workers that never commit count among the jobs in flight.

        Returns:
            A checked trace in which every row closes a step and the computation fills the whole time from
            read to commit.

        Raises:
            ValueError: If a worker number is negative, not whole, too large or, without `workers`, left out; or
                a time is not finite, negative or earlier than the one before; names the row and the value.

        Example:
            >>> trace = Trace.from_commits([0, 1, 0, 1], commit_time=[0.5, 0.6, 1.0, 1.3])
            >>> trace.read_version.tolist(), trace.read_time.tolist()
            ([0, 0, 1, 2], [0.0, 0.0, 0.5, 0.6])
        """
        columns, rest = commit_order.complete(worker, commit_time, workers)
        unfinished = Unfinished(**rest)
        trace = cls(workers=len(unfinished), unfinished=unfinished, faults=Faults(), **columns)
        trace.check()
        return trace

    # Other ways out and in, each in a file of its own.
    to_columns = tables.to_columns
    from_columns = classmethod(tables.from_columns)
    to_csv = csv_file.to_csv
    from_csv = classmethod(csv_file.from_csv)
    to_chrome = chrome.to_chrome
