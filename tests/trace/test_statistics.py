"""Statistics of a trace against their definitions and against closed forms; predictions where they apply only."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsim import theory
from asyncsim.cluster import Cluster, Network, Server, faults, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.reports.diagnose import diagnose
from asyncsim.reports.trace import trace_report
from asyncsim.trace import Fate, Fault, Faults, Trace, statistics
from tests.cluster.problems import clusters, over_seeds

FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
QUEUE = {"commits_per_second", "at_server", "utilisation"}


@FEW
@given(clusters(), st.integers(0, 3))
def test_every_cluster(cluster, seed):
    trace = simulate(cluster, commits=40, seed=seed)
    found = statistics(trace)
    assert (found.workers, found.commits, found.steps) == (cluster.workers, 40, trace.steps)
    assert sum(found.fates.values()) == len(trace.unfinished)
    assert found.fates["in_flight"] == (trace.unfinished.fate == Fate.IN_FLIGHT).sum()
    assert sum(found.faults.values()) == len(trace.faults)
    assert found.faults["crash"] == (trace.faults.kind == Fault.CRASH).sum()
    by_worker = found.by_worker
    assert by_worker.commits.sum() == 40
    assert by_worker.share.sum() == pytest.approx(1.0)
    committed = by_worker.commits > 0
    mean = (by_worker.share * by_worker.staleness)[committed].sum()
    assert mean == pytest.approx(found.staleness.mean, abs=1e-12)
    quantiles = (found.staleness.median, found.staleness.q90, found.staleness.q99, found.staleness.max)
    for share, quantile in zip((0.5, 0.9, 0.99, 1.0), quantiles, strict=True):
        assert (trace.staleness <= quantile).mean() >= share
        assert (trace.staleness < quantile).mean() < share
    if found.seconds:
        shares = (found.utilisation, found.wasted, found.under_way)
        assert min(shares) >= 0
        assert sum(shares) <= 1 + 1e-9
        assert found.in_service <= cluster.server.slots * (1 + 1e-9)
        assert by_worker.utilisation.mean() == pytest.approx(found.utilisation)
    report = trace_report(trace)
    json.dumps(report.as_json(), allow_nan=False)
    in_flight = trace.unfinished.fate == Fate.IN_FLIGHT
    ages = (trace.steps - trace.unfinished.read_version[in_flight]).sum()  # the conservation law: what is left over
    left_over = 40 * (report.predicted["mean_staleness"].value - found.staleness.mean)
    # n - 1 is the mean where a trace looks asynchronous, and exact only while every worker has a job: one that is held
    # back at the very end, after its last commit, has none.
    if in_flight.sum() == cluster.workers or not diagnose(trace).asynchronous:
        assert left_over == pytest.approx(ages, abs=1e-9)


def test_means_over_time_are_areas():
    """Counted at many moments instead of summed."""
    cluster = Cluster(6, Gamma(1.0, 0.5), server=Server(slots=2, service=Exponential(0.5)))
    trace = simulate(cluster, commits=500)
    found, moments = statistics(trace), (np.arange(20_000) + 0.5) / 20_000 * trace.seconds
    for name, begin, end in (
        ("waiting", trace.arrive_time, trace.serve_time),
        ("in_service", trace.serve_time, trace.commit_time),
        ("utilisation", trace.start_time, trace.finish_time),
    ):
        there = np.searchsorted(np.sort(begin), moments) - np.searchsorted(np.sort(end), moments)
        mean = there.mean() / (6 if name == "utilisation" else 1)
        # Each of the 500 intervals is measured to within a step of the grid.
        assert getattr(found, name) == pytest.approx(mean, abs=500 / 20_000)
        assert mean > 0.1


def test_work_in_vain():
    """One job of 10 s is cancelled after 1 s, over and over: half of two workers' time. The last is in flight yet."""
    fast_and_slow = Cluster(2, [Constant(1.0), Constant(10.0)], protocol=protocols.Synchronous(backup=1))
    found = statistics(simulate(fast_and_slow, commits=20))
    assert (found.utilisation, found.wasted, found.under_way) == (0.5, 19 / 40, 1 / 40)
    assert (found.fates["cancelled"], found.fates["in_flight"]) == (19, 2)
    assert found.by_worker.share.tolist() == [1.0, 0.0]
    assert np.isnan(found.by_worker.staleness[1])


def test_no_commits():
    found = statistics(Trace.from_commits([], workers=2))
    assert found.commits == 0
    assert np.isnan(found.commits_per_second)
    assert np.isnan(found.staleness.mean)
    assert trace_report(Trace.from_commits([], workers=2)).predicted == {}


def test_closed_queue():
    """M/M/1//n: what is measured agrees with theory, and the report predicts it from the measured means."""
    cluster = Cluster(8, Exponential(1.0), server=Server(service=Exponential(0.2)))
    exact = {"workers": 8, "compute_rate": 1.0, "service_rate": 5.0}
    expected = [
        theory.throughput(**exact),
        theory.queue_length(**exact),
        theory.utilisation(**exact),
        np.sqrt(theory.queue_staleness_variance(**exact)),
    ]

    def measure(trace):
        found = statistics(trace)
        return np.array(
            [found.commits_per_second, found.waiting + found.in_service, found.in_service, found.staleness.sd]
        )

    mean, error = over_seeds(measure, cluster, commits=4000)
    assert (np.abs(mean - expected) < 4 * error).all()

    def differences(trace):
        report = trace_report(trace)
        assert set(report.predicted) == {"mean_staleness", "staleness_sd", "knee"} | QUEUE
        names = sorted(set(report.predicted) - {"knee"})
        return np.array([report.measured[name] - report.predicted[name].value for name in names])

    mean, error = over_seeds(differences, cluster, commits=4000)
    assert (np.abs(mean) < 4 * error + 64 / 4000).all()  # the start, at which all staleness is 0, costs about n² / N


@pytest.mark.parametrize("cv", [0.3, 1.0])
def test_spread_of_staleness(cv):
    cluster = Cluster(8, Gamma(2.0, cv))
    exact = np.sqrt(theory.staleness_variance(compute=Gamma(2.0, cv), workers=8))

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
    "turns at the server": (
        Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL, protocol=protocols.RoundRobin()),
        set(),
    ),
    "slack": (Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL, protocol=protocols.SSP(0)), set()),
    "batches": (Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL, protocol=protocols.KAsync(3)), set()),
    "pauses": (Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL, faults=[faults.ServerPause(1.0, 3.0, 9.0)]), set()),
    "dropped": (Cluster(9, Exponential(1.0), server=EXPONENTIAL, protocol=protocols.Ringmaster(6)), set()),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_predictions_stand_where_their_assumptions_do(name):
    cluster, expected = CLUSTERS[name]
    trace = simulate(cluster, commits=3000, seed=1)
    report = trace_report(trace)
    assert set(report.predicted) == expected | {"mean_staleness"}
    assert report.predicted["mean_staleness"].value == pytest.approx(report.measured["mean_staleness"], abs=81 / 3000)
    for quantity in QUEUE & expected:  # some 200 independent stretches of 15 commits, so a standard error of 2 %
        assert report.predicted[quantity].value == pytest.approx(report.measured[quantity], rel=0.1)


def test_the_knee_is_where_the_asymptotes_cross():
    report = trace_report(simulate(CLUSTERS["constant service"][0], commits=3000))
    assert report.predicted["knee"].value == pytest.approx(1 + 1.0 / 0.2, rel=0.05)


def test_pauses_that_nobody_wrote_down():
    """The server stands idle while commits wait: no queue that theory knows."""
    trace = dataclasses.replace(simulate(CLUSTERS["pauses"][0], commits=3000), faults=Faults())
    trace.check()
    assert set(trace_report(trace).predicted) == {"mean_staleness"}


def test_no_time_at_all():
    report = trace_report(simulate(Cluster(2, Constant(0.0)), commits=100))
    assert set(report.predicted) == {"mean_staleness"}
    assert report.as_json()["measured"]["commits_per_second"] is None


def test_too_short_to_predict():
    trace = simulate(Cluster(9, Gamma(1.0, 0.5), server=EXPONENTIAL), commits=50)
    assert set(trace_report(trace).predicted) == {"mean_staleness"}
