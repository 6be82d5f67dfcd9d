"""Staleness behind a server that takes time: commits wait in line, first in, first out."""

from collections.abc import Sequence

import numpy as np

from asyncsim.delays import Delay, FloatArray
from asyncsim.theory._arguments import checked_rate, checked_service_rate, checked_size, checked_workers
from asyncsim.theory.runtime._queueing import mean_value_analysis, server_pmf


def queue_staleness_pmf(*, workers: int, compute_rate: float, service_rate: float, size: int) -> FloatArray:
    """Exact distribution of staleness for exponential compute times and an exponential first-in first-out server.

    A worker's commit and the following read are one event at the end of its service. It leaves the other n - 1
    workers as a stationary queue of n - 1 (arrival theorem); τ counts the services that end while it computes,
    plus the workers in line before it when it comes back. The mean is still n - 1.

    Args:
        workers: Number of workers n, at least 1.
        compute_rate: λ, gradients per second and worker.
        service_rate: μ, commits per second the server can apply.
        size: How many probabilities, at least 1.

    Returns:
        P(τ = 0), ..., P(τ = size - 1), stationary, shape (size,).

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> queue_staleness_pmf(workers=2, compute_rate=1.0, service_rate=1.0, size=4).round(4).tolist()
        [0.25, 0.5625, 0.1406, 0.0352]

    References:
        Sevcik and Mitrani 1981, "The distribution of queuing network states at input and output instants" (the
        arrival theorem).
    """
    from scipy.linalg import solve_banded

    size = checked_size(size)
    start, silent, service = _tagged(workers, compute_rate, service_rate)
    n = len(start)
    banded = np.zeros((2, n))  # the transpose of `silent`: diagonal and the one below it
    banded[0], banded[1, :-1] = silent.diagonal(), silent.diagonal(1)
    pmf, state = np.zeros(size + n), start
    for ended in range(size):
        spent = solve_banded((1, 0), banded, state)
        pmf[ended : ended + n] += compute_rate * spent
        state = np.append(service * spent[1:], 0.0)
    return pmf[:size]


def queue_staleness_variance(*, workers: int, compute_rate: float, service_rate: float) -> float:
    """Exact variance of the staleness of `queue_staleness_pmf`, from linear equations.

    Far above the knee it tends to r (1 + r), r = μ/λ, whatever n: the queue makes staleness regular. Without
    queueing (μ -> ∞) it is n (n - 1).

    Args:
        workers: Number of workers n, at least 1; the cost grows as n³.
        compute_rate: λ, gradients per second and worker.
        service_rate: μ, commits per second the server can apply.

    Returns:
        The variance, in commits squared.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> round(queue_staleness_variance(workers=16, compute_rate=1.0, service_rate=8.0), 2)
        70.54
    """
    start, silent, service = _tagged(workers, compute_rate, service_rate)
    inverse = np.linalg.inv(silent)
    once = np.pad(service * inverse[:, 1:], ((0, 0), (0, 1)))  # from the end of one service to that of the next
    all_times = np.linalg.inv(np.eye(len(start)) - once)
    repeated = once @ all_times
    found = np.arange(len(start))
    at_end = [compute_rate * moment @ inverse for moment in _factorial_moments(start @ all_times, repeated)]
    mean = at_end[1].sum() + at_end[0] @ found
    square = at_end[2].sum() + at_end[1].sum() + 2 * at_end[1] @ found + at_end[0] @ found**2
    return float(square - mean**2)


def saturated_staleness_variance(*, compute_rate: float, service_rate: float) -> float:
    """Limit of `queue_staleness_variance` for n far above the knee: r (1 + r), r = μ/λ.

    Exact as n -> ∞: the server never idles, so the workers that compute are a Poisson stream with exponential
    lifetimes. Given its compute time T, a worker finds n - 1 + A - B commits since its read: A workers left and came
    back, B still compute, independent Poisson counts with means that add up to r on average and differ by μT - r.

    Args:
        compute_rate: λ, gradients per second and worker.
        service_rate: μ, commits per second the server can apply.

    Returns:
        The variance, in commits squared.

    Raises:
        ValueError: If a rate is not finite and positive.

    Example:
        >>> saturated_staleness_variance(compute_rate=1.0, service_rate=2.0)
        6.0
    """
    ratio = checked_service_rate(service_rate) / checked_rate(compute_rate, "compute_rate")
    return ratio * (1 + ratio)


def separate_pull_staleness_mean(
    *, workers: int, service: Delay, before_read: Sequence[Delay], after_read: Sequence[Delay], slots: int = 1
) -> float:
    """Exact mean staleness where a worker does not read at the instant of its own commit.

    A cycle: the delays `before_read` (a request under way: the worker holds no parameters), the read, the delays
    `after_read` (transfer, compute, the way back), the queue of the server, the commit. A worker meets the other
    n - 1 as a stationary network of n - 1 (arrival theorem), and τ averages how many of them hold parameters:

        E τ = (n - 1) - Σ_{d before the read} L_d(n - 1)

    with L_d(n - 1) the mean number in delay d among n - 1 workers. Delays of any law; exponential service, first
    in, first out; stationary.

    Args:
        workers: Number of workers n, at least 1.
        service: Law of one service, an `Exponential`, in seconds.
        before_read: Laws of the delays between the commit and the next read.
        after_read: Laws of the delays between the read and the queue.
        slots: Commits the server handles at a time, at least 1.

    Returns:
        The mean, in commits; n - 1 if nothing precedes the read.

    Raises:
        ValueError: As `mean_value_analysis`.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> after = [Constant(0.3), Exponential(1.0)]
        >>> mean = separate_pull_staleness_mean(
        ...     workers=16, service=Exponential(1 / 12), before_read=[Constant(0.5)], after_read=after
        ... )
        >>> round(mean, 4)
        11.2216

    References:
        Reiser and Lavenberg 1980, "Mean-value analysis of closed multichain queuing networks".
    """
    workers = checked_workers(workers)
    delays = [*before_read, *after_read]
    others = mean_value_analysis(workers=max(workers - 1, 1), service=service, delays=delays, slots=slots)
    return workers - 1 - float(others.delay_lengths[: len(before_read)].sum()) if workers > 1 else 0.0


def _tagged(workers: int, compute_rate: float, service_rate: float) -> tuple[FloatArray, FloatArray, float]:
    """What one worker sees of the others while it computes: their queue at its start, and how it changes."""
    workers = checked_workers(workers)
    compute_rate = checked_rate(compute_rate, "compute_rate")
    service_rate = checked_service_rate(service_rate)
    state = np.arange(workers)
    arrivals = compute_rate * (workers - 1 - state)
    silent = np.diag(compute_rate + arrivals + service_rate * (state > 0)) - np.diag(arrivals[:-1], k=1)
    return server_pmf(workers - 1, 1 / compute_rate, 1 / service_rate), silent, service_rate


def _factorial_moments(total: FloatArray, repeated: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ_k v T^k, Σ_k k v T^k and Σ_k k (k - 1) v T^k from v (1 - T)^-1 and T (1 - T)^-1."""
    first = total @ repeated
    return total, first, 2 * first @ repeated
