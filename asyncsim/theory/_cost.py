"""The cost of a run in closed form: busy shares, energy for a gradient, and losses by preemption."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from asyncsim._checks import brief
from asyncsim.components._checked import checked
from asyncsim.delays import Constant, Delay, Exponential, FloatArray, Gamma, Uniform
from asyncsim.delays._per_worker import require_mean
from asyncsim.theory._numerics import LEVELS, integrals, quantile
from asyncsim.theory._parameters import Protocol, Step, Workers, checked_protocol, require_scale, require_scale_or_zero
from asyncsim.theory._rounds import expected_order_statistic, sum_of_shortest

PROTOCOLS = ("async", "sync", "k_sync")
_Latency = Annotated[float, require_scale_or_zero, "Give seconds each way, for example 0.01."]
_PreemptionRate = Annotated[float, require_scale, "Give preemptions for each second, for example 1e-4."]


def _known_protocol(name: str, value: Any) -> str:
    if value not in PROTOCOLS:
        names = ", ".join(map(repr, PROTOCOLS))
        raise ValueError(f"`{name}` must be one of {names}; got {brief(value)}. Simulate others, and use `cost`.")
    return value


@checked
def useful_share(
    *,
    compute: Delay,
    workers: Workers,
    protocol: Annotated[str, _known_protocol] = "async",
    k: Step | None = None,
    latency: _Latency = 0.0,
) -> float:
    """Return the share, from 0 to 1, of the workers' time in which they compute gradients that are used.

    With ℓ the latency each way and X_{i:n} the i-th shortest of n compute times,

        "async":   E X / (E X + 2 ℓ)
        "sync":    E X / (E X_{n:n} + 2 ℓ);  1 / H_n for exponential times without latency
        "k_sync":  Σ_{i<=K} E X_{i:n} / (n (E X_{K:n} + 2 ℓ));
                   Σ_{i<=K} (H_n - H_{n-i}) / (n (H_n - H_{n-K})) for exponential times without latency

    Exact in the long run for equal workers, independent times of any law and a server that takes no time. "async"
    holds for latencies of any law with mean ℓ, the others for constant ones. "k_sync" stops the others when K gradients
    are there, and their work is not used. Without such losses the useful share is the busy share, which behind an
    exponential server is X(n) / (n λ), X(n) the `throughput`.

    Args:
        compute: The law of all workers, in seconds.
        workers: Number of workers n, at least 1.
        protocol: "async", "sync" or "k_sync".
        k: K, gradients for each step of "k_sync".
        latency: ℓ, mean seconds that a message takes each way.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> law = Exponential(1.0)
        >>> round(useful_share(compute=law, workers=16, protocol="sync"), 4)
        0.2958
        >>> round(useful_share(compute=law, workers=16, protocol="async", latency=0.25), 4)
        0.6667

    References:
        David and Nagaraja 2003, "Order statistics", chapter 3.
    """
    step = checked_protocol(protocol, workers, k)
    mean = require_mean(compute)
    if step.name == "async":
        return mean / (mean + 2 * latency)
    used, last = _ordered(compute, step)
    return float(used / (step.workers * (last + 2 * latency)))


@checked
def energy_per_gradient(
    *,
    compute: Delay,
    workers: Workers,
    busy: Annotated[float, require_scale_or_zero, "Give watts, for example 300."],
    idle: Annotated[float, require_scale_or_zero, "Give watts, for example 60."],
    protocol: Annotated[str, _known_protocol] = "async",
    k: Step | None = None,
    latency: _Latency = 0.0,
) -> float:
    """Return the expected energy of the workers for each gradient that is used, in joules.

    With m the mean compute time, ℓ the latency each way and X_{i:n} the i-th shortest of n compute times,

        "async":   busy m + idle 2 ℓ
        "sync":    busy m + idle (E X_{n:n} - m + 2 ℓ),
                   m (busy + (H_n - 1) idle) for exponential times
        "k_sync":  (busy B + idle (n E X_{K:n} - B)) / K, without latency,
                   B = Σ_{i<=K} E X_{i:n} + (n - K) E X_{K:n}

    B is the time that all workers spend on computing in a step of "k_sync": those that are done wait for the K-th, and
    the others compute until they are stopped.

    Exact in the long run, with the assumptions of `useful_share`. The energy of server and network comes on top.
    The other arguments and errors as in `useful_share`.

    Args:
        busy: Watts of a worker while it computes.
        idle: Watts of a worker at all other times.
        latency: ℓ, mean seconds that a message takes each way (0 for "k_sync").

    Example:
        >>> from asyncsim.delays import Exponential
        >>> setting = {"compute": Exponential(2.0), "workers": 3, "busy": 300.0, "idle": 60.0}
        >>> energy_per_gradient(**setting), energy_per_gradient(**setting, protocol="sync")
        (600.0, 700.0)
    """
    step = checked_protocol(protocol, workers, k)
    mean = require_mean(compute)
    if step.name == "k_sync" and latency:
        raise ValueError(f"`latency` must be 0 for 'k_sync'; got {brief(latency)}. Simulate, and use `asyncsim.cost`.")
    if step.name == "async":
        return busy * mean + idle * 2 * latency
    used, last = _ordered(compute, step)
    computing = used + (step.workers - step.k) * last
    return float((busy * computing + idle * (step.workers * (last + 2 * latency) - computing)) / step.k)


class Preemption(NamedTuple):
    """The effect of preemption on an asynchronous worker, in long-run averages.

    Attributes:
        commits_per_second: Commits of one worker for each second, A φ L / (1 - L).
        available: A, share of the time in which a worker is up.
        useful: Share of the time up that is spent on jobs that commit, φ E[X e^{-φX}] / (1 - L).
        lost: Share of the commits for each second up that are lost, 1 - φ m L / (1 - L), negative for laws whose long
            jobs are better given up.
    """

    commits_per_second: float
    available: float
    useful: float
    lost: float


@checked
def preemption(
    *,
    compute: Delay,
    preemption_rate: _PreemptionRate,
    down: Annotated[float, require_scale_or_zero, "Give seconds, for example 60."] = 0.0,
) -> Preemption:
    """Predict the commits of an asynchronous worker that is preempted at a constant rate φ, as spot instances are.

    A preempted worker is away for R seconds on average. Its running job is lost, and when it returns it begins a *new*
    one, the next mini-batch. With L = E e^{-φX} and A = (1/φ) / (1/φ + R), each attempt commits with probability L, and
    takes (1 - L) / φ of the time up. `repeated_job_seconds` is about a job that is repeated until it succeeds.

    Exact in the long run for independent compute times of any law, exponential times until a preemption, times away of
    any law, and messages and a server that take no time. Exponential compute times lose no commits, because they are
    memoryless, whereas for a constant m the rate falls from 1/m to φ / (e^{φm} - 1).

    Args:
        compute: Law X of the compute times, in seconds.
        preemption_rate: φ, preemptions for each second up.
        down: R, mean seconds for which a worker is away.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> spot = preemption(compute=Constant(1.0), preemption_rate=0.25, down=1.0)
        >>> round(spot.commits_per_second, 4), round(spot.available, 4), round(spot.useful, 4)
        (0.7042, 0.8, 0.8802)
        >>> round(preemption(compute=Exponential(1.0), preemption_rate=0.25).commits_per_second, 9)  # as without
        1.0

    References:
        Kulkarni, Nicola and Trivedi 1987, "The completion time of a job on multimode systems".
    """
    rate = preemption_rate
    mean = require_mean(compute)
    # Integration by parts gives L, E[X e^{-φX}] and the mean time up (1 - L)/φ of an attempt.
    if compute.variance == 0:
        survives = float(np.exp(-rate * mean))
        weighted, attempt = mean * survives, float(-np.expm1(-rate * mean)) / rate
    else:
        preemption_times = quantile(Exponential(1 / rate), LEVELS)
        edges = np.unique(np.concatenate([[0.0], quantile(compute, LEVELS), preemption_times]))
        attempt = _integral(lambda t: np.exp(-rate * t) * (1 - compute.cdf(t)), edges)
        if rate * attempt < 0.5:
            survives = 1 - rate * attempt
            weighted = attempt - rate * _integral(lambda t: t * np.exp(-rate * t) * (1 - compute.cdf(t)), edges)
        else:  # few attempts succeed, and 1 - L would be all rounding
            survives = rate * _integral(lambda t: np.exp(-rate * t) * compute.cdf(t), edges)
            weighted = _integral(lambda t: (rate * t - 1) * np.exp(-rate * t) * compute.cdf(t), edges)
    available = 1 / (1 + rate * down)
    up = survives / attempt
    return Preemption(available * up, available, max(weighted, 0.0) / attempt, 1 - up * mean)


def _integral(function: Callable[[FloatArray], FloatArray], edges: FloatArray) -> float:
    return float(integrals(function, edges)[-1])


@checked
def repeated_job_seconds(*, compute: Delay, preemption_rate: _PreemptionRate) -> float:
    """Return the mean seconds up until a job that is repeated after every preemption succeeds: (E e^{φX} - 1) / φ.

    The *same* job, of the same length, starts again each time. Infinite where E e^{φX} is, as for exponential times
    with φ m >= 1. Exact for exponential times until a preemption. `preemption` is about new jobs. Other arguments and
    reference as in `preemption`.

    Args:
        compute: Law X of the compute times: `Constant`, `Uniform`, `Exponential` or `Gamma`.

    Raises:
        ValueError: If an argument is out of range, or the law is another one.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> round(repeated_job_seconds(compute=Constant(1.0), preemption_rate=0.25), 4)
        1.1361
        >>> repeated_job_seconds(compute=Exponential(1.0), preemption_rate=1.0)
        inf
    """
    rate = preemption_rate
    require_mean(compute)
    match compute:
        case Constant():
            with np.errstate(over="ignore"):
                return float(np.expm1(rate * compute.mean) / rate)
        case Uniform():
            half = rate * (compute.high - compute.low) / 2
            spread = np.sinh(half) / half - 1 if half > 0.01 else half**2 / 6 + half**4 / 120
            with np.errstate(over="ignore"):
                return float((np.expm1(rate * compute.mean) * (1 + spread) + spread) / rate)
        case Exponential():
            return compute.mean / (1 - rate * compute.mean) if rate * compute.mean < 1 else np.inf
        case Gamma():
            scale = compute.variance / compute.mean
            power = compute.mean / scale
            return float(np.expm1(-power * np.log1p(-rate * scale)) / rate) if rate * scale < 1 else np.inf
    raise ValueError(f"`compute` must be constant, uniform, exponential or gamma; got {brief(compute)}. Simulate it.")


def _ordered(law: Delay, step: Protocol) -> tuple[float, float]:
    """Return Σ_{i<=K} E X_{i:n}, and E X_{K:n}."""
    last = expected_order_statistic(law, k=step.k, n=step.workers)
    return sum_of_shortest(law, step.k, step.workers), last
