"""Asynchronous workers, no network, a server that takes no time: half the events of the full simulation."""

from array import array
from collections.abc import Iterator

import numpy as np
from simpy import Environment
from simpy.events import ProcessGenerator

from asyncsim.cluster.model import Cluster
from asyncsim.cluster.random_streams import compute_stream, draw_delays
from asyncsim.delays import Delay
from asyncsim.trace import Trace


class FastPath:
    """A running cluster that `takes_fast_path`: who committed when, in compact arrays, 12 bytes per commit.

    With a server that takes no time, the order and the times of the commits determine every other column.

    Args:
        env: The SimPy environment.
        cluster: The cluster.
        seed: Seed of the delays.
    """

    def __init__(self, env: Environment, cluster: Cluster, seed: int) -> None:
        self.env = env
        self.cluster = cluster
        self._worker = array("i")
        self._time = array("d")
        for worker, law in enumerate(cluster.laws):
            assert isinstance(law, Delay)  # a speed that changes with time does not take the fast path
            env.process(self._run(worker, draw_delays(env, worker, law, compute_stream(seed, worker))))

    def __len__(self) -> int:
        return len(self._worker)

    def trace(self) -> Trace:
        """What has happened until now."""
        worker, time = np.asarray(self._worker), np.asarray(self._time)
        return Trace.from_commits(worker, time, workers=self.cluster.workers, start=0.0)

    def why_stuck(self) -> str:
        """Remedy for a cluster that never makes another commit."""
        return "Correct the delays."

    def _run(self, worker: int, delays: Iterator[float]) -> ProcessGenerator:
        """Compute, commit and read again in the same instant, without end."""
        env, workers, times = self.env, self._worker, self._time
        for delay in delays:
            yield env.timeout(delay)
            workers.append(worker)
            times.append(env.now)
