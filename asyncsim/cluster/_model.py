"""What a cluster is: a description without behaviour."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from asyncsim._checks import require_integer
from asyncsim.cluster import faults as fault_kinds
from asyncsim.cluster._network import Network
from asyncsim.cluster._server import Server
from asyncsim.cluster.faults import AnyFault
from asyncsim.cluster.protocols import Asynchronous, CommitProtocol
from asyncsim.delays import Delay, VariableSpeed
from asyncsim.delays._per_worker import distinct, expand, require_laws, require_one_per_worker

_LONGEST = 80  # characters of one part in the repr of a cluster: measured timings have thousands


@dataclass(frozen=True, repr=False)
class Cluster:
    """Workers around one parameter server.

    Args:
        workers: Number of workers n, at least 1.
        compute: Law of the time that one job computes: one law for all workers, or a sequence with one law per
            worker (kept as a tuple; see `asyncsim.delays.fleet`).
        network: Latency and bandwidth between workers and server; by default messages take no time.
        server: The server's queue; by default commits take no time, and pull, commit and read are one moment.
        protocol: Who may read when, and which gradients make a step; by default asynchronous.
        faults: What goes wrong, a sequence of `asyncsim.faults`; by default nothing.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> from asyncsim.delays import Constant, Exponential, Gamma
        >>> Cluster(workers=20, compute=Gamma(mean=1.0, cv=0.3))
        Cluster(20 workers, Gamma(mean=1.0, cv=0.3))
        >>> Cluster(workers=3, compute=[Constant(1.0), Constant(1.0), Constant(2.0)]).laws[2]
        Constant(value=2.0)
        >>> Cluster(workers=16, compute=Exponential(1.0), server=Server(service=Exponential(0.1)))
        Cluster(16 workers, Exponential(mean=1.0), Server(service=Exponential(mean=0.1)))
    """

    workers: int
    compute: Delay | VariableSpeed | Sequence[Delay | VariableSpeed]
    network: Network = field(default_factory=Network)
    server: Server = field(default_factory=Server)
    protocol: CommitProtocol = field(default_factory=Asynchronous)
    faults: Sequence[AnyFault] = ()

    def __post_init__(self) -> None:
        workers = require_integer("workers", self.workers, least=1, remedy="Use one worker or more.")
        object.__setattr__(self, "workers", workers)
        object.__setattr__(self, "compute", require_laws("compute", self.compute, (Delay, VariableSpeed)))
        require_one_per_worker("compute", self.compute, workers)
        _require("network", self.network, Network, "Network(latency=…, bandwidth=…)")
        require_one_per_worker("latency", self.network.latency, workers)
        _require("server", self.server, Server, "Server(service=…)")
        _require("protocol", self.protocol, CommitProtocol, "protocols.KAsync(4)")
        self.protocol.terms(workers)
        object.__setattr__(self, "faults", fault_kinds.checked(self.faults, workers))

    def __repr__(self) -> str:
        """One line: the workers and their law, then what differs from the defaults."""
        laws = distinct(self.laws)
        words = [f"{self.workers} worker{'s' if self.workers > 1 else ''}"]
        words.append(_brief(laws[0][0]) if len(laws) == 1 else f"{len(laws)} different laws")
        words += [_brief(getattr(self, name)) for name in _changed(self) if name in ("network", "server", "protocol")]
        if self.faults:
            kinds = dict.fromkeys(type(fault).__name__ for fault in self.faults)
            words.append(f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''} ({', '.join(kinds)})")
        return f"Cluster({', '.join(words)})"

    @property
    def laws(self) -> tuple[Delay | VariableSpeed, ...]:
        """The compute law of each worker, length n."""
        return expand(self.compute, self.workers)

    @property
    def takes_fast_path(self) -> bool:
        """Whether workers only compute: the order and times of the commits then determine the whole trace."""
        return self.server.is_instant and self.protocol == Asynchronous() and self.has_no_network

    @property
    def takes_fast_queue(self) -> bool:
        """Whether workers only compute and queue, first-in, first-out, at a server that works on one commit at once."""
        queues = self.server.slots == 1 and not self.server.is_instant
        return queues and self.protocol == Asynchronous() and self.has_no_network

    @property
    def has_no_network(self) -> bool:
        """Whether only compute times, the server's queue and the protocol matter.

        Messages take no time, pull, commit and read are one moment, nothing goes wrong, and no speed changes with time.
        """
        steady = not any(isinstance(law, VariableSpeed) for law in expand(self.compute, 1))
        return self.network.is_instant and self.server.atomic and not self.faults and steady


def _require(name: str, value: object, kind: type, example: str) -> None:
    if isinstance(value, type) or not isinstance(value, kind):
        raise ValueError(f"`{name}` must be an asyncsim {kind.__name__}; got {value!r:.60}. Give `{example}`.")


def _brief(part: Any) -> str:
    """A part of a cluster on one line; of a network or a server only what differs from its defaults."""
    if isinstance(part, Network | Server):
        return f"{type(part).__name__}({', '.join(f'{name}={_brief(getattr(part, name))}' for name in _changed(part))})"
    text = " ".join(repr(part).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _changed(described: Any) -> list[str]:
    """Names of the fields that differ from their defaults."""
    defaults = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(described)}
    return [name for name, default in defaults.items() if getattr(described, name) != default]
