"""Statistics of a trace against their definitions and closed forms, worker by worker and over time."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsim.cluster import Cluster, Server, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.trace import Fate, Fault, Trace, statistics
from tests.cluster.problems import clusters


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
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


def test_means_over_time_are_areas():
    """Counted at many times instead of summed."""
    cluster = Cluster(6, Gamma(1.0, 0.5), server=Server(slots=2, service=Exponential(0.5)))
    trace = simulate(cluster, commits=500)
    found = statistics(trace)
    times = (np.arange(20_000) + 0.5) / 20_000 * trace.seconds
    for name, begin, end in (
        ("waiting", trace.arrive_time, trace.serve_time),
        ("in_service", trace.serve_time, trace.commit_time),
        ("utilisation", trace.start_time, trace.finish_time),
    ):
        there = np.searchsorted(np.sort(begin), times) - np.searchsorted(np.sort(end), times)
        mean = there.mean() / (6 if name == "utilisation" else 1)
        # Each of the 500 intervals is measured to within a step of the grid.
        assert getattr(found, name) == pytest.approx(mean, abs=500 / 20_000)
        assert mean > 0.1


def test_work_in_vain():
    """One job of 10 s is cancelled after 1 s, again and again: half of two workers' time; the last is in flight."""
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


def test_compute_times():
    """Against the law of the simulation, worker by worker, and what a log of fewer columns adds to them."""
    laws = [Gamma(1.0, 0.3), Gamma(2.0, 0.3)]
    trace = simulate(Cluster(2, laws, server=Server(service=Exponential(0.2))), commits=3000)
    found = statistics(trace).compute
    error = 5 * 0.3 / np.sqrt(900)
    np.testing.assert_allclose(found.by_worker_mean, [1.0, 2.0], rtol=error)
    np.testing.assert_allclose(found.by_worker_cv, [0.3, 0.3], rtol=5 / np.sqrt(2 * 900))
    assert found.contains == ("download",)  # no network: nothing shows that it takes no time
    computed = trace.finish_time - trace.start_time
    assert (found.mean, found.cv) == pytest.approx((computed.mean(), computed.std() / computed.mean()))
    alone = statistics(Trace.from_commits(trace.worker, trace.commit_time)).compute
    assert alone.mean > found.mean + 0.2  # the whole way from a read to a commit
    assert alone.contains == ("download", "upload", "queue", "service")
    nobody = statistics(Trace.from_commits([], workers=2)).compute
    assert np.isnan([nobody.mean, nobody.cv, *nobody.by_worker_mean, *nobody.by_worker_cv]).all()
