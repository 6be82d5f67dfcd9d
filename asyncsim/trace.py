"""The trace: the record between the two halves, who read, computed and committed what, and when."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import commit_order, invariants, npz, trace_columns
from asyncsim.checks import require_integer
from asyncsim.trace_columns import COMMIT_COLUMNS, UNFINISHED_COLUMNS, BoolColumn, Fate, IntColumn, TimeColumn

__all__ = ["Fate", "Trace", "Unfinished"]

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Unfinished:
    """Jobs that read but never committed, one row each, so that the accounts of a trace are complete.

    Attributes:
        worker: (jobs,) int32.
        read_version: (jobs,) int32, server version that the job read.
        read_time: (jobs,) float64, in seconds.
        fate: (jobs,) int8, values of `Fate`.
    """

    worker: IntColumn
    read_version: IntColumn
    read_time: TimeColumn
    fate: NDArray[np.int8]

    def __post_init__(self) -> None:
        trace_columns.set_columns(self, UNFINISHED_COLUMNS, prefix="unfinished.")

    def __len__(self) -> int:
        return len(self.worker)


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
        read_time, start_time, finish_time, arrive_time, commit_time: (commits,) float64, in seconds: when the
            worker read, began and ended the computation, and when the server got and applied the commit.
        unfinished: Jobs that never committed.

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

    def __post_init__(self) -> None:
        workers = require_integer("workers", self.workers, least=1, remedy="Use one worker or more.")
        object.__setattr__(self, "workers", workers)
        trace_columns.set_columns(self, COMMIT_COLUMNS)

    def __len__(self) -> int:
        return len(self.worker)

    def __repr__(self) -> str:
        return f"Trace({len(self)} commits by {self.workers} workers in {self.seconds} s)"

    @property
    def staleness(self) -> IntColumn:
        """(commits,) int32: server versions between the read and the application, version - read_version."""
        return self.version - self.read_version

    @property
    def seconds(self) -> float:
        """Time of the last commit; 0 without commits."""
        return float(self.commit_time[-1]) if len(self) else 0.0

    def check(self) -> None:
        """Check every invariant; a million rows take about 0.1 s.

        Times are finite, not negative, in order within a job and not decreasing from row to row; versions
        count the closed steps; worker numbers are in range and a worker's jobs do not overlap (so no more
        than n are in flight); and every read saw the steps closed by then, which makes staleness obey the
        conservation law in exact integers (see `asyncsim.invariants`).

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
        columns: dict[str, Any] = {name: getattr(self, name) for name in COMMIT_COLUMNS}
        rest = {f"unfinished.{name}": getattr(self.unfinished, name) for name in UNFINISHED_COLUMNS}
        npz.write(path, {"workers": self.workers} | columns | rest, version=FORMAT_VERSION)

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
        rest = [f"unfinished.{name}" for name in UNFINISHED_COLUMNS]
        columns = npz.read(path, ["workers", *COMMIT_COLUMNS, *rest], kind="trace", version=FORMAT_VERSION)
        try:
            unfinished = Unfinished(**{name.removeprefix("unfinished."): columns.pop(name) for name in rest})
            trace = cls(workers=columns.pop("workers").tolist(), unfinished=unfinished, **columns)
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
        unfinished = Unfinished(**rest, fate=np.full(len(rest["worker"]), Fate.IN_FLIGHT, np.int8))
        trace = cls(workers=len(unfinished), unfinished=unfinished, **columns)
        trace.check()
        return trace
