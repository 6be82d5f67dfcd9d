"""Asynchronous workers, no network, a server that takes no time: one event per commit."""

from array import array
from heapq import heapify, heapreplace

import numpy as np

from asyncsim.cluster.model import Cluster
from asyncsim.cluster.random_streams import ComputeDelays, constant_speed
from asyncsim.trace import Trace


class FastPath:
    """A running cluster that `takes_fast_path`: who committed when, in compact arrays, 12 bytes per commit.

    With a server that takes no time, the order and the times of the commits determine every other column. Commits at
    the same time come in the order in which their jobs began, as SimPy has it.

    Args:
        cluster: The cluster.
        seed: Seed of the delays.
    """

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
        """What has happened until now."""
        worker, time = np.asarray(self._worker), np.asarray(self._time)
        return Trace.from_commits(worker, time, workers=self.cluster.workers, start=0.0)

    def why_stuck(self) -> str:
        """Remedy for a cluster that never makes another commit."""
        return "Correct the delays."

    def peek(self) -> float:
        """Time of the next commit."""
        return self._heap[0][0] if self._heap else 0.0

    def advance(self, events: int, commits: float, seconds: float) -> None:
        """Make so many commits, or fewer if there are `commits` before or the next one is after `seconds`."""
        delays = self._delays
        if delays is None:
            delays = self._delays = ComputeDelays(self, constant_speed(self.cluster.laws), self.seed)
            self._heap = [(delays.next(worker), worker, worker) for worker in range(self.cluster.workers)]
            heapify(self._heap)
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
