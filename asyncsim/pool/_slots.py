"""Worker slots: room for tasks in a process of this machine, or in any executor of PEP 3148, such as Dask's.

A process of this machine has one task at a time, so its death is the death of that task. An executor has many
processes: when one of them dies, all tasks that it had are quarantined and tried again one at a time, to find the
culprit.

Processes of this machine are spawned and never forked: JAX has threads. Each has one CPU device and one thread, prints
on standard error (standard output belongs to the process that started them) and ignores Ctrl-C (that process answers
it, and ends them by SIGTERM, on which a replay keeps its checkpoint). It ends with the process that started it.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar

from asyncsim._memory import cores
from asyncsim.store import _lease as lease

KILLED_WORKER = "KilledWorker"  # Dask's name for the death of every process on which it tried a task
GRACE = 5.0  # seconds in which a process may end by itself before it is killed: beyond its limit, or with a checkpoint
SAFE_PATH = "PYTHONSAFEPATH"  # environment variable with which Python leaves the working directory out
MOST_NAMED = 3  # workers that a message names
# Tasks that a process of an executor has at once: one to compute, one to begin with when that is done.
TASKS_PER_PROCESS = 2

Call = tuple[Callable[[Any], Any], Any]  # a function and its argument, both picklable


class Task(Protocol):
    """Work for one process, under a key."""

    @cached_property
    def name(self) -> str: ...

    @property
    def program(self) -> str: ...  # tasks of one program are best computed by one process, which has compiled it

    @property
    def schedule(self) -> str: ...  # the same of the schedule, which it has simulated

    @cached_property
    def digests(self) -> tuple[str, ...]: ...


T = TypeVar("T", bound=Task)


class WorkerError(Exception):
    """A process cannot compute, for a reason of its own."""

    def __init__(self, worker: str, reason: str) -> None:
        super().__init__(worker, reason)
        self.worker, self.reason = worker, reason

    def __str__(self) -> str:
        return f"{self.worker}: {self.reason}"


@dataclass(eq=False)
class Slot(Generic[T]):
    """Room for tasks."""

    check: Call  # tells a process whether it can compute, and makes it import all that it needs
    executor: Any = None  # computes the tasks, or None for a process of this machine that has not been started
    room: int = 1  # tasks at a time
    owned: bool = True  # whether this is a process of this machine, which is replaced when it dies
    tasks: "dict[Future[Any], T]" = field(default_factory=dict)  # future -> the task whose outcome it will be
    program: str = ""  # that of the last task
    schedule: str = ""  # the same
    quarantined: list[T] = field(default_factory=list)  # tasks of which one killed a process
    submitted: float = 0.0  # when the last task was submitted
    ready: float | None = None  # when a process of this machine had imported all that it needs, or None before
    settings: Mapping[str, Any] = field(default_factory=dict)  # of JAX, for a process of this machine
    allowed: list[str] | None = None  # addresses of Dask's workers that can compute, or None for all

    @property
    def is_free(self) -> bool:
        """Whether a task can begin. While some are quarantined, only one runs at a time."""
        return len(self.tasks) < (1 if self.quarantined else self.room)

    def start(self) -> Executor:
        """Start the process of this machine, and its imports."""
        context = multiprocessing.get_context("spawn")
        with without_main():  # The executor starts a process as well, which tracks its semaphores.
            executor = self.executor = ProcessPoolExecutor(
                1, mp_context=context, initializer=_begin, initargs=(dict(self.settings),)
            )
            self.ready = None
            executor.submit(*self.check).add_done_callback(self._note_ready)
        return executor

    def _note_ready(self, checked: "Future[Any]") -> None:
        self.ready = time.monotonic()

    def submit(self, task: T, call: Call) -> None:
        """Begin a task."""
        executor: Any = self.executor or self.start()
        if client_of(executor) is not None:
            options = {} if self.allowed is None else {"workers": self.allowed}
            future = executor.submit(pickle.loads, pickle.dumps(_Called(call)), pure=False, **options)
        else:
            with without_main() if self.owned else nullcontext():
                future = executor.submit(*call)
        self.tasks[future], self.submitted = task, time.monotonic()
        self.program, self.schedule = task.program, task.schedule

    def take_back(self) -> list[T]:
        """Return the tasks of chosen workers of Dask that are no longer there, whereupon all workers may compute."""
        if self.allowed is None:
            return []
        self.allowed = None
        abandoned, self.tasks = self.tasks, {}
        for future in abandoned:
            future.cancel()
        return [*abandoned.values()]

    def kill_if_over(self, limit: float | None) -> T | None:
        """Kill a process of this machine whose task takes longer than its runs may, and return the task, or None."""
        if limit is None or not self.owned or self.ready is None:
            return None
        for future, task in self.tasks.items():
            # The limit is that of one run, and a task may hold several.
            seconds = limit * len(task.digests) + GRACE
            if not future.done() and time.monotonic() - max(self.submitted, self.ready) > seconds:
                kill_processes(self.executor)
                return task
        return None

    def avoid_failing(self) -> dict[str, str]:
        """Ask all workers of Dask whether they can compute, and use only those that can."""
        client = client_of(self.executor)
        if client is None:
            return {}
        answers = client.run(*self.check, on_error="return")
        failing = {address: error for address, error in answers.items() if error is not None}
        self.allowed = [address for address in answers if address not in failing] if failing else None
        return {address: reason_of(error) for address, error in failing.items()}

    def has_workers(self) -> bool:
        """Return whether anything could compute, as far as an executor tells."""
        client = client_of(self.executor)
        if client is None:
            return True
        present = client.nthreads()
        return bool(present) if self.allowed is None else any(address in present for address in self.allowed)

    def discard(self) -> None:
        """Discard a process that has died: another one takes its place with the next task.

        Its pipes close before it ends, and until then the lease that it holds is valid, so the end is awaited.
        """
        if self.owned and self.executor is not None:
            dead = kill_processes(self.executor)
            self.executor.shutdown(wait=False, cancel_futures=True)
            for process in dead:
                process.join(GRACE)
            self.executor = None


class _Called:
    """A call that is made when it is unpickled: a worker of Dask dies if it cannot import the module of a task."""

    def __init__(self, call: Call) -> None:
        self.function, self.argument = call

    def __reduce__(self) -> Any:
        return self.function, (self.argument,)


@contextmanager
def slots(
    executor: Executor | None, jobs: int | None, tasks: int, check: Call, settings: Mapping[str, Any] | None = None
) -> Iterator[list[Slot[Any]]]:
    """Yield worker slots for some tasks: one of an executor, one for each process of this machine, or none for no jobs.

    Processes of this machine get the settings of JAX, by name.
    """
    if executor is not None:
        room = [Slot[Any](check, executor, TASKS_PER_PROCESS * processes_of(executor), owned=False)]
    else:
        room = [
            Slot[Any](check, settings=settings or {})
            for _ in range(min(cores() if jobs is None else jobs, max(tasks, 1)))
        ]
    try:
        for slot in room if tasks and executor is None else ():
            slot.start()
        yield room
    finally:
        stop_processes([slot.executor for slot in room if slot.owned and slot.executor is not None])
        for future in [future for slot in room if not slot.owned for future in slot.tasks]:
            future.cancel()


def client_of(executor: Any) -> Any:
    """Return the client of a Dask executor, which can ask its workers, or None for any other."""
    client = getattr(executor, "_client", None)
    return client if hasattr(client, "run") and hasattr(client, "nthreads") else None


def processes_of(executor: Any) -> int:
    """Return how many tasks an executor computes at once, as far as it tells."""
    client = client_of(executor)
    if client is not None:
        return max(1, sum(client.nthreads().values()))
    return getattr(executor, "_max_workers", None) or os.cpu_count() or 1


def error_of(future: "Future[Any]") -> BaseException | None:
    """Return the error of a future that is done. A cancelled one has one as well."""
    return CancelledError() if future.cancelled() else future.exception()


def reason_of(error: BaseException) -> str:
    """Return why a worker cannot compute, in words."""
    return error.reason if isinstance(error, WorkerError) else f"{type(error).__name__}: {error}"


def listed(failing: Mapping[str, str]) -> str:
    """Return workers and why each cannot compute, the first few of them."""
    words = [f"{worker} ({reason.rstrip('.')})" for worker, reason in [*failing.items()][:MOST_NAMED]]
    rest = len(failing) - len(words)
    return ", ".join([*words, *([f"and {rest:,} more"] if rest else [])])


def is_death(error: BaseException) -> bool:
    """Return whether an error says that a process died."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == KILLED_WORKER


@contextmanager
def without_main() -> Iterator[None]:
    """Start processes that do not run the main program's file again, as `spawn` would have them do.

    Nor do they import from the working directory before they have this process's path: it may be anybody's folder.
    """
    main, safe = sys.modules["__main__"], os.environ.get(SAFE_PATH)
    sys.modules["__main__"], os.environ[SAFE_PATH] = types.ModuleType("__main__"), "1"
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        del os.environ[SAFE_PATH]
        if safe is not None:
            os.environ[SAFE_PATH] = safe


def kill_processes(executor: ProcessPoolExecutor) -> Sequence[BaseProcess]:
    """Kill the processes of an executor, and return them."""
    processes = [*(executor._processes or {}).values()]
    for process in processes:
        with suppress(OSError, ValueError):
            process.kill()
    return processes


def stop_processes(executors: list[ProcessPoolExecutor]) -> None:
    """End processes: at once where there is nothing to do, else after a moment for a checkpoint."""
    processes = [process for executor in executors for process in (executor._processes or {}).values()]
    for executor in executors:
        executor.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with suppress(OSError, ValueError):
            process.terminate()  # An idle one would take half a second to leave by itself.
    for process in processes:
        with suppress(OSError, ValueError, AssertionError):
            process.join(GRACE)
            if process.is_alive():
                process.kill()
                process.join(GRACE)


def _begin(settings: Mapping[str, Any]) -> None:
    """Prepare a new process to compute: one device, one thread, deaf to Ctrl-C, gone when its parent is."""
    with suppress(OSError):  # Standard error may be closed.
        os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    os.environ["NPROC"] = "1"  # XLA reads its number of threads from it.
    import jax

    for name, value in {**settings, "jax_num_cpu_devices": 1}.items():
        jax.config.update(name, value)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _leave(number: int, frame: object) -> None:
    """End the process: in an orderly way, which gives back leases, if it holds any, or else at once."""
    if lease.is_held():
        sys.exit(128 + number)
    os._exit(128 + number)


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
