"""The queue of complete groups before the trainer: without a bound, with a capacity, with an age bound."""

import math
from typing import Annotated, NamedTuple

import numpy as np

from asyncsim._checks import brief, require_at_most
from asyncsim.components._checked import checked
from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._per_worker import require_mean
from asyncsim.theory._numerics import quantile, require_size, root_between
from asyncsim.theory._parameters import require_count, require_scale, require_whole
from asyncsim.theory.rollouts._admission import ROUNDING, Mean, Samples, Seconds, Signal, Slots

QUANTILES = 20_000  # quantiles of generation times, over which bounded functions are averaged
MOST_BATCHES = 10**6  # that are told from one more by their quotients, whose rounding errors count as none
_Batches = Annotated[int, require_count, "Give the capacity in batches."]
_Capacity = Annotated[float, require_scale, "Give the capacity in batches."]
_Load = Annotated[float, require_scale, "Give Λ·T/B, for example 1.2."]
_Longest = Annotated[float, require_scale, "Give 1 for groups of one sample."]
_Age = Annotated[int, require_whole, "Give a number of versions."]


class UnboundedQueue(NamedTuple):
    """The prediction of `unbounded_queue`.

    Attributes:
        queue: Mean number of samples that wait just after a step.
        staleness: Mean staleness of trained samples, versions.
        idle: Share of the time in which the trainer waits, 1 - ρ.
    """

    queue: float
    staleness: float
    idle: float


@checked
def unbounded_queue(
    *, mean: Mean, train: Seconds, slots: Slots, samples: Samples, signal: Signal = 1.0
) -> UnboundedQueue:
    """Predict queue and staleness for Poisson arrivals: Q' = (Q - b)⁺ + Poisson(ΛT) after each step, E τ = (C + E Q)/B.

    Exact for S = 1 (b = B), exponential generation, a constant T, no admission bound, ρ < 1, and any order in which a
    step waits for no certain sample. Where samples are discarded with probability 1 - q, q·C takes the place of C, also
    in Λ. With z_k, the roots
    of z^b = e^(ΛT(z - 1)) within the unit disc but 1,

        E Q = ΛT + ΛT/(2(b - ΛT)) - (b - 1 + ΛT)/2 + Σ_k 1/(1 - z_k).

    Args:
        mean: E G, mean generation time, in seconds.
        train: T, seconds of a step.
        slots: C.
        samples: B, samples of a step.
        signal: q, probability that a sample is trained and not discarded.

    Raises:
        ValueError: If an argument is out of range, or ρ is not less than 1.

    Example:
        >>> unbounded_queue(mean=1.0, train=1.0, slots=1, samples=2)
        UnboundedQueue(queue=1.176..., staleness=1.088..., idle=0.5)

    References:
        Janssen and van Leeuwaarden 2005, "Analytic computation schemes for the discrete-time bulk service queue".
    """
    from scipy.special import lambertw

    useful = signal * slots
    arrivals, load = useful / mean * train, useful / mean * train / samples
    if load >= 1:
        raise ValueError(
            f"`train` must be less than {samples / (useful / mean):g}, or the queue grows without end; got {train:g}. "
            "Use `bounded_queue`."
        )
    require_size(f"`samples` = {brief(samples)}", samples, "Use `fluid` for so large steps.")
    roots_of_one = np.exp(2j * np.pi * np.arange(1, samples) / samples)
    roots = lambertw(-load * roots_of_one * np.exp(-load)) / -load if load else np.zeros(samples - 1)
    queue = arrivals + arrivals / (2 * (samples - arrivals)) - (samples - 1 + arrivals) / 2
    queue += float(np.sum(1 / (1 - roots)).real)
    queue = max(queue, 0.0)  # which rounding makes less than 0
    return UnboundedQueue(queue, (useful + queue) / samples, 1 - load)


class BoundedQueue(NamedTuple):
    """The prediction of `bounded_queue`.

    Attributes:
        queue: Mean number of samples that wait just after a step.
        wait: Mean seconds for which the trainer waits before a step.
        steps_per_second: Steps per second.
        in_queue: Mean staleness that trained samples gain in the queue, versions, or NaN for more than 2 batches.
    """

    queue: float
    wait: float
    steps_per_second: float
    in_queue: float


@checked
def bounded_queue(*, mean: Mean, train: Seconds, slots: Slots, samples: Samples, batches: _Batches) -> BoundedQueue:
    """Predict the same with a queue of q batches: Q' = min(N - b + A, q·b), N = max(Q, b), A ~ Poisson(ΛT).

    The trainer waits E(b - Q)⁺/Λ before a step. In-queue staleness is E min(A, b)/b for q = 1. For q = 2, a step
    leaves R samples, of which R' = min(R, (2b - A)⁺) survive it, and it is E[2·R' + min(A, 2b, b - R')]/b. Exact under
    the assumptions of `unbounded_queue`, for any ρ. Other arguments as in `unbounded_queue`.

    Args:
        batches: q, capacity of the queue in batches.

    Example:
        >>> found = bounded_queue(mean=1.0, train=1.0, slots=8, samples=8, batches=1)
        >>> round(found.steps_per_second, 4), round(found.in_queue, 4)
        (0.8775, 0.8604)
    """
    from scipy.stats import poisson

    rate, b, q = slots / mean, samples, batches
    arguments = f"`batches` = {brief(batches)} of {samples} `samples`"
    require_size(arguments, float(q * b + 1) ** 2, "Use `fluid` for so large queues.")
    pmf = poisson.pmf(np.arange(q * b), rate * train)
    remaining = np.maximum(np.arange(q * b + 1) - b, 0)  # samples that a step leaves, from the queue before it
    chain = np.zeros((q * b + 1, q * b + 1))
    for before, stays in enumerate(remaining.tolist()):
        chain[before, stays:-1] = pmf[: q * b - stays]
        chain[before, -1] = 1 - chain[before].sum()  # more arrivals than places leave the queue full
    equations = chain.T - np.eye(q * b + 1)
    equations[0] = 1  # one equation follows from the others: the shares add up to 1
    share = np.linalg.solve(equations, np.eye(q * b + 1)[0])
    queue = float(share @ np.arange(q * b + 1))
    wait = max(float(share @ np.maximum(b - np.arange(q * b + 1), 0)) / rate, 0.0)
    if q > 2:
        in_queue = math.nan
    else:
        arrived = np.arange(2 * b + 1)
        chance = np.append(pmf, poisson.pmf(np.arange(q * b, 2 * b), rate * train))
        chance = np.append(chance, max(1 - chance.sum(), 0.0))
        stays = np.arange(b + 1)[:, None] if q == 2 else np.zeros((1, 1), int)
        survive = np.minimum(stays, np.maximum(2 * b - arrived, 0))
        gained = (2 * survive + np.minimum(arrived, b - survive)) @ chance / b
        in_queue = float(np.bincount(remaining, share) @ gained)
    return BoundedQueue(queue, wait, 1 / (train + wait), in_queue)


class Fluid(NamedTuple):
    """The prediction of `fluid`, in versions.

    Attributes:
        pre_queue: Staleness gained before the queue.
        in_queue: Staleness gained in the queue, as published.
        in_queue_whole: The same in whole versions, as it is measured.
    """

    pre_queue: float
    in_queue: float
    in_queue_whole: float


@checked
def fluid(*, slots: Slots, samples: Samples, load: _Load, batches: _Capacity, longest: _Longest = 1.0) -> Fluid:
    """Return the fluid limit: pre-queue C·F/(B·max(1, ρ)); in-queue ρ for ρ ≤ 1 and (2q + ρ - 1)/(2ρ) for ρ > 1.

    An approximation with error O(1/b): pre-queue plus in-queue is right to 1 to 2 % for b ≥ 15, to 4 % for b = 8. The
    split for ρ > 1 differs from the measured one, because versions are whole numbers: measured is E⌈a⌉ in the queue, a
    uniform on ((q - 1)/ρ, q/ρ). For q > 1 the in-queue part jumps at ρ = 1, where the exact one (`bounded_queue`) is
    smooth. Other arguments as in `bounded_queue`.

    Args:
        load: ρ = Λ·T/B.
        longest: F, of `longest_over_mean`, or 1 for groups of one sample.

    Example:
        >>> fluid(slots=96, samples=32, load=1.5, batches=1)
        Fluid(pre_queue=2.0, in_queue=0.833..., in_queue_whole=1.0)

    References:
        Dong, Goel and Yu 2026, "Staleness in fully asynchronous RL", Applied Compute.
    """
    before = slots * longest / (samples * max(1.0, load))
    if load <= 1:
        return Fluid(before, load, load)
    require_at_most("batches", batches, largest=MOST_BATCHES, remedy="The fluid limit is that of few batches.")
    low, high = (batches - 1) / load, batches / load
    cuts = np.array([low, *range(math.floor(low) + 1, math.ceil(high)), high])
    share = float(np.ceil(cuts[1:] - ROUNDING) @ np.diff(cuts)) / (high - low)
    return Fluid(before, (2 * batches + load - 1) / (2 * load), share)


class AgeCutoff(NamedTuple):
    """The prediction of `age_cutoff`.

    Attributes:
        kept: Share of the samples that are trained.
        period: Seconds of a step.
        trained_length: Mean seconds of generation of a trained sample.
        wasted: Share of the generation that is dropped.
    """

    kept: float
    period: float
    trained_length: float
    wasted: float


@checked
def age_cutoff(*, generate: Delay, train: Seconds, slots: Slots, samples: Samples, max_age: _Age) -> AgeCutoff:
    """Predict the effect of an age bound K: P(a sample of x seconds is kept) = g(x) = clip(K + 1 - (T + x)/P, 0, 1).

    The period P = B/(Λ·E g(G)) is a fixed point. Trained samples have mean length E[G·g]/E g, and 1 - E[G·g]/E G of
    the generation is wasted: long samples are dropped. A fluid approximation, for S = 1 where generation is the
    bottleneck: with B = 32, period and length are within 5 % of simulations, and the wasted share within 10 %. Other
    arguments and errors as in `paused_period`.

    Args:
        max_age: K, versions.

    Example:
        >>> from asyncsim.delays import LogNormal
        >>> law = LogNormal(mean=1.0, cv=1.5)
        >>> found = age_cutoff(generate=law, train=0.1, slots=64, samples=8, max_age=4)
        >>> [round(value, 2) for value in found]
        [0.63, 0.2, 0.36, 0.77]
    """
    least = samples / (slots / require_mean(generate))
    lengths = quantile(generate, (np.arange(QUANTILES) + 0.5) / QUANTILES)

    def keep(period: float) -> FloatArray:
        return np.clip(max_age + 1 - (train + lengths) / period, 0, 1)

    def excess(period: float) -> float:
        return period * float(keep(period).mean()) - least

    high = least
    while excess(high) < 0:
        high *= 2
    period = root_between(excess, least / 2, high)
    probability = keep(period)
    share, length = float(probability.mean()), float((lengths * probability).mean())
    if not share:
        raise ValueError(f"`train` = {train:g} leaves no time for generation within `max_age`. Give a larger age.")
    return AgeCutoff(share, period, length / share, max(1 - length / generate.mean, 0.0))
