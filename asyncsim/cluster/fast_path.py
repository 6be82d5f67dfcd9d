"""Asynchronous workers, no network, a server that takes no time: half the events of the general case."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from simpy import Environment
from simpy.events import ProcessGenerator

from asyncsim.cluster.model import Cluster
from asyncsim.cluster.random_streams import compute_stream, draw_delays
from asyncsim.delays import Delay
from asyncsim.trace import Trace


@dataclass(frozen=True)
class Plain:
    """Who committed when, in the order of application; compact arrays, 12 bytes a commit.

    With a zero-time server, the order and the times of the commits fix every other column.
    """

    cluster: Cluster
    worker: "array[int]" = field(default_factory=lambda: array("i"))
    time: "array[float]" = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.worker)

    def start(self, env: Environment, seed: int) -> None:
        """Set the workers to work."""
        for worker, law in enumerate(self.cluster.laws):
            assert isinstance(law, Delay)  # speeds that change are not plain
            env.process(self._work(env, worker, draw_delays(env, worker, law, compute_stream(seed, worker))))

    def trace(self) -> Trace:
        """What was recorded by now."""
        return Trace.from_commits(np.asarray(self.worker), np.asarray(self.time), workers=self.cluster.workers)

    def _work(self, env: Environment, worker: int, delays: Iterator[float]) -> ProcessGenerator:
        """Compute, commit and read again in the same instant, without end."""
        for delay in delays:
            yield env.timeout(delay)
            self.worker.append(worker)
            self.time.append(env.now)
