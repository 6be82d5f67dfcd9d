"""Where units are computed: executors of any kind, each with room for some units at a time.

A seat of this machine is one process, so that its death is surely that of its one unit. A seat that somebody else's
executor gives, such as Dask's, has many processes: when one of them dies, every unit that was there is a suspect, and
suspects are tried again one at a time.
"""

import os
import pickle
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from asyncsim.engine.devices import cores
from asyncsim.study.processes import start_process, stop_processes, without_main
from asyncsim.study.units import Unit
from asyncsim.study.work import VERSIONS, Report, Task, WorkerTrouble, check_worker, require_versions, work

KILLED = "KilledWorker"  # Dask's name for the death of every process on which it tried a task
GRACE = 5.0  # seconds beyond `run_limit` in which a process may end a run by itself before it is killed
SHOWN = 3  # workers that a message names
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
        begun: Future -> when it was handed over, for a process of this machine.
        ready: When that process had imported all it needs; None before.
        allowed: Addresses of Dask's workers that can compute; None for all.
    """

    executor: Any = None
    room: int = 1
    owned: bool = True
    units: dict["Future[Report]", Unit] = field(default_factory=dict)
    program: str = ""
    suspects: list[Unit] = field(default_factory=list)
    begun: dict["Future[Report]", float] = field(default_factory=dict)
    ready: float | None = None
    allowed: list[str] | None = None

    @property
    def is_free(self) -> bool:
        """Whether a unit can begin; while there are suspects, only one that is alone."""
        return len(self.units) < (1 if self.suspects else self.room)

    def start(self) -> Executor:
        """Start the process of a seat of this machine, and what it imports."""
        executor = self.executor = start_process()
        self.ready = None
        with without_main():
            executor.submit(require_versions, VERSIONS).add_done_callback(self._is_ready)
        return executor

    def _is_ready(self, imported: "Future[None]") -> None:
        self.ready = time.monotonic()

    def submit(self, unit: Unit, task: Task) -> None:
        """Begin a unit."""
        executor: Any = self.executor or self.start()
        if self.client is not None:
            chosen = {} if self.allowed is None else {"workers": self.allowed}
            future = executor.submit(pickle.loads, pickle.dumps(_Call(task)), pure=False, **chosen)
        else:
            with without_main() if self.owned else nullcontext():
                future = executor.submit(work, task)
        self.units[future] = unit
        self.begun[future] = time.monotonic()
        self.program = unit.program

    def take(self, future: "Future[Report]") -> Unit:
        """The unit of a future that is done."""
        del self.begun[future]
        return self.units.pop(future)

    def take_back(self) -> list[Unit]:
        """The units that were handed to chosen workers of Dask, which are no longer there; then all may compute."""
        if self.allowed is None:
            return []
        self.allowed = None
        for future in self.units:
            future.cancel()
        return [self.take(future) for future in [*self.units]]

    def kill_if_over(self, limit: float | None) -> Unit | None:
        """Kill a process of this machine whose unit takes longer than its runs may; the unit, or None."""
        if limit is None or not self.owned or self.ready is None:
            return None
        for future, unit in self.units.items():
            allowed = limit * len(unit.scenarios) + GRACE
            if not future.done() and time.monotonic() - max(self.begun[future], self.ready) > allowed:
                for process in [*(self.executor._processes or {}).values()]:
                    process.kill()
                return unit
        return None

    @property
    def client(self) -> Any:
        """That of a Dask executor, which can ask its workers; else None."""
        client = getattr(self.executor, "_client", None)
        return client if hasattr(client, "run") and hasattr(client, "nthreads") else None

    def avoid_troubled(self, store: str, versions: Mapping[str, str]) -> dict[str, str]:
        """Ask all workers of Dask whether they can compute, and give units to those alone that can.

        Returns:
            Worker -> why it cannot.
        """
        if self.client is None:
            return {}
        found = self.client.run(check_worker, store, versions, on_error="return")
        troubled = {address: error for address, error in found.items() if error is not None}
        self.allowed = [address for address in found if address not in troubled] if troubled else None
        return {address: reason_of(error) for address, error in troubled.items()}

    def has_workers(self) -> bool:
        """Whether anything could compute, as far as an executor tells."""
        if self.client is None:
            return True
        there = self.client.nthreads()
        return bool(there) if self.allowed is None else any(address in there for address in self.allowed)

    def bury(self) -> None:
        """Take leave of a process that has died: another one takes its place with the next unit."""
        if self.owned and self.executor is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.executor = None


class _Call:
    """Work that begins when it is unpickled: a worker of Dask dies of a task that names what it cannot import."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __reduce__(self) -> Any:
        return work, (self.task,)


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
    client = Seat(executor).client
    if client is not None:
        return max(1, sum(client.nthreads().values()))
    return getattr(executor, "_max_workers", None) or os.cpu_count() or 1


def error_of(future: "Future[Report]") -> BaseException | None:
    """The error of a future that is done; a cancelled one has one as well."""
    return CancelledError() if future.cancelled() else future.exception()


def reason_of(error: BaseException) -> str:
    """Why a worker cannot compute, in words."""
    return error.reason if isinstance(error, WorkerTrouble) else f"{type(error).__name__}: {error}"


def listed(troubled: Mapping[str, str]) -> str:
    """Workers and why each cannot compute, the first few of them.

    Example:
        >>> listed({"tcp://a:1": "no store", "tcp://b:1": "no asyncsim"})
        'tcp://a:1 (no store), tcp://b:1 (no asyncsim)'
    """
    shown = [f"{worker} ({reason.rstrip('.')})" for worker, reason in [*troubled.items()][:SHOWN]]
    rest = len(troubled) - len(shown)
    return ", ".join([*shown, *([f"and {rest:,} more"] if rest else [])])


def is_death(error: BaseException) -> bool:
    """Whether an error says that a process died."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == KILLED


def tried(error: BaseException) -> int:
    """How many processes died of a unit that was alone: Dask tries again by itself before it says so."""
    return int(getattr(error, "allowed_failures", None) or 1)
