"""The report of a trace: predictions where their assumptions hold, and only there."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsim import theory
from asyncsim.cluster import Cluster, Network, Server, faults, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.reports._trace import diagnose, trace_report
from asyncsim.trace import Fate, Faults, Trace, statistics
from tests.cluster.problems import clusters, over_seeds

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
QUEUE = {"commits_per_second", "at_server", "utilisation"}


@FEW
@given(clusters(), st.integers(0, 3))
def test_every_cluster(cluster, seed):
    trace = simulate(cluster, commits=40, seed=seed)
    found = statistics(trace)
    report = trace_report(trace)
    json.dumps(report.as_json(), allow_nan=False)
    in_flight = trace.unfinished.fate == Fate.IN_FLIGHT
    ages = (trace.steps - trace.unfinished.read_version[in_flight]).sum()  # what the conservation law leaves
    left_over = 40 * (report.predicted["mean_staleness"].value - found.staleness.mean)
    # The prediction n - 1 for a trace that looks asynchronous is exact only while every worker has a job; a worker that
    # is held back at the very end, after its last commit, has no job.
    if in_flight.sum() == cluster.workers or not diagnose(trace).asynchronous:
        assert left_over == pytest.approx(ages, abs=1e-9)


def test_no_commits_few_commits_and_no_time():
    assert trace_report(Trace.from_commits([], workers=2)).predicted == {}
    few = simulate(Cluster(9, Gamma(1.0, 0.5), server=Server(service=Exponential(0.2))), commits=50)
    assert set(trace_report(few).predicted) == {"mean_staleness"}
    report = trace_report(simulate(Cluster(2, Constant(0.0)), commits=100))
    assert set(report.predicted) == {"mean_staleness"}
    assert report.as_json()["measured"]["commits_per_second"] is None


def test_closed_queue():
    """M/M/1//n, predicted from the means measured in the trace."""
    cluster = Cluster(8, Exponential(1.0), server=Server(service=Exponential(0.2)))

    def differences(trace):
        report = trace_report(trace)
        assert set(report.predicted) == {"mean_staleness", "staleness_sd", "knee"} | QUEUE
        names = sorted(set(report.predicted) - {"knee"})
        return np.array([report.measured[name] - report.predicted[name].value for name in names])

    mean, error = over_seeds(differences, cluster, commits=4000)
    assert (np.abs(mean) < 4 * error + 64 / 4000).all()  # the start, at which all staleness is 0, costs about n² / N


def test_spread_of_staleness():
    cluster = Cluster(8, Gamma(2.0, 0.3))
    exact = np.sqrt(theory.staleness_variance(compute=Gamma(2.0, 0.3), workers=8))

    def measure(trace):
        report = trace_report(trace)
        assert set(report.predicted) == {"mean_staleness", "staleness_sd"}
        return np.array([report.measured["staleness_sd"] - exact, report.predicted["staleness_sd"].value - exact])

    mean, error = over_seeds(measure, cluster, commits=4000)
    assert (np.abs(mean) < 4 * error + 64 / 4000).all()


EXPONENTIAL = Server(service=Exponential(0.2))
CLUSTERS = {
    "three slots": (Cluster(9, Gamma(1.0, 0.5), server=Server(slots=3, service=Exponential(0.5))), QUEUE),
    "latency": (Cluster(9, Gamma(1.0, 0.5), Network(Constant(0.3)), EXPONENTIAL), QUEUE | {"knee"}),
    "constant service": (Cluster(9, Gamma(1.0, 0.5), server=Server(service=Constant(0.2))), {"knee"}),
    "constants": (Cluster(9, Constant(1.0)), {"staleness_sd"}),
    "unequal workers": (Cluster(9, [Gamma(1.0 + worker, 0.5) for worker in range(9)], server=EXPONENTIAL), set()),
    "separate requests": (Cluster(9, Gamma(1.0, 0.5), Network(Constant(0.3)), Server(atomic=False)), set()),
    "turns": (Cluster(9, Gamma(1.0, 0.5), protocol=protocols.RoundRobin()), set()),
    "turns at the server": (Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL, protocol=protocols.RoundRobin()), set()),
    "slack": (Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL, protocol=protocols.SSP(0)), set()),
    "batches": (Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL, protocol=protocols.KAsync(3)), set()),
    "pauses": (Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL, faults=[faults.ServerPause(1.0, 3.0, 9.0)]), set()),
    "dropped": (Cluster(9, Exponential(1.0), server=EXPONENTIAL, protocol=protocols.Ringmaster(6)), set()),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_predictions_are_made_only_if_their_assumptions_hold(name):
    cluster, expected = CLUSTERS[name]
    trace = simulate(cluster, commits=3000, seed=1)
    report = trace_report(trace)
    assert set(report.predicted) == expected | {"mean_staleness"}
    assert report.predicted["mean_staleness"].value == pytest.approx(report.measured["mean_staleness"], abs=81 / 3000)
    for quantity in QUEUE & expected:  # about 200 independent stretches of 15 commits, hence a standard error of 2 %
        assert report.predicted[quantity].value == pytest.approx(report.measured[quantity], rel=0.1)
    if name == "constant service":
        assert report.predicted["knee"].value == pytest.approx(1 + 1.0 / 0.2, rel=0.05)


def test_pauses_that_are_not_in_the_trace():
    """The server is idle while commits wait: not a queue that theory covers."""
    trace = dataclasses.replace(simulate(CLUSTERS["pauses"][0], commits=3000), faults=Faults())
    trace.check()
    assert set(trace_report(trace).predicted) == {"mean_staleness"}
