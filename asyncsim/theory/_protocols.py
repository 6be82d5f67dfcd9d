"""Staleness where workers wait or the server averages: K-async, K-batch-async, SSP and pipelines."""

from functools import partial
from itertools import combinations_with_replacement
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief, require_one_of
from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray
from asyncsim.theory._numerics import require_size, ways
from asyncsim.theory._parameters import (
    FRESH,
    ProtocolName,
    Rate,
    Size,
    Step,
    Workers,
    checked_protocol,
    require_count,
    require_scale,
    require_scale_or_zero,
    require_whole,
)
from asyncsim.theory._rounds import harmonic


@checked
def batched_staleness_pmf(*, protocol: ProtocolName, workers: Workers, size: Size, k: Step | None = None) -> FloatArray:
    """Return the exact distribution of staleness, in versions, for equal exponential workers and a zero-time server.

    "async":          P(τ = j) = (1/n) (1 - 1/n)^j
    "k_async":        P(τ = j) = (K/n) (1 - K/n)^j
                      K distinct workers per step. They wait for it, then read
    "k_batch_async":  P(τ >= j) = q^{jK} (q^{-K} - 1) / (K (q^{-1} - 1)), j >= 1, q = 1 - 1/n
                      any K gradients per step. A worker reads again at once
    "sync", "k_sync", "k_batch_sync":  τ = 0, for any law

    Assumptions: stationary times, and independent delays of one exponential law, whose mean does not matter.
    λ-softsync is "k_batch_async" with K = n/λ.

    Args:
        protocol: One of the names above.
        workers: Number of workers n, at least 1.
        size: Number of probabilities, at least 1.
        k: K, gradients per step, or None for "async" and "sync".

    Returns:
        P(τ = 0), ..., P(τ = size - 1) of one gradient, shape (size,).

    Example:
        >>> batched_staleness_pmf(protocol="k_async", workers=8, k=4, size=3).tolist()
        [0.5, 0.25, 0.125]

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race" (the protocols).
        Zhang, Gupta, Lian and Liu 2016, "Staleness-aware async-SGD for distributed deep learning" (softsync).
    """
    step = checked_protocol(protocol, workers, k)
    require_size(f"`size` = {brief(size)}", size, "Ask for fewer probabilities.")
    tau = np.arange(size + 1.0)
    if step.name in FRESH:
        at_least = np.where(tau == 0, 1.0, 0.0)
    elif step.name == "k_batch_async":
        # A commit has one of the K places in its step, all equally likely. The commits of others are geometric.
        n, k = step.workers, step.k
        after = n / k * -np.expm1(k * np.log1p(-1 / n)) if n > 1 else 1 / k
        at_least = np.append(1.0, after * (1 - 1 / n) ** (k * tau[:-1] + 1))
    else:
        at_least = (1 - step.k / step.workers) ** tau
    return at_least[:-1] - at_least[1:]


@checked
def batched_staleness_mean(*, protocol: ProtocolName, workers: Workers, k: Step | None = None) -> float:
    """Return the mean staleness over all gradients, in versions, for any compute laws and a server that takes no time.

    "async":                           n - 1
    "k_async":                         n/K - 1
    "k_batch_async":                   (n - 1)/K
    "sync", "k_sync", "k_batch_sync":  0

    Exact in the long run: the mean staleness is the mean number of other gradients that have been read and not
    yet applied, divided by the K that are applied together. Arguments, errors and references as in
    `batched_staleness_pmf`.

    Example:
        >>> batched_staleness_mean(protocol="k_batch_async", workers=16, k=4)
        3.75
    """
    step = checked_protocol(protocol, workers, k)
    if step.name in FRESH:
        return 0.0
    return (step.workers - (step.k if step.name == "k_async" else 1)) / step.k


_MOST_STATES = 20_000
Slack = Annotated[int, require_whole, "Use 0 for lockstep."]
Every = Annotated[float, require_scale, "Give seconds."]


@checked
def periodic_staleness_mean(*, workers: Workers, rate: Rate, every: Every) -> float:
    """Return the exact mean staleness of steps at fixed times, in steps: (1 - p)·(1 - (1 - p)^(n - 1))/p.

    Each of n equal exponential workers ends its job between two of the times with probability p = 1 - e^(-λT). Times at
    which nobody waits are no steps. The staleness is geometric, with a mean near 1/(e^(λT) - 1) for many workers.

    Args:
        workers: Number of workers n, at least 1.
        rate: λ, gradients per second of a worker that runs.
        every: T, seconds from one of the times to the next.

    Example:
        >>> round(periodic_staleness_mean(workers=10, rate=1.0, every=0.5), 4)
        1.5244
    """
    steps = rate * every
    return float(np.exp(-steps) * np.expm1(-steps * (workers - 1)) / np.expm1(-steps))


@checked
def ssp_staleness_bound(*, workers: Workers, slack: Slack) -> int:
    """Return the largest possible staleness, in commits: τ <= (n - 1) (2 slack + 1), for any delays.

    Exact as a bound: when a worker reads after c commits of its own, every other worker has made at least c - slack,
    and cannot make more than c + slack + 1 before that worker commits. The server takes no time, and every commit is a
    version.

    Args:
        workers: Number of workers n, at least 1.
        slack: Jobs a worker may be ahead of the slowest, at least 0.

    Example:
        >>> ssp_staleness_bound(workers=8, slack=1)
        21

    References:
        Ho, Cipar, Cui, Kim, Lee, Gibbons, Gibson, Ganger and Xing 2013, "More effective distributed ML via a stale
        synchronous parallel parameter server" (the protocol).
    """
    return (workers - 1) * (2 * slack + 1)


@checked
def ssp_throughput(*, workers: Workers, slack: Slack, rate: Rate) -> float:
    """Return exact commits per second of equal exponential workers, rate · E[workers that run], below n λ for n > 1.

    n = 1:  λ
    n = 2:  2 λ (2 s + 2) / (2 s + 3)
    s = 0:  n λ / H_n, H_n = 1 + 1/2 + ... + 1/n

    Other n and s: the stationary law of the Markov chain of the workers' leads over the slowest, which has
    C(n + s, n - 1) states. Zero-time server. Other arguments as in `ssp_staleness_bound`, s the slack.

    Args:
        rate: λ, gradients per second of a worker that runs.

    Raises:
        ValueError: If an argument is out of range, or the chain has more than 20 000 states.

    Example:
        >>> round(ssp_throughput(workers=2, slack=3, rate=1.0), 4)
        1.7778
    """
    if workers == 2:
        return rate * 2 * (2 * slack + 2) / (2 * slack + 3)
    if slack == 0 or workers == 1:
        return rate * workers / harmonic(workers, workers)
    running, probability = _running_law(workers, slack)
    return rate * float(running @ probability)


@checked
def ssp_staleness_mean(*, workers: Workers, slack: Slack) -> float:
    """Return the exact mean staleness, in commits, of equal exponential workers: the mean number of others that run.

    A blocked worker holds no parameters: it reads when it may start. n = 2: (2 s + 1) / (2 s + 2). s = 0: (n - 1)/2,
    for any law. Other n and s, arguments and errors as in `ssp_throughput`.

    Example:
        >>> round(ssp_staleness_mean(workers=2, slack=1), 9)
        0.75
    """
    if workers == 2:
        return (2 * slack + 1) / (2 * slack + 2)
    if slack == 0 or workers == 1:
        return (workers - 1) / 2
    running, probability = _running_law(workers, slack)
    return float((running * (running - 1)) @ probability / (running @ probability))


def _running_law(workers: int, slack: int) -> tuple[FloatArray, FloatArray]:
    """Return the number of workers that run in every state, and the stationary probability of the state."""
    from scipy.sparse import coo_array, eye_array, vstack
    from scipy.sparse.linalg import spsolve

    states = _states(workers, slack)
    number = {state: index for index, state in enumerate(states)}
    running = np.array([[lead <= slack for lead in state] for state in states])
    origin, worker = np.nonzero(running)
    target = [number[_advance(states[i], w)] for i, w in zip(origin.tolist(), worker.tolist(), strict=True)]
    shape, rate = (len(states), len(states)), np.ones(len(origin))  # equal moves add up
    flow = coo_array((rate, (target, origin)), shape).tocsr()
    leaving = coo_array((rate, (origin, origin)), shape).tocsr()
    # One balance equation is redundant: fix the probability of state 0 and normalise.
    balance = vstack([eye_array(1, len(states)), (flow - leaving)[1:]]).tocsc()
    probability = np.asarray(spsolve(balance, np.eye(1, len(states)).ravel()), dtype=np.float64)
    return running.sum(axis=1, dtype=np.float64), probability / probability.sum()


def _states(workers: int, slack: int) -> list[tuple[int, ...]]:
    """Return the workers' leads over the slowest, in jobs, sorted. The first is 0."""
    if (size := ways(workers + slack, workers - 1)) > _MOST_STATES + 0.5:
        raise ValueError(
            f"`workers` and `slack` must give at most {_MOST_STATES} states; got {workers} and {slack}, {size:.3g} "
            "states. Use 2 workers, slack 0, or simulate this one."
        )
    return [(0, *leads) for leads in combinations_with_replacement(range(slack + 2), workers - 1)]


def _advance(state: tuple[int, ...], worker: int) -> tuple[int, ...]:
    """Return the state once this worker has committed."""
    leads = sorted((*state[:worker], state[worker] + 1, *state[worker + 1 :]))
    return tuple(lead - leads[0] for lead in leads)


_SCHEDULES = ("pipedream", "concurrent", "2bw", "1f1b", "gpipe")
_TOLERANCE = 1e-9  # relative error of a quotient that counts as a whole number
_Stages = Annotated[int, require_count, "Use one stage or more."]


@checked
def pipeline_staleness(
    stages: _Stages,
    schedule: Annotated[str, partial(require_one_of, choices=_SCHEDULES)] = "pipedream",
    *,
    forward: Annotated[float, require_scale, "Give seconds of a forward pass."] = 1.0,
    backward: Annotated[float, require_scale, "Give seconds of a backward pass."] = 1.0,
    transfer: Annotated[float, require_scale_or_zero, "Give seconds of a transfer, or 0."] = 0.0,
) -> NDArray[np.int64]:
    """Return the staleness of each stage of a full pipeline, in updates of that stage, which are one per micro-batch.

    Stage s = 0, …, S - 1 begins micro-batch m's forward pass before the updates of the micro-batches that are still
    behind it: those that it has forwarded and not yet seen come back.

    "pipedream":      τ_s = S - 1 - s, for any law of the times: as many are always under way
                      once it is full.
    "concurrent":     τ_s = ⌈((S - s)(f + b) + 2(S - 1 - s)c)/f⌉ - 1, for constant times f of a
                      forward pass, b <= f of a backward pass and c of a transfer. The
                      numerator is the time from the start of a forward pass at s to the end of
                      its backward pass there. PipeMare's 2(S - 1 - s) + 1 if f = b, c = 0.
    "2bw":            τ_s = 1, in updates that are one per mini-batch, for any law of the times.
    "1f1b", "gpipe":  τ_s = 0: all updates of a mini-batch are made when it is through.

    Args:
        stages: Number of stages S, at least 1.
        schedule: One of the names above, as in `asyncsim.Pipeline`.
        forward, backward, transfer: f, b and c, in seconds (they matter for "concurrent" only).

    Returns:
        τ_0, …, τ_{S-1}, shape (stages,). While the pipeline fills up, staleness is smaller.

    Raises:
        ValueError: If an argument is out of range, or a backward pass takes longer than a forward pass with
            "concurrent": gradients then wait in queues, for which there is no closed form here.

    Example:
        >>> pipeline_staleness(4).tolist(), pipeline_staleness(4, "concurrent").tolist()
        ([3, 2, 1, 0], [7, 5, 3, 1])

    References:
        Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training" (n - s versions of stage
        s, from 1 on, in its equation of weight stashing).
        Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training", arXiv 2006.09503 (PipeDream-2BW).
        Yang et al. 2021, "PipeMare: Asynchronous Pipeline Parallel DNN Training", arXiv 1910.05124.
    """
    require_size(f"`stages` = {brief(stages)}", stages, "Ask about fewer stages.")
    behind = np.arange(stages - 1, -1, -1)
    f, b, c = forward, backward, transfer
    if schedule == "pipedream":
        return behind
    if schedule != "concurrent":
        return np.full(stages, int(schedule == "2bw"), np.int64)
    if b > f:
        raise ValueError(
            f"`backward` must be at most `forward` with the schedule 'concurrent'; got {b:g} > {f:g}. Simulate it with "
            "`asyncsim.Pipeline`."
        )
    back = (behind + 1) * (f + b) + 2 * behind * c
    return np.ceil(back / f * (1 - _TOLERANCE)).astype(np.int64) - 1


@checked
def pipeline_bubble(
    stages: _Stages, micro_batches: Annotated[int, require_count, "Use one micro-batch or more."]
) -> float:
    """Return the share of the time in which a stage of a synchronous pipeline computes nothing.

    (S - 1)/(M + S - 1), for passes that take the same time at every stage and transfers that take none: a mini-batch
    of M micro-batches is through after M + S - 1 times the duration of one at a stage, forwards and backwards, of which
    every stage works M. It holds for "1f1b" and "gpipe" alike. An asynchronous pipeline that is full has no bubble.

    Args:
        stages: Number of stages S, at least 1.
        micro_batches: Micro-batches in a mini-batch M, at least 1.

    Returns:
        The share b, from 0 to less than 1. The throughput is 1 - b times that of a full pipeline.

    Example:
        >>> pipeline_bubble(4, 12)
        0.2

    References:
        Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism".
    """
    return (stages - 1) / (micro_batches + stages - 1)
