"""Protocols: who may read when, which gradients count, and how many make a step.

Every protocol comes down to a few numbers (`Terms`), which the simulation follows. A protocol of your own is any
hashable object with a method `terms(workers)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from asyncsim.checks import require_integer


class Terms(NamedTuple):
    """What a protocol comes down to.

    Attributes:
        collect: Gradients that make a step of the server; their messages are averaged.
        limit: A gradient counts if its staleness is below this; None if any does.
        wait: Whether a worker that has contributed to a step waits for its end before it reads again.
        cancel: Whether a job is stopped, and its worker reads again, once its staleness reaches `limit`.
        slack: How many commits a worker may be ahead of the slowest when it reads; None if any.
        in_turn: Whether commits are applied in the order of the workers' numbers, over and over.
    """

    collect: int = 1
    limit: int | None = None
    wait: bool = False
    cancel: bool = False
    slack: int | None = None
    in_turn: bool = False


@runtime_checkable
class CommitProtocol(Protocol):
    """What a protocol must offer."""

    def terms(self, workers: int, /) -> Terms:
        """The terms among so many workers; a ValueError where they are impossible."""
        ...


@dataclass(frozen=True)
class Asynchronous:
    """Every gradient is a step, whenever it comes: nobody waits.

    Example:
        >>> Asynchronous().terms(8)
        Terms(collect=1, limit=None, wait=False, cancel=False, slack=None, in_turn=False)
    """

    def terms(self, workers: int, /) -> Terms:
        """Nothing is asked of anybody."""
        del workers  # The same for any number.
        return Terms()


@dataclass(frozen=True)
class SSP:
    """Stale synchronous parallel: a worker reads only while it is at most `slack` commits ahead of the slowest.

    Waiting workers hold no old value: they read when they are let go. A staleness is at most (n - 1)(2·slack + 1).
    A worker that is down is not waited for.

    Args:
        slack: Commits ahead, at least 0; 0 is a barrier after every commit of each.

    References:
        Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server".
    """

    slack: int

    def __post_init__(self) -> None:
        require_integer("slack", self.slack, least=0, remedy="0 is a barrier; use Asynchronous() for no limit.")

    def terms(self, workers: int, /) -> Terms:
        """One gradient a step, with slack."""
        del workers  # The same for any number.
        return Terms(slack=self.slack)


@dataclass(frozen=True)
class Synchronous:
    """Rounds: all read one version, the first n - backup gradients are averaged, and all read the next.

    Args:
        backup: Workers whose gradients come too late for the round, from 0 to n - 1.
        cancel: Whether the late jobs are stopped at the end of the round; else they arrive and are dropped, and
            their workers are late for the next round as well.

    References:
        Chen, Pan, Monga, Bengio and Jozefowicz 2016, "Revisiting distributed synchronous SGD" (backup workers).
    """

    backup: int = 0
    cancel: bool = True

    def __post_init__(self) -> None:
        require_integer("backup", self.backup, least=0, remedy="0 waits for all workers.")

    def terms(self, workers: int, /) -> Terms:
        """The first n - backup gradients of the present version."""
        if self.backup >= workers:
            raise ValueError(
                f"`backup` must be less than the number of workers; got {self.backup} for {workers} workers. "
                "At least one gradient must count."
            )
        return Terms(collect=workers - self.backup, limit=1, wait=True, cancel=self.cancel)


@dataclass(frozen=True)
class KSync:
    """The first k workers of a round make the step; the others' jobs are cancelled, and all read again.

    Args:
        k: Gradients in a step, from 1 to n.

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """

    k: int

    def __post_init__(self) -> None:
        _require_k(self.k)

    def terms(self, workers: int, /) -> Terms:
        """The first k gradients of the present version, of different workers."""
        return Terms(collect=_at_most(self.k, workers), limit=1, wait=True, cancel=True)


@dataclass(frozen=True)
class KAsync:
    """The first k workers to arrive make the step, however old their gradients; the others go on computing.

    The k wait for the step and then read. Mean staleness n/k - 1 for any law of compute times.

    Args:
        k: Gradients in a step, from 1 to n.

    References:
        Dutta et al. 2018, as for `KSync`.
    """

    k: int

    def __post_init__(self) -> None:
        _require_k(self.k)

    def terms(self, workers: int, /) -> Terms:
        """Any k gradients, of different workers."""
        return Terms(collect=_at_most(self.k, workers), wait=True)


@dataclass(frozen=True)
class KBatchSync:
    """The first k gradients of the present version make the step, whoever took them; then all jobs are cancelled.

    A worker reads again at once, the same version if the step is not complete, and may contribute several.

    Args:
        k: Gradients in a step, at least 1.

    References:
        Dutta et al. 2018, as for `KSync`.
    """

    k: int

    def __post_init__(self) -> None:
        _require_k(self.k)

    def terms(self, workers: int, /) -> Terms:
        """The first k gradients of the present version."""
        del workers  # A worker may contribute more than once.
        return Terms(collect=self.k, limit=1, cancel=True)


@dataclass(frozen=True)
class KBatchAsync:
    """Any k gradients make the step; nobody waits and nothing is cancelled. Also known as k-softsync.

    Mean staleness (n - 1)/k for any law of compute times.

    Args:
        k: Gradients in a step, at least 1.

    References:
        Dutta et al. 2018, as for `KSync`; Zhang, Gupta, Lian and Liu 2016, "Staleness-aware async-SGD for distributed
        deep learning" (softsync).
    """

    k: int

    def __post_init__(self) -> None:
        _require_k(self.k)

    def terms(self, workers: int, /) -> Terms:
        """Any k gradients."""
        del workers  # A worker may contribute more than once.
        return Terms(collect=self.k)


@dataclass(frozen=True)
class Rennala:
    """A step is the mean of `batch` gradients taken at the present version; older ones do not count.

    Args:
        batch: Gradients in a step, at least 1.
        cancel: Whether jobs on an older version are stopped at once (then it is `KBatchSync`); else they arrive
            and are dropped, as published.

    References:
        Tyurin and Richtárik 2023, "Optimal time complexities of parallel stochastic optimization methods under a
        fixed computation model".
    """

    batch: int
    cancel: bool = False

    def __post_init__(self) -> None:
        require_integer("batch", self.batch, least=1, remedy="Collect one gradient or more.")

    def terms(self, workers: int, /) -> Terms:
        """The first `batch` gradients of the present version."""
        del workers  # A worker may contribute more than once.
        return Terms(collect=self.batch, limit=1, cancel=self.cancel)


@dataclass(frozen=True)
class Ringmaster:
    """Every gradient whose staleness is below `limit` is a step; older ones do not count.

    Args:
        limit: Staleness from which on a gradient is dropped, at least 1.
        stop: Whether a job is stopped when its staleness reaches `limit`, instead of being dropped when it arrives.

    References:
        Maranjyan, Tyurin and Richtárik 2025, "Ringmaster ASGD: the first asynchronous SGD with optimal time
        complexity".
    """

    limit: int
    stop: bool = False

    def __post_init__(self) -> None:
        require_integer("limit", self.limit, least=1, remedy="With 1, only gradients of the present version count.")

    def terms(self, workers: int, /) -> Terms:
        """One gradient a step, not too old."""
        del workers  # The same for any number.
        return Terms(limit=self.limit, cancel=self.stop)


@dataclass(frozen=True)
class RoundRobin:
    """Commits are applied in the order 0, 1, …, n - 1, 0, …; whoever is early waits for its turn.

    After the first round every staleness is n - 1, whatever the compute times: the case that theory knows best.
    A worker that is down is passed over.
    """

    def terms(self, workers: int, /) -> Terms:
        """One gradient a step, in turn."""
        del workers  # The same for any number.
        return Terms(in_turn=True)


CONSTRUCTORS: dict[str, Callable[..., CommitProtocol]] = {
    "asynchronous": Asynchronous,
    "ssp": SSP,
    "synchronous": Synchronous,
    "k_sync": KSync,
    "k_async": KAsync,
    "k_batch_sync": KBatchSync,
    "k_batch_async": KBatchAsync,
    "rennala": Rennala,
    "ringmaster": Ringmaster,
    "round_robin": RoundRobin,
}


def _require_k(k: int) -> None:
    require_integer("k", k, least=1, remedy="Give the number of gradients in a step.")


def _at_most(k: int, workers: int) -> int:
    if k > workers:
        raise ValueError(
            f"`k` must be at most the number of workers, since each contributes once; got {k} for {workers} workers. "
            "Use fewer, or a protocol that counts batches."
        )
    return k
