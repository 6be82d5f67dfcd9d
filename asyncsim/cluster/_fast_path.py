"""Asynchronous workers without a network: one event per commit, whether they queue at the server or not."""

from array import array
from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heapreplace
from typing import Any

import numpy as np

from asyncsim.cluster._events import INFINITY
from asyncsim.cluster._model import Cluster
from asyncsim.cluster._random_streams import ComputeDelays, Purpose, draw_delays, stream
from asyncsim.trace import Trace, Unfinished


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
        """The trace until now."""
        worker, time = np.asarray(self._worker), np.asarray(self._time)
        return Trace.from_commits(worker, time, workers=self.cluster.workers, start=0.0)

    def why_stuck(self) -> str:
        """Remedy for a cluster that never makes another commit."""
        return "Correct the delays."

    def peek(self) -> float:
        """Time of the next commit."""
        return self._heap[0][0] if self._heap else 0.0

    def advance(self, events: int, commits: float, seconds: float) -> None:
        """Make this number of commits, or fewer if there are `commits` before or the next one is after `seconds`."""
        delays = self._begun()
        heap, begun = self._heap, len(self) + self.cluster.workers
        add_worker, add_time, next_delay = self._worker.append, self._time.append, delays.next
        for order in range(begun, begun + int(min(events, commits - len(self)))):
            now, _, worker = heap[0]
            if now > seconds:
                return
            self.now = now
            add_worker(worker)
            add_time(now)
            heapreplace(heap, (now + next_delay(worker), order, worker))

    def _begun(self) -> ComputeDelays:
        """The compute times. Before the first event, every worker begins a job."""
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
        self._free = 0.0  # when the server is done with all that have committed
        self._next_commit: float | None = None  # once the next service has been drawn, when it ends
        self._seconds = INFINITY

    def trace(self) -> Trace:
        """The trace until now."""
        trace = super().trace()
        arrive_time = np.asarray(self._arrive_time)
        trace = replace(
            trace,
            finish_time=arrive_time,
            arrive_time=arrive_time,
            serve_time=np.asarray(self._serve_time),
            unfinished=self._in_flight(trace.unfinished, trace.seconds),
        )
        trace.check()
        return trace

    def _in_flight(self, jobs: Unfinished, last_commit: float) -> Unfinished:
        """The jobs in flight, in the order in which they began, with the ends of their computations."""
        counted, last = self._seconds == INFINITY, len(self) + self.cluster.workers - 1
        finish_time = np.full(len(jobs), INFINITY)
        for time, order, worker in self._heap:
            if (time <= last_commit and order < last) if counted else (time <= self._seconds):
                finish_time[worker] = time
        order = np.argsort(jobs.read_version, kind="stable")  # a worker reads right after its own commit
        return Unfinished(
            worker=jobs.worker[order],
            read_version=jobs.read_version[order],
            read_time=jobs.read_time[order],
            finish_time=finish_time[order],
        )

    def peek(self) -> float:
        """Time of the next commit, or before which it cannot be."""
        return max(super().peek(), self._free) if self._next_commit is None else self._next_commit

    def advance(self, events: int, commits: float, seconds: float) -> None:
        """Make this number of commits, or fewer if there are `commits` before or the next one is after `seconds`."""
        delays = self._begun()
        if not self._service:
            law, workers = self.cluster.server.service, range(self.cluster.workers)
            self._service = [draw_delays(self, w, law, stream(self.seed, w, Purpose.SERVICE)) for w in workers]
        self._seconds = seconds
        heap, service, free, end = self._heap, self._service, self._free, self._next_commit
        begun = len(self) + self.cluster.workers
        add_worker, add_time, next_delay = self._worker.append, self._time.append, delays.next
        add_arrival, add_service = self._arrive_time.append, self._serve_time.append
        for order in range(begun, begun + int(min(events, commits - len(self)))):
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
