"""What a trace measures beside what theory predicts for it, each prediction with the assumptions it rests on."""

import math
from typing import Any, NamedTuple

import numpy as np

from asyncsim import theory
from asyncsim.cluster import Cluster, Server
from asyncsim.delays import Constant, Exponential, FloatArray, Gamma
from asyncsim.reports._diagnose import Diagnosis, diagnose
from asyncsim.reports.staleness import MOST_QUEUED_WORKERS, run_prediction
from asyncsim.store._files import to_plain
from asyncsim.trace import Fate, Statistics, Trace, statistics
from asyncsim.trace._invariants import conservation

LONG = 10  # commits per worker from which on averages are compared with those of the long run
HARDLY = 0.01  # time at the server, as a share of a job's, up to which the server counts as taking no time
MOST_SPREAD = 3.0  # coefficient of variation of jobs beyond which a trace is too short to measure it


class Prediction(NamedTuple):
    """A number that theory gives."""

    value: float  # the number
    assumes: str  # the assumptions it rests on


class TraceReport(NamedTuple):
    """Measured beside predicted."""

    statistics: Statistics  # rates, queue, work and staleness of the trace
    measured: dict[str, float]
    predicted: dict[str, Prediction]

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries; None for what is not finite."""
        found = self.statistics._asdict()
        found |= {name: found[name]._asdict() for name in ("staleness", "by_worker", "compute")}
        by_group = {name: staleness._asdict() for name, staleness in found.pop("by_group").items()}
        found |= {"by_group": by_group} if by_group else {}
        predicted = {name: prediction._asdict() for name, prediction in self.predicted.items()}
        return to_plain({"statistics": found, "measured": self.measured, "predicted": predicted})


def trace_report(trace: Trace) -> TraceReport:
    """Compare a trace with theory."""
    found = statistics(trace)
    measured = {
        "mean_staleness": found.staleness.mean,
        "staleness_sd": found.staleness.sd,
        "commits_per_second": found.commits_per_second,
        "at_server": found.waiting + found.in_service,
        "utilisation": found.utilisation,
    }
    if not len(trace):
        return TraceReport(found, measured, {})
    diagnosis = diagnose(trace)
    predicted = {"mean_staleness": _mean_staleness(trace, diagnosis)}
    if diagnosis.asynchronous and diagnosis.fifo and diagnosis.equal and len(trace) >= LONG * trace.workers:
        predicted |= _queue(trace, diagnosis) | _spread(trace, diagnosis)
    return TraceReport(found, measured, predicted)


def recorded_prediction(trace: Trace) -> FloatArray | None:
    """The distribution of staleness of the simplest cluster that a recorded trace does not contradict, or None."""
    if len(trace) < LONG * trace.workers:
        return None
    diagnosis = diagnose(trace)
    if not (diagnosis.asynchronous and diagnosis.fifo and diagnosis.equal):
        return None
    job = diagnosis.compute + diagnosis.network
    if _is_renewal(trace, diagnosis):
        law = Constant(job) if diagnosis.cv == 0 else Gamma(job, diagnosis.cv)
        return run_prediction(Cluster(trace.workers, law), trace)
    if diagnosis.memoryless and diagnosis.slots == 1 and diagnosis.service:
        server = Server(service=Exponential(diagnosis.service))
        return run_prediction(Cluster(trace.workers, Exponential(job), server=server), trace)
    return None


def _mean_staleness(trace: Trace, diagnosis: Diagnosis) -> Prediction:
    if diagnosis.asynchronous:
        value = theory.staleness_mean(workers=trace.workers)
        return Prediction(value, "every worker reads right after its own commit; long run")
    rest = trace.unfinished
    ended = rest.fate != Fate.IN_FLIGHT
    ages = int((rest.end_version[ended].astype(np.int64) - rest.read_version[ended]).sum())
    value = (conservation(trace)[1] - ages) / len(trace)
    return Prediction(value, "other outstanding reads at steps, per commit, without jobs that end in vain; long run")


def _queue(trace: Trace, diagnosis: Diagnosis) -> dict[str, Prediction]:
    """Predictions that depend on the server: knee, throughput, queue, utilisation."""
    outside = diagnosis.compute + diagnosis.network
    if not diagnosis.service or not outside:
        return {}
    predicted = {}
    if diagnosis.slots == 1:
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


def _spread(trace: Trace, diagnosis: Diagnosis) -> dict[str, Prediction]:
    """The prediction of the standard deviation of staleness."""
    job, workers = diagnosis.compute + diagnosis.network, trace.workers
    if _is_renewal(trace, diagnosis):
        law = Constant(job) if diagnosis.cv == 0 else Gamma(job, diagnosis.cv)
        variance = theory.staleness_variance(compute=law, workers=workers)
        assumes = f"gamma law with the measured cv {diagnosis.cv:.3g}, server takes no time; long run"
    elif diagnosis.memoryless and diagnosis.slots == 1 and workers <= MOST_QUEUED_WORKERS:
        rates = {"compute_rate": 1 / job, "service_rate": 1 / diagnosis.service}
        variance = theory.queue_staleness_variance(workers=workers, **rates)
        assumes = "exponential compute and service, first-in first-out; long run"
    else:
        return {}
    return {"staleness_sd": Prediction(math.sqrt(max(variance, 0.0)), assumes)}


def _is_renewal(trace: Trace, diagnosis: Diagnosis) -> bool:
    """Whether the server is hardly used, and the trace is long enough to measure how the jobs spread."""
    job = diagnosis.compute + diagnosis.network
    stationary = diagnosis.cv == 0 or len(trace) / trace.workers >= 1 / diagnosis.cv**2
    return job > 0 and stationary and diagnosis.cv <= MOST_SPREAD and diagnosis.at_server <= HARDLY * job
