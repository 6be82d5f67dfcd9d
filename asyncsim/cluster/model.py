"""What a cluster is: a description without behaviour."""

from collections.abc import Sequence
from dataclasses import dataclass

from asyncsim.checks import require_integer
from asyncsim.delays import Delay


@dataclass(frozen=True)
class Cluster:
    """Workers around one server that applies a commit and answers the read in the same instant.

    Args:
        workers: Number of workers n, at least 1.
        compute: Law of the time from reading to committing: one law for all workers, or a sequence with one
            law per worker (kept as a tuple).

    Raises:
        ValueError: If `workers` is not an integer of at least 1, or `compute` does not fit it.

    Example:
        >>> from asyncsim.delays import Constant, Gamma
        >>> Cluster(workers=20, compute=Gamma(mean=1.0, cv=0.3)).workers
        20
        >>> Cluster(workers=3, compute=[Constant(1.0), Constant(1.0), Constant(2.0)]).laws[2]
        Constant(value=2.0)
    """

    workers: int
    compute: Delay | Sequence[Delay]
    # Network, server, protocol and faults join here, each with a default that leaves it out.

    def __post_init__(self) -> None:
        workers = require_integer("workers", self.workers, least=1, remedy="Use one worker or more.")
        object.__setattr__(self, "workers", workers)
        if not isinstance(self.compute, Delay):
            object.__setattr__(self, "compute", _one_law_per_worker(self.compute, workers))

    @property
    def laws(self) -> tuple[Delay, ...]:
        """The compute law of each worker, length n."""
        if isinstance(self.compute, Delay):
            return (self.compute,) * self.workers
        return tuple(self.compute)


def _one_law_per_worker(compute: object, workers: int) -> tuple[Delay, ...]:
    given = compute if isinstance(compute, Sequence) else [compute]
    laws = tuple(law for law in given if isinstance(law, Delay))
    if len(laws) != len(given):
        raise ValueError(
            f"`compute` must be a law of delays or a sequence of them; got {compute!r}. "
            "Use one of `asyncsim.delays`, for example `Constant(1.0)`."
        )
    if len(laws) != workers:
        raise ValueError(
            f"`compute` must have one law per worker; got {len(laws)} for {workers} workers. "
            "Give one law for all or as many as `workers`."
        )
    return laws
