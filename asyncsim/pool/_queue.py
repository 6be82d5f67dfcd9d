"""One queue: tasks computed in this process, by processes of this machine or by any executor, until none is left.

The death of a process costs its own task and nothing else: the task is tried again, and after three deaths it is
discarded with the reason, while all others go on. A task whose lease another process holds waits for that process.
"""

import time
import warnings
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent import futures
from concurrent.futures import FIRST_COMPLETED, Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Generic

from asyncsim import _checks as checks
from asyncsim.pool._slots import Call, Slot, T, WorkerError, error_of, is_death, listed, reason_of
from asyncsim.store import _lease as lease

MOST_DEATHS = 3  # of processes, until their task is discarded
MOST_WORKER_ERRORS = 3  # of workers that cannot compute a task, until the queue stops
RESUMES = "Results are kept, and the same sweep goes on once this is repaired."
PAUSE = 0.2  # seconds until tasks that other processes compute are looked at again
WAIT_REMEDY = "Leave it out to wait for ever."
WARNING_SECONDS = 60.0  # seconds of waiting, until a warning says for whom
MOST_SEARCHED = 64  # tasks of a program, among which one with a known schedule is preferred


class Stopped(RuntimeError):
    """The queue cannot go on, for a reason that is no task's. Finished results are kept, and the same call resumes."""


class TooLong(Exception):
    """A run took longer than it may."""


class Patience:
    """Waiting for other processes."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = None if seconds is None else checks.require_not_negative("patience", seconds, remedy=WAIT_REMEDY)
        self.since: float | None = None
        self.warned = False

    def end(self) -> None:
        """Stop the clock: there is something else to do, or something has happened."""
        self.since, self.warned = None, False

    def wait(self, whom: Callable[[], str]) -> None:
        """Wait, because nothing else can be done. A warning says for whom after a minute."""
        now = monotonic()
        self.since = now if self.since is None else self.since
        waited = now - self.since
        if self.seconds is not None and waited >= self.seconds:
            raise Stopped(
                f"Waited {waited:.0f} seconds for {whom()}, as long as `patience` allows. Results are kept, and the "
                "same sweep goes on."
            )
        if waited >= WARNING_SECONDS and not self.warned:
            self.warned = True
            limit = "" if self.seconds is not None else " `patience` limits the time (`--patience SECONDS`)."
            warnings.warn(f"Waiting for {whom()} since {waited:.0f} seconds.{limit}", stacklevel=3)


class Limit:
    """The time that a run may take, compared with the clock whenever the run reports its progress.

    Runs in lanes report it together, and may take as long as they may one after another.
    """

    def __init__(self, seconds: float, runs: int = 1) -> None:
        self.seconds, self.runs = seconds, runs
        self.start = monotonic()

    def __call__(self, progress: Any) -> None:
        """Raise an error if the run has taken longer than it may."""
        if monotonic() - self.start > self.seconds * self.runs:
            raise TooLong(explain_limit(self.seconds))


def explain_limit(seconds: float) -> str:
    """Return why a run failed that took longer than it may."""
    return (
        f"it took longer than {seconds:g} seconds, which is its `run_limit`. Give it more, and try it again "
        "(`retry_failed`)"
    )


def holders_of(leases: Path, names: Iterable[str]) -> str:
    """Return who holds the leases of these names, in words."""
    held = lease.holders(leases)
    holders = [held[name] for name in names if name in held]
    processes = dict.fromkeys(map(lease.name_of, holders))
    return f"{' and '.join(processes) or 'another process'}, which holds the leases of {len(holders):,} of these runs"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a task."""

    value: Any = None  # the result
    busy: bool = False  # whether another process holds its lease, so that nothing was done
    worker_error: WorkerError | None = None  # why the result could not be kept, if another process may have more luck


class Job(ABC, Generic[T]):
    """The computation of the tasks of a queue."""

    patience: Patience  # for other processes
    run_limit: float | None = None  # seconds that each result of a task may take, or None
    leases: Path | None = None  # folder of the leases, if there are any
    ends: tuple[type[BaseException], ...] = ()

    @abstractmethod
    def here(self, task: T) -> Outcome:
        """Compute a task in this process."""

    @abstractmethod
    def call(self, task: T) -> Call:
        """Return the computation of a task as a call for another process."""

    @abstractmethod
    def receive(self, task: T, outcome: Outcome) -> None:
        """Take the outcome of a task that has been computed."""

    @abstractmethod
    def discard(self, task: T, reason: str) -> None:
        """Note that a task has failed for good."""

    def parts(self, task: T) -> list[T]:
        """Return the rest of a task that is about to be discarded, in parts of which one is the culprit."""
        del task  # Most tasks have no parts.
        return []

    def is_left(self, task: T) -> bool:
        """Return whether another process, which has held the lease of a task, left anything to do."""
        del task  # Without leases, no other process has worked on it.
        return True


class Queue(Generic[T]):
    """Tasks that wait for a worker slot, by program, and those that wait for other processes."""

    def __init__(self, job: Job[T], tasks: Iterable[T]) -> None:
        self.job = job
        self.programs: dict[str, deque[T]] = {}
        self.waiting: list[T] = []
        self.deaths: Counter[str] = Counter()
        self.worker_errors: Counter[str] = Counter()
        self.too_long: set[str] = set()  # names of tasks whose process was killed because they took too long
        for task in tasks:
            self.programs.setdefault(task.program, deque()).append(task)

    def __len__(self) -> int:
        return sum(map(len, self.programs.values())) + len(self.waiting)

    def next(self, program: str, schedule: str, others: Collection[Slot[T]] = ()) -> T | None:
        """Return a task, if possible of this program, or else of one that no other slot has or of that with most tasks.

        Of the program's first tasks it is one over this schedule, or else over one that no other slot has, so that one
        process simulates each schedule.
        """
        if program not in self.programs:
            programs_of_others = {other.program for other in others}
            free = [name for name in self.programs if name not in programs_of_others] or list(self.programs)
            if not free:
                return None
            program = max(free, key=lambda name: len(self.programs[name]))
        tasks, schedules_of_others = self.programs[program], {other.schedule for other in others}
        # False sorts before True: this slot's own schedule first, then one that no other slot simulates.
        order = [
            (task.schedule != schedule, task.schedule in schedules_of_others) for task in islice(tasks, MOST_SEARCHED)
        ]
        place = order.index(min(order))
        task = tasks[place]
        del tasks[place]
        if not tasks:
            del self.programs[program]
        return task

    def put_back(self, task: T) -> None:
        """Put a task that must be tried again in front."""
        self.programs.setdefault(task.program, deque()).appendleft(task)

    def run(self, slots: list[Slot[T]]) -> Iterator[None]:
        """Compute everything in some slots, or in this process without any. Yield whenever something has happened."""
        happened = True
        while True:
            for slot in slots:
                self._fill(slot, slots)
            if happened:
                yield
            if not len(self) and not any(slot.tasks or slot.quarantined for slot in slots):
                return
            happened = self._advance(slots) if slots else self._advance_here()

    def _advance_here(self) -> bool:
        """Compute one task in this process, or wait if other processes compute all, and return whether one ended."""
        task = self.next("", "")
        if task is None:
            return self._look_at_waiting()
        self.job.patience.end()
        self._receive(task, self.job.here(task))
        return True

    def _advance(self, slots: list[Slot[T]]) -> bool:
        """Wait for a moment, and return whether a task has ended."""
        pending = [future for slot in slots for future in slot.tasks]
        if not pending:
            return self._look_at_waiting()
        done, _ = futures.wait(pending, timeout=PAUSE if self.waiting else 1.0, return_when=FIRST_COMPLETED)
        if done:
            self.job.patience.end()
        else:
            self._look_for_workers(slots)
        for slot in slots:
            for future in done & slot.tasks.keys():
                error = error_of(future)
                if error is None or not is_death(error):
                    self._collect(slot, future)
                    continue
                task = slot.tasks.pop(future)
                # A task that was alone with its process is the culprit.
                if slot.owned or (slot.quarantined and slot.quarantined[0] is task):
                    self._count_death(slot, task, error)
                else:
                    slot.quarantined.append(task)
            overdue = slot.kill_if_over(self.job.run_limit)
            if overdue is not None:
                self.too_long.add(overdue.name)
        others_ended = self._look_at_waiting(0.0) if self.waiting else False
        return bool(done) or others_ended

    def _fill(self, slot: Slot[T], slots: list[Slot[T]]) -> None:
        while slot.is_free:
            others = [other for other in slots if other is not slot and other.tasks]
            task = slot.quarantined[0] if slot.quarantined else self.next(slot.program, slot.schedule, others)
            if task is None:
                return
            call = self.job.call(task)
            try:
                slot.submit(task, call)
            except Exception as error:
                if not slot.owned:
                    reason = (
                        "a process of it died, and it does not start others"
                        if is_death(error)
                        else shorten_error(error)
                    )
                    raise Stopped(f"`executor` has broken down: {reason}. {RESUMES}") from error
                if not is_death(error):
                    raise
                self._count_death(slot, task, error)

    def _collect(self, slot: Slot[T], future: "Future[Outcome]") -> None:
        """Take the outcome of a task of which no process died."""
        task = slot.tasks.pop(future)
        if slot.quarantined and slot.quarantined[0] is task:
            slot.quarantined.pop(0)
        error = error_of(future)
        if isinstance(error, futures.CancelledError):
            raise Stopped(f"`executor` is gone: it cancelled its tasks. {RESUMES}") from error
        if error is not None and isinstance(error, self.job.ends):
            raise error
        if error is None:
            outcome = future.result()
            if slot.owned or outcome.worker_error is None or self.worker_errors[task.name] + 1 >= MOST_WORKER_ERRORS:
                self._receive(task, outcome)
                return
            error = outcome.worker_error
        self._try_elsewhere(slot, task, error)

    def _receive(self, task: T, outcome: Outcome) -> None:
        if outcome.busy:
            self.waiting.append(task)
        else:
            self.job.receive(task, outcome)

    def _look_for_workers(self, slots: list[Slot[T]]) -> None:
        """Wait for workers of Dask where there are none. Those that come may compute the tasks of others."""
        try:
            lacking = [slot for slot in slots if not slot.has_workers()]
        except Exception as error:
            raise Stopped(f"`executor` is gone: {shorten_error(error)}. {RESUMES}") from error
        if not lacking:
            self.job.patience.end()
            return
        for slot in lacking:
            for task in slot.take_back():
                self.put_back(task)
        self.job.patience.wait(lambda: "Dask workers (the scheduler has none that can compute)")

    def _try_elsewhere(self, slot: Slot[T], task: T, error: BaseException) -> None:
        """Try a task again that a process could not compute, for a reason of its own, if possible in another one."""
        self.worker_errors[task.name] += 1
        try:
            failing = slot.avoid_failing()
        except Exception as failure:
            raise Stopped(f"`executor` has broken down: {shorten_error(failure)}. {RESUMES}") from failure
        if slot.allowed == [] or self.worker_errors[task.name] >= MOST_WORKER_ERRORS:
            worker = error.worker if isinstance(error, WorkerError) else "a process that computes"
            raise Stopped(f"No worker can compute: {listed(failing or {worker: reason_of(error)})}. {RESUMES}")
        self.put_back(task)

    def _count_death(self, slot: Slot[T], task: T, error: BaseException) -> None:
        """Try the task of a process that died again, or discard it."""
        slot.discard()
        self.deaths[task.name] += getattr(error, "allowed_failures", None) or 1  # Dask tries again by itself.
        reason = ""
        if task.name in self.too_long and self.job.run_limit is not None:
            reason = explain_limit(self.job.run_limit)
        elif self.deaths[task.name] >= MOST_DEATHS:
            reason = f"its process died {self.deaths[task.name]} times ({shorten_error(error)})"
        # The culprit is known, so the other quarantined tasks go on, still one at a time.
        if reason and slot.quarantined:
            slot.quarantined.pop(0)
        if reason:
            # Any run of the task may be the culprit, so each is tried alone.
            parts = self.job.parts(task)
            for part in parts:
                self.put_back(part)
            if not parts:
                self.job.discard(task, reason)
        elif not slot.quarantined:
            self.put_back(task)

    def _look_at_waiting(self, pause: float = PAUSE) -> bool:
        """Put back tasks that other processes left unfinished, and return whether any of these has ended."""
        assert self.job.leases is not None
        folder, patience = self.job.leases, self.job.patience
        if pause:
            time.sleep(pause)
            patience.wait(lambda: holders_of(folder, [digest for task in self.waiting for digest in task.digests]))
        held = lease.holders(folder)
        waiting, self.waiting = self.waiting, []
        for task in waiting:
            if not held.keys().isdisjoint(task.digests):
                self.waiting.append(task)
                continue
            patience.end()
            if self.job.is_left(task):
                self.put_back(task)
        return len(self.waiting) < len(waiting)


def shorten_error(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {checks.truncate(str(error), 200)}"
