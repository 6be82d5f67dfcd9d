"""Protocols: when a worker may read, which gradients count, and how many make a step.

Every protocol comes down to a few numbers (`Terms`), which the simulation follows. A protocol of your own is a frozen
dataclass with a method `terms(workers)`. One that derives from `NamedProtocol` is known to the command line by its
name.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from asyncsim._checks import brief, require_count, require_integer, require_positive
from asyncsim.components import _families as families
from asyncsim.components._checked import Checked
from asyncsim.components._families import Named

__all__ = [
    "SSP",
    "Asynchronous",
    "CommitProtocol",
    "KAsync",
    "KBatchAsync",
    "KBatchSync",
    "KSync",
    "Malenia",
    "NamedProtocol",
    "Periodic",
    "Rennala",
    "Ringmaster",
    "RoundRobin",
    "Synchronous",
    "Terms",
    "by_name",
]


class Terms(NamedTuple):
    """The settings to which every protocol reduces.

    Attributes:
        collect: Gradients that make a step of the server. Their messages are averaged.
        limit: A gradient counts if its staleness is below this. None if every gradient counts.
        wait: Whether a worker that has contributed to a step waits for its end before it reads again.
        cancel: Whether a job is stopped, and its worker reads again, once its staleness reaches `limit`.
        slack: Commits by which a worker may be ahead of the slowest when it reads, or None for no bound.
        in_turn: Whether commits are applied in the order of the workers' numbers, over and over.
        balance: S, if a step takes gradients of every worker instead of a number of them: B_i ≥ 1 of worker i, until
            their harmonic mean is at least S/n. None for a step of `collect` gradients.
        bound: Staleness that no gradient may exceed: the step waits for running jobs that would. None for no bound.
        every: Seconds from one step to the next: gradients wait for that time, or until `collect` of them wait. None if
            each takes effect when it arrives.
    """

    collect: int = 1
    limit: int | None = None
    wait: bool = False
    cancel: bool = False
    slack: int | None = None
    in_turn: bool = False
    balance: int | None = None
    bound: int | None = None
    every: float | None = None


@runtime_checkable
class CommitProtocol(Protocol):
    """The interface of a protocol."""

    def terms(self, workers: int, /) -> Terms:
        """Return the terms for n workers, or raise a ValueError if there can be none."""
        ...


class NamedProtocol(Checked, Named, family="protocols", members=CommitProtocol, example="KAsync(4)"):
    """Base class of protocols that the command line knows by name."""


@dataclass(frozen=True)
class Asynchronous(NamedProtocol):
    """Every gradient is a step as soon as it arrives, so nobody waits.

    Example:
        >>> Asynchronous().terms(8) == Terms(collect=1)
        True
    """

    def terms(self, workers: int, /) -> Terms:
        """Return terms without conditions."""
        del workers  # The same for any number.
        return Terms()


@dataclass(frozen=True)
class SSP(NamedProtocol):
    """Stale synchronous parallel: a worker reads only while it is at most `slack` commits ahead of the slowest.

    Waiting workers hold no old value: they read when they may go on. A staleness is at most (n - 1)(2·slack + 1).
    Nobody waits for a worker that is down.

    Args:
        slack: Commits ahead, at least 0. With 0, all workers wait for one another after each commit.

    References:
        Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server".
    """

    slack: Annotated[int, require_integer, "Use 0 for a barrier, or `Asynchronous()` for no bound."]

    def terms(self, workers: int, /) -> Terms:
        """Return terms of one gradient per step, with slack."""
        del workers  # The same for any number.
        return Terms(slack=self.slack)


@dataclass(frozen=True)
class Synchronous(NamedProtocol):
    """Rounds: all read one version, the first n - backup gradients are averaged, and all read the next.

    Args:
        backup: Number of workers whose gradients come too late for the round, from 0 to n - 1.
        cancel: Whether the late jobs are stopped at the end of the round. Otherwise they arrive and are dropped, and
            their workers are late for the next round as well.

    References:
        Chen, Pan, Monga, Bengio and Jozefowicz 2016, "Revisiting distributed synchronous SGD" (backup workers).
    """

    backup: Annotated[int, require_integer, "0 waits for all workers."] = 0
    cancel: bool = True

    def terms(self, workers: int, /) -> Terms:
        """Return terms of the first n - backup gradients of the present version."""
        if self.backup >= workers:
            raise ValueError(
                f"`backup` must be less than the number of workers; got {brief(self.backup)} for {workers} workers. "
                "At least one gradient must count."
            )
        return Terms(collect=workers - self.backup, limit=1, wait=True, cancel=self.cancel)


@dataclass(frozen=True)
class _OfK(NamedProtocol, named=False):
    """A protocol with k gradients in a step."""

    k: Annotated[int, require_count, "Give the number of gradients in a step."]


@dataclass(frozen=True)
class KSync(_OfK):
    """The first k workers to finish make the step. The others' jobs are cancelled, and all read again.

    Args:
        k: Gradients in a step, from 1 to n.

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """

    name: ClassVar[str] = "k_sync"

    def terms(self, workers: int, /) -> Terms:
        """Return terms of the first k gradients of the present version, of different workers."""
        return Terms(collect=_at_most(self.k, workers), limit=1, wait=True, cancel=True)


@dataclass(frozen=True)
class KAsync(_OfK):
    """The first k workers to arrive make the step, however old their gradients. The others go on computing.

    The k wait for the step and then read. Mean staleness n/k - 1 for any law of compute times. A server that steps as
    soon as k of its n slots for workers are open does the same.

    With a bound, the step also waits for every worker whose gradient would be older than that after it, and takes all
    that have arrived by then, on average u of them. The mean staleness is n/u - 1.

    Args:
        k: Gradients in a step, from 1 to n.
        bound: Staleness that no gradient exceeds, at least 0, or None for no bound.

    References:
        Dutta et al. 2018, as for `KSync`.
        Su and Li 2022, "How asynchronous can federated learning be?" (with a bound).
    """

    name: ClassVar[str] = "k_async"

    bound: Annotated[int, require_integer, "With 0, every step waits for all workers."] | None = None

    def __repr__(self) -> str:
        return f"KAsync(k={self.k})" if self.bound is None else f"KAsync(k={self.k}, bound={self.bound})"

    def terms(self, workers: int, /) -> Terms:
        """Return terms of any k gradients, of different workers."""
        return Terms(collect=_at_most(self.k, workers), wait=True, bound=self.bound)


@dataclass(frozen=True)
class Periodic(NamedProtocol):
    """The server steps at fixed times, with the mean of all gradients that wait for it then, if there are any.

    A worker that has sent its gradient waits for the step and then reads. A gradient that arrives at the very time of a
    step takes part in it.

    Args:
        every: Seconds from one of these times to the next, the first of them from the start of the run.
        k: Number of waiting gradients, from 1 to n, at which the server steps before its time, or None for fixed times
            alone.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(3, [asim.delays.Constant(s) for s in (1.0, 2.0, 5.0)], protocol=Periodic(every=3.0))
        >>> trace = asim.simulate(cluster, commits=6)
        >>> trace.worker.tolist(), trace.commit_time.tolist(), trace.staleness.tolist()
        ([0, 1, 0, 2, 1, 0], [3.0, 3.0, 6.0, 6.0, 6.0, 9.0], [0, 0, 0, 1, 0, 0])
    """

    every: Annotated[float, require_positive, "Give seconds."]
    k: Annotated[int, require_count, "Give a number of gradients, or None for fixed times alone."] | None = None

    def terms(self, workers: int, /) -> Terms:
        """Return terms of all gradients that wait at a fixed time."""
        # More gradients than there are workers never wait.
        return Terms(collect=workers + 1 if self.k is None else _at_most(self.k, workers), wait=True, every=self.every)


@dataclass(frozen=True)
class KBatchSync(_OfK):
    """The first k gradients of the present version make the step, whoever computed them. Then all jobs are cancelled.

    A worker reads again at once, the same version if the step is not complete, and may contribute several.

    Args:
        k: Gradients in a step, at least 1.

    References:
        Dutta et al. 2018, as for `KSync`.
    """

    name: ClassVar[str] = "k_batch_sync"

    def terms(self, workers: int, /) -> Terms:
        """Return terms of the first k gradients of the present version."""
        del workers  # A worker may contribute more than once.
        return Terms(collect=self.k, limit=1, cancel=True)


@dataclass(frozen=True)
class KBatchAsync(_OfK):
    """Any k gradients make the step. Nobody waits and nothing is cancelled. Also known as k-softsync.

    Mean staleness (n - 1)/k for any law of compute times.

    Args:
        k: Gradients in a step, at least 1.

    References:
        Dutta et al. 2018, as for `KSync`.
        Zhang, Gupta, Lian and Liu 2016, "Staleness-aware async-SGD for distributed deep learning" (softsync).
    """

    name: ClassVar[str] = "k_batch_async"

    def terms(self, workers: int, /) -> Terms:
        """Return terms of any k gradients."""
        del workers  # A worker may contribute more than once.
        return Terms(collect=self.k)


@dataclass(frozen=True)
class Rennala(NamedProtocol):
    """A step is the mean of `batch` gradients taken at the present version. Older ones do not count.

    Args:
        batch: Gradients in a step, at least 1.
        cancel: Whether jobs on an older version are stopped at once (then it is `KBatchSync`). Otherwise they arrive
            and are dropped, as published.

    References:
        Tyurin and Richtárik 2023, "Optimal time complexities of parallel stochastic optimization methods under a
        fixed computation model".
    """

    batch: Annotated[int, require_count, "Collect one gradient or more."]
    cancel: bool = False

    def terms(self, workers: int, /) -> Terms:
        """Return terms of the first `batch` gradients of the present version."""
        del workers  # A worker may contribute more than once.
        return Terms(collect=self.batch, limit=1, cancel=self.cancel)


@dataclass(frozen=True)
class Malenia(NamedProtocol):
    """A step takes gradients of every worker at the present version: the B_i ≥ 1 of worker i that come in time.

    It is complete once the harmonic mean of the B_i is at least S/n. Then all jobs are cancelled, and all read again.
    With S ≤ n that is once every worker has contributed. The authors' own experiments run it so, with S = 1. Give it to
    `rules.Malenia(…, steps="trace")`, which weights workers alike. While a worker is down no step is complete.

    Args:
        batch: S ≥ 1, the gradients in a step if all workers are equally fast.
        cancel: Whether jobs on an older version are stopped at once. Otherwise they arrive and are dropped, as in the
            published method.

    References:
        Tyurin and Richtárik 2023, as for `Rennala`. Maranjyan and Richtárik 2025, "Ringleader ASGD: the first
        asynchronous SGD with optimal time complexity under data heterogeneity" (S = 1, with cancellation).
    """

    batch: Annotated[int, require_count, "1 takes at least one gradient of every worker."] = 1
    cancel: bool = True

    def terms(self, workers: int, /) -> Terms:
        """Return terms of gradients of the present version, of every worker."""
        del workers  # The same for any number.
        return Terms(limit=1, cancel=self.cancel, balance=self.batch)


@dataclass(frozen=True)
class Ringmaster(NamedProtocol):
    """Every gradient whose staleness is below `limit` is a step. Older ones do not count.

    Args:
        limit: Staleness at which a gradient no longer counts, at least 1.
        stop: Whether a job is stopped when its staleness reaches `limit`, instead of being dropped when it arrives.

    References:
        Maranjyan, Tyurin and Richtárik 2025, "Ringmaster ASGD: the first asynchronous SGD with optimal time
        complexity".
    """

    limit: Annotated[int, require_count, "With 1, only gradients of the present version count."]
    stop: bool = False

    def terms(self, workers: int, /) -> Terms:
        """Return terms of one gradient per step, if it is not too old."""
        del workers  # The same for any number.
        return Terms(limit=self.limit, cancel=self.stop)


@dataclass(frozen=True)
class RoundRobin(NamedProtocol):
    """Commits are applied in the order 0, 1, …, n - 1, 0, …, and whoever is early waits for its turn.

    After the first round every staleness is n - 1, whatever the compute times. A worker that is down is skipped.
    """

    def terms(self, workers: int, /) -> Terms:
        """Return terms of one gradient per step, in turn."""
        del workers  # The same for any number.
        return Terms(in_turn=True)


def by_name(name: str) -> type[Any]:
    """Return the class with this command-line name among the protocols, those of your own included.

    Args:
        name: The name, for example "k_sync".

    Raises:
        ValueError: If there is none. The nearest name is suggested.

    Example:
        >>> by_name("k_sync")(4)
        KSync(k=4)
    """
    return families.by_name("protocols", name)


def _at_most(k: int, workers: int) -> int:
    if k > workers:
        raise ValueError(
            f"`k` must be at most the number of workers, since each contributes once; got {brief(k)} for {workers} "
            "workers. Use fewer, or a protocol that counts batches."
        )
    return k
