"""Consequences of admission and order: conservation, mean and largest staleness, lag of tokens. Arguments of all."""

import math

from asyncsim import _checks as checks
from asyncsim.delays import Delay

ROUNDING = 1e-9  # relative: a number of groups that is whole up to rounding


def rate_of(mean: float, slots: int) -> float:
    """Λ = C/E G."""
    return checked_slots(slots) / checks.require_positive(
        "mean", mean, remedy="Give the mean generation time in seconds."
    )


def checked_slots(slots: int) -> int:
    """C, the number of slots, at least 1."""
    return checks.require_integer("slots", slots, least=1, remedy="Use one slot or more.")


def checked_samples(samples: int, name: str = "samples") -> int:
    """B or b, the samples or groups of a step, at least 1."""
    return checks.require_integer(name, samples, least=1, remedy="Give the samples or groups of a step.")


def checked_seconds(name: str, value: float) -> float:
    """Seconds, at least 0."""
    return checks.require_not_negative(name, value, remedy="Give seconds.")


def checked_lead(lead: float) -> float:
    """L, the lead in steps, at least 0."""
    return checks.require_not_negative("lead", lead, remedy="Give steps, for example 1.")


def conserved_staleness(outstanding: float, *, samples: int) -> float:
    """Mean staleness in versions, from outstanding samples: E τ = E[samples outstanding just after a step]/B.

    Both sides count the same pairs of a sample and a step that ends while the sample is outstanding. With drops, ages
    of dropped samples at their drop belong to the left side. Exact for stationary rollouts without drops, any laws and
    orders, in groups instead of samples with b instead of B, and for tokens.

    Args:
        outstanding: Mean number of samples started and not trained, just after a step and before others start.
        samples: B, samples of a step.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> conserved_staleness(64, samples=32)
        2.0

    References:
        Alahyane et al. 2025, arXiv 2502.08206 (a discrete form of Little's law).
    """
    outstanding = checks.require_not_negative("outstanding", outstanding, remedy="Give a mean number of samples.")
    return outstanding / checked_samples(samples)


def staleness_bound(lead: float, *, sync_every: int = 1) -> float:
    """Largest mean staleness of groups, in versions, under admission: E τ ≤ L, with equality while admission limits.

    A group may be opened while fewer than ⌊(v + L + 1)·b⌋ have been, so that at most L·b are outstanding just after a
    step, and `conserved_staleness` does the rest. Exact for any laws, order and refill, and equal to L (where L·b is a
    whole number) if slots take up all that is admitted. The order decides only spread and throughput.

    With M steps between two synchronisations, the same holds of synchronisations, and steps are (M - 1)/2 versions
    after the last one on average: E τ ≤ M·L + (M - 1)/2.

    Args:
        lead: L, steps, or multiples of M steps.
        sync_every: M, the number of steps between two synchronisations.

    Raises:
        ValueError: If `lead` is out of range.

    Example:
        >>> staleness_bound(1.5), staleness_bound(0.5, sync_every=4)
        (1.5, 3.5)
    """
    every = checked_samples(sync_every, "sync_every")
    return every * checked_lead(lead) + (every - 1) / 2


def largest_staleness(order: str, *, lead: float, batch: int, window: int = 1, sync_every: int = 1) -> float:
    """Largest staleness of a group: ⌊(⌊(L + 1)·b⌋ + W - 2)/b⌋ with a window of W groups.

    "submission" has W = 1: at most ⌈L⌉, and all are equal to a whole L if slots suffice. "completion" and "freshest"
    have no bound. With M steps between two synchronisations, M·b groups take the place of b, and the bound in versions
    is M times as large, plus M - 1. Exact, without drops. Other arguments as in `staleness_bound`.

    Args:
        order: "submission", "window", "completion" or "freshest".
        batch: b, groups of a step.
        window: W, groups (for "window" only).

    Returns:
        Versions, infinite without a bound.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> largest_staleness("submission", lead=2, batch=8), largest_staleness("window", lead=2, batch=8, window=16)
        (2.0, 4.0)
        >>> largest_staleness("completion", lead=2, batch=8)
        inf
    """
    checks.one_of("order", order, ("completion", "submission", "window", "freshest"))
    batch = checks.require_integer("batch", batch, least=1, remedy="Give the groups of a step.")
    window = checks.require_integer("window", window, least=1, remedy="Give the groups of the window.")
    lead, every = checked_lead(lead), checked_samples(sync_every, "sync_every")
    if order in ("completion", "freshest"):
        return math.inf
    admitted = math.floor((lead + 1) * every * batch * (1 + ROUNDING))
    behind = (admitted + (window if order == "window" else 1) - 2) // (every * batch)
    return float(every * behind + every - 1)


def token_lag(*, generate: Delay, slots: int, samples: int, in_queue: float) -> float:
    """Versions from a token to its step: (C/B)·(1 + cv²)/2 + in-queue staleness.

    The tokens of long samples are many, hence 1 + cv². An approximation with error O(1/B), for S = 1 where generation
    is the bottleneck: within 3 % of simulations with B = 32. Other arguments and errors as in `paused_period`.

    Args:
        in_queue: Mean staleness gained in the queue, versions.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> token_lag(generate=Gamma(mean=2.0, cv=0.5), slots=64, samples=32, in_queue=0.5)
        1.75
    """
    in_queue = checks.require_not_negative("in_queue", in_queue, remedy="Give versions.")
    spread = generate.variance / generate.mean**2
    return checked_slots(slots) / checked_samples(samples) * (1 + spread) / 2 + in_queue


def versions_per_sample(*, generate: Delay, steps_per_second: float) -> float:
    """Versions with which a sample is generated: 1 + u·E G with u steps per second.

    Exact where no slot is ever idle (no admission bound, refill="sample") and no sample is dropped. Otherwise an
    approximation, because a step ends a fixed time after a sample that made its groups complete.

    Args:
        generate: Law of the generation time of a sample, in seconds.
        steps_per_second: u.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> versions_per_sample(generate=Exponential(4.0), steps_per_second=0.5)
        3.0
    """
    rate = checks.require_not_negative("steps_per_second", steps_per_second, remedy="Give steps per second.")
    return 1 + rate * generate.mean
