"""Predicted seconds: of a step of the server, of waiting for the slowest, of an error curve, and time complexities."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief
from asyncsim.components._checked import checked
from asyncsim.delays import Delay, Exponential, FloatArray, Pareto, ShiftedExponential, Uniform
from asyncsim.delays._per_worker import groups, require_mean, require_seconds
from asyncsim.theory._numerics import LEVELS, TURN, integrals, quantile, require_finite, require_size
from asyncsim.theory._parameters import (
    FRESH,
    Kappa,
    ProtocolName,
    Rate,
    Step,
    Workers,
    checked_protocol,
    require_count,
    require_scale,
    require_scale_or_zero,
)
from asyncsim.theory._stationary import moments_step

MOST_SUMMED = 10_000  # terms of a harmonic sum: for more, a difference of digammas is as accurate
ROUNDING = 1e-9  # relative error of a number of jobs
SMALL = 64  # unknowns of a linear equation that is solved by a dense matrix
_Gap = Annotated[float, require_scale, "Give smoothness times initial gap."]
_Noise = Annotated[float, require_scale_or_zero, "Give the variance of a gradient."]
_Accuracy = Annotated[float, require_scale, "Give the squared gradient norm aimed at."]
_Gradients = Annotated[int, require_count, "Collect one gradient or more."]


@checked
def round_time(workers: Workers, k: Step | None = None, rate: Rate = 1.0, protocol: ProtocolName = "sync") -> float:
    """Return the exact expected seconds per step of the server, for equal exponential workers and a zero-time server.

    "sync":                             H_n / λ,  H_n = 1 + 1/2 + ... + 1/n
    "k_sync", "k_async":                (H_n - H_{n-K}) / λ
    "k_batch_sync", "k_batch_async":    K / (n λ)
    "async":                            1 / (n λ)

    Assumptions: independent delays of mean 1/λ. A step takes K gradients, those of K distinct workers unless the
    name says batch. The workers that a synchronous step leaves behind are cancelled. By memorylessness, waiting
    for K of n workers takes as long whether the others are fresh or half done.

    Args:
        workers: Number of workers n, at least 1.
        rate: λ, gradients per second and worker.
        protocol: One of the names above.
        k: K, gradients per step, or None for "async" and "sync".

    Example:
        >>> round(round_time(workers=16, k=4, rate=1.0, protocol="k_sync"), 5)
        0.27752

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """
    step = checked_protocol(protocol, workers, k)
    law = Exponential(1 / rate)
    if step.name in ("k_batch_sync", "k_batch_async", "async"):
        return step.k * law.mean / step.workers
    return expected_order_statistic(law, k=step.k, n=step.workers)


@checked
def round_time_of_law(*, compute: Delay, workers: Workers, protocol: ProtocolName, k: Step | None = None) -> float:
    """Return the exact expected seconds per step of the server for equal workers of any compute law, zero-time server.

    "sync":           E X_{n:n}, the slowest of n
    "k_sync":         E X_{K:n}, the K-th of n
    "k_batch_async":  K m / n,  m the mean
    "async":          m / n

    "k_async" and "k_batch_sync" have no such form: the workers that wait, or start again, differ in age
    (`round_time` has both for exponential laws, and for laws that are new better than used E X_{K:n} is an upper bound
    of "k_async"). In steps per second asynchronous workers are n E X_{n:n} / m times as fast as synchronous ones, about
    n ln n for the exponential law and n for a constant. Assumptions, other arguments and reference as in
    `round_time`.

    Args:
        compute: The law of all workers, in seconds.

    Raises:
        ValueError: If an argument is out of range, or the protocol is one of the two without a form.

    Example:
        >>> from asyncsim.delays import Uniform
        >>> round_time_of_law(compute=Uniform(1.0, 3.0), workers=3, protocol="sync")
        2.5
    """
    step = checked_protocol(protocol, workers, k)
    groups(compute, 1)
    if step.name in ("async", "k_batch_async"):
        return step.k * compute.mean / step.workers
    if step.name in ("sync", "k_sync"):
        return expected_order_statistic(compute, k=step.k, n=step.workers)
    raise ValueError(
        f"`protocol` must be 'sync', 'k_sync', 'k_batch_async' or 'async' for a general law; got {brief(protocol)}. "
        "Use `round_time` for exponential laws, or simulate."
    )


@checked
def expected_order_statistic(
    law: Delay,
    *,
    k: Annotated[int, require_count, "Use 1 for the shortest delay."],
    n: Annotated[int, require_count, "Wait for one delay or more."],
) -> float:
    """Return E X_{k:n}, the mean of the k-th shortest of n independent delays: ∫_0^∞ P(fewer than k delays <= t) dt.

    Exact: closed forms for the constant, uniform, (shifted) exponential and Pareto laws,

        exponential:  m (1/n + 1/(n-1) + ... + 1/(n-k+1)) = m (H_n - H_{n-k})
        uniform:      low + (high - low) k / (n + 1)
        Pareto:       minimum Γ(n+1) Γ(n-k+1-1/a) / (Γ(n-k+1) Γ(n+1-1/a)),  a the shape

    and quadrature for any other law (relative error of about 1e-6 or below).

    Args:
        law: Law of the delays, finite mean, in seconds.
        k: Rank, 1 for the shortest, n for the longest.
        n: Number of delays, at least 1.

    Raises:
        ValueError: If an argument is out of range, or the mean is not finite and positive.

    Example:
        >>> round(expected_order_statistic(Exponential(1.0), k=16, n=16), 5)  # 1 + 1/2 + ... + 1/16
        3.38073
        >>> round(expected_order_statistic(Pareto(minimum=1.0, shape=3.0), k=16, n=16), 4)
        3.4359

    References:
        David and Nagaraja 2003, "Order statistics", chapter 3.
    """
    if k > n:
        raise ValueError(f"`k` must be at most `n`; got {brief(k)} > {brief(n)}. Use k = n for the longest delay.")
    require_mean(law)
    if law.variance == 0:
        return float(law.mean)
    match law:
        case Exponential():
            return law.mean * harmonic(n, k)
        case ShiftedExponential():
            return law.mean + law.variance**0.5 * (harmonic(n, k) - 1)
        case Uniform():
            return law.low + (law.high - law.low) * k / (n + 1)
        case Pareto():
            from scipy.special import gammaln

            power = 1 / law.shape
            logs = gammaln([n + 1, n - k + 1 - power, n - k + 1, n + 1 - power])
            return float(law.minimum * np.exp(logs[0] + logs[1] - logs[2] - logs[3]))
    return _by_quadrature(law, k, n)


def harmonic(n: int, k: int) -> float:
    """Return 1/n + 1/(n-1) + ... + 1/(n-k+1), the mean of the k-th shortest of n exponential delays of mean 1."""
    if k <= MOST_SUMMED:
        return float(np.sum(1 / np.arange(n - k + 1, n + 1)))
    from scipy.special import digamma

    return float(digamma(n + 1) - digamma(n - k + 1))


def sum_of_shortest(law: Delay, k: int, n: int) -> float:
    """Return Σ_{i<=k} E X_{i:n}, the mean sum of the k shortest of n delays: ∫ E (k - number of delays <= t)⁺ dt."""
    if k == n or law.variance == 0:
        return float(k * law.mean)
    if isinstance(law, Exponential):
        require_size(f"`k` = {brief(k)}", k, "Wait for fewer workers, or for all.")
        rank = np.arange(k)
        return float(law.mean * np.sum((k - rank) / (n - rank)))
    from scipy.special import bdtr

    def missing(t: FloatArray) -> FloatArray:
        at_most = law.cdf(t)
        return k * bdtr(k - 1, n, at_most) - (n * at_most * bdtr(k - 2, n - 1, at_most) if k > 1 else 0.0)

    edges = _edges(law, k, n)
    return float(k * edges[0] + integrals(missing, edges)[-1])


def _edges(law: Delay, k: int, n: int) -> FloatArray:
    """Return quantiles of the law and of the order statistic, both far into their tails: every atom is an edge."""
    from scipy.special import betaincinv

    levels = betaincinv(k, n - k + 1, LEVELS)
    return np.unique(quantile(law, np.concatenate([LEVELS, levels[(levels > 0) & (levels < 1 - 1e-13)]])))


def _by_quadrature(law: Delay, k: int, n: int) -> float:
    from scipy.special import bdtr

    edges = _edges(law, k, n)
    if k < n:
        return float(edges[0] + integrals(lambda t: bdtr(k - 1, n, law.cdf(t)), edges)[-1])

    def excess(t: FloatArray) -> FloatArray:
        """Return n (1 - F) - (1 - F^n): the sum of all delays less the longest. Its tail is the square of the law's."""
        return n * (1 - law.cdf(t)) - (1 - law.cdf(t) ** n)

    return float(n * law.mean - (n - 1) * edges[0] - integrals(excess, edges)[-1])


@checked
def error_curve(
    seconds: ArrayLike,
    *,
    workers: Workers,
    kappa: Kappa,
    rate: Rate,
    noise: Annotated[float, require_scale_or_zero, "Give the variance of one raw update."] = 0.0,
    start: float = 1.0,
    protocol: ProtocolName = "async",
    k: Step | None = None,
) -> FloatArray:
    """Return exact E x² of the central variable at the times: one dimension, gradient h x, exponential compute times.

    One step of the server, of K gradients, changes the second moments linearly. With ηh the step size times the
    curvature, p = K/n, y_w the parameter that worker w holds, a = E x², b = E x y_w, c = E y_w², d = E y_v y_w (v ≠ w):

        "async", "k_async":  a' = a - 2 ηh b + (ηh)² (c + (K - 1) d)/K + noise/K,
                             b' = p a' + (1 - p)(b - ηh d),
                             c' = p a' + (1 - p) c,
                             d' = [K (K-1) a' + 2K (n-K)(b - ηh d) + (n-K)(n-K-1) d] / (n (n-1))
        "sync", "k_sync", "k_batch_sync":  a' = (1 - ηh)² a + noise/K

    A step is complete after K exponential stages, which are independent of who takes part, so that moments and
    stages together obey one linear differential equation: its matrix exponential is the answer. In d dimensions,
    add the curves of the Hessian's eigenvalues. Assumptions: equal workers that all read `start` at time 0, gradient
    noise independent of everything, of constant variance, zero-time server, step size η on the mean of the K gradients.
    Other arguments as in `round_time`.

    Args:
        seconds: Times, not negative, in any order, shape (times,).
        kappa: ηh, the step size times the curvature, no unit.
        noise: Variance of the noise in one raw update, η² σ², in units of x².
        start: x at time 0.
        protocol: One of the names above.

    Returns:
        E x² at every time, shape (times,).

    Raises:
        ValueError: If an argument is out of range, or the protocol is "k_batch_async", for which there is no result.

    Example:
        >>> times = [0.25, 1.0, 16.0]
        >>> error_curve(times, workers=8, kappa=0.1, rate=1.0, noise=0.0025).round(4).tolist()
        [0.6693, 0.1486, 0.0223]
        >>> error_curve(times, workers=8, kappa=0.1, rate=1.0, noise=0.0025, protocol="sync").round(3).tolist()
        [1.0, 0.995, 0.325]

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race" (bounds for the
        same trade-off).
    """
    step = checked_protocol(protocol, workers, k)
    times = np.asarray(seconds, dtype=np.float64)
    if times.ndim != 1 or not (np.isfinite(times) & (times >= 0)).all():
        raise ValueError(
            f"`seconds` must be a list of finite times of at least 0; got {brief(seconds)}. Give one or more."
        )
    if step.name == "k_batch_async":
        raise ValueError(
            "`protocol` must be 'async', 'k_async' or a synchronous one for an exact curve; got 'k_batch_async'. "
            "Simulate and replay this one."
        )
    if step.name in FRESH:  # the moments are (a, 1)
        moments = np.array([[(1 - kappa) ** 2, noise / step.k], [0.0, 1.0]])
    else:
        moments = moments_step(kappa, step.workers, step.k, noise)
    require_size(f"`k` = {brief(step.k)}", step.k * len(moments), "Average fewer gradients in a step.")
    working = np.full(step.k, float(step.workers))  # workers that compute in each of the K stages of a step
    if step.name != "k_batch_sync":
        working -= np.arange(step.k)
    later = "Ask for earlier times, or for a smaller step."
    return require_finite(
        "`seconds` with this `kappa` and `start`", _evolve(moments, rate * working, times, start), later
    )


def _evolve(moments: FloatArray, rates: FloatArray, times: FloatArray, start: float) -> FloatArray:
    """Solve the one linear equation of the moments of (stage, state). E x² is the sum over the stages."""
    from scipy.linalg import expm
    from scipy.sparse import coo_array, eye_array, kron
    from scipy.sparse.linalg import expm_multiply

    stages, width = len(rates), len(moments)
    stage = np.arange(stages)
    waiting = coo_array((-rates, (stage, stage)), (stages, stages))
    onward = coo_array((rates[:-1], (stage[1:], stage[:-1])), (stages, stages))
    complete = coo_array((rates[-1:], (stage[:1], stage[-1:])), (stages, stages))
    generator = (kron(waiting + onward, eye_array(width)) + kron(complete, moments)).tocsr()
    state = np.zeros(stages * width)
    state[:width] = start * start
    state[width - 1] = 1.0
    order, squares, before = np.argsort(times), np.empty(len(times)), 0.0
    small, largest = len(state) <= SMALL, float(abs(generator).sum(axis=0).max())
    for index in order:
        elapsed = float(times[index]) - before
        if small:  # scaling and squaring, whose cost hardly grows with the time
            require_finite(
                f"`seconds` = {times[index]:g} with this `rate`", largest * elapsed, "Ask for earlier times."
            )
            with np.errstate(all="ignore"):
                state = expm((generator * elapsed).toarray()) @ state
        else:
            arguments = f"`seconds` = {times[index]:g} with {stages} stages in a step"
            operations = largest * float(elapsed) * (3 * len(state) + TURN)
            remedy = "Ask for earlier times, or average fewer gradients."
            require_size(arguments, len(state), remedy, operations=operations)
            state = expm_multiply(generator * elapsed, state)
        before, squares[index] = times[index], state[::width].sum()
    return squares


@checked
def minibatch_complexity(*, seconds: Sequence[float], gap: _Gap, noise: _Noise, accuracy: _Accuracy) -> float:
    """Return the order of the seconds of synchronous mini-batch SGD: max_i t_i (LΔ/ε + σ² LΔ / (n ε²)).

    An order, not a prediction in seconds: it hides constants that differ between methods, and it holds for the worst
    function of a class, in the non-convex setting: L-smooth, f(x_0) - inf f <= Δ, gradient noise of variance at most
    σ², aim E|∇f|² <= ε. Every step waits for the slowest worker.

    Args:
        seconds: t_i, seconds per gradient of each worker, in any order, shape (n,).
        gap: L Δ, smoothness times initial gap.
        noise: σ², variance of a gradient.
        accuracy: ε, the squared gradient norm aimed at.

    Example:
        >>> round(minibatch_complexity(seconds=[1.0] * 50 + [1000.0] * 50, gap=1.0, noise=10.0, accuracy=0.1), 6)
        20000.0

    References:
        Tyurin and Richtárik 2023, "Optimal time complexities of parallel stochastic optimization methods under a
        fixed computation model".
    """
    tau = _sort(seconds)
    return float(tau[-1] * _iterations(gap, noise, accuracy, np.array(len(tau))))


@checked
def rennala_complexity(*, seconds: Sequence[float], gap: _Gap, noise: _Noise, accuracy: _Accuracy) -> tuple[float, int]:
    """Return the optimal order of time, Rennala SGD's: min_m h_m (LΔ/ε + σ² LΔ / (m ε²)), 1/h_m = Σ_{i<=m} 1/t_i / m.

    The harmonic mean h_m is over the m fastest workers. Never above `asynchronous_complexity`, or
    `minibatch_complexity`. Setting, arguments, errors and reference as in `minibatch_complexity`.

    Returns:
        Seconds, up to a constant factor, and the minimising m, the number of workers worth using.

    Example:
        >>> order, useful = rennala_complexity(seconds=[1.0] * 50 + [1000.0] * 50, gap=1.0, noise=10.0, accuracy=0.1)
        >>> round(order, 6), useful
        (30.0, 50)
    """
    tau = _sort(seconds)
    orders = _harmonic_means(tau) * _iterations(gap, noise, accuracy, np.arange(1, len(tau) + 1))
    return float(orders.min()), int(orders.argmin()) + 1


@checked
def asynchronous_complexity(*, seconds: Sequence[float], gap: _Gap, noise: _Noise, accuracy: _Accuracy) -> float:
    """Return the order of the best known upper bound for asynchronous SGD, in seconds: h_n (LΔ/ε + σ² LΔ / (n ε²)).

    Here 1/h_n = Σ_i 1/t_i / n, with step sizes that shrink with staleness. The formula is quoted, and neither derived
    nor checked against an experiment here. Setting, arguments and errors as in `minibatch_complexity`.

    Example:
        >>> fast_and_slow = [1.0] * 50 + [1000.0] * 50
        >>> round(asynchronous_complexity(seconds=fast_and_slow, gap=1.0, noise=10.0, accuracy=0.1), 2)
        39.96

    References:
        Koloskova, Stich and Jaggi 2022, "Sharper convergence guarantees for asynchronous SGD".
        Mishchenko, Bach, Even and Woodworth 2022, "Asynchronous SGD beats minibatch SGD under arbitrary delays".
    """
    tau = _sort(seconds)
    return float(_harmonic_means(tau)[-1] * _iterations(gap, noise, accuracy, np.array(len(tau))))


@checked
def collection_time(*, seconds: Sequence[float], gradients: _Gradients) -> float:
    """Return the seconds in which workers that start at 0 finish S `gradients`, the least t with Σ_i ⌊t/t_i⌋ >= S.

    Args:
        seconds: t_i, fixed seconds per gradient of each worker, shape (n,).
        gradients: S, at least 1.

    Example:
        >>> collection_time(seconds=[1.0, 2.0], gradients=5)
        4.0
    """
    tau = _sort(seconds)
    # At the rate of all workers together S jobs take at least as long as `earliest`, so that only the jobs that end
    # between this time and the bound are compared.
    earliest, latest = gradients / np.sum(1 / tau), collection_bound(seconds=seconds, gradients=gradients)
    before, jobs = np.floor(earliest / tau * (1 - ROUNDING)), np.floor(latest / tau * (1 + ROUNDING))
    require_size(
        f"`gradients` = {brief(gradients)}", float(np.sum(jobs - before)), "Collect fewer, or use `collection_bound`."
    )
    ends = np.concatenate([t * np.arange(a + 1, b + 1) for t, a, b in zip(tau, before, jobs, strict=True)])
    last = gradients - 1 - int(before.sum())
    return float(np.partition(ends, last)[last])


@checked
def collection_bound(*, seconds: Sequence[float], gradients: _Gradients) -> float:
    """Return the upper bound of `collection_time`: min_m (S + m - 1) / Σ_{i<=m} 1/t_i, over the m fastest workers.

    In time t they finish more than Σ_{i<=m} (t/t_i - 1) jobs, a whole number (so that m - 1 suffices where the usual
    statement has m). Attained by equal workers if n divides S + n - 1. Twice as long if each may first have to finish a
    stale job. Arguments as in `collection_time`, reference as in `minibatch_complexity`.

    Example:
        >>> round(collection_bound(seconds=[1.0, 2.0], gradients=5), 6)
        4.0
    """
    tau = _sort(seconds)
    return float(np.min((gradients + np.arange(len(tau))) / np.cumsum(1 / tau)))


def _sort(seconds: Sequence[float]) -> FloatArray:
    if not len(seconds):
        raise ValueError("`seconds` must have one time per worker; got an empty sequence. Use one worker or more.")
    return np.sort([require_seconds("seconds", t, "Give seconds per gradient.") for t in seconds])


def _harmonic_means(tau: FloatArray) -> FloatArray:
    """Return the harmonic mean of the m fastest workers' times, for m = 1..n."""
    return np.arange(1, len(tau) + 1) / np.cumsum(1 / tau)


def _iterations(gap: float, noise: float, accuracy: float, workers: np.ndarray) -> FloatArray:
    return gap / accuracy * (1 + noise / accuracy / workers)
