"""The three tables of a trace: commits, jobs that never committed, and faults, so that no job is unaccounted for."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import require_integer
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    FAULT_COLUMNS,
    NEVER,
    UNFINISHED_COLUMNS,
    BoolColumn,
    IntColumn,
    TimeColumn,
    checked_names,
    checked_reads,
    set_columns,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Unfinished:
    """Jobs that read but never committed, one row each, in the order in which they ended.

    With the defaults, jobs are in flight and began to compute when they read.

    Attributes:
        worker: (jobs,) int32.
        read_version: (jobs,) int32, server version that the job read.
        read_time: (jobs,) float64, in seconds.
        start_time: (jobs,) float64, when it began to compute, infinite if it never did.
        finish_time: (jobs,) float64, when it had computed, infinite if it never finished.
        end_version: (jobs,) int32, server version at the end, `NEVER` for jobs in flight.
        end_time: (jobs,) float64, when it was cancelled, dropped or lost, infinite for jobs in flight.
        fate: (jobs,) int8, values of `Fate`.
        resumes_own: (jobs,) bool, whether the worker went on from a value of its own, by default never.
    """

    worker: IntColumn
    read_version: IntColumn
    read_time: TimeColumn
    start_time: TimeColumn = None  # type: ignore[assignment]
    finish_time: TimeColumn = None  # type: ignore[assignment]
    end_version: IntColumn = None  # type: ignore[assignment]
    end_time: TimeColumn = None  # type: ignore[assignment]
    fate: NDArray[np.int8] = None  # type: ignore[assignment]
    resumes_own: BoolColumn = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        rows = np.shape(self.worker)
        _set_default(self, "start_time", self.read_time)
        _set_default(self, "finish_time", np.full(rows, np.inf))
        _set_default(self, "end_version", np.full(rows, NEVER, np.int32))
        _set_default(self, "end_time", np.full(rows, np.inf))
        _set_default(self, "fate", np.zeros(rows, np.int8))
        _set_default(self, "resumes_own", np.zeros(rows, np.bool_))
        set_columns(self, UNFINISHED_COLUMNS, prefix="unfinished.")

    @property
    def begin_time(self) -> TimeColumn:
        """(jobs,) float64, in seconds: as for the commits."""
        return np.where(self.resumes_own, self.start_time, self.read_time)

    def __len__(self) -> int:
        return len(self.worker)


@dataclass(frozen=True, kw_only=True, eq=False)
class Faults:
    """The faults that happened, one row each, in the order in which they began.

    Attributes:
        kind: (faults,) int8, values of `Fault`.
        worker: (faults,) int32, the affected worker, or -1 for the server.
        start_time: (faults,) float64, in seconds.
        end_time: (faults,) float64, in seconds, infinite if the fault has no end.
    """

    kind: NDArray[np.int8] = None  # type: ignore[assignment]
    worker: IntColumn = None  # type: ignore[assignment]
    start_time: TimeColumn = None  # type: ignore[assignment]
    end_time: TimeColumn = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name, dtype in FAULT_COLUMNS.items():
            _set_default(self, name, np.zeros(0, dtype))
        set_columns(self, FAULT_COLUMNS, prefix="faults.")

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tables:
    """The columns of a trace, without the ways in and out that `Trace` adds. See there for the attributes."""

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
    serve_time: TimeColumn = None  # type: ignore[assignment]  # by default, service takes no time
    state_lost: BoolColumn = None  # type: ignore[assignment]  # by default, never
    resumes_own: BoolColumn = None  # type: ignore[assignment]  # by default, never
    faults: Faults = field(default_factory=lambda: Faults())  # a type checker refuses the class itself
    groups: tuple[str, ...] = ()
    group_read_version: NDArray[np.int32] = None  # type: ignore[assignment]  # by default, of no group

    def __post_init__(self) -> None:
        workers = require_integer("workers", self.workers, least=1, remedy="Use one worker or more.")
        object.__setattr__(self, "workers", workers)
        _set_default(self, "serve_time", self.commit_time)
        _set_default(self, "state_lost", np.zeros(np.shape(self.worker), np.bool_))
        _set_default(self, "resumes_own", np.zeros(np.shape(self.worker), np.bool_))
        set_columns(self, COMMIT_COLUMNS)
        object.__setattr__(self, "groups", checked_names(self.groups))
        reads = checked_reads(self.groups, self.group_read_version, len(self))
        object.__setattr__(self, "group_read_version", reads)

    def __len__(self) -> int:
        return len(self.worker)

    @property
    def staleness(self) -> IntColumn:
        """(commits,) int32: server versions between the read and the application, version - read_version."""
        return self.version - self.read_version

    @property
    def group_staleness(self) -> NDArray[np.int32]:
        """(commits, groups) int32: the same for each parameter group. The largest of a row is its `staleness`."""
        return self.version[:, None] - self.group_read_version

    @property
    def begin_time(self) -> TimeColumn:
        """(commits,) float64, in seconds: when the job began, at its read.

        One that goes on from the worker's own value knows the value pulled for the job before it, and begins where that
        one ends.
        """
        return np.where(self.resumes_own, self.start_time, self.read_time)

    @property
    def started_before(self) -> IntColumn:
        """(commits,) int32: the worker's jobs that began to compute before this one, also those that never committed.

        Of jobs that took no time and began at one moment, those that never committed are taken to be the earlier ones.
        """
        rest = self.unfinished
        began = np.isfinite(rest.start_time)
        worker = np.concatenate([rest.worker[began], self.worker])
        start = np.concatenate([rest.start_time[began], self.start_time])
        end = np.concatenate([rest.end_time[began], self.commit_time])
        order = np.lexsort((end, start, worker))
        firsts = np.searchsorted(worker[order], np.arange(self.workers))
        number = np.empty(len(order), np.int32)
        number[order] = np.arange(len(order)) - firsts[worker[order]]
        return number[began.sum() :]

    @property
    def steps(self) -> int:
        """Steps that the server made: commits that close one."""
        return int(np.count_nonzero(self.closes_step))

    @property
    def seconds(self) -> float:
        """Time of the last commit, or 0 without commits."""
        return float(self.commit_time[-1]) if len(self) else 0.0


def end_of_trace(trace: Tables) -> float:
    """The last finite time in any of the tables, in seconds: later than `seconds` if a job or a fault came after it."""
    rest = trace.unfinished
    times = (trace.commit_time[-1:], rest.read_time, rest.start_time, rest.finish_time, rest.end_time)
    known = np.concatenate([*times, trace.faults.start_time])
    return float(np.max(known[np.isfinite(known)], initial=0.0))


def _set_default(table: Any, name: str, default: Any) -> None:
    if getattr(table, name) is None:
        object.__setattr__(table, name, default)
