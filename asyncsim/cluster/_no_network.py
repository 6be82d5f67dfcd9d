"""A cluster of workers and a server without a network, without SimPy's processes: an event is a tuple, not an object.

`NoNetwork` knows every protocol. Every event of `FullSimulation` that can change the trace occurs there, too, at the
same time and in the same order, so that both give the same trace to the last bit, in a fraction of the time. Events of
the present time never enter the heap, and timeouts of jobs that were stopped leave it when they are the majority.
`FastPath` and `FastQueue` are for asynchronous workers, with one event per commit.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count, repeat
from typing import Any

import numpy as np
from simpy.core import EmptySchedule

from asyncsim.cluster._coordinator import CoordinatedRun, Coordinator, Job
from asyncsim.cluster._events import INFINITY
from asyncsim.cluster._model import Cluster
from asyncsim.cluster._random_streams import ComputeDelays, Purpose, draw_delays
from asyncsim.components._frozen import owned
from asyncsim.trace import Fate, Trace, Unfinished
from asyncsim.trace._table import after_own_commits

_FEW = 64  # events that are not worth clearing out

# The event for which a worker waits.
_START, _READ, _COMPUTE, _TURN, _SLOT, _SERVICE = range(6)
_TIMED, _AT_SERVER = (_COMPUTE, _SERVICE), (_SLOT, _SERVICE)


class NoNetwork(CoordinatedRun):
    """A running cluster that `has_no_network`."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        workers = cluster.workers
        self.cluster = cluster
        self.now = 0.0
        terms = cluster.protocol.terms(workers)
        self.coordinator = Coordinator(self, terms, workers)
        self._reads_wait = terms.slack is not None or terms.wait
        self._commits_wait = terms.in_turn
        laws: Any = cluster.laws  # of constant speed
        self._work = [draw_delays(self, law, seed, w).__next__ for w, law in enumerate(laws)]
        self._free_slots = cluster.server.slots
        self._queue: deque[int] | None = None  # a server that takes no time keeps nobody waiting
        if not cluster.server.is_instant:
            self._queue = deque()
            law = cluster.server.service
            self._service = [draw_delays(self, law, seed, w, Purpose.SERVICE) for w in range(workers)]
        self._order = count().__next__
        # Workers that begin or are interrupted, which SimPy handles before all other events of the time.
        self._urgent = deque(range(workers))
        # Other events of the present time: order, worker, order of the awaited event.
        self._soon: deque[tuple[int, int, int]] = deque()
        self._heap: list[tuple[float, int, int]] = []  # time, order, worker
        self._void = 0  # events of the heap whose jobs were stopped
        self._phase = [_START] * workers
        self._awaits = [-1] * workers  # order of the event that each worker waits for
        self._job: list[Job] = [None] * workers  # type: ignore[list-item]  # before the first read
        for worker in range(workers):
            self.coordinator.stop[worker] = partial(self._urgent.append, worker)

    def peek(self) -> float:
        if self._urgent or self._soon:
            return self.now
        return self._heap[0][0] if self._heap else INFINITY

    def advance(self, events: int, commits: float, seconds: float) -> None:
        heap, soon, urgent, awaits, server = self._heap, self._soon, self._urgent, self._awaits, self.coordinator
        phase = self._phase
        # The worker's next action after the event for which it waited: `_START`, `_READ`, and so on.
        next_phase = (self._read, self._read, self._arrive, self._ask_to_commit, self._serve, self._leave)
        for _ in repeat(None, events):
            if urgent:
                self._interrupt(urgent.popleft())
            # An event of the heap at the present time comes first if it was scheduled first.
            elif soon and not (heap and heap[0][0] == self.now and heap[0][1] < soon[0][0]):
                _, worker, awaited = soon.popleft()
                if worker < 0:  # A slot was freed.
                    self._take_up()
                elif awaits[worker] == awaited:
                    next_phase[phase[worker]](worker)
            else:
                time = heap[0][0] if heap else INFINITY
                if time > seconds:
                    return
                if not heap:
                    raise EmptySchedule
                _, awaited, worker = heappop(heap)
                # An event that its worker no longer awaits is void: the job was stopped.
                if awaits[worker] == awaited:
                    self.now = time
                    next_phase[phase[worker]](worker)
                else:
                    self._void -= 1
            if server.count >= commits:
                return

    def _read(self, worker: int) -> None:
        coordinator = self.coordinator
        if self._reads_wait and not coordinator.may_read(worker):
            self._wait(worker, _READ)
            return
        self._job[worker] = job = coordinator.read(worker)
        job.start_time = now = self.now
        self._phase[worker] = _COMPUTE
        self._awaits[worker] = order = self._order()
        heappush(self._heap, (now + self._work[worker](), order, worker))

    def _arrive(self, worker: int) -> None:
        job = self._job[worker]
        job.finish_time = job.arrive_time = self.now
        self._ask_to_commit(worker)

    def _ask_to_commit(self, worker: int) -> None:
        if self._commits_wait and not self.coordinator.may_commit(worker):
            self._wait(worker, _TURN)
        elif self._queue is None:
            job = self._job[worker]
            job.serve_time = self.now
            self.coordinator.commit(job)
            self._read(worker)
        else:
            self._phase[worker] = _SLOT
            self._awaits[worker] = self._order()
            self._queue.append(worker)
            self._take_up()

    def _take_up(self) -> None:
        """Give a slot to the first in the queue, if one is free."""
        if self._queue and self._free_slots:
            self._free_slots -= 1
            worker = self._queue.popleft()
            self._soon.append((self._order(), worker, self._awaits[worker]))

    def _serve(self, worker: int) -> None:
        self._job[worker].serve_time = self.now
        seconds = next(self._service[worker])
        if seconds:
            self._phase[worker] = _SERVICE
            self._awaits[worker] = order = self._order()
            heappush(self._heap, (self.now + seconds, order, worker))
        else:
            self._leave(worker)

    def _leave(self, worker: int) -> None:
        self.coordinator.commit(self._job[worker])
        self._release()
        self._read(worker)

    def _release(self, slots: int = 1) -> None:
        self._free_slots += slots
        self._soon.append((self._order(), -1, -1))

    def _wait(self, worker: int, phase: int) -> None:
        self._phase[worker] = phase
        self._awaits[worker] = order = self._order()
        self.coordinator.wait(worker, lambda: self._soon.append((self._order(), worker, order)))

    def _interrupt(self, worker: int) -> None:
        """Stop the running job, if there is one, and let the worker read."""
        phase, awaits, queue = self._phase[worker], self._awaits, self._queue
        if phase in _TIMED:
            awaits[worker] = -1
            self._void += 1
            # Void events leave the heap when they are the majority.
            if self._void > _FEW and 2 * self._void > len(self._heap):
                self._heap[:] = [event for event in self._heap if awaits[event[2]] == event[1]]
                heapify(self._heap)
                self._void = 0
        if phase in _AT_SERVER:
            assert queue is not None
            if worker in queue:
                queue.remove(worker)
                self._release(slots=0)  # SimPy releases a request even if it never had a slot
            else:
                self._release()
        if phase != _START:
            self.coordinator.end(self._job[worker], Fate.CANCELLED)
        self._read(worker)


class FastPath:
    """A running cluster that `takes_fast_path`: who committed when, in compact arrays, 12 bytes per commit."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.seed = seed
        self.now = 0.0
        self._worker = array("i")
        self._time = array("d")
        self._delays: ComputeDelays | None = None  # not drawn before the run begins
        self._heap: list[tuple[float, int, int]] = []  # time, order, worker

    def __len__(self) -> int:
        return len(self._worker)

    def trace(self) -> Trace:
        worker, time = np.array(self._worker, np.int32), np.array(self._time, np.float64)
        columns, rest = after_own_commits(worker, time, self.cluster.workers, began=np.zeros(len(worker)))
        trace = Trace(workers=self.cluster.workers, unfinished=Unfinished(**owned(rest)), **owned(columns))
        trace.check()
        return trace

    def stuck_remedy(self) -> str:
        return "Correct the delays."

    def peek(self) -> float:
        return self._heap[0][0] if self._heap else 0.0

    def advance(self, events: int, commits: float, seconds: float) -> None:
        delays = self._start()
        heap, first = self._heap, len(self) + self.cluster.workers
        add_worker, add_time, next_delay = self._worker.append, self._time.append, delays.next
        for order in range(first, first + int(min(events, commits - len(self)))):
            now, _, worker = heap[0]
            if now > seconds:
                return
            self.now = now
            add_worker(worker)
            add_time(now)
            heapreplace(heap, (now + next_delay(worker), order, worker))

    def _start(self) -> ComputeDelays:
        """Return the compute times. Before the first event, let every worker begin a job."""
        if self._delays is None:
            laws: Any = self.cluster.laws  # of constant speed
            self._delays = delays = ComputeDelays(self, laws, self.seed)
            self._heap = [(delays.next(worker), worker, worker) for worker in range(self.cluster.workers)]
            heapify(self._heap)
        return self._delays


class FastQueue(FastPath):
    """A running cluster that `takes_fast_queue`: who arrived, was served and committed when, 28 bytes per commit."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        self._arrive_time = array("d")
        self._serve_time = array("d")
        self._service: list[Iterator[float]] = []
        self._free = 0.0  # time at which the server has served all that have committed
        self._next_commit: float | None = None  # end of the next service, once it has been drawn
        self._seconds = INFINITY

    def trace(self) -> Trace:
        trace = super().trace()
        jobs, last = trace.unfinished, len(self) + self.cluster.workers - 1
        finish_time = np.full(len(jobs), INFINITY)
        for time, order, worker in self._heap:
            if (time <= trace.seconds and order < last) if self._seconds == INFINITY else (time <= self._seconds):
                finish_time[worker] = time
        by_read = np.argsort(jobs.read_version, kind="stable")  # a worker reads right after its own commit
        arrive_time = owned(np.asarray(self._arrive_time))
        trace = replace(
            trace,
            finish_time=arrive_time,
            arrive_time=arrive_time,
            serve_time=owned(np.asarray(self._serve_time)),
            unfinished=Unfinished(
                worker=jobs.worker[by_read],
                read_version=jobs.read_version[by_read],
                read_time=jobs.read_time[by_read],
                finish_time=finish_time[by_read],
            ),
        )
        trace.check()
        return trace

    def peek(self) -> float:
        """Return the time of the next commit, or one before which it cannot be."""
        return max(super().peek(), self._free) if self._next_commit is None else self._next_commit

    def advance(self, events: int, commits: float, seconds: float) -> None:
        delays = self._start()
        if not self._service:
            law, workers = self.cluster.server.service, range(self.cluster.workers)
            self._service = [draw_delays(self, law, self.seed, w, Purpose.SERVICE) for w in workers]
        self._seconds = seconds
        heap, service, free, end = self._heap, self._service, self._free, self._next_commit
        first = len(self) + self.cluster.workers
        add_worker, add_time, next_delay = self._worker.append, self._time.append, delays.next
        add_arrival, add_service = self._arrive_time.append, self._serve_time.append
        for order in range(first, first + int(min(events, commits - len(self)))):
            arrival, _, worker = heap[0]
            start = arrival if arrival > free else free
            if start > seconds:
                return
            if end is None:
                self.now = start
                end = start + next(service[worker])
            if end > seconds:
                self._next_commit = end
                return
            self.now = self._free = free = end
            self._next_commit = end = None
            add_worker(worker)
            add_arrival(arrival)
            add_service(start)
            add_time(free)
            heapreplace(heap, (free + next_delay(worker), order, worker))
