"""Workers that only compute, queue and commit: the events of the full simulation in their order, without its processes.

Every event of `Full` that can change the trace occurs here, too, at the same time and in the same place among those of
that time, so that both give the same trace to the last bit. It takes a fraction of the time: an event is a tuple, not
an object that resumes a generator. Events of the present time never enter the heap, and timeouts of jobs that
were stopped leave it when they are the majority.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count, repeat
from typing import Any

from simpy.core import EmptySchedule

from asyncsim.cluster._coordinator import Coordinator, Job, Log, Logged
from asyncsim.cluster._events import INFINITY
from asyncsim.cluster._model import Cluster
from asyncsim.cluster._random_streams import Purpose, compute_stream, draw_delays, stream
from asyncsim.trace import Fate

_FEW = 64  # events that are not worth clearing out

# The event for which a worker waits.
_START, _READ, _COMPUTE, _TURN, _SLOT, _SERVICE = range(6)
_TIMED, _AT_SERVER = (_COMPUTE, _SERVICE), (_SLOT, _SERVICE)


class NoNetwork(Logged):
    """A running cluster that `has_no_network`."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        workers = cluster.workers
        self.cluster = cluster
        self.now = 0.0
        self.log = Log()
        terms = cluster.protocol.terms(workers)
        self.coordinator = Coordinator(self, terms, workers, self.log)
        self._reads_wait = terms.slack is not None or terms.wait
        self._commits_wait = terms.in_turn
        laws: Any = cluster.laws  # of constant speed
        self._work = [draw_delays(self, w, law, compute_stream(seed, w)).__next__ for w, law in enumerate(laws)]
        self._free_slots = cluster.server.slots
        self._queue: deque[int] | None = None  # a server that takes no time keeps nobody waiting
        if not cluster.server.is_instant:
            self._queue = deque()
            law = cluster.server.service
            self._service = [draw_delays(self, w, law, stream(seed, w, Purpose.SERVICE)) for w in range(workers)]
        self._order = count().__next__
        self._urgent = deque(range(workers))
        self._soon: deque[tuple[int, int, int]] = deque()  # order, worker, order of the awaited event
        self._heap: list[tuple[float, int, int]] = []  # time, order, worker
        self._void = 0  # events of the heap
        self._phase = [_START] * workers
        self._awaits = [-1] * workers  # order of the event that each worker waits for
        self._job: list[Job] = [None] * workers  # type: ignore[list-item]  # before the first read
        for worker in range(workers):
            self.coordinator.enrol(worker, partial(self._urgent.append, worker))

    def peek(self) -> float:
        """Time of the next event, infinite if there is none."""
        if self._urgent or self._soon:
            return self.now
        return self._heap[0][0] if self._heap else INFINITY

    def advance(self, events: int, commits: float, seconds: float) -> None:
        """Handle this number of events, or fewer if there are `commits` before or the next event is after `seconds`."""
        heap, soon, urgent, awaits, log = self._heap, self._soon, self._urgent, self._awaits, self.log
        phase = self._phase
        # The worker's next action after the event for which it waited: `_START`, `_READ`, and so on.
        next_phase = (self._read, self._read, self._arrive, self._ask_to_commit, self._serve, self._leave)
        for _ in repeat(None, events):
            if urgent:
                self._interrupt(urgent.popleft())
            elif soon and not (heap and heap[0][0] == self.now and heap[0][1] < soon[0][0]):
                _, worker, awaited = soon.popleft()
                if worker < 0:
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
                if awaits[worker] == awaited:
                    self.now = time
                    next_phase[phase[worker]](worker)
                else:
                    self._void -= 1
            if log.count >= commits:
                return

    def event(self) -> "_Wake":
        """An event for a worker that may not go on."""
        return _Wake(self._order, self._soon)

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
        """The first in the queue gets a slot, if one is free."""
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
        event = self.coordinator.wait(worker)
        event.worker = worker
        self._phase[worker] = phase
        self._awaits[worker] = event.order

    def _interrupt(self, worker: int) -> None:
        """The running job is stopped, and the worker reads again, or it reads for the first time."""
        phase = self._phase[worker]
        if phase != _START:
            if phase in _TIMED:
                self._awaits[worker] = -1
                self._void += 1  # events in the heap, which leave it when they are the majority
                if self._void > _FEW and 2 * self._void > len(self._heap):
                    self._clear_out()
            if phase in _AT_SERVER:
                self._leave_queue(worker)
            self.coordinator.end(self._job[worker], Fate.CANCELLED)
        self._read(worker)

    def _leave_queue(self, worker: int) -> None:
        assert self._queue is not None
        if worker in self._queue:
            self._queue.remove(worker)
            self._release(slots=0)
        else:
            self._release()

    def _clear_out(self) -> None:
        """The void events of the heap leave it."""
        awaits = self._awaits
        self._heap[:] = [event for event in self._heap if awaits[event[2]] == event[1]]
        heapify(self._heap)
        self._void = 0


class _Wake:
    """An event that happens soon after it succeeds."""

    __slots__ = ("_soon", "_take_order", "order", "worker")

    def __init__(self, take_order: Callable[[], int], soon: deque[tuple[int, int, int]]) -> None:
        self._take_order = take_order
        self._soon = soon
        self.order = take_order()
        self.worker = -1

    def succeed(self) -> None:
        """The worker may ask again."""
        self._soon.append((self._take_order(), self.worker, self.order))
