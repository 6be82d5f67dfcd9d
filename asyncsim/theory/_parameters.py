"""Parameters that many predictions share: their types, which define their checks, and checks of several."""

from functools import partial
from typing import Annotated, Any, NamedTuple

from asyncsim import _checks as checks

WHERE = ("none", "server", "worker")  # places where the momentum is kept
FRESH = ("sync", "k_sync", "k_batch_sync")  # protocols whose gradients are all taken at the current version
PROTOCOLS = ("async", "k_async", "k_batch_async", *FRESH)

LEAST, MOST = 1e-100, 1e100  # of positive arguments, so that their products and powers are floats
MOST_COUNTED = 2**53  # up to which every integer is a float


def require_scale(name: str, value: object, *, remedy: str) -> float:
    """Return a positive number of a magnitude with which a formula neither underflows nor overflows."""
    number = checks.require_positive(name, value, remedy=remedy)
    if not LEAST <= number <= MOST:
        raise ValueError(f"`{name}` must be from {LEAST:g} to {MOST:g}; got {number!r}. {remedy}")
    return number


def require_scale_or_zero(name: str, value: object, *, remedy: str) -> float:
    """Return a number that is not negative, and not so large that a formula overflows. Tiny ones act as 0."""
    number = checks.require_not_negative(name, value, remedy=remedy)
    return checks.require_at_most(name, number, largest=MOST, remedy=remedy)


def require_whole(name: str, value: object, *, least: int = 0, remedy: str) -> int:
    """Return an integer of at least `least` that a float equals."""
    number = checks.require_integer(name, value, least=least, remedy=remedy)
    if number > MOST_COUNTED:
        raise ValueError(f"`{name}` must be at most {MOST_COUNTED:.3g}; got {checks.brief(number)}. {remedy}")
    return number


def require_count(name: str, value: object, *, remedy: str) -> int:
    """Return an integer of at least 1 that a float equals."""
    return require_whole(name, value, least=1, remedy=remedy)


def fraction(name: str, value: Any) -> float:
    """Return a number in [0, 1), or refuse it."""
    return float(checks.require_all_fractions(name, value))


Workers = Annotated[int, require_count, "Use one worker or more."]  # n
Commits = Annotated[int, require_whole, "Give the number of commits."]
Size = Annotated[int, require_count, "Ask for one probability or more."]
Kappa = Annotated[float, require_scale, "Give step size times curvature."]  # ηh
Momentum = Annotated[float, fraction]  # μ
Where = Annotated[str, partial(checks.require_one_of, choices=WHERE)]
ProtocolName = Annotated[str, partial(checks.require_one_of, choices=PROTOCOLS)]
Rate = Annotated[float, require_scale, "Give gradients per second and worker."]  # λ, of one worker
ServiceRate = Annotated[float, require_scale, "Give commits per second."]  # ν, of the server
K = Annotated[int, require_count, "Average one gradient or more."]
Step = Annotated[int, require_count, "Give the number of gradients per step."]  # K of a protocol


def require_k(k: int, workers: int) -> None:
    """Refuse to average the gradients of more different workers than there are."""
    if k > workers:
        raise ValueError(
            f"`k` must not exceed `workers`; got {checks.brief(k)} > {checks.brief(workers)}. Average at most all of "
            "them."
        )


def require_momentum(momentum: float, where: str) -> tuple[float, str]:
    """Check the momentum, and return it with the place where it is kept, "none" if it is zero."""
    momentum = fraction("momentum", momentum)
    checks.require_one_of("where", where, choices=WHERE)
    if momentum and where == "none":
        raise ValueError(f"`where` must be 'server' or 'worker' with momentum; got 'none' and momentum {momentum}.")
    return momentum, where if momentum else "none"


class Protocol(NamedTuple):
    """A checked protocol: `workers` n, and `k` gradients per step of the server."""

    name: str
    workers: int
    k: int


def checked_protocol(name: str, workers: int, k: int | None) -> Protocol:
    """Check a protocol, and return it with its `k`: n for "sync", 1 for "async", required for all others."""
    name = checks.require_one_of("protocol", name, choices=PROTOCOLS)
    workers = require_count("workers", workers, remedy="Use one worker or more.")
    if name in ("sync", "async"):
        fixed = workers if name == "sync" else 1
        if k not in (None, fixed):
            raise ValueError(
                f"`k` must be {fixed} for {name!r} and {workers} workers; got {checks.brief(k)}. Leave it out."
            )
        return Protocol(name, workers, fixed)
    k = require_count("k", k, remedy="Give the number of gradients per step.")
    if k > workers and "batch" not in name:
        raise ValueError(
            f"`k` must be at most `workers` for {name!r}; got {checks.brief(k)} > {checks.brief(workers)}. Use fewer "
            "gradients per step."
        )
    return Protocol(name, workers, k)
