"""Arguments that are one law for all workers, or one law per worker: their checks, their expansion and their groups."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from asyncsim._checks import brief, require_count, require_positive
from asyncsim.delays._bounded import Constant
from asyncsim.delays._law import Delay

Law = TypeVar("Law")

ZERO = Constant(0.0)
SHORTEST, LONGEST = 1e-100, 1e100  # seconds whose squares and reciprocals are floats


def is_zero(law: Any) -> bool:
    """Return whether every delay of this law is zero."""
    return isinstance(law, Constant) and law.value == 0


def require_laws(name: str, laws: Any, kinds: Any = Delay) -> Any:
    """Return one law as it is, or a sequence of laws as a tuple, and refuse anything else."""
    if isinstance(laws, kinds):
        return laws
    if (
        not isinstance(laws, Sequence)
        or isinstance(laws, str)
        or not laws
        or not all(isinstance(law, kinds) for law in laws)
    ):
        raise ValueError(
            f"`{name}` must be a law of delays or a sequence of them; got {brief(laws)}. "
            "Use one of `asyncsim.delays`, for example `Constant(1.0)`."
        )
    return tuple(laws)


def require_one_per_worker(name: str, laws: Any, workers: int, each: str = "worker", what: str = "law") -> None:
    """Refuse a tuple of laws or numbers whose length is not the number of workers, stages or slots."""
    if isinstance(laws, tuple) and len(laws) != workers:
        raise ValueError(
            f"`{name}` must have one {what} per {each}; got {len(laws)} for {workers} {each}s. "
            f"Give one {what} for all or as many as `{each}s`."
        )


def require_positive_laws(name: str, laws: Any, count: int, each: str) -> Any:
    """Return one law for all stages or slots, or a tuple of one law for each, and refuse laws that are always 0."""
    laws = require_laws(name, laws)
    require_one_per_worker(name, laws, count, each)
    for law in expand(laws, 1):
        if not law.mean > 0:
            raise ValueError(f"`{name}` must take time; got {brief(law)}. Give a law with a positive mean.")
    return laws


def expand(laws: Law | Sequence[Law], workers: int) -> tuple[Law, ...]:
    """Return the law of each worker, length n, of an argument that was checked: one law, or a tuple of laws."""
    return laws if isinstance(laws, tuple) else (laws,) * workers  # type: ignore[return-value]


def one_law_per_worker(compute: Delay | Sequence[Delay], workers: int) -> tuple[Delay, ...]:
    """Return the law of each worker, length n."""
    workers = require_count("workers", workers, remedy="Use one worker or more.")
    laws = require_laws("compute", compute)
    require_one_per_worker("compute", laws, workers)
    return expand(laws, workers)


def counted_laws(compute: Delay | Sequence[Delay], workers: int) -> list[tuple[Delay, int]]:
    """Return the different laws, in the order of their first worker, each with its number of workers."""
    workers = require_count("workers", workers, remedy="Use one worker or more.")
    laws = require_laws("compute", compute)
    require_one_per_worker("compute", laws, workers)
    return distinct(laws) if isinstance(laws, tuple) else [(laws, workers)]


def distinct(laws: Iterable[Law]) -> list[tuple[Law, int]]:
    """Return the different laws, in the order of their first worker, each with its number of workers."""
    by_key: dict[object, list[Law]] = {}
    for law in laws:
        by_key.setdefault(_equality_key(law), []).append(law)
    return [(equal[0], len(equal)) for equal in by_key.values()]


def _equality_key(law: Any) -> object:
    """Return a key that equal laws share: the law itself, or the identity of one without a hash."""
    try:
        hash(law)
    except TypeError:
        return id(law)
    return law


def require_seconds(name: str, seconds: object, remedy: str) -> float:
    """Return positive seconds whose square and reciprocal are floats."""
    seconds = require_positive(name, seconds, remedy=remedy)
    if not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"`{name}` must be from {SHORTEST:g} to {LONGEST:g} seconds; got {brief(seconds)}. {remedy}")
    return seconds


def require_mean(law: Delay) -> float:
    """Return the mean of a law in seconds, positive and such that its square is a float."""
    return require_seconds("mean", law.mean, f"Correct {law!r}.")


class Group(NamedTuple):
    """Workers with one law: their number, and the share of all commits that each of them makes."""

    law: Delay
    workers: int
    share: float


def groups(compute: Delay | Sequence[Delay], workers: int) -> tuple[Group, ...]:
    """Return the distinct laws of asynchronous workers that are always busy, in the order of their first worker."""
    laws = counted_laws(compute, workers)
    # A worker that is always busy commits once per mean time, so its share of the commits is that of its rate.
    rates = [1 / require_mean(law) for law, _ in laws]
    total = sum(rate * count for rate, (_, count) in zip(rates, laws, strict=True))
    return tuple(Group(law, count, rate / total) for rate, (law, count) in zip(rates, laws, strict=True))
