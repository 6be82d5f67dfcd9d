"""Descriptions without behaviour: a network, a server, and the whole cluster."""

import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from asyncsim._checks import (
    brief,
    require_all_counts,
    require_count,
    require_not_negative,
    require_positive,
    require_positive_or_infinite,
    truncate,
)
from asyncsim._metrics import counted
from asyncsim.cluster.faults import AnyFault, Slowdown
from asyncsim.cluster.protocols import Asynchronous, CommitProtocol, Synchronous
from asyncsim.components._checked import Checked
from asyncsim.delays import ByJob, Delay, VariableSpeed
from asyncsim.delays._law import require_law, sum_of
from asyncsim.delays._per_worker import ZERO, distinct, expand, is_zero, require_laws, require_one_per_worker

_BANDWIDTH = partial(
    require_positive_or_infinite, remedy="Give bytes per second, or leave it out for an unlimited network."
)


def _bandwidths(name: str, value: Any) -> Any:
    """Return bytes per second of all links, or a tuple with those of each worker's link."""
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        if not len(value):
            raise ValueError(f"`{name}` must be a number or one for each worker; got {brief(value)}. Give one or more.")
        return tuple(_BANDWIDTH(name, each) for each in value)
    return _BANDWIDTH(name, value)


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False; got {brief(value)}. Write `service=` if you meant that.")
    return value


@dataclass(frozen=True)
class Network(Checked):
    """The time of messages: latency + bytes / bandwidth, each way.

    A commit carries an update to the server, and the answer carries the central variable back. Requests without a
    payload (see `Server`) take only the latency.

    Args:
        latency: Law of the time that a message takes besides its bytes, in seconds and each way: one law for all
            workers, or a sequence with one law per worker. A law with spread is jitter.
        bandwidth: Bytes per second of a worker's link, each way: a number for all workers, or a sequence with one per
            worker. Infinity, the default, is an unlimited link.
        upload_bandwidth: The same from worker to server, or None for `bandwidth`.
        message_bytes: Size of a message, say 4 bytes times the number of parameters. If it is None, a scenario takes
            it from its workload. `simulate` on its own needs it for a finite bandwidth.
        compression: Size of an update divided by that of the central variable, positive: 0.01 for updates of 1 %. It
            changes only the time of a message. A rule of `asyncsim.rules.compressed` changes the update as well, and a
            scenario with one takes this from the rule.
        shared: Whether all messages share the server's link, first-in, first-out, instead of one link per worker.
        duplex: Of a shared link: "half", the default, where an upload and a download wait for each other, as on a radio
            channel, or "full", where they do not, as on a switched network.
        collective: "ring" for rounds without a server, in which the workers exchange updates by a ring all-reduce, or
            "none". It begins when the slowest worker has computed, and takes 2(n - 1)/n·bytes/bandwidth with the
            bandwidth of the slowest link, and 2(n - 1) latencies, each that of the slowest worker. Then all read. For
            `protocols.Synchronous()` without backup workers. In the trace, the wait for the slowest worker is "queue"
            and the exchange is "service".

    Raises:
        ValueError: If a number is out of range, `latency` is not a law of delays, or arguments do not fit together.

    Example:
        A million float32 parameters take 4 ms each way at 1 GB/s, on top of half a millisecond of latency:

        >>> from asyncsim.delays import Constant
        >>> network = Network(latency=Constant(0.5e-3), bandwidth=1e9, message_bytes=4e6)
        >>> network.download_seconds
        0.004
    """

    latency: Annotated[Delay | Sequence[Delay], require_laws] = ZERO
    bandwidth: Annotated[float | Sequence[float], _bandwidths] = math.inf
    upload_bandwidth: Annotated[float | Sequence[float], _bandwidths] | None = None
    message_bytes: Annotated[float, require_not_negative, "Give 4 times the number of parameters."] | None = None
    compression: Annotated[float, require_positive, "Use 1 for updates as they are."] = 1.0
    shared: bool = False
    duplex: Literal["half", "full"] = "half"
    collective: Literal["none", "ring"] = "none"

    def check(self) -> None:
        """Refuse a duplex of links that nobody shares, and a ring of messages that it does not send."""
        if self.duplex == "full" and not self.shared:
            raise ValueError(
                "`duplex` must be left out without a shared link; got 'full'. Each worker has a link of its own then, "
                "on which nothing waits. Give `shared=True`."
            )
        if self.collective == "ring" and (self.shared or self.compression != 1):
            name, reason = (
                ("shared", "workers send to their neighbours")
                if self.shared
                else ("compression", "sums of compressed updates are not compressed")
            )
            raise ValueError(
                f"`{name}` must be left out with `collective='ring'`, because {reason}; got "
                f"{brief(getattr(self, name))}. Leave out one of the two."
            )

    def latencies(self, workers: int) -> tuple[Delay, ...]:
        """Return the latency law of each worker, length n."""
        return expand(self.latency, workers)

    @property
    def limits_bytes(self) -> bool:
        """Whether the size of a message matters."""
        return math.isfinite(self.least_bandwidth)

    @property
    def least_bandwidth(self) -> float:
        """Bytes per second of the slowest link in its slower direction."""
        return min(*expand(self.bandwidth, 1), *expand(self.upload_bandwidth or math.inf, 1))

    @property
    def download_seconds(self) -> float:
        """Seconds that the central variable takes on a link, on the slowest one, besides the latency."""
        return max(self.downloads(1))

    @property
    def upload_seconds(self) -> float:
        """Seconds that an update takes on a link, on the slowest one, besides the latency."""
        return max(self.uploads(1))

    def downloads(self, workers: int) -> tuple[float, ...]:
        """Return the seconds that the central variable takes on each worker's link, length n."""
        return tuple((self.message_bytes or 0.0) / bandwidth for bandwidth in expand(self.bandwidth, workers))

    def uploads(self, workers: int) -> tuple[float, ...]:
        """Return the seconds that an update takes on each worker's link, length n."""
        size = (self.message_bytes or 0.0) * self.compression
        return tuple(size / bandwidth for bandwidth in expand(self.upload_bandwidth or self.bandwidth, workers))

    def exchange_seconds(self, workers: int) -> float:
        """Return the seconds that a ring of n workers takes for an update, besides the latencies.

        Example:
            >>> Network(bandwidth=1e9, message_bytes=4e9, collective="ring").exchange_seconds(4)
            6.0
        """
        return 2 * (workers - 1) / workers * max(self.download_seconds, self.upload_seconds)

    @cached_property
    def is_instant(self) -> bool:
        """Whether no message takes any time."""
        laws = expand(self.latency, 1)
        return all(map(is_zero, laws)) and not self.download_seconds and not self.upload_seconds


@dataclass(frozen=True)
class Server(Checked):
    """A queue that works on `slots` commits at once, first-in, first-out.

    A commit takes effect at the end of its service.

    *Atomic*: pull, commit and the read for the next job are one moment, that of the commit, and nobody comes in between
    (the server is locked, as in the authors' script of Gradient Energy Matching). The answer to the commit carries the
    central variable.

    *Separate*: each is a request of its own, and others may commit in between. A worker hears that its commit was
    applied, asks for the central variable (read), computes, asks again (pull), and sends its commit. Requests take one
    latency each way and do not queue. With ``pull="at_read"`` there is no second request: the value at which the worker
    computes is also the last that it saw before committing.

    With ``resume="own"`` a worker of a separate server goes on as soon as its commit is applied, from a value of its
    own: the one that it pulled for this commit plus its own message, as the server would have applied it then. It does
    not read the central variable, and knows nothing of the g commits of others that came between its pull and its
    commit until it pulls again. The mean staleness is longer by the mean of g. With g = 0 it is an atomic server.

    Args:
        slots: Commits in service at once, at least 1.
        service: Law of the seconds that the service of one commit takes.
        atomic: Whether pull, commit and read are one moment.
        pull: If they are separate, the value that a rule that pulls sees: "before_commit" or "at_read".
        resume: If they are separate, where a worker goes on after its commit: from the "central" variable that it
            reads, or from its "own" value.
        pull_to_commit: If they are separate, law of the seconds between the arrival of a pulled value at the worker
            and the sending of its commit. By default it takes no time.

    Raises:
        ValueError: If an argument does not fit, or needs a server with `atomic=False` and `pull="before_commit"`.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> Server(service=Exponential(mean=0.1)).slots
        1
        >>> Server(atomic=False, resume="own", pull_to_commit=Exponential(mean=0.1)).resume
        'own'
    """

    slots: Annotated[int, require_count, "A server works on one commit or more."] = 1
    service: Annotated[Delay, require_law] = ZERO
    atomic: Annotated[bool, _switch] = True
    pull: Literal["before_commit", "at_read"] = "before_commit"
    resume: Literal["central", "own"] = "central"
    pull_to_commit: Annotated[Delay, require_law] = ZERO

    def check(self) -> None:
        """Refuse a gap between pull and commit where there is none."""
        if not self.atomic and self.pull == "before_commit":
            return
        is_set = {"resume": self.resume != "central", "pull_to_commit": not is_zero(self.pull_to_commit)}
        for name in (name for name in is_set if is_set[name]):
            raise ValueError(
                f"`{name}` must be left out unless workers pull before they commit, in a request of its own; got "
                f"{getattr(self, name)!r}. Give the server `atomic=False` and `pull='before_commit'`."
            )

    @cached_property
    def is_instant(self) -> bool:
        """Whether a commit takes no time, so that commits never queue."""
        return is_zero(self.service)


CHOICE_OF_LAW = "Law of the time that a worker takes for one gradient; another one keeps the mean."  # help of the flag


@dataclass(frozen=True, repr=False)
class Cluster(Checked):
    """Workers around one parameter server.

    Args:
        workers: Number of workers n, at least 1.
        compute: Law of the time that one gradient takes: one law for all workers, or a sequence with one law per
            worker (kept as a tuple, see `asyncsim.delays.fleet`). A job takes the sum of `local_steps` of them.
        network: Latency and bandwidth between workers and server. By default messages take no time.
        server: The server's queue. By default commits take no time, and pull, commit and read are one moment.
        protocol: Who may read when, and which gradients make a step, by default asynchronous.
        faults: Faults that happen, a sequence of `asyncsim.faults`, by default nothing.
        local_steps: Number of gradients of a job: an integer, one per worker, or None for the rule's window in a
            scenario and 1 elsewhere. A `ByJob` law describes whole jobs and is not multiplied.

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
        >>> Cluster(workers=8, compute=Gamma(mean=1.0, cv=0.5), local_steps=25).laws[0]
        Gamma(mean=25.0, cv=0.1)
    """

    preferred: ClassVar[bool] = True  # `k` is that of the protocol, and `compressor_k` that of a compressor

    workers: Annotated[int, require_count, "Use one worker or more."]
    compute: Delay | VariableSpeed | Sequence[Delay | VariableSpeed] = field(metadata={"choice": CHOICE_OF_LAW})
    network: Network = field(default_factory=Network)
    server: Server = field(default_factory=Server)
    protocol: CommitProtocol = field(default_factory=Asynchronous)
    faults: Sequence[AnyFault] = ()
    local_steps: int | Sequence[int] | None = None

    def check(self) -> None:
        """Refuse laws, protocols and faults that do not fit the number of workers."""
        object.__setattr__(self, "compute", require_laws("compute", self.compute, (Delay, VariableSpeed)))
        require_one_per_worker("compute", self.compute, self.workers)
        require_one_per_worker("latency", self.network.latency, self.workers)
        for name in ("bandwidth", "upload_bandwidth"):
            require_one_per_worker(name, getattr(self.network, name), self.workers, what="number")
        self.protocol.terms(self.workers)
        object.__setattr__(self, "faults", require_faults(self.faults, self.workers))
        object.__setattr__(self, "local_steps", _local_steps(self.local_steps, self.workers))
        if self.network.collective == "ring":
            self._check_ring()

    def _check_ring(self) -> None:
        """Refuse what a ring of workers without a server cannot have."""
        others = [fault for fault in self.faults if not isinstance(fault, Slowdown)]
        for name, fits, reason in (
            ("protocol", self.protocol == Synchronous(), "a ring needs every worker in every round"),
            ("server", self.server == Server(), "a ring has no server"),
            ("faults", not others, "a ring stops with the first worker or message that is missing"),
        ):
            if not fits:
                value = others[0] if name == "faults" else getattr(self, name)
                raise ValueError(
                    f"`collective` must be left out with this `{name}`, because {reason}; got 'ring' and "
                    f"{brief(value)}. Use protocols.Synchronous() without backup workers, and no server or faults of "
                    "your own but slowdowns."
                )

    def __repr__(self) -> str:
        """Return one line: the workers and their law, then the fields that differ from the defaults."""
        laws = distinct(expand(self.compute, self.workers))
        words = [f"{self.workers} worker{'s' if self.workers > 1 else ''}"]
        words.append(brief_part(laws[0][0]) if len(laws) == 1 else f"{len(laws)} different laws")
        words += [
            brief_part(getattr(self, name)) for name in _changed(self) if name in ("network", "server", "protocol")
        ]
        if self.local_steps is not None:
            words.append(f"local_steps={brief(self.local_steps)}")
        if self.faults:
            kinds = dict.fromkeys(type(fault).__name__ for fault in self.faults)
            words.append(f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''} ({', '.join(kinds)})")
        return f"Cluster({', '.join(words)})"

    def adapted(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Complete changes of fields: for another number of workers, a fleet's laws keep the shares of its classes."""
        workers, network = changes.get("workers", self.workers), changes.get("network", self.network)
        links = {name: getattr(network, name) for name in ("latency", "bandwidth", "upload_bandwidth")}
        fitted = {name: fit_to_workers(name, link, workers) for name, link in links.items()}
        by_worker = {name: changes.get(name, getattr(self, name)) for name in ("compute", "local_steps")}
        return {
            **changes,
            "network": network if all(fitted[name] is links[name] for name in links) else replace(network, **fitted),
            **{name: fit_to_workers(name, value, workers) for name, value in by_worker.items()},
        }

    @property
    def laws(self) -> tuple[Delay | VariableSpeed, ...]:
        """The law of the time that a job of each worker computes, the sum of its local steps, length n."""
        if self.local_steps in (None, 1):
            return expand(self.compute, self.workers)
        if isinstance(self.local_steps, int) and not isinstance(self.compute, tuple):
            return expand(sum_of(self.compute, self.local_steps), self.workers)
        counts: Any = expand(self.local_steps, self.workers)
        pairs = [*zip(expand(self.compute, self.workers), counts, strict=True)]
        sums = {(id(law), steps): (law, steps) for law, steps in pairs}  # A fleet has far fewer laws than workers.
        jobs = {key: sum_of(law, steps) for key, (law, steps) in sums.items()}
        return tuple(jobs[id(law), steps] for law, steps in pairs)

    @property
    def takes_fast_path(self) -> bool:
        """Whether workers only compute: the order and times of the commits then determine the whole trace."""
        return self.server.is_instant and self.protocol == Asynchronous() and self.has_no_network

    @property
    def takes_fast_queue(self) -> bool:
        """Whether workers only compute and queue, first-in, first-out, at a server that works on one commit at once."""
        queues = self.server.slots == 1 and not self.server.is_instant
        return queues and self.protocol == Asynchronous() and self.has_no_network

    @cached_property
    def has_no_network(self) -> bool:
        """Whether only compute times, the server's queue and the protocol matter.

        Messages take no time, pull, commit and read are one moment, nothing goes wrong, no speed changes with time, and
        no step has a time of its own, which would be an event of no worker.
        """
        steady = not any(isinstance(law, VariableSpeed) for law in expand(self.compute, 1))
        steady = steady and self.protocol.terms(self.workers).every is None
        near = self.network.is_instant and self.network.collective == "none"
        return near and self.server.atomic and not self.faults and steady


def require_faults(faults: Any, workers: int, what: str = "worker") -> tuple[AnyFault, ...]:
    """Check faults of workers, or of others that are numbered from 0, and return them as a tuple."""
    faults = tuple(faults)
    for index, fault in enumerate(faults):
        if not isinstance(fault, AnyFault):
            raise ValueError(f"`faults` must hold faults; entry {index} is {fault!r}. Use those of `asyncsim.faults`.")
        worker = getattr(fault, "worker", None)
        if worker is not None and worker >= workers:
            raise ValueError(
                f"`faults` must affect {what}s 0 to {workers - 1}; entry {index} names {what} {worker}. "
                f"{what.capitalize()}s are numbered from 0."
            )
    return faults


def _local_steps(local_steps: Any, workers: int) -> int | tuple[int, ...] | None:
    """Check numbers of local steps, and return one number for all workers, or a tuple of one for each."""
    if local_steps is None:
        return None
    remedy = "Give the number of gradients of a job, for all workers or for each."
    counts = require_all_counts("local_steps", local_steps, remedy=remedy)
    if isinstance(counts, tuple) and len(counts) != workers:
        raise ValueError(f"`local_steps` must be one number per worker; got {len(counts)} for {workers}. {remedy}")
    return counts


def fit_to_workers(name: str, laws: Any, workers: int) -> Any:
    """Return the laws or numbers of a fleet for another number of workers, with the shares of its classes."""
    if not isinstance(laws, tuple) or len(laws) == workers:
        return laws
    workers = require_count("workers", workers, remedy="Use one worker or more.")
    if any(isinstance(law, ByJob) for law in laws):
        raise ValueError(
            f"`workers` cannot become {workers} while `{name}` has the times of each worker's own mini-batches, for "
            f"{counted(len(laws), 'worker')}; choose one law for all as well, or make those of {workers} by "
            "`job_times`."
        )
    return tuple(laws[worker * len(laws) // workers] for worker in range(workers))


def brief_part(part: Any) -> str:
    """Describe a part of a cluster on one line, a network or a server by the fields that differ from the defaults."""
    if isinstance(part, Network | Server):
        words = [f"{name}={brief_part(getattr(part, name))}" for name in _changed(part)]
        return f"{type(part).__name__}({', '.join(words)})"
    return truncate(repr(part))


def _changed(described: Any) -> list[str]:
    """Return the names of the fields that differ from their defaults."""
    defaults = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(described)}
    return [name for name, default in defaults.items() if getattr(described, name) != default]
