"""Where units are computed: executors of any kind, each with room for some units at a time.

A seat of this machine is one process, so that its death is surely that of its one unit. A seat that somebody else's
executor gives, such as Dask's, has many processes: when one of them dies, every unit that was there is a suspect, and
suspects are tried again one at a time.
"""

import os
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from asyncsim.engine.devices import cores
from asyncsim.study.processes import start_process, stop_processes, without_main
from asyncsim.study.units import Unit
from asyncsim.study.work import VERSIONS, Report, Task, require_versions, work

KILLED = "KilledWorker"  # Dask's name for the death of every process on which it tried a task
AHEAD = 2  # units that a process of an executor has at once: one to compute, one to begin with when that is done


@dataclass(eq=False)
class Seat:
    """Room for units.

    Attributes:
        executor: What computes them; None for a process of this machine that has not been started.
        room: Units at a time.
        owned: Whether this is a process of this machine, which is replaced when it dies.
        units: Future -> the unit whose report it will be.
        program: That of the last unit.
        suspects: Units of which one killed a process.
    """

    executor: Any = None
    room: int = 1
    owned: bool = True
    units: dict["Future[Report]", Unit] = field(default_factory=dict)
    program: str = ""
    suspects: list[Unit] = field(default_factory=list)

    @property
    def is_free(self) -> bool:
        """Whether a unit can begin; while there are suspects, only one that is alone."""
        return len(self.units) < (1 if self.suspects else self.room)

    def start(self) -> Executor:
        """Start the process of a seat of this machine, and what it imports."""
        executor = self.executor = start_process()
        with without_main():
            executor.submit(require_versions, VERSIONS)
        return executor

    def submit(self, unit: Unit, task: Task) -> None:
        """Begin a unit."""
        executor = self.executor or self.start()
        with without_main() if self.owned else nullcontext():
            self.units[executor.submit(work, task)] = unit
        self.program = unit.program

    def bury(self) -> None:
        """Take leave of a process that has died: another one takes its place with the next unit."""
        if self.owned and self.executor is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.executor = None


@contextmanager
def local_seats(jobs: int | None, units: int) -> Iterator[list[Seat]]:
    """One seat for each of `jobs` processes of this machine, by default one for each core, but none that is not used.

    The processes are on their way when the block begins.
    """
    seats = [Seat() for _ in range(min(jobs or cores(), max(units, 1)))]
    try:
        if units:
            for seat in seats:
                seat.start()
        yield seats
    finally:
        stop_processes([seat.executor for seat in seats if seat.executor is not None])


@contextmanager
def seats_of(executor: Executor) -> Iterator[list[Seat]]:
    """One seat with room for all that an executor computes at once; what is still there in the end is cancelled."""
    seat = Seat(executor, AHEAD * processes_of(executor), owned=False)
    try:
        yield [seat]
    finally:
        for future in seat.units:
            future.cancel()


def processes_of(executor: Any) -> int:
    """How many units an executor computes at once, as far as it tells.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> processes_of(ThreadPoolExecutor(3))
        3
    """
    client = getattr(executor, "_client", None)  # Dask's
    if client is not None and hasattr(client, "nthreads"):
        return max(1, sum(client.nthreads().values()))
    return getattr(executor, "_max_workers", None) or os.cpu_count() or 1


def is_death(error: BaseException) -> bool:
    """Whether an error says that a process died."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == KILLED


def tried(error: BaseException) -> int:
    """How many processes died of a unit that was alone: Dask tries again by itself before it says so."""
    return int(getattr(error, "allowed_failures", None) or 1)
