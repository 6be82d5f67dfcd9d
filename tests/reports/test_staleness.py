"""Predictions for the staleness of a cluster: right within standard errors, or none."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim import Cluster, delays, faults, simulate
from asyncsim import protocols as p
from asyncsim.cluster import Network, Server
from asyncsim.cluster.protocols import Terms
from asyncsim.delays import Constant, Exponential, Gamma, HyperExponential, Mixture, Straggler, fleet
from asyncsim.reports.staleness import (
    predicted_staleness,
    predicted_worker_means,
    run_prediction,
    staleness_theory,
    warm_up_commits,
)
from asyncsim.trace._statistics import total_variation

SEEDS, COMMITS, STANDARD_ERRORS = 8, 4000, 5
EXPONENTIAL, LAW = Exponential(0.7), Gamma(mean=1.0, cv=0.4)
QUEUE = Server(service=Exponential(0.1))

KNOWN = {
    "exponential": Cluster(12, EXPONENTIAL),
    "gamma": Cluster(12, LAW),
    "stragglers": Cluster(12, Straggler(Gamma(mean=1.0, cv=0.2), probability=0.05, factor=10.0)),
    "hyper-exponential": Cluster(6, HyperExponential((0.8, 0.2), (0.5, 3.0))),
    "two classes": Cluster(9, fleet.two_classes(LAW, 9, slow=3, factor=3.0)),
    "different exponentials": Cluster(4, [Exponential(m) for m in (0.5, 1.0, 1.0, 3.0)]),
    "queue": Cluster(12, EXPONENTIAL, server=QUEUE),
    "saturated queue": Cluster(20, EXPONENTIAL, server=Server(service=Exponential(0.3))),
    "5-async": Cluster(12, EXPONENTIAL, protocol=p.KAsync(5)),
    "1-async": Cluster(6, LAW, protocol=p.KAsync(1)),
    "4-batch-async": Cluster(12, EXPONENTIAL, protocol=p.KBatchAsync(4)),
    "30-batch-async": Cluster(12, EXPONENTIAL, protocol=p.KBatchAsync(30)),
    "gap": Cluster(5, LAW, server=Server(atomic=False, resume="own", pull_to_commit=Constant(0.4))),
}
CERTAIN = {
    "one worker": (Cluster(1, LAW), 0),
    "constant": (Cluster(7, Constant(2.0)), 6),
    "in turn": (Cluster(7, fleet.two_classes(LAW, 7, slow=2, factor=3.0), protocol=p.RoundRobin()), 6),
    "synchronous": (Cluster(7, LAW, protocol=p.Synchronous()), 0),
    "backup": (Cluster(7, LAW, protocol=p.Synchronous(backup=2)), 0),
    "backup that is late": (Cluster(7, LAW, protocol=p.Synchronous(backup=2, cancel=False)), 0),
    "k-sync": (Cluster(7, LAW, protocol=p.KSync(3)), 0),
    "k-batch-sync": (Cluster(7, LAW, protocol=p.KBatchSync(10)), 0),
    "rennala": (Cluster(7, LAW, protocol=p.Rennala(4)), 0),
    "malenia": (Cluster(7, LAW, protocol=p.Malenia(9)), 0),
    "n-async": (Cluster(7, LAW, protocol=p.KAsync(7)), 0),
}


class OddTerms:
    """A protocol of one's own that mixes what has no result."""

    def terms(self, workers):
        return Terms(collect=2, slack=3)


UNKNOWN = {
    "atoms": Cluster(4, Mixture((0.5, 0.5), (Constant(1.0), Exponential(1.0)))),
    "different constants": Cluster(2, [Constant(1.0), Constant(2.0)]),
    "no time": Cluster(2, Constant(0.0)),
    "too heavy": Cluster(4, delays.Weibull(mean=1.0, shape=0.1)),
    "variable speed": Cluster(
        4, delays.VariableSpeed(LAW, delays.SlowPeriods(2.0, fast=Exponential(5.0), slow=Exponential(5.0)))
    ),
    "faults": Cluster(4, LAW, faults=[faults.Crash(worker=1, time=3.0)]),
    "network": Cluster(4, EXPONENTIAL, network=Network(latency=Constant(0.1))),
    "two slots": Cluster(4, EXPONENTIAL, server=Server(slots=2, service=Exponential(0.1))),
    "constant service": Cluster(4, EXPONENTIAL, server=Server(service=Constant(0.1))),
    "queue of gammas": Cluster(4, LAW, server=QUEUE),
    "queue of different workers": Cluster(2, [Exponential(1.0), Exponential(2.0)], server=QUEUE),
    "separate": Cluster(4, EXPONENTIAL, server=Server(atomic=False)),
    "ssp": Cluster(4, EXPONENTIAL, protocol=p.SSP(2)),
    "ringmaster": Cluster(4, EXPONENTIAL, protocol=p.Ringmaster(3)),
    "k-async gammas": Cluster(4, LAW, protocol=p.KAsync(2)),
    "k-batch gammas": Cluster(4, LAW, protocol=p.KBatchAsync(2)),
    "k-async behind a queue": Cluster(4, EXPONENTIAL, server=QUEUE, protocol=p.KAsync(2)),
    "own": Cluster(4, EXPONENTIAL, protocol=OddTerms()),
}


def each(clusters):
    return pytest.mark.parametrize("cluster", clusters.values(), ids=clusters.keys())


@each(KNOWN)
def test_distribution_against_the_simulator(cluster):
    known, size = staleness_theory(cluster), 40 * cluster.workers
    cdf = np.cumsum(predicted_staleness(cluster, size))
    places = np.unique(np.searchsorted(cdf, [0.05, 0.3, 0.6, 0.9]))
    start, rows = warm_up_commits(cluster), []
    for seed in range(SEEDS):
        tau = simulate(cluster, commits=start + COMMITS, seed=seed).staleness[start:]
        rows.append([tau.mean(), np.mean((tau - known.mean) ** 2), *(np.mean(tau <= place) for place in places)])
    error = np.std(rows, axis=0, ddof=1) / math.sqrt(SEEDS)
    expected = [known.mean, known.variance(), *cdf[places]]
    # Conservation fixes a mean up to the jobs in flight, which may hardly vary between seeds.
    in_flight = np.array([cluster.workers * known.mean / COMMITS, *np.zeros(len(expected) - 1)])
    assert (np.abs(np.mean(rows, axis=0) - expected) <= STANDARD_ERRORS * error + in_flight).all()
    assert (error[2:] < 0.02).all()  # or the line above would say nothing


@pytest.mark.parametrize(("cluster", "value"), CERTAIN.values(), ids=CERTAIN.keys())
def test_certain_values(cluster, value):
    tau = simulate(cluster, commits=600, seed=1).staleness[2 * cluster.workers :]
    known, pmf = staleness_theory(cluster), predicted_staleness(cluster, 10)
    assert (tau == value).all()
    assert (pmf == (np.arange(10) == value)).all()
    assert (known.mean, known.variance()) == (value, 0.0)
    assert total_variation(tau, pmf) == 0.0


@each(UNKNOWN)
def test_nothing_rather_than_something_wrong(cluster):
    assert predicted_staleness(cluster, 10) is None
    assert staleness_theory(cluster).reason


@pytest.mark.parametrize(
    "name", ["atoms", "network", "two slots", "queue of gammas", "k-async gammas", "k-batch gammas"]
)
def test_a_mean_without_a_distribution_is_right(name):
    cluster = UNKNOWN[name]
    mean, commits = staleness_theory(cluster).mean, 8000
    tau = simulate(cluster, commits=commits, seed=3).staleness
    # By conservation, only the jobs in flight at the end are missing, none of them older than the longest staleness.
    assert tau.mean() == pytest.approx(mean, abs=cluster.workers * int(tau.max()) / commits)
    assert cluster.workers * int(tau.max()) / commits < 0.03 * (mean + 1)


@pytest.mark.parametrize("law", [delays.LogNormal(1.0, 0.5), delays.Empirical([1.0, 2.0, 3.0])], ids=repr)
@pytest.mark.parametrize("protocol", [p.Asynchronous(), p.KAsync(2), p.SSP(1)], ids=repr)
def test_sums_of_local_steps_without_a_distribution_get_their_mean_or_a_reason(law, protocol):
    cluster = asim.Cluster(4, law, protocol=protocol, local_steps=5)
    theory = staleness_theory(cluster)
    assert theory.pmf is None
    assert theory.reason.startswith(("no distribution is known", "the distribution is known only"))
    assert theory.mean in (3.0, 1.0, None)  # n - 1, n/K - 1


def test_worker_means_are_those_of_the_trace():
    cluster = KNOWN["two classes"]
    trace = simulate(cluster, commits=40_000, seed=0)
    measured = [trace.staleness[trace.worker == w].mean() for w in range(9)]
    np.testing.assert_allclose(measured, predicted_worker_means(cluster), rtol=0.03)
    assert predicted_worker_means(KNOWN["queue"]) is None


@pytest.mark.parametrize("law", [Gamma(1.0, 0.05), Gamma(1.0, 0.3), KNOWN["stragglers"].compute], ids=repr)
def test_the_warm_up_is_long_enough(law):
    """Over many seeds, the first commits after the warm-up have the stationary distribution."""
    cluster, runs = Cluster(8, law), 60
    start = warm_up_commits(cluster)
    tau = [simulate(cluster, commits=start + 40, seed=seed).staleness[start:] for seed in range(runs)]
    cdf = np.cumsum(predicted_staleness(cluster, 200))
    for place in np.searchsorted(cdf, [0.2, 0.5, 0.8]):
        shares = [np.mean(one <= place) for one in tau]
        assert abs(np.mean(shares) - cdf[place]) <= 4 * np.std(shares, ddof=1) / math.sqrt(runs)


class TestReport:
    def test_the_report_page_draws_the_prediction(self):
        cluster, rule = Cluster(4, EXPONENTIAL), asim.rules.Downpour(0.1)
        trace = simulate(cluster, commits=400)
        run = asim.replay(trace, rule, asim.workloads.Quadratic([1.0]))
        pmf = run_prediction(cluster, trace)
        panel = asim.plots.draw_report(Figure(), trace, run, "Title", predicted=pmf)[1]
        outline = panel.patches[-1].get_data().values
        np.testing.assert_allclose(outline[:3], [0.25, 0.1875, 0.140625])
        without = asim.plots.draw_report(Figure(), trace, run, "Title")[1]
        assert len(without.patches) == len(panel.patches) - 1

    def test_nothing_for_a_run_that_is_too_short_or_empty(self):
        cluster = Cluster(8, LAW)
        assert run_prediction(cluster, simulate(cluster, commits=warm_up_commits(cluster) - 1)) is None
        assert run_prediction(cluster, simulate(cluster, seconds=0.01)) is None
        assert run_prediction(cluster, simulate(cluster, commits=warm_up_commits(cluster))) is not None
