"""Workers and a server that takes time: M/M/c//n queues (machine repairman), and the staleness behind them."""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from asyncsim._checks import brief
from asyncsim.components._checked import checked
from asyncsim.delays import Constant, Delay, Exponential, FloatArray
from asyncsim.delays._per_worker import require_laws
from asyncsim.theory._numerics import TURN, require_finite, require_size
from asyncsim.theory._parameters import Rate, ServiceRate, Size, Workers, require_count

_Slots = Annotated[int, require_count, "Use one slot or more."]


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


@checked
def throughput(workers: Workers, compute_rate: Rate, service_rate: ServiceRate) -> float:
    """Return commits per second with one exponential server: ν (1 - P_0).

    P_k = n! / (n - k)! ρ^k P_0 is the probability of k workers at the server, ρ = λ/ν. At most min(n λ, ν). Exact in
    the long run for any compute law of mean 1/λ: only the service has to be exponential, and first-in first-out.

    Args:
        workers: Number of workers n, at least 1.
        compute_rate: λ, gradients per second and worker.
        service_rate: ν, commits per second the server can apply.

    Example:
        >>> round(throughput(workers=16, compute_rate=1.0, service_rate=8.0), 3)
        7.964

    References:
        Gross, Shortle, Thompson and Harris 2008, "Fundamentals of queueing theory", finite-source queues.
    """
    return _repairman(workers, compute_rate, service_rate).throughput


@checked
def queue_length(workers: Workers, compute_rate: Rate, service_rate: ServiceRate) -> float:
    """Return the mean number of workers at the server, the one in service included: n - throughput / λ.

    Arguments, assumptions, errors and reference as in `throughput`. Exact.

    Example:
        >>> round(queue_length(workers=16, compute_rate=1.0, service_rate=8.0), 3)
        8.036
    """
    return _repairman(workers, compute_rate, service_rate).queue_length


@checked
def utilisation(workers: Workers, compute_rate: Rate, service_rate: ServiceRate) -> float:
    """Return the share of time in which the server is busy: 1 - P_0 = throughput / ν.

    Arguments, assumptions, errors and reference as in `throughput`. Exact.

    Example:
        >>> utilisation(workers=1, compute_rate=1.0, service_rate=1.0)
        0.5
    """
    return _repairman(workers, compute_rate, service_rate).utilisation


@checked
def knee(compute_rate: Rate, service_rate: ServiceRate) -> float:
    """Return the number of workers at which the server becomes the bottleneck: n* = 1 + ν/λ.

    Exact as the crossing of the two asymptotes of throughput, n / (1/λ + 1/ν) and ν, although the throughput itself
    bends smoothly below both. For any laws of means 1/λ and 1/ν. Arguments as in `throughput`.

    Example:
        >>> knee(compute_rate=1.0, service_rate=8.0)
        9.0

    References:
        Denning and Buzen 1978, "The operational analysis of queueing network models".
    """
    return 1 + service_rate / compute_rate


@checked
def mean_value_analysis(
    *, workers: Workers, service: Delay, delays: Sequence[Delay], slots: _Slots = 1
) -> ClosedNetwork:
    """Return the exact long-run averages of workers that pass through delays and then one queue, again and again.

    With Z the sum of the mean delays and S the mean service, k workers are at the server with probability

        P_k ∝ n! / (n - k)! (S/Z)^k / Π_{j<=k} min(j, slots)

    and by Little's law delay d holds throughput · mean_d workers. These are the averages that the recursion of
    mean value analysis gives, without its subtractions. Exact for delays of any law (latency, transfer, compute, but
    not shared, so no contended link) and one first-in first-out queue of exponential service.

    Args:
        workers: Number of workers n, at least 1.
        service: Law of one service, an `Exponential`, in seconds.
        delays: Laws of the delays of one cycle, in seconds, in any order.
        slots: Commits the server handles at a time, at least 1.

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
    if not isinstance(service, Exponential):
        raise ValueError(
            f"`service` must be exponential for a closed form; got {brief(service)}. "
            "`knee` holds for every law; simulate for the rest."
        )
    _require_laws("delays", delays)
    means = np.array([delay.mean for delay in delays], dtype=np.float64)
    if not (np.isfinite(means).all() and (means >= 0).all()):
        raise ValueError(f"`delays` must have finite means; got {means.tolist()}. Correct the laws.")
    pmf, k = server_pmf(workers, float(means.sum()), service.mean, slots), np.arange(workers + 1)
    busy, length = float(pmf @ np.minimum(k, slots)), float(pmf @ k)
    rate = busy / service.mean
    return ClosedNetwork(rate, busy / slots, length, length / rate, rate * means)


def _require_laws(name: str, laws: Sequence[Delay]) -> None:
    """Refuse anything but a sequence of laws, which may be empty."""
    if not isinstance(laws, Sequence) or laws:
        require_laws(name, laws)


def server_pmf(workers: int, thinking: float, service: float, slots: int = 1) -> FloatArray:
    """Return P(k workers at the server), k = 0..n, shape (n + 1,). `thinking` and `service` are mean seconds."""
    from scipy.special import gammaln, logsumexp

    remedy = "For so many, `knee` tells whether the server is the bottleneck."
    require_size(f"`workers` = {brief(workers)}", workers + 1, remedy)
    k = np.arange(workers + 1)
    if thinking == 0:
        return np.where(k == workers, 1.0, 0.0)
    busy = np.concatenate([[0.0], np.cumsum(np.log(np.minimum(k[1:], slots)))])
    weight = -gammaln(workers - k + 1) + k * (math.log(service) - math.log(thinking)) - busy
    return np.exp(weight - logsumexp(weight))


def _repairman(workers: int, compute_rate: float, service_rate: float) -> ClosedNetwork:
    service, compute = Exponential(1 / service_rate), Constant(1 / compute_rate)
    return mean_value_analysis(workers=workers, service=service, delays=[compute])


@checked
def queue_staleness_pmf(*, workers: Workers, compute_rate: Rate, service_rate: ServiceRate, size: Size) -> FloatArray:
    """Return the exact staleness distribution for exponential computing and an exponential first-in first-out server.

    A worker's commit and the following read are one event at the end of its service. It leaves the other n - 1
    workers as a stationary queue of n - 1 (arrival theorem), so τ counts the services that end while it computes, plus
    the workers in line before it when it comes back. The mean is still n - 1. Other arguments as in `throughput`.

    Args:
        size: Number of probabilities, at least 1.

    Returns:
        P(τ = 0), ..., P(τ = size - 1), stationary, shape (size,).

    Example:
        >>> queue_staleness_pmf(workers=2, compute_rate=1.0, service_rate=1.0, size=4).round(4).tolist()
        [0.25, 0.5625, 0.1406, 0.0352]

    References:
        Sevcik and Mitrani 1981, "The distribution of queuing network states at input and output instants" (the
        arrival theorem).
    """
    from scipy.linalg import solve_banded

    n = workers
    remedy = "Use fewer, or `saturated_staleness_variance` for the limit of many workers."
    arguments = f"`workers` = {brief(workers)} with `size` = {brief(size)}"
    require_size(arguments, size + n, remedy, operations=size * float(10 * TURN + 10 * n))
    start, ends, arrivals = _tagged(workers, compute_rate, service_rate)
    banded = np.zeros((2, n))  # the transpose of the matrix of `queue_staleness_variance`, diagonal and the one below
    banded[0], banded[1, :-1] = ends, -arrivals[:-1]
    pmf, state = np.zeros(size + n), start
    for ended in range(size):
        spent = solve_banded((1, 0), banded, state)
        pmf[ended : ended + n] += compute_rate * spent
        state = np.append(service_rate * spent[1:], 0.0)
        if not state.any():
            break
    return pmf[:size]


@checked
def queue_staleness_variance(*, workers: Workers, compute_rate: Rate, service_rate: ServiceRate) -> float:
    """Return the exact variance, in commits², of the staleness of `queue_staleness_pmf`, from linear equations.

    Far above the knee it tends to r (1 + r), r = ν/λ, whatever n: the queue makes staleness regular. Without
    queueing (ν -> ∞) it is n (n - 1). The cost grows as n³. Arguments and errors as in `throughput`.

    Example:
        >>> round(queue_staleness_variance(workers=16, compute_rate=1.0, service_rate=8.0), 2)
        70.54
    """
    remedy = "Use fewer, or `saturated_staleness_variance` for the limit of many workers."
    require_size(f"`workers` = {brief(workers)}", float(workers) ** 2, remedy)
    start, ends, arrivals = _tagged(workers, compute_rate, service_rate)
    silent = np.diag(ends) - np.diag(arrivals[:-1], k=1)
    inverse = np.linalg.inv(silent)
    once = np.pad(service_rate * inverse[:, 1:], ((0, 0), (0, 1)))  # T, from the end of one service to that of the next
    all_times = np.linalg.inv(np.eye(len(start)) - once)
    ahead, repeated = np.arange(len(start)), once @ all_times  # workers in line before it when it comes back, by state
    total = start @ all_times  # Σ_k v T^k, then Σ_k k v T^k and Σ_k k (k - 1) v T^k
    moments = total, total @ repeated, 2 * total @ repeated @ repeated
    at_end = [compute_rate * moment @ inverse for moment in moments]
    mean = at_end[1].sum() + at_end[0] @ ahead
    square = at_end[2].sum() + at_end[1].sum() + 2 * at_end[1] @ ahead + at_end[0] @ ahead**2
    return float(square - mean**2)


@checked
def saturated_staleness_variance(*, compute_rate: Rate, service_rate: ServiceRate) -> float:
    """Return the limit of `queue_staleness_variance`, in commits², for n far above the knee: r (1 + r), r = ν/λ.

    Exact as n -> ∞: the server never idles, so the workers that compute are a Poisson stream with exponential
    lifetimes. Given its compute time T, a worker finds n - 1 + A - B commits since its read: A workers left and came
    back, B still compute, independent Poisson counts with means that add up to r on average and differ by νT - r.
    Arguments and errors as in `knee`.

    Example:
        >>> saturated_staleness_variance(compute_rate=1.0, service_rate=2.0)
        6.0
    """
    ratio = service_rate / compute_rate
    arguments = f"`service_rate` = {service_rate:g} with `compute_rate` = {compute_rate:g}"
    return require_finite(arguments, ratio * (1 + ratio), "Give rates of one system.")


@checked
def separate_pull_staleness_mean(
    *, workers: Workers, service: Delay, before_read: Sequence[Delay], after_read: Sequence[Delay], slots: _Slots = 1
) -> float:
    """Return the exact mean staleness where a worker does not read at the instant of its own commit.

    A cycle: the delays `before_read` (a request under way: the worker holds no parameters), the read, the delays
    `after_read` (transfer, compute, the way back), the queue of the server, the commit. A worker meets the other
    n - 1 as a stationary network of n - 1 (arrival theorem), and τ averages how many of them hold parameters:

        E τ = (n - 1) - Σ_{d before the read} L_d(n - 1)

    with L_d(n - 1) the mean number in delay d among n - 1 workers. Delays of any law, exponential service, first in,
    first out, stationary. Other arguments and errors as in `mean_value_analysis`.

    Args:
        before_read: Laws of the delays between the commit and the next read.
        after_read: Laws of the delays between the read and the queue.

    Returns:
        The mean, in commits, which is n - 1 if nothing precedes the read.

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
    _require_laws("before_read", before_read)
    _require_laws("after_read", after_read)
    delays = [*before_read, *after_read]
    others = mean_value_analysis(workers=max(workers - 1, 1), service=service, delays=delays, slots=slots)
    return max(workers - 1 - float(others.delay_lengths[: len(before_read)].sum()), 0.0) if workers > 1 else 0.0


def _tagged(workers: int, compute_rate: float, service_rate: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the law of the others' queue when a worker begins to compute, and rates of all events and of arrivals."""
    state = np.arange(workers)
    arrivals = np.asarray(compute_rate * (workers - 1 - state), np.float64)
    ends = np.asarray(compute_rate + arrivals + service_rate * (state > 0), np.float64)
    return server_pmf(workers - 1, 1 / compute_rate, 1 / service_rate), ends, arrivals
