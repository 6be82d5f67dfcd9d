"""Staleness and seconds that follow from admission and order: bounds, lags, steps, pauses, and the split of GPUs."""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from asyncsim._checks import columns, require_one_of, require_share
from asyncsim.components._checked import checked
from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._per_worker import require_mean
from asyncsim.theory._parameters import require_count, require_scale, require_scale_or_zero, require_whole
from asyncsim.theory._rounds import expected_order_statistic

UNBOUNDED = ("completion", "newest", "freshest", "stalest")  # orders in which a step never waits for a certain group
ROUNDING = 1e-9  # relative error of a number of groups that counts as whole

Slots = Annotated[int, require_count, "Use one slot or more."]  # C
Samples = Annotated[int, require_count, "Give the samples or groups of a step."]  # B or b
Group = Annotated[int, require_count, "Give the samples of a group."]  # S
Window = Annotated[int, require_count, "Give the groups of the window."]  # W
Signal = Annotated[float, require_share, "Give a share above 0, for example 0.7."]  # q
StepsPerTake = Annotated[int, require_count, "Give the steps of the groups that are taken together."]  # k
SyncEvery = Annotated[int, require_count, "Give the steps between two synchronisations."]  # M
Lead = Annotated[float, require_scale_or_zero, "Give steps, for example 1."]  # L
Mean = Annotated[float, require_scale, "Give the mean generation time in seconds."]  # E G
Seconds = Annotated[float, require_scale_or_zero, "Give seconds."]
Count = Annotated[float, require_scale_or_zero, "Give a mean number of samples, or of versions."]
StepRate = Annotated[float, require_scale_or_zero, "Give steps per second."]
_Steps = Annotated[int, require_whole, "Give whole steps."]
_Gpus = Annotated[float, require_scale, "Give the number of GPUs."]
_OneGpu = Annotated[float, require_scale, "Give samples per second of one GPU."]
_Load = Annotated[float, require_scale, "1 is fastest."]


@checked
def conserved_staleness(outstanding: Count, *, samples: Samples) -> float:
    """Return the mean staleness in versions from outstanding samples, E τ = E[samples outstanding just after a step]/B.

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


@checked
def staleness_bound(lead: Lead, *, sync_every: SyncEvery = 1) -> float:
    """Return the largest mean staleness of groups, in versions, under admission: L, attained while admission limits.

    A group may be opened while fewer than ⌊(v + L + 1)·b⌋ have been, so that at most L·b are outstanding just after a
    step, and `conserved_staleness` does the rest. Exact for any laws, order and refill, and equal to L (where L·b is a
    whole number) if slots take up all that is admitted. The order decides only spread and throughput.

    With M steps between two synchronisations, the same holds of synchronisations, and steps are (M - 1)/2 versions
    after the last one on average: E τ ≤ M·L + (M - 1)/2.

    Slots must wait during a synchronisation that takes time. If they continue with the weights before it
    (``during_sync="continue"``), what they open meanwhile is up to one synchronisation older than this.

    Args:
        lead: L, steps, or multiples of M steps.
        sync_every: M, the number of steps between two synchronisations.

    Example:
        >>> staleness_bound(1.5), staleness_bound(0.5, sync_every=4)
        (1.5, 3.5)
    """
    return sync_every * lead + (sync_every - 1) / 2


@checked
def largest_staleness(
    order: str, *, lead: Lead, batch: Samples, window: Window = 1, sync_every: SyncEvery = 1
) -> float:
    """Return the largest staleness of a group, in versions: ⌊(⌊(L + 1)·b⌋ + W - 2)/b⌋ with a window of W groups.

    "submission" has W = 1: at most ⌈L⌉, and all are equal to a whole L if slots suffice. The other orders have no bound
    (infinite). With M steps between two synchronisations, M·b groups take the place of b, and the bound
    in versions is M times as large, plus M - 1. Exact, without drops, if slots wait during a synchronisation. Other
    arguments as in `staleness_bound`.

    Args:
        order: "submission", "window", or another order of `asyncsim.Rollouts`.
        batch: b, groups of a step.
        window: W, groups (for "window" only).

    Example:
        >>> largest_staleness("submission", lead=2, batch=8), largest_staleness("window", lead=2, batch=8, window=16)
        (2.0, 4.0)
        >>> largest_staleness("completion", lead=2, batch=8)
        inf
    """
    require_one_of("order", order, choices=("submission", "window", *UNBOUNDED))
    if order in UNBOUNDED:
        return math.inf
    admitted = math.floor((lead + 1) * sync_every * batch * (1 + ROUNDING))
    behind = (admitted + (window if order == "window" else 1) - 2) // (sync_every * batch)
    return float(sync_every * behind + sync_every - 1)


@checked
def token_lag(*, generate: Delay, slots: Slots, samples: Samples, in_queue: Count) -> float:
    """Return the versions from a token to its step: (C/B)·(1 + cv²)/2 + in-queue staleness.

    The tokens of long samples are many, hence 1 + cv². An approximation with error O(1/B), for S = 1 where generation
    is the bottleneck: within 3 % of simulations with B = 32. Other arguments and errors as in `paused_period`.

    Args:
        in_queue: Mean staleness gained in the queue, versions.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> token_lag(generate=Gamma(mean=2.0, cv=0.5), slots=64, samples=32, in_queue=0.5)
        1.75
    """
    mean = require_mean(generate)
    return slots / samples * (1 + generate.variance / mean**2) / 2 + in_queue


@checked
def versions_per_sample(*, generate: Delay, steps_per_second: StepRate) -> float:
    """Return the number of versions with which a sample is generated: 1 + u·E G with u steps per second.

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


class ThroughputBounds(NamedTuple):
    """The bounds of `throughput_bounds`, in samples per second, infinite where there is none.

    Attributes:
        slots: Samples that the slots generate.
        trainer: Samples that the trainer trains.
        lead: Samples that admission lets through.
    """

    slots: float
    trainer: float
    lead: float

    @property
    def binding(self) -> str:
        """The name of the smallest bound: "slots", "trainer" or "lead"."""
        return min(self._fields, key=lambda name: getattr(self, name))


@checked
def throughput_bounds(
    *,
    generate: Delay,
    train: Seconds,
    slots: Slots,
    group: Group,
    batch: Samples,
    lead: Lead | None = None,
    refill: str = "sample",
    sync_every: SyncEvery = 1,
    steps_per_take: StepsPerTake = 1,
    signal: Signal = 1.0,
) -> ThroughputBounds:
    """Bound the samples trained per second: q·C/E G by the slots, B/T by the trainer, and by the lead.

    By Little's law at most (L + 1)·B samples are under way. A trained one stays for F·E G + T seconds or more, and each
    of the (1 - q)/q samples that were discarded for it for F·E G. The lead therefore lets (L + 1)·B/(F·E G/q + T)
    samples through. Of k steps that are taken together, the mean one ends (k + 1)·T/2 seconds after their begin, which
    takes the place of T. With refill="group" the slots' bound is q·C/(F·E G), which is the throughput itself where
    generation is the bottleneck. With `sync_every` M, B is M times as large in the third bound. Exact bounds. Other
    arguments and errors as in `paused_period`.

    Args:
        group: S, samples of a group.
        batch: b, groups of a step.
        lead: L, steps, or None for no bound.
        refill: "sample" or "group".
        sync_every: M, steps between two synchronisations, in multiples of which the lead counts.
        steps_per_take: k, steps of the groups that are taken together.
        signal: q, probability that a group is trained and not discarded.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> bounds = throughput_bounds(generate=Exponential(1.0), train=1.0, slots=64, group=4, batch=8, lead=1)
        >>> bounds
        ThroughputBounds(slots=64.0, trainer=32.0, lead=20.756...)
        >>> bounds.binding, min(bounds)
        ('lead', 20.756...)
    """
    require_one_of("refill", refill, choices=("sample", "group"))
    samples = group * batch
    longest = longest_over_mean(generate, group=group) * generate.mean
    stay = longest / signal + train * (steps_per_take + 1) / 2
    return ThroughputBounds(
        slots=signal * slots / (longest if refill == "group" else generate.mean),
        trainer=samples / train if train else math.inf,
        lead=math.inf if lead is None else (lead + 1) * samples * sync_every / stay,
    )


@checked
def synchronous_period(*, generate: Delay, train: Seconds, samples: Samples) -> float:
    """Return the seconds of a step that generates B samples first and trains then: T + E max(G₁ … G_B).

    Exact for L = 0 and C ≥ B. For k steps that are taken together, after which alone the slots have new weights, give
    the samples and the seconds of all k. Arguments and errors as in `paused_period`.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> round(synchronous_period(generate=Exponential(1.0), train=0.5, samples=4), 6)  # .5 + 1 + 1/2 + 1/3 + 1/4
        2.583333
    """
    return train + expected_order_statistic(generate, k=samples, n=samples)


@checked
def in_order_steps(longest: Sequence[float] | FloatArray, *, train: Seconds, lead: _Steps) -> FloatArray:
    """Return when steps end that take groups in the order of opening: c_j = max(c_{j-1}, c_{j-1-L} + G_j) + T.

    G_j is the longest generation of step j. Exact for a whole L and as many slots as are admitted, at least
    (L + 1)·B.

    Args:
        longest: (steps,) G_j, the longest generation of each step, in seconds.
        train: T, seconds of a step.
        lead: L, whole steps.

    Returns:
        (steps,) seconds.

    Example:
        >>> in_order_steps([1.0, 3.0, 1.0], train=0.5, lead=1).tolist()
        [1.5, 3.5, 4.0]
    """
    (column,) = columns(longest=longest)
    lead = min(lead, len(column))
    ends = np.zeros(len(column) + lead + 1)  # before the first step, all weights are there at time 0
    for step, seconds in enumerate(column.tolist(), start=lead + 1):
        ends[step] = max(ends[step - 1], ends[step - 1 - lead] + seconds) + train
    return ends[lead + 1 :]


@checked
def in_order_period(*, mean: Mean, train: Seconds) -> float:
    """Return the seconds of a step for L = B = 1, in order, exponential generation of mean m: T + 2·m/(2·e^(T/m) + 1).

    Exact for two slots or more: the stationary solution of `in_order_steps`. Arguments as in `unbounded_queue`.

    Example:
        >>> round(in_order_period(mean=1.0, train=1.0), 6)
        1.310725
    """
    rare = math.exp(-train / mean)
    return train + 2 * mean * rare / (2 + rare)


@checked
def longest_over_mean(generate: Delay, *, group: Group) -> float:
    """Return F = E max(G₁ … G_S)/E G, how many times as long as a sample a group takes, at least 1.

    Exact: the harmonic number H_S for the exponential law, ((α - 1)/α)·Γ(S + 1)·Γ(1 - 1/α)/Γ(S + 1 - 1/α) for
    Pareto's, and quadrature for any other law.

    Args:
        generate: Law of the generation time of a sample, in seconds.
        group: S, samples of a group.

    Raises:
        ValueError: If an argument is out of range, or the mean is not finite and positive.

    Example:
        >>> from asyncsim.delays import LogNormal
        >>> law = LogNormal(mean=3.0, cv=1.0)
        >>> round(longest_over_mean(law, group=4), 4), round(longest_over_mean(law, group=8), 4)
        (1.9946, 2.6565)
    """
    return expected_order_statistic(generate, k=group, n=group) / generate.mean


@checked
def paused_period(*, generate: Delay, train: Seconds, slots: Slots, samples: Samples, pause: Seconds) -> float:
    """Return the seconds of a step after which all generation stops for d seconds: max(B/Λ, T) + d, with the same E τ.

    Exact where generation is the bottleneck (S = 1, or refill="sample").

    Args:
        generate: Law of the generation time of a sample, in seconds.
        train: T, mean seconds of a step.
        slots: C.
        samples: B, samples of a step.
        pause: d, mean seconds of a pause.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> paused_period(generate=Exponential(1.0), train=0.5, slots=16, samples=32, pause=0.25)
        2.25
    """
    mean = require_mean(generate)
    return max(samples / (slots / mean), train) + pause


@checked
def split_period(*, gpus: _Gpus, samples: Samples, train_rate: _OneGpu, rollout_rate: _OneGpu, load: _Load) -> float:
    """Return the seconds of a step of N GPUs that are split: (B/N)·(1/c_T + ρ/c_R)/min(1, ρ), least at ρ = 1.

    Exact for GPUs that may be shared out in any proportion and neither wait for lack of samples nor of room.

    Args:
        gpus: N.
        samples: B, samples of a step.
        train_rate: c_T, samples per second that one GPU trains.
        rollout_rate: c_R, samples per second that one GPU generates.
        load: ρ, samples generated over samples that could be trained, which the split decides.

    Example:
        >>> [split_period(gpus=8, samples=64, train_rate=4, rollout_rate=2, load=load) for load in (0.5, 1, 2)]
        [8.0, 6.0, 10.0]
    """
    return samples / gpus * (1 / train_rate + load / rollout_rate) / min(1.0, load)


class Split(NamedTuple):
    """The prediction of `best_split`.

    Attributes:
        train_gpus: GPUs that train.
        rollout_gpus: GPUs that generate.
        period: Seconds of a step.
    """

    train_gpus: float
    rollout_gpus: float
    period: float


@checked
def best_split(*, gpus: _Gpus, samples: Samples, train_rate: _OneGpu, rollout_rate: _OneGpu) -> Split:
    """Return the fastest split of N GPUs, at ρ = 1: N·c_R/(c_T + c_R) of them train.

    Arguments and errors as in `split_period`.

    Example:
        >>> best_split(gpus=9, samples=64, train_rate=4, rollout_rate=2)
        Split(train_gpus=3.0, rollout_gpus=6.0, period=5.333...)
    """
    period = split_period(gpus=gpus, samples=samples, train_rate=train_rate, rollout_rate=rollout_rate, load=1.0)
    train_gpus = gpus * rollout_rate / (train_rate + rollout_rate)
    return Split(train_gpus, gpus - train_gpus, period)
