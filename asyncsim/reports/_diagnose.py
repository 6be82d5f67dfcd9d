"""What a trace says about the cluster that made it: which of the assumptions of theory it does not contradict."""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace import Fate, Trace
from asyncsim.trace._infer_columns import previous_own_row
from asyncsim.trace._statistics import most_in_service, previous_commit

EXACTLY = 1e-9  # relative difference of times that are equal up to rounding
# The distance D √N of exponential samples from the exponential law with their own mean exceeds 1.308 once in a
# hundred times (Stephens 1974), and 1.8 hardly ever.
MOST_DISTANCE = 1.8
SPREADS = 6.0  # standard deviations of the chi-squared statistic within which workers count as equal


class Diagnosis(NamedTuple):
    """Which assumptions hold, as far as the trace shows, and the mean times that predictions need."""

    asynchronous: bool
    fifo: bool  # whether commits are served in the order of arrival and none of `slots` servers idles while one waits
    slots: int  # the most commits in service at once, at least 1
    equal: bool  # whether the workers' mean times differ only by chance
    compute: float  # mean seconds per commit of computing, in the network, in service, and at the server in all
    network: float  # mean seconds per commit of computing, in the network, in service, and at the server in all
    service: float  # mean seconds per commit of computing, in the network, in service, and at the server in all
    at_server: float  # mean seconds per commit of computing, in the network, in service, and at the server in all
    cv: float  # coefficient of variation of the time from read to arrival; 0 if it varies only by rounding
    exponential_service: bool  # whether service times look exponential
    memoryless: bool  # whether compute times look exponential too, and messages take no time


def diagnose(trace: Trace) -> Diagnosis:
    """Test the assumptions of theory on a trace."""
    compute, service = trace.finish_time - trace.start_time, trace.commit_time - trace.serve_time
    job = trace.arrive_time - trace.begin_time
    network = job - compute
    slots = most_in_service(trace)
    exponential_service = _looks_exponential(service)
    without_network = network.mean() <= EXACTLY * job.mean()
    spread = job.std() / job.mean() if job.mean() else 0.0
    return Diagnosis(
        asynchronous=_is_asynchronous(trace),
        fifo=_is_fifo(trace, slots),
        slots=slots,
        equal=_are_equal(trace, compute) and _are_equal(trace, network),
        compute=float(compute.mean()),
        network=float(network.mean()),
        service=float(service.mean()),
        at_server=float((trace.commit_time - trace.arrive_time).mean()),
        cv=float(spread) if spread > EXACTLY else 0.0,
        exponential_service=exponential_service,
        memoryless=exponential_service and bool(without_network) and _looks_exponential(compute),
    )


def _is_asynchronous(trace: Trace) -> bool:
    previous = previous_own_row(trace.worker)
    after = np.append(trace.version + trace.closes_step, 0)[previous]
    undisturbed = bool((trace.unfinished.fate == Fate.IN_FLIGHT).all()) and not len(trace.faults)
    at_once = np.array_equal(trace.read_version, after) and np.array_equal(trace.read_time, previous_commit(trace))
    return undisturbed and at_once and bool(trace.closes_step.all())


def _is_fifo(trace: Trace, slots: int) -> bool:
    """Whether each commit is served once it has arrived and all but slots - 1 of those before it have left."""
    free = [0.0] * slots
    order = np.lexsort((trace.commit_time, trace.serve_time, trace.arrive_time))
    expected = np.empty(len(trace))
    for row in order.tolist():
        expected[row] = max(float(trace.arrive_time[row]), heapq.heappop(free))
        heapq.heappush(free, float(trace.commit_time[row]))
    return bool((np.abs(trace.serve_time - expected) <= EXACTLY * trace.seconds).all())


def _are_equal(trace: Trace, times: NDArray[np.float64]) -> bool:
    """Whether a chi-squared test accepts one mean for all workers."""
    commits = np.bincount(trace.worker, minlength=trace.workers)
    if not commits.all():
        return False
    means = np.bincount(trace.worker, times, trace.workers) / commits
    within = max(float(np.mean((times - means[trace.worker]) ** 2)), (EXACTLY * trace.seconds) ** 2)
    free = trace.workers - 1
    return bool(np.sum(commits * (means - times.mean()) ** 2) <= within * (free + SPREADS * np.sqrt(2 * free)))


def _looks_exponential(times: NDArray[np.float64]) -> bool:
    mean, count = times.mean(), len(times)
    if not mean or times.min() < 0:
        return False
    cdf = -np.expm1(-np.sort(times) / mean)
    apart = max((np.arange(1, count + 1) / count - cdf).max(), (cdf - np.arange(count) / count).max())
    return bool(apart * np.sqrt(count) <= MOST_DISTANCE)
