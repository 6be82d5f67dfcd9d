"""Consequences of admission and order: conservation, mean and largest staleness, lag of tokens. Arguments of all."""

import math
from typing import Annotated

from asyncsim._checks import one_of, require_positive
from asyncsim._component import not_negative, positive, whole
from asyncsim.delays import Delay

ROUNDING = 1e-9  # relative: a number of groups that is whole up to rounding

GIVE_A_MEAN = "Give a law with a mean generation time in seconds."

Slots = Annotated[int, whole(1, "Use one slot or more.")]  # C
Samples = Annotated[int, whole(1, "Give the samples or groups of a step.")]  # B or b
Group = Annotated[int, whole(1, "Give the samples of a group.")]  # S
Window = Annotated[int, whole(1, "Give the groups of the window.")]  # W
SyncEvery = Annotated[int, whole(1, "Give the steps between two synchronisations.")]  # M
Lead = Annotated[float, not_negative("Give steps, for example 1.")]  # L
Mean = Annotated[float, positive("Give the mean generation time in seconds.")]  # E G
Seconds = Annotated[float, not_negative("Give seconds.")]
Count = Annotated[float, not_negative("Give a mean number of samples, or of versions.")]
StepRate = Annotated[float, not_negative("Give steps per second.")]


def conserved_staleness(outstanding: Count, *, samples: Samples) -> float:
    """Mean staleness in versions, from outstanding samples: E τ = E[samples outstanding just after a step]/B.

    Both sides count the same pairs of a sample and a step that ends while the sample is outstanding. With drops, ages
    of dropped samples at their drop belong to the left side. Exact for stationary rollouts without drops, any laws and
    orders, in groups instead of samples with b instead of B, and for tokens.

    Args:
        outstanding: Mean number of samples started and not trained, just after a step and before others start.
        samples: B, samples of a step.

    Example:
        >>> conserved_staleness(64, samples=32)
        2.0

    References:
        Alahyane et al. 2025, arXiv 2502.08206 (a discrete form of Little's law).
    """
    return outstanding / samples


def staleness_bound(lead: Lead, *, sync_every: SyncEvery = 1) -> float:
    """Largest mean staleness of groups, in versions, under admission: E τ ≤ L, with equality while admission limits.

    A group may be opened while fewer than ⌊(v + L + 1)·b⌋ have been, so that at most L·b are outstanding just after a
    step, and `conserved_staleness` does the rest. Exact for any laws, order and refill, and equal to L (where L·b is a
    whole number) if slots take up all that is admitted. The order decides only spread and throughput.

    With M steps between two synchronisations, the same holds of synchronisations, and steps are (M - 1)/2 versions
    after the last one on average: E τ ≤ M·L + (M - 1)/2.

    Args:
        lead: L, steps, or multiples of M steps.
        sync_every: M, the number of steps between two synchronisations.

    Example:
        >>> staleness_bound(1.5), staleness_bound(0.5, sync_every=4)
        (1.5, 3.5)
    """
    return sync_every * lead + (sync_every - 1) / 2


def largest_staleness(
    order: str, *, lead: Lead, batch: Samples, window: Window = 1, sync_every: SyncEvery = 1
) -> float:
    """Largest staleness of a group, in versions: ⌊(⌊(L + 1)·b⌋ + W - 2)/b⌋ with a window of W groups.

    "submission" has W = 1: at most ⌈L⌉, and all are equal to a whole L if slots suffice. "completion" and "freshest"
    have no bound (infinite). With M steps between two synchronisations, M·b groups take the place of b, and the bound
    in versions is M times as large, plus M - 1. Exact, without drops. Other arguments as in `staleness_bound`.

    Args:
        order: "submission", "window", "completion" or "freshest".
        batch: b, groups of a step.
        window: W, groups (for "window" only).

    Example:
        >>> largest_staleness("submission", lead=2, batch=8), largest_staleness("window", lead=2, batch=8, window=16)
        (2.0, 4.0)
        >>> largest_staleness("completion", lead=2, batch=8)
        inf
    """
    one_of("order", order, ("completion", "submission", "window", "freshest"))
    if order in ("completion", "freshest"):
        return math.inf
    admitted = math.floor((lead + 1) * sync_every * batch * (1 + ROUNDING))
    behind = (admitted + (window if order == "window" else 1) - 2) // (sync_every * batch)
    return float(sync_every * behind + sync_every - 1)


def token_lag(*, generate: Delay, slots: Slots, samples: Samples, in_queue: Count) -> float:
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
    mean = require_positive("mean", generate.mean, remedy=GIVE_A_MEAN)
    return slots / samples * (1 + generate.variance / mean**2) / 2 + in_queue


def versions_per_sample(*, generate: Delay, steps_per_second: StepRate) -> float:
    """Versions with which a sample is generated: 1 + u·E G with u steps per second.

    Exact where no slot is ever idle (no admission bound, refill="sample") and no sample is dropped. Otherwise an
    approximation, because a step ends a fixed time after a sample that made its groups complete.

    Args:
        generate: Law of the generation time of a sample, in seconds.
        steps_per_second: u.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> versions_per_sample(generate=Exponential(4.0), steps_per_second=0.5)
        3.0
    """
    return 1 + steps_per_second * generate.mean
