"""The server's queue, and the pauses in which it takes up no commit."""

import math
from collections.abc import Callable, Iterator, Sequence

from simpy import Environment, Resource
from simpy.events import ProcessGenerator

from asyncsim.cluster._coordinator import Job
from asyncsim.cluster._server import Server
from asyncsim.cluster.faults import ServerPause


class Queue:
    """Commits are taken up first-in, first-out, `slots` at a time, and take effect at the end of their service."""

    def __init__(
        self,
        env: Environment,
        server: Server,
        service: Sequence[Iterator[float]],
        pauses: Sequence[ServerPause],
    ) -> None:
        self.env = env
        self.service = service
        self.pauses = pauses
        # A server that takes no time and never pauses keeps nobody waiting.
        self.slots = None if server.is_instant and not pauses else Resource(env, server.slots)

    def serve(self, job: Job, commit: Callable[[Job], bool]) -> ProcessGenerator:
        """Queue, be served, commit; returns whether the commit counted."""
        if self.slots is None:
            job.serve_time = self.env.now
            return commit(job)
        with self.slots.request() as turn:
            yield turn
            while self.pauses and (left := max(pause_left(pause, self.env.now) for pause in self.pauses)):
                yield self.env.timeout(left)
            job.serve_time = self.env.now
            seconds = next(self.service[job.worker])
            if seconds:
                yield self.env.timeout(seconds)
            return commit(job)


def pause_left(pause: ServerPause, now: float) -> float:
    """Seconds for which a pause still lasts; 0 outside of it."""
    if now < pause.start:
        return 0.0
    times = math.floor((now - pause.start) / pause.every) if pause.every else 0
    left = pause.start + times * (pause.every or 0.0) + pause.seconds - now
    return left if now + left > now else 0.0  # a rest too small to change the simulated time would never pass


def pauses_until(pause: ServerPause, end: float) -> Iterator[tuple[float, float]]:
    """When a pause begins and ends, every time that it begins by `end`."""
    start = pause.start
    times = 0
    while start <= end and (times == 0 or pause.every):
        yield start, start + pause.seconds
        times += 1
        start = pause.start + times * (pause.every or 0.0)
