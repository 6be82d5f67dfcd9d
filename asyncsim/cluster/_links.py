"""A worker's connection to the server and back: how long a message takes, and whether it is lost on the way."""

from collections.abc import Callable, Iterator
from itertools import count

from simpy import Environment, Resource
from simpy.events import ProcessGenerator

from asyncsim.cluster._network import Network
from asyncsim.cluster.faults import MessageLoss

Losses = list[tuple[MessageLoss, Iterator[float]]]  # each with uniform numbers in [0, 1), one per attempt, without end


class Link:
    """One worker's link."""

    def __init__(
        self,
        env: Environment,
        network: Network,
        latency: Iterator[float] | None,
        shared: Resource | None,
        losses: Losses,
        on_loss: Callable[[float, float], None],
    ) -> None:
        self.env = env
        self.latency = latency
        self.shared = shared
        self.download_seconds = network.download_seconds
        self.upload_seconds = network.upload_seconds
        self.losses = losses
        self.on_loss = on_loss
        self.is_instant = network.is_instant and not losses

    def request(self) -> ProcessGenerator:
        """Send a message without a payload, one way."""
        return self._send(0.0)

    def download(self) -> ProcessGenerator:
        """Send the central variable to the worker."""
        return self._send(self.download_seconds)

    def upload(self) -> ProcessGenerator:
        """Send a commit to the server; returns whether it arrived in the end."""
        for attempt in count(1) if self.losses else ():
            lost = next((loss for loss, chances in self.losses if next(chances) < loss.probability), None)
            if lost is None:
                break
            self.on_loss(self.env.now, self.env.now + lost.timeout)
            yield self.env.timeout(lost.timeout)
            if attempt == lost.attempts:
                return False
        yield from self._send(self.upload_seconds)
        return True

    def _send(self, seconds: float) -> ProcessGenerator:
        if self.shared is not None and seconds:
            with self.shared.request() as turn:
                yield turn
                yield self.env.timeout(seconds)
            seconds = 0.0
        if self.latency is not None:
            seconds += next(self.latency)
        if seconds:
            yield self.env.timeout(seconds)
