"""Staleness with a gap between pull and commit, against its limits and against clusters."""

import numpy as np
import pytest

from asyncsim import simulate, theory
from asyncsim.cluster import Cluster, Server
from asyncsim.delays import Constant, Exponential, Gamma, LogNormal
from asyncsim.reports.staleness import predicted_staleness, staleness_theory
from tests.cluster.problems import after_warm_up, over_seeds

NONE = Constant(0.0)


@pytest.mark.parametrize("law", [Exponential(2.0), Gamma(1.0, 0.4)])
def test_without_a_gap_it_is_the_usual_law(law):
    found = theory.gap_staleness_pmf(compute=law, workers=5, pull_to_commit=NONE, size=30)
    np.testing.assert_allclose(found, theory.staleness_pmf(law, 5, 30), atol=1e-7)
    variance = theory.gap_staleness_variance(compute=law, workers=5, pull_to_commit=NONE)
    assert variance == pytest.approx(theory.staleness_variance(law, 5), rel=1e-5)
    assert theory.gap_staleness_mean(compute=law, workers=5, pull_to_commit=NONE) == 4.0


@pytest.mark.parametrize("law", [Exponential(1.0), Gamma(1.0, 0.3), LogNormal(1.0, 0.5)])
def test_moments_are_those_of_the_distribution(law):
    gap = {"compute": law, "workers": 6, "pull_to_commit": Constant(0.4)}
    pmf, values = theory.gap_staleness_pmf(**gap, size=120), np.arange(120)
    mean = theory.gap_staleness_mean(**gap)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-6)
    assert pmf @ values == pytest.approx(mean, abs=1e-5)
    assert pmf @ (values - mean) ** 2 == pytest.approx(theory.gap_staleness_variance(**gap), rel=1e-4)


def test_clusters_of_equal_workers():
    """Every probability within four standard errors over seeds."""
    law, gap, size = Gamma(1.0, 0.5), Constant(0.4), 16
    server = Server(atomic=False, resume="own", pull_to_commit=gap)
    cluster = Cluster(5, law, server=server)

    def shares(trace):
        staleness = trace.staleness[after_warm_up(trace)]
        return np.bincount(staleness, minlength=100)[:size] / len(staleness)

    measured, errors = over_seeds(shares, cluster, commits=3000)
    predicted = predicted_staleness(cluster, size)
    np.testing.assert_allclose(
        predicted, theory.gap_staleness_pmf(compute=law, workers=5, pull_to_commit=gap, size=size)
    )
    likely = predicted > 1e-3
    assert (np.abs(measured - predicted)[likely] < 4.5 * errors[likely] + 1e-4).all()


def test_unequal_workers_have_a_mean():
    laws = [Gamma(1.0, 0.5), Gamma(1.0, 0.5), Exponential(3.0)]
    cluster = Cluster(3, laws, server=Server(atomic=False, resume="own", pull_to_commit=Exponential(0.5)))
    known = staleness_theory(cluster)
    assert known.pmf is None
    trace = simulate(cluster, commits=40_000)
    # The gap alone; for the error, commits are taken as independent, in blocks of ten.
    between = (trace.version - trace.pull_version)[400:]
    error = between.std() / np.sqrt(len(between) / 10)
    assert abs(known.mean - 2 - between.mean()) < 4 * error
    assert known.mean == theory.gap_staleness_mean(compute=laws, workers=3, pull_to_commit=Exponential(0.5))
