"""A trace next to predictions of theory, for the assumptions that the trace does not contradict."""

import heapq
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim import theory
from asyncsim.cluster import Cluster, Server
from asyncsim.delays import Constant, Exponential, FloatArray, Gamma
from asyncsim.files._json import to_plain
from asyncsim.reports.staleness import run_prediction, staleness_theory
from asyncsim.trace import Fate, Statistics, Trace, statistics
from asyncsim.trace._columns import previous_own_row
from asyncsim.trace._invariants import conservation
from asyncsim.trace._statistics import kolmogorov_distance, most_in_service, previous_commit

EXACTLY = 1e-9  # relative difference of times that are equal up to rounding
# The distance D √N of exponential samples from the exponential law with their own mean exceeds 1.308 once in a
# hundred times (Stephens 1974), and 1.8 hardly ever.
MOST_DISTANCE = 1.8
SPREADS = 6.0  # standard deviations of the chi-squared statistic within which workers count as equal


class Diagnosis(NamedTuple):
    """Which assumptions hold, as far as the trace shows, and the mean times that predictions need."""

    asynchronous: bool  # whether workers around one server never wait
    fifo: bool  # whether commits are served in the order of arrival and none of `slots` servers idles while one waits
    slots: int  # the most commits in service at once, at least 1
    equal: bool  # whether the workers' mean times differ only by chance
    compute: float  # mean seconds of computing, per commit
    network: float  # the same in the network
    service: float  # the same in service
    at_server: float  # the same at the server, waiting included
    cv: float  # coefficient of variation of the time from read to arrival, 0 if it varies only by rounding
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
    # The version just after the worker's previous commit. Row -1, of a first job, is the appended 0.
    after = np.append(trace.version + trace.closes_step, 0)[previous_own_row(trace.worker)]
    undisturbed = bool((trace.unfinished.fate == Fate.IN_FLIGHT).all()) and not len(trace.faults)
    at_once = np.array_equal(trace.read_version, after) and np.array_equal(trace.read_time, previous_commit(trace))
    return Diagnosis(
        asynchronous=undisturbed and at_once and bool(trace.closes_step.all()) and trace.variables == 1,
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


def _is_fifo(trace: Trace, slots: int) -> bool:
    """Return whether each commit is served once it has arrived and all but slots - 1 of those before it have left."""
    free = [0.0] * slots
    order = np.lexsort((trace.commit_time, trace.serve_time, trace.arrive_time))
    expected = np.empty(len(trace))
    for row in order.tolist():
        expected[row] = max(float(trace.arrive_time[row]), heapq.heappop(free))
        heapq.heappush(free, float(trace.commit_time[row]))
    return bool((np.abs(trace.serve_time - expected) <= EXACTLY * trace.seconds).all())


def _are_equal(trace: Trace, times: NDArray[np.float64]) -> bool:
    """Return whether a chi-squared test accepts one mean for all workers."""
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
    apart = kolmogorov_distance(-np.expm1(-times / mean))
    return bool(apart * np.sqrt(count) <= MOST_DISTANCE)


LONG = 10  # commits per worker from which on averages are compared with those of the long run
HARDLY = 0.01  # time at the server, as a share of a job's, up to which the server counts as taking no time
MOST_SPREAD = 3.0  # coefficient of variation of jobs beyond which a trace is too short to measure it


class Prediction(NamedTuple):
    """A number that theory gives."""

    value: float  # the number
    assumes: str  # the assumptions it rests on


class TraceReport(NamedTuple):
    """Measurements and predictions."""

    statistics: Statistics  # rates, queue, work and staleness of the trace
    measured: dict[str, float]
    predicted: dict[str, Prediction]

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers, lists and dictionaries, with None for numbers that are not finite."""
        values = self.statistics._asdict()
        values |= {name: values[name]._asdict() for name in ("staleness", "by_worker", "compute")}
        by_group = {name: staleness._asdict() for name, staleness in values.pop("by_group").items()}
        values |= {"by_group": by_group} if by_group else {}
        predicted = {name: prediction._asdict() for name, prediction in self.predicted.items()}
        return to_plain({"statistics": values, "measured": self.measured, "predicted": predicted})


def trace_report(trace: Trace) -> TraceReport:
    """Compare a trace with theory."""
    summary = statistics(trace)
    measured = {
        "mean_staleness": summary.staleness.mean,
        "staleness_sd": summary.staleness.sd,
        "commits_per_second": summary.commits_per_second,
        "at_server": summary.waiting + summary.in_service,
        "utilisation": summary.utilisation,
    }
    if not len(trace):
        return TraceReport(summary, measured, {})
    diagnosis = diagnose(trace)
    if diagnosis.asynchronous:
        value, assumes = theory.staleness_mean(workers=trace.workers), "every worker reads right after its own commit"
    else:
        rest = trace.unfinished
        ended = rest.fate != Fate.IN_FLIGHT
        ages = int((rest.end_version[ended].astype(np.int64) - rest.read_version[ended]).sum())
        # The conservation law gives the staleness of all jobs together. That of jobs which ended in vain is measured.
        value = (conservation(trace)[1] - ages) / len(trace)
        assumes = "other outstanding reads at steps, per commit, without jobs that end in vain"
        if trace.variables > 1:
            assumes = "changes of its variable by others while a job was under way, per commit"
    predicted = {"mean_staleness": Prediction(value, f"{assumes}; long run")}
    if diagnosis.asynchronous and diagnosis.fifo and diagnosis.equal and len(trace) >= LONG * trace.workers:
        predicted |= _predict_queue(trace, diagnosis) | _predict_spread(trace, diagnosis)
    return TraceReport(summary, measured, predicted)


def recorded_prediction(trace: Trace) -> FloatArray | None:
    """Predict the staleness distribution of the simplest cluster that a recorded trace does not contradict, or None."""
    # A short trace shows the common start of its workers more than the long run.
    if len(trace) < LONG * trace.workers:
        return None
    diagnosis = diagnose(trace)
    if not (diagnosis.asynchronous and diagnosis.fifo and diagnosis.equal):
        return None
    cluster = _simplest_cluster(trace, diagnosis)
    return None if cluster is None else run_prediction(cluster, trace)


def _simplest_cluster(trace: Trace, diagnosis: Diagnosis) -> Cluster | None:
    """Return equal workers that hardly use the server, exponential ones behind one exponential server, or None."""
    job, cv = diagnosis.compute + diagnosis.network, diagnosis.cv
    # A long enough trace measures how the jobs spread.
    stationary = cv == 0 or len(trace) / trace.workers >= 1 / cv**2
    if job > 0 and stationary and cv <= MOST_SPREAD and diagnosis.at_server <= HARDLY * job:
        return Cluster(trace.workers, Constant(job) if cv == 0 else Gamma(job, cv))
    if diagnosis.memoryless and diagnosis.slots == 1 and diagnosis.service:
        return Cluster(trace.workers, Exponential(job), server=Server(service=Exponential(diagnosis.service)))
    return None


def _predict_queue(trace: Trace, diagnosis: Diagnosis) -> dict[str, Prediction]:
    """Predict what depends on the server: knee, throughput, queue, utilisation."""
    outside = diagnosis.compute + diagnosis.network
    if not diagnosis.service or not outside:
        return {}
    predicted = {}
    if diagnosis.slots == 1:
        # The knee depends on the means alone.
        value = theory.knee(compute_rate=1 / outside, service_rate=1 / diagnosis.service)
        predicted["knee"] = Prediction(value, "any laws with the measured mean times")
    if not diagnosis.exponential_service:
        return predicted
    network = theory.mean_value_analysis(
        workers=trace.workers,
        service=Exponential(diagnosis.service),
        delays=[Constant(diagnosis.compute), Constant(diagnosis.network)],
        slots=diagnosis.slots,
    )
    assumes = "first-in first-out server, exponential service, delays of any law, no shared link; long run"
    return predicted | {
        "commits_per_second": Prediction(network.throughput, assumes),
        "at_server": Prediction(network.queue_length, assumes),
        "utilisation": Prediction(float(network.delay_lengths[0]) / trace.workers, assumes),
    }


def _predict_spread(trace: Trace, diagnosis: Diagnosis) -> dict[str, Prediction]:
    """Predict the standard deviation of staleness."""
    cluster = _simplest_cluster(trace, diagnosis)
    predict = None if cluster is None else staleness_theory(cluster).variance
    # Theory knows the mean staleness of more clusters than its variance.
    variance = None if predict is None else predict()
    if cluster is None or variance is None:
        return {}
    renewal = f"gamma law with the measured cv {diagnosis.cv:.3g}, server takes no time; long run"
    queue = "exponential compute and service, first-in first-out; long run"
    assumes = renewal if cluster.server.is_instant else queue
    return {"staleness_sd": Prediction(math.sqrt(max(variance, 0.0)), assumes)}
