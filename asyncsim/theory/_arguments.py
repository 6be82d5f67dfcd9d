"""Arguments that many predictions share, each checked in one place: the value itself, or a one-line error."""

from typing import NamedTuple

from asyncsim import _checks as checks

WHERE = ("none", "server", "worker")  # who keeps the momentum
FRESH = ("sync", "k_sync", "k_batch_sync")  # protocols whose gradients are all taken at the current version
PROTOCOLS = ("async", "k_async", "k_batch_async", *FRESH)


def checked_workers(workers: int) -> int:
    """The number of workers n, at least 1."""
    return checks.require_integer("workers", workers, least=1, remedy="Use one worker or more.")


def checked_k(k: int, workers: int) -> int:
    """The number K of different workers whose gradients are averaged, from 1 to n."""
    k = checks.require_integer("k", k, least=1, remedy="Average one gradient or more.")
    if k > workers:
        raise ValueError(f"`k` must not exceed `workers`; got {k} > {workers}. Average at most all of them.")
    return k


def checked_kappa(kappa: float) -> float:
    """ηh = step size times curvature, positive."""
    return checks.require_positive("kappa", kappa, remedy="Give step size times curvature.")


def checked_momentum(momentum: float) -> float:
    """The momentum μ, in [0, 1)."""
    return float(checks.fraction("momentum", momentum))


def checked_commits(commits: int) -> int:
    """The length of a path in commits, at least 0."""
    return checks.require_integer("commits", commits, least=0, remedy="Give the number of commits.")


def checked_size(size: int) -> int:
    """The number of probabilities, at least 1."""
    return checks.require_integer("size", size, least=1, remedy="Ask for one probability or more.")


def checked_rate(rate: float, name: str = "rate") -> float:
    """λ, the gradients per second of one worker, positive."""
    return checks.require_positive(name, rate, remedy="Give gradients per second and worker.")


def checked_service_rate(service_rate: float) -> float:
    """μ, the commits per second that the server can apply, positive."""
    return checks.require_positive("service_rate", service_rate, remedy="Give commits per second.")


def momentum_and_place(momentum: float, where: str) -> tuple[float, str]:
    """The momentum and where it is kept, "none" where it is zero."""
    momentum = checked_momentum(momentum)
    checks.one_of("where", where, WHERE)
    if momentum and where == "none":
        raise ValueError(f"`where` must be 'server' or 'worker' with momentum; got 'none' and momentum {momentum}.")
    return momentum, where if momentum else "none"


class Protocol(NamedTuple):
    """A checked protocol: `workers` n, and `k` gradients per step of the server."""

    name: str
    workers: int
    k: int


def checked_protocol(name: str, workers: int, k: int | None) -> Protocol:
    """The protocol with its `k`: n for "sync", 1 for "async", required for all others."""
    name = checks.one_of("protocol", name, PROTOCOLS)
    workers = checked_workers(workers)
    if name in ("sync", "async"):
        fixed = workers if name == "sync" else 1
        if k not in (None, fixed):
            raise ValueError(f"`k` must be {fixed} for {name!r} and {workers} workers; got {k!r}. Leave it out.")
        return Protocol(name, workers, fixed)
    k = checks.require_integer("k", k, least=1, remedy="Give the number of gradients per step.")
    if k > workers and "batch" not in name:
        raise ValueError(
            f"`k` must be at most `workers` for {name!r}; got {k} > {workers}. Use fewer gradients per step."
        )
    return Protocol(name, workers, k)
