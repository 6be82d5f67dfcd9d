"""Workers and a busy server: any closed network of delays and one exponential queue, M/M/c//n (machine repairman)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asyncsim._checks import require_integer
from asyncsim.delays import Delay, Exponential, FloatArray
from asyncsim.theory._arguments import checked_rate, checked_service_rate, checked_workers


class ClosedNetwork(NamedTuple):
    """Long-run averages of a closed network: one server station, the others are delays.

    Attributes:
        throughput: Commits per second.
        utilisation: Busy share of the server's slots.
        queue_length: Mean number of workers at the server, the ones in service included.
        waiting: Mean seconds at the server for one commit, its service included.
        delay_lengths: Mean number of workers in each delay, shape (delays,).
    """

    throughput: float
    utilisation: float
    queue_length: float
    waiting: float
    delay_lengths: FloatArray


def throughput(workers: int, compute_rate: float, service_rate: float) -> float:
    """Commits per second with one exponential server: μ (1 - P_0).

    P_k = n! / (n - k)! ρ^k P_0 is the probability of k workers at the server, ρ = λ/μ. Exact in the long run for
    any compute law of mean 1/λ: only the service has to be exponential, and first-in first-out.

    Args:
        workers: Number of workers n, at least 1.
        compute_rate: λ, gradients per second and worker.
        service_rate: μ, commits per second the server can apply.

    Returns:
        Commits per second, at most min(n λ, μ).

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> round(throughput(workers=16, compute_rate=1.0, service_rate=8.0), 3)
        7.964

    References:
        Gross, Shortle, Thompson and Harris 2008, "Fundamentals of queueing theory", finite-source queues.
    """
    return _repairman(workers, compute_rate, service_rate).throughput


def queue_length(workers: int, compute_rate: float, service_rate: float) -> float:
    """Mean number of workers at the server, the one in service included: n - throughput / λ.

    Arguments, assumptions, errors and reference as in `throughput`; exact.

    Example:
        >>> round(queue_length(workers=16, compute_rate=1.0, service_rate=8.0), 3)
        8.036
    """
    return _repairman(workers, compute_rate, service_rate).queue_length


def utilisation(workers: int, compute_rate: float, service_rate: float) -> float:
    """Share of time in which the server is busy: 1 - P_0 = throughput / μ.

    Arguments, assumptions, errors and reference as in `throughput`; exact.

    Example:
        >>> utilisation(workers=1, compute_rate=1.0, service_rate=1.0)
        0.5
    """
    return _repairman(workers, compute_rate, service_rate).utilisation


def knee(compute_rate: float, service_rate: float) -> float:
    """The number of workers at which the server becomes the bottleneck: n* = 1 + μ/λ.

    Exact as the crossing of the two asymptotes of throughput, n / (1/λ + 1/μ) and μ; the throughput itself bends
    smoothly below both. For any laws of means 1/λ and 1/μ.

    Args:
        compute_rate: λ, gradients per second and worker.
        service_rate: μ, commits per second.

    Returns:
        Number of workers, not rounded.

    Raises:
        ValueError: If a rate is not finite and positive.

    Example:
        >>> knee(compute_rate=1.0, service_rate=8.0)
        9.0

    References:
        Denning and Buzen 1978, "The operational analysis of queueing network models".
    """
    return 1 + checked_service_rate(service_rate) / checked_rate(compute_rate, "compute_rate")


def mean_value_analysis(*, workers: int, service: Delay, delays: Sequence[Delay], slots: int = 1) -> ClosedNetwork:
    """Exact long-run averages of workers that pass through delays and then one queue, again and again.

    With Z the sum of the mean delays and S the mean service, k workers are at the server with probability

        P_k ∝ n! / (n - k)! (S/Z)^k / Π_{j<=k} min(j, slots)

    and by Little's law delay d holds throughput · mean_d workers. These are the averages that the recursion of
    mean value analysis gives, without its subtractions. Exact for delays of any law (latency, transfer, compute;
    a delay must not be shared, so no contended link) and one first-in first-out queue of exponential service.

    Args:
        workers: Number of workers n, at least 1.
        service: Law of one service, an `Exponential`, in seconds.
        delays: Laws of the delays of one cycle, in seconds, in any order.
        slots: Commits the server handles at a time, at least 1.

    Returns:
        The averages.

    Raises:
        ValueError: If an argument is out of range, or the service is not exponential.

    Example:
        >>> from asyncsim.delays import Constant
        >>> network = mean_value_analysis(workers=2, service=Exponential(1.0), delays=[Constant(1.0)])
        >>> round(network.throughput, 6), round(network.queue_length, 6)
        (0.8, 1.2)

    References:
        Reiser and Lavenberg 1980, "Mean-value analysis of closed multichain queuing networks".
        Baskett, Chandy, Muntz and Palacios 1975, "Open, closed, and mixed networks of queues with different
        classes of customers" (why any law of delays gives the same).
    """
    workers = checked_workers(workers)
    slots = require_integer("slots", slots, least=1, remedy="Use one slot or more.")
    if not isinstance(service, Exponential):
        raise ValueError(
            f"`service` must be exponential for a closed form; got {service!r}. "
            "`knee` holds for every law; simulate for the rest."
        )
    means = np.array([delay.mean for delay in delays], dtype=np.float64)
    if not (np.isfinite(means).all() and (means >= 0).all()):
        raise ValueError(f"`delays` must have finite means; got {means.tolist()}. Correct the laws.")
    return _averages(server_pmf(workers, float(means.sum()), service.mean, slots), service.mean, slots, means)


def server_pmf(workers: int, thinking: float, service: float, slots: int = 1) -> FloatArray:
    """Probability of k = 0..n workers at the server, shape (n + 1,); `thinking` and `service` are mean seconds."""
    from scipy.special import gammaln, logsumexp

    k = np.arange(workers + 1)
    if thinking == 0:
        return np.where(k == workers, 1.0, 0.0)
    busy = np.concatenate([[0.0], np.cumsum(np.log(np.minimum(k[1:], slots)))])
    weight = -gammaln(workers - k + 1) + k * np.log(service / thinking) - busy
    return np.exp(weight - logsumexp(weight))


def _averages(pmf: FloatArray, service: float, slots: int, means: FloatArray) -> ClosedNetwork:
    k = np.arange(len(pmf))
    busy = float(pmf @ np.minimum(k, slots))
    rate, length = busy / service, float(pmf @ k)
    return ClosedNetwork(rate, busy / slots, length, length / rate, rate * means)


def _repairman(workers: int, compute_rate: float, service_rate: float) -> ClosedNetwork:
    workers = checked_workers(workers)
    thinking, service = 1 / checked_rate(compute_rate, "compute_rate"), 1 / checked_service_rate(service_rate)
    return _averages(server_pmf(workers, thinking, service), service, 1, np.array([thinking]))
