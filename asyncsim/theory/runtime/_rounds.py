"""Expected seconds per step of the server: order statistics of delays, and what waiting for the slowest costs."""

import numpy as np

from asyncsim._checks import require_integer, require_positive
from asyncsim.delays import Delay, Exponential, FloatArray, Pareto, ShiftedExponential, Uniform
from asyncsim.delays._per_worker import groups
from asyncsim.theory._arguments import checked_protocol, checked_rate
from asyncsim.theory._laws import quantile
from asyncsim.theory._numerics import integrals


def round_time(workers: int, k: int | None = None, rate: float = 1.0, protocol: str = "sync") -> float:
    """Exact expected seconds per step of the server, for equal exponential workers and a zero-time server.

    "sync":                             H_n / λ,  H_n = 1 + 1/2 + ... + 1/n
    "k_sync", "k_async":                (H_n - H_{n-K}) / λ
    "k_batch_sync", "k_batch_async":    K / (n λ)
    "async":                            1 / (n λ)

    Assumptions: independent delays of mean 1/λ; a step takes K gradients, those of K distinct workers unless the
    name says batch; the workers that a synchronous step leaves behind are cancelled. By memorylessness, waiting
    for K of n workers takes as long whether the others are fresh or half done.

    Args:
        workers: Number of workers n, at least 1.
        rate: λ, gradients per second and worker.
        protocol: One of the names above.
        k: K, gradients per step; None for "async" and "sync".

    Returns:
        Seconds.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> round(round_time(workers=16, k=4, rate=1.0, protocol="k_sync"), 5)
        0.27752

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """
    step = checked_protocol(protocol, workers, k)
    law = Exponential(1 / checked_rate(rate))
    if step.name in ("k_batch_sync", "k_batch_async", "async"):
        return step.k * law.mean / step.workers
    return expected_order_statistic(law, k=step.k, n=step.workers)


def round_time_of_law(*, compute: Delay, workers: int, protocol: str, k: int | None = None) -> float:
    """Exact expected seconds per step of the server for equal workers of any compute law, zero-time server.

    "sync":           E X_{n:n}, the slowest of n
    "k_sync":         E X_{K:n}, the K-th of n
    "k_batch_async":  K m / n,  m the mean
    "async":          m / n

    "k_async" and "k_batch_sync" have no such form: the workers that wait, or start again, differ in age
    (`round_time` has both for exponential laws; for laws that are new better than used E X_{K:n} is an upper bound
    of "k_async"). Assumptions otherwise as in `round_time`.

    Args:
        compute: The law of all workers, in seconds.
        workers: Number of workers n, at least 1.
        protocol: One of the names above.
        k: K, gradients per step; None for "async" and "sync".

    Returns:
        Seconds.

    Raises:
        ValueError: If an argument is out of range, or the protocol is one of the two without a form.

    Example:
        >>> from asyncsim.delays import Uniform
        >>> round_time_of_law(compute=Uniform(1.0, 3.0), workers=3, protocol="sync")
        2.5

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """
    step = checked_protocol(protocol, workers, k)
    groups(compute, 1)
    if step.name in ("async", "k_batch_async"):
        return step.k * compute.mean / step.workers
    if step.name in ("sync", "k_sync"):
        return expected_order_statistic(compute, k=step.k, n=step.workers)
    raise ValueError(
        f"`protocol` must be 'sync', 'k_sync', 'k_batch_async' or 'async' for a general law; got {protocol!r}. "
        "Use `round_time` for exponential laws, or simulate."
    )


def asynchronous_speed_up(*, compute: Delay, workers: int) -> float:
    """Steps per second of asynchronous workers over those of synchronous ones: n E X_{n:n} / E X.

    A synchronous step applies n gradients at once: in gradients per second the ratio is this divided by n. Exact
    for equal workers of any law, zero-time server; n H_n ~ n ln n for the exponential law, n for a constant.

    Args:
        compute: The law of all workers, in seconds.
        workers: Number of workers n, at least 1.

    Returns:
        The ratio, at least n.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> from asyncsim.delays import Constant
        >>> asynchronous_speed_up(compute=Constant(2.0), workers=8)
        8.0

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """
    synchronous = round_time_of_law(compute=compute, workers=workers, protocol="sync")
    return synchronous / round_time_of_law(compute=compute, workers=workers, protocol="async")


def expected_order_statistic(law: Delay, *, k: int, n: int) -> float:
    """E X_{k:n}, the mean of the k-th shortest of n independent delays: ∫_0^∞ P(fewer than k delays <= t) dt.

    Exact: closed forms for the constant, uniform, (shifted) exponential and Pareto laws,

        exponential:  m (1/n + 1/(n-1) + ... + 1/(n-k+1)) = m (H_n - H_{n-k})
        uniform:      low + (high - low) k / (n + 1)
        Pareto:       minimum Γ(n+1) Γ(n-k+1-1/a) / (Γ(n-k+1) Γ(n+1-1/a)),  a the shape

    and quadrature for any other law (relative error of about 1e-6 or below).

    Args:
        law: Law of the delays, finite mean, in seconds.
        k: Rank, 1 for the shortest, n for the longest.
        n: Number of delays, at least 1.

    Returns:
        Seconds.

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
    n = require_integer("n", n, least=1, remedy="Wait for one delay or more.")
    k = require_integer("k", k, least=1, remedy="Use 1 for the shortest delay.")
    if k > n:
        raise ValueError(f"`k` must be at most `n`; got {k} > {n}. Use k = n for the longest delay.")
    if law.variance == 0:
        return float(law.mean)
    require_positive("mean", law.mean, remedy=f"Correct {law!r}.")
    closed = _closed_form(law, k, n)
    return closed if closed is not None else _by_quadrature(law, k, n)


def _closed_form(law: Delay, k: int, n: int) -> float | None:
    from scipy.special import gammaln

    match law:
        case Exponential():
            return law.mean * _harmonic(k, n)
        case ShiftedExponential():
            return law.mean + law.variance**0.5 * (_harmonic(k, n) - 1)
        case Uniform():
            return law.low + (law.high - law.low) * k / (n + 1)
        case Pareto():
            power = 1 / law.shape
            logs = gammaln([n + 1, n - k + 1 - power, n - k + 1, n + 1 - power])
            return float(law.minimum * np.exp(logs[0] + logs[1] - logs[2] - logs[3]))
        case _:
            return None


def _harmonic(k: int, n: int) -> float:
    """1/n + 1/(n - 1) + ... + 1/(n - k + 1)."""
    return float(np.sum(1 / np.arange(n - k + 1, n + 1)))


def _by_quadrature(law: Delay, k: int, n: int) -> float:
    from scipy.special import bdtr

    edges = _edges(law, k, n)
    if k < n:
        return float(edges[0] + integrals(lambda t: bdtr(k - 1, n, law.cdf(t)), edges)[-1])

    def excess(t: FloatArray) -> FloatArray:
        """n (1 - F) - (1 - F^n): the sum of all delays less the longest; its tail is the square of the law's."""
        return n * (1 - law.cdf(t)) - (1 - law.cdf(t) ** n)

    return float(n * law.mean - (n - 1) * edges[0] - integrals(excess, edges)[-1])


def _edges(law: Delay, k: int, n: int) -> FloatArray:
    """Quantiles of the law and of the order statistic, both far into their tails: every atom is an edge."""
    from scipy.special import betaincinv

    tail = np.logspace(-13, -4, 73)
    levels = np.concatenate([tail, np.linspace(0, 1, 2049)[1:-1], 1 - tail])
    own = betaincinv(k, n - k + 1, levels)
    probability = np.concatenate([levels, own[(own > 0) & (own < 1 - 1e-13)]])
    return np.unique(quantile(law, probability))
