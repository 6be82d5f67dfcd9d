"""What a cluster is: a description without behaviour."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from asyncsim.checks import require_integer
from asyncsim.cluster import faults as fault_kinds
from asyncsim.cluster.faults import AnyFault
from asyncsim.cluster.network import Network
from asyncsim.cluster.protocols import Asynchronous, CommitProtocol
from asyncsim.cluster.server import Server
from asyncsim.delays import Delay, VariableSpeed
from asyncsim.delays.per_worker import expand, require_laws, require_one_per_worker


@dataclass(frozen=True)
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
        >>> Cluster(workers=20, compute=Gamma(mean=1.0, cv=0.3)).workers
        20
        >>> Cluster(workers=3, compute=[Constant(1.0), Constant(1.0), Constant(2.0)]).laws[2]
        Constant(value=2.0)
        >>> Cluster(workers=16, compute=Exponential(1.0), server=Server(service=Exponential(0.1))).is_plain
        False
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

    @property
    def laws(self) -> tuple[Delay | VariableSpeed, ...]:
        """The compute law of each worker, length n."""
        return expand(self.compute, self.workers)

    @property
    def is_plain(self) -> bool:
        """Whether workers only compute: the order and times of the commits then fix the whole trace."""
        at_once = self.network.is_instant and self.server.is_instant and self.server.atomic
        steady = not any(isinstance(law, VariableSpeed) for law in self.laws)
        return at_once and steady and self.protocol == Asynchronous() and not self.faults


def _require(name: str, value: object, kind: type, example: str) -> None:
    if isinstance(value, type) or not isinstance(value, kind):
        raise ValueError(f"`{name}` must be an asyncsim {kind.__name__}; got {value!r:.60}. Give `{example}`.")
