"""Samples and seconds: bounds, synchronous and ordered steps, long groups, pauses, and the split of GPUs."""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from asyncsim._checks import columns, one_of, require_positive
from asyncsim._component import positive, whole
from asyncsim.delays import Delay, FloatArray
from asyncsim.theory._rounds import expected_order_statistic
from asyncsim.theory.rollouts._admission import GIVE_A_MEAN, Group, Lead, Mean, Samples, Seconds, Slots, SyncEvery

_Steps = Annotated[int, whole(0, "Give whole steps.")]
_Gpus = Annotated[float, positive("Give the number of GPUs.")]
_OneGpu = Annotated[float, positive("Give samples per second of one GPU.")]
_Load = Annotated[float, positive("1 is fastest.")]


def throughput_bound(
    *,
    generate: Delay,
    train: Seconds,
    slots: Slots,
    group: Group,
    batch: Samples,
    lead: Lead | None = None,
    refill: str = "sample",
    sync_every: SyncEvery = 1,
) -> float:
    """Most samples per second: min(C/E G, B/T, (L + 1)·B/(F·E G + T)).

    The slots generate, the trainer trains, and by Little's law at most (L + 1)·B samples are under way for at least
    F·E G + T seconds each. With refill="group" the first is C/(F·E G), which is the throughput itself where
    generation is the bottleneck. An exact bound. Other arguments and errors as in `paused_period`.

    Args:
        group: S, samples of a group.
        batch: b, groups of a step.
        lead: L, steps, or None for no bound.
        refill: "sample" or "group".
        sync_every: Steps between two synchronisations, in multiples of which the lead counts: B is that many times as
            large in the third bound.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> throughput_bound(generate=Exponential(1.0), train=1.0, slots=64, group=4, batch=8, lead=1)
        20.756...
    """
    one_of("refill", refill, ("sample", "group"))
    samples = group * batch
    longest = longest_over_mean(generate, group=group) * generate.mean
    bounds = [slots / (longest if refill == "group" else generate.mean)]
    bounds += [samples / train] if train else []
    bounds += [] if lead is None else [(lead + 1) * samples * sync_every / (longest + train)]
    return float(min(bounds))


def synchronous_period(*, generate: Delay, train: Seconds, samples: Samples) -> float:
    """Seconds of a step that generates B samples first and trains then: T + E max(G₁ … G_B).

    Exact for L = 0 and C ≥ B. Arguments and errors as in `paused_period`.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> round(synchronous_period(generate=Exponential(1.0), train=0.5, samples=4), 6)  # .5 + 1 + 1/2 + 1/3 + 1/4
        2.583333
    """
    return train + expected_order_statistic(generate, k=samples, n=samples)


def in_order_steps(longest: Sequence[float] | FloatArray, *, train: Seconds, lead: _Steps) -> FloatArray:
    """When steps end that take groups in the order of opening: c_j = max(c_{j-1}, c_{j-1-L} + G_j) + T.

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
    ends = np.zeros(len(column) + lead + 1)  # before the first step, all weights are there at time 0
    for step, seconds in enumerate(column.tolist(), start=lead + 1):
        ends[step] = max(ends[step - 1], ends[step - 1 - lead] + seconds) + train
    return ends[lead + 1 :]


def in_order_period(*, mean: Mean, train: Seconds) -> float:
    """Seconds of a step for L = 1 and B = 1, in order, exponential generation of mean m: T + 2·m/(2·e^(T/m) + 1).

    Exact for two slots or more: the stationary solution of `in_order_steps`. Arguments as in `unbounded_queue`.

    Example:
        >>> round(in_order_period(mean=1.0, train=1.0), 6)
        1.310725
    """
    return train + 2 * mean / (2 * math.exp(train / mean) + 1)


def longest_over_mean(generate: Delay, *, group: Group) -> float:
    """F = E max(G₁ … G_S)/E G, how much longer than a sample a group takes, at least 1.

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


def paused_period(*, generate: Delay, train: Seconds, slots: Slots, samples: Samples, pause: Seconds) -> float:
    """Seconds of a step where all generation stops for d seconds after it: max(B/Λ, T) + d, with the same E τ.

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
    mean = require_positive("mean", generate.mean, remedy=GIVE_A_MEAN)
    return max(samples / (slots / mean), train) + pause


def split_period(*, gpus: _Gpus, samples: Samples, train_rate: _OneGpu, rollout_rate: _OneGpu, load: _Load) -> float:
    """Seconds of a step of N GPUs that are split: (B/N)·(1/c_T + ρ/c_R)/min(1, ρ), least at ρ = 1.

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


def best_split(*, gpus: _Gpus, samples: Samples, train_rate: _OneGpu, rollout_rate: _OneGpu) -> Split:
    """The fastest split of N GPUs, at ρ = 1: N·c_R/(c_T + c_R) of them train.

    Arguments and errors as in `split_period`.

    Example:
        >>> best_split(gpus=9, samples=64, train_rate=4, rollout_rate=2)
        Split(train_gpus=3.0, rollout_gpus=6.0, period=5.333...)
    """
    period = split_period(gpus=gpus, samples=samples, train_rate=train_rate, rollout_rate=rollout_rate, load=1.0)
    train_gpus = gpus * rollout_rate / (train_rate + rollout_rate)
    return Split(train_gpus, gpus - train_gpus, period)
