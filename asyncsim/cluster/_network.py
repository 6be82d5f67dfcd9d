"""The network between the workers and the server: latency, bandwidth, and whether the link is shared."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncsim._checks import require_not_negative, require_positive
from asyncsim.delays import Delay
from asyncsim.delays._per_worker import ZERO, expand, is_zero, require_laws


@dataclass(frozen=True)
class Network:
    """How long messages take: latency + bytes / bandwidth, each way.

    A commit carries an update to the server, and the answer carries the central variable back. Requests without a
    payload (see `Server`) take only the latency.

    Args:
        latency: Law of the time that a message takes besides its bytes, in seconds and each way: one law for all
            workers, or a sequence with one law per worker. A law with spread is jitter.
        bandwidth: Bytes per second of a worker's link, each way; infinite by default.
        upload_bandwidth: Bytes per second from worker to server; None for `bandwidth`.
        message_bytes: Size of a message, say 4 bytes times the number of parameters. If it is None, a scenario takes
            it from its workload; `simulate` on its own needs it for a finite bandwidth.
        compression: Size of an update divided by that of the central variable, positive: 0.01 for updates of 1 %. It
            changes how long a message takes and nothing else; a rule of `asyncsim.rules.compressed` changes the update
            as well, and a scenario with one takes this from the rule.
        shared: Whether all messages share one link, first-in, first-out, instead of one link per worker.

    Raises:
        ValueError: If a number is out of range, or `latency` is not a law of delays.

    Example:
        A million float32 parameters take 4 ms each way at 1 GB/s, on top of half a millisecond of latency:

        >>> from asyncsim.delays import Constant
        >>> network = Network(latency=Constant(0.5e-3), bandwidth=1e9, message_bytes=4e6)
        >>> network.download_seconds
        0.004
    """

    latency: Delay | Sequence[Delay] = ZERO
    bandwidth: float = math.inf
    upload_bandwidth: float | None = None
    message_bytes: float | None = None
    compression: float = 1.0
    shared: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "latency", require_laws("latency", self.latency))
        for name in ("bandwidth", "upload_bandwidth"):
            _set_bandwidth(self, name)
        if self.message_bytes is not None:
            size = require_not_negative(
                "message_bytes", self.message_bytes, remedy="Give 4 times the number of parameters."
            )
            object.__setattr__(self, "message_bytes", size)
        ratio = require_positive("compression", self.compression, remedy="Use 1 for updates as they are.")
        object.__setattr__(self, "compression", ratio)

    def latencies(self, workers: int) -> tuple[Delay, ...]:
        """The latency law of each worker, length n."""
        return expand(self.latency, workers)

    @property
    def limits_bytes(self) -> bool:
        """Whether the size of a message matters."""
        return math.isfinite(min(self.bandwidth, self.upload_bandwidth or math.inf))

    @property
    def download_seconds(self) -> float:
        """Seconds that the central variable takes on a link, besides the latency."""
        return (self.message_bytes or 0.0) / self.bandwidth

    @property
    def upload_seconds(self) -> float:
        """Seconds that an update takes on a link, besides the latency."""
        return (self.message_bytes or 0.0) * self.compression / (self.upload_bandwidth or self.bandwidth)

    @property
    def is_instant(self) -> bool:
        """Whether no message takes any time."""
        laws = expand(self.latency, 1)
        return all(map(is_zero, laws)) and not self.download_seconds and not self.upload_seconds


def _set_bandwidth(network: Any, name: str) -> None:
    value = getattr(network, name)
    if (value is None and name != "bandwidth") or value == math.inf:
        return
    remedy = "Give bytes per second, or leave it out for an unlimited network."
    object.__setattr__(network, name, require_positive(name, value, remedy=remedy))
