"""The server's decisions: which gradient counts, when a step is complete, who may read, whose job is stopped."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import fsum
from operator import attrgetter, itemgetter
from struct import Struct
from typing import Any

import numpy as np

from asyncsim.cluster._events import INFINITY
from asyncsim.cluster._model import Cluster
from asyncsim.cluster._random_streams import Clock
from asyncsim.cluster.protocols import Terms
from asyncsim.components._frozen import owned
from asyncsim.trace import NEVER, Fate, Fault, Faults, Trace, Unfinished
from asyncsim.trace._columns import COMMIT_COLUMNS, FAULT_COLUMNS, UNFINISHED_COLUMNS

ROUNDING = 1e-12  # relative error of a sum of inverses

_commit_values, _unfinished_values = attrgetter(*COMMIT_COLUMNS), attrgetter(*UNFINISHED_COLUMNS)


def _make_packer(types: dict[str, type[np.generic]]) -> Callable[..., bytes]:
    """Return a function that packs a row of these columns into bytes, without gaps."""
    return Struct("=" + "".join(np.dtype(dtype).char for dtype in types.values())).pack


_pack_commit, _pack_unfinished = _make_packer(COMMIT_COLUMNS), _make_packer(UNFINISHED_COLUMNS)


@dataclass(slots=True, eq=False)
class Job:
    """One job of one worker, from its read to its end."""

    worker: int
    read_version: int
    read_time: float
    state_lost: bool
    resumes_own: bool = False
    pull_version: int = -1  # -1 stands for the version at the commit
    start_time: float = INFINITY
    finish_time: float = INFINITY
    version: int = field(init=False)
    closes_step: bool = field(init=False)
    arrive_time: float = field(init=False)
    serve_time: float = field(init=False)
    commit_time: float = field(init=False)
    pull_time: float = field(init=False)
    end_version: int = field(init=False)  # this field and the next two are set for jobs that never commit
    end_time: float = field(init=False)
    fate: Fate = field(init=False)


def _table(rows: bytearray, types: dict[str, type[np.generic]]) -> dict[str, Any]:
    """Return the columns of rows that lie one after another."""
    table = np.frombuffer(rows, [*types.items()])
    return {name: owned(table[name].copy()) for name in types}


class Coordinator:
    """Follows the terms of a protocol, and logs the rows of the trace's tables, those of jobs as bytes."""

    def __init__(self, env: Clock, terms: Terms, workers: int) -> None:
        self.env = env
        self.count = 0  # commits
        self.faults: list[tuple[Fault, int, float, float]] = []  # kind, worker, start and end
        self._commit_rows, self._unfinished_rows = bytearray(), bytearray()
        self._collect = terms.collect  # commits that make the present step
        self._limit = terms.limit
        self._wait = terms.wait
        self._slack = terms.slack
        self._in_turn = terms.in_turn
        self._least_balance = terms.balance  # S of the harmonic mean S/n that a balanced step needs
        self._staleness_bound = terms.bound
        self._step_interval = terms.every
        self._released_early_at = terms.collect  # number of waiting gradients at which a step comes before its time
        self._released: set[int] = set()  # workers whose gradients make the present step, where steps have times
        self._stop_at = terms.limit if terms.cancel else None  # staleness at which a job is cancelled
        self.version = 0
        self.jobs: dict[int, Job] = {}
        self.present = [True] * workers
        self._collected = 0  # commits in the step so far
        self._step_commits_of: Counter[int] = Counter()  # commits in the step so far, where a step takes all workers
        self.stop: dict[int, Callable[[], None]] = {}  # worker -> callback that ends its job, so that it begins another
        self._waiting: dict[int, Callable[[], object]] = {}  # worker -> callback that wakes it
        self._contributors: set[int] = set()  # workers that wait for the end of a step to which they have contributed
        self._readers: defaultdict[int, set[int]] = defaultdict(set)  # version -> who read it, to cancel their jobs
        self._clock_of = [0] * workers  # commits of each worker: its clock in stale synchronous parallel
        self._workers_at = Counter({0: workers})  # clock -> number of present workers that have it
        self._slowest = 0  # the lowest clock of a present worker
        self._turn = 0

    def may_read(self, worker: int) -> bool:
        """Return whether the protocol lets the worker read now."""
        if self._slack is not None and self._clock_of[worker] - self._slowest > self._slack:
            return False
        return worker not in self._contributors

    def may_commit(self, worker: int) -> bool:
        """Return whether it is the worker's turn or the time of a step, or neither matters."""
        if self._step_interval is not None:
            return worker in self._released
        return not self._in_turn or self._turn == worker

    def wait(self, worker: int, wake: Callable[[], object]) -> None:
        """Let a worker wait. It asks again after `wake`."""
        self._waiting[worker] = wake
        if self._step_interval is not None and len(self._ready()) >= self._released_early_at:
            self.release()

    def release(self) -> None:
        """Let all gradients that wait for the time of a step take effect."""
        if ready := self._ready():
            self._released.update(ready)
            # The step takes exactly the gradients that have arrived by now.
            self._collect = self._collected + len(self._released)
            self._wake(ready)

    def _ready(self) -> list[int]:
        """Return the workers whose gradients wait for the time of a step, in the order of arrival."""
        return [worker for worker in self._waiting if worker in self.jobs]

    def read(self, worker: int, state_lost: bool = False, last: Job | None = None) -> Job:
        """Begin the worker's next job, which reads the present version.

        Or it goes on from the value that the worker had pulled for its last commit plus its own message.
        """
        if last is None:
            job = Job(worker, self.version, self.env.now, state_lost)
        else:
            version = last.pull_version + last.closes_step
            job = Job(worker, version, last.pull_time, state_lost, resumes_own=True)
        self.jobs[worker] = job
        if self._stop_at is not None:
            self._readers[job.read_version].add(worker)
        return job

    def commit(self, job: Job) -> bool:
        """Let a message take effect, or drop it because it is too old. Return whether it counts."""
        limit = self._limit
        if limit is not None and self.version - job.read_version >= limit:
            self.end(job, Fate.DROPPED)
            return False
        del self.jobs[job.worker]
        self._collected += 1
        self._released.discard(job.worker)
        if self._least_balance is None:
            closes_step = self._collected >= self._collect and not self._waits_for_oldest()
        else:
            self._step_commits_of[job.worker] += 1
            closes_step = self._is_balanced(self._least_balance)
        self.count += 1
        # A job's remaining fields are set as it commits, and its row of the trace is packed at once: a simulation makes
        # millions of jobs, which as objects would fill the memory.
        job.version = version = self.version
        job.closes_step = closes_step
        job.commit_time = self.env.now
        if job.pull_version < 0:
            job.pull_version = version
        self._commit_rows += _pack_commit(*_commit_values(job))
        if self._slack is not None:
            clock = self._clock_of[job.worker]
            self._clock_of[job.worker] = clock + 1
            self._workers_at[clock] -= 1
            self._workers_at[clock + 1] += 1
            self._find_slowest()
        if self._in_turn:
            self._pass_turn()
        if closes_step:
            self._close_step()
        elif self._wait:
            self._contributors.add(job.worker)
        return True

    def _waits_for_oldest(self) -> bool:
        """Return whether a running job would exceed the bound on staleness after another step."""
        if self._staleness_bound is None:
            return False
        oldest = self.version - self._staleness_bound
        return any(job.read_version <= oldest for job in self.jobs.values())

    def end(self, job: Job, fate: Fate) -> None:
        """End a job without a commit."""
        del self.jobs[job.worker]
        self._released.discard(job.worker)
        self._log_end(job, self.version, self.env.now, fate)

    def _log_end(self, job: Job, version: int, now: float, fate: Fate) -> None:
        job.end_version = version
        job.end_time = now
        job.fate = fate
        self._unfinished_rows += _pack_unfinished(*_unfinished_values(job))

    def leave(self, worker: int) -> None:
        """Take a worker away: nobody waits for it."""
        self.present[worker] = False
        self._waiting.pop(worker, None)
        if self._slack is not None:
            self._workers_at[self._clock_of[worker]] -= 1
            self._find_slowest()
        if self._in_turn and self._turn == worker:
            self._pass_turn()

    def join(self, worker: int) -> None:
        """Take a worker back. Its absence does not put it behind."""
        self.present[worker] = True
        if self._slack is not None:
            # Without this, all others would wait until it has made up for the commits that it missed.
            self._clock_of[worker] = max(self._clock_of[worker], self._slowest)
            self._workers_at[self._clock_of[worker]] += 1
            self._find_slowest()
        if self._in_turn and not self.present[self._turn]:
            self._pass_turn()

    def trace(self) -> Trace:
        """Return the checked trace, with some jobs in flight. Nothing can be logged afterwards."""
        for job in self.jobs.values():
            self._log_end(job, NEVER, INFINITY, Fate.IN_FLIGHT)
        commits = _table(self._commit_rows, COMMIT_COLUMNS)
        unfinished = _table(self._unfinished_rows, UNFINISHED_COLUMNS)
        self._commit_rows = self._unfinished_rows = bytearray()  # as large as the columns, and no longer needed
        faults = np.array(sorted(self.faults, key=itemgetter(2)), [*FAULT_COLUMNS.items()])
        trace = Trace(
            workers=len(self.present),
            **commits,
            unfinished=Unfinished(**unfinished),
            faults=Faults(**{name: faults[name] for name in FAULT_COLUMNS}),
        )
        trace.check()
        return trace

    def _is_balanced(self, least: int) -> bool:
        """Return whether all workers have contributed to the step, in numbers of a harmonic mean of least/n or more."""
        n = len(self.present)
        if len(self._step_commits_of) < n:
            return False
        # Every worker has one gradient or more, so a mean of 1 needs no sum.
        if least <= n:
            return True
        inverse = fsum(1 / count for count in self._step_commits_of.values())
        return least * inverse <= n * n * (1 + ROUNDING)

    def _close_step(self) -> None:
        self.version += 1
        self._collected = 0
        self._step_commits_of.clear()
        if self._stop_at is not None:
            too_old = self.version - self._stop_at
            # In the order of the workers' numbers, because a set has none that every process shares.
            for worker in sorted(self._readers.pop(too_old, ())):
                if worker in self.jobs and self.jobs[worker].read_version == too_old:
                    self.stop[worker]()
        if self._contributors:
            contributors = sorted(self._contributors)
            self._contributors = set()
            self._wake(contributors)

    def _find_slowest(self) -> None:
        """Update the clock of the slowest present worker, which never falls (see `join`). If it grows, wake readers."""
        before = self._slowest
        # The clocks below the slowest are deleted, so that the counter stays as small as the spread of the workers.
        while not self._workers_at[self._slowest] and any(self.present):
            del self._workers_at[self._slowest]
            self._slowest += 1
        if self._slowest > before:
            self._wake([worker for worker in self._waiting if self.may_read(worker)])

    def _pass_turn(self) -> None:
        workers = len(self.present)
        following = ((self._turn + places) % workers for places in range(1, workers + 1))
        self._turn = next((worker for worker in following if self.present[worker]), self._turn)
        self._wake([self._turn])

    def _wake(self, workers: Iterable[int]) -> None:
        for worker in workers:
            wake = self._waiting.pop(worker, None)
            if wake is not None:
                wake()


class CoordinatedRun:
    """Base class of running clusters whose protocol a coordinator follows: their length, trace and remedy."""

    cluster: Cluster
    coordinator: Coordinator

    def __len__(self) -> int:
        return self.coordinator.count

    def trace(self) -> Trace:
        """Return the trace until now, which ends the run."""
        return self.coordinator.trace()

    def stuck_remedy(self) -> str:
        """Return the remedy for a cluster that never makes another commit."""
        protocol = self.cluster.protocol
        down = [worker for worker, is_up in enumerate(self.coordinator.present) if not is_up]
        if down:
            return f"{protocol!r} goes on waiting while {len(down)} workers are down, the first of them {down[0]}."
        return f"Correct {protocol!r} or the delays."
