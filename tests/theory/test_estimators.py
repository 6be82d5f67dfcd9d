"""Momentum estimated from runs: two estimators find it, and the third misses it as predicted."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import theory
from asyncsim.reports.replicates import mean_and_error
from tests.theory.replicates import many_paths


class Revealing(asim.workloads.Quadratic):
    """The parameter itself in the place of the loss, so that a run records it."""

    def gradient(self, params, batch, key):
        del key
        return params["x"][0], {"x": params["x"] + batch}


KAPPA = 0.2


@pytest.fixture(scope="module")
def runs():
    """Central variable x_0, x_1, … of eight simulated and replayed noisy quadratics with curvature 1 and 4 workers."""
    found, workload = [], Revealing([1.0], noise=1.0, start=0.0)
    for seed in range(8):
        trace = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=20_000, seed=seed)
        x = np.full(len(trace), np.nan)
        x[trace.read_version] = asim.replay(trace, asim.rules.Downpour(KAPPA), workload, seed=seed).loss
        found.append(x[: np.flatnonzero(np.isnan(x))[0]] if np.isnan(x).any() else x)  # a version is read once
    assert min(map(len, found)) > 19_000
    return found


def estimates(estimator, runs, **options):
    """The mean estimate over runs and its standard error, the gradients multiplied by the step size."""
    return mean_and_error([estimator(x, KAPPA * x, **options) for x in runs])


def test_least_squares_misses_the_momentum_as_predicted(runs):
    mean, error = estimates(theory.least_squares_momentum, runs)
    assert np.all(np.abs(mean - theory.attenuated_momentum(KAPPA, 4)) < 5.5 * error)
    assert np.all(error < 0.01)


@pytest.mark.parametrize("lags", [2, 8])
def test_instruments_find_the_momentum(lags, runs):
    mean, error = estimates(theory.instrumental_momentum, runs, lags=lags)
    assert np.all(np.abs(mean - [0.75, 0.25]) < 5.5 * error)
    assert np.all(error < 0.05)


def test_averaged_runs_find_the_momentum():
    x = many_paths(lambda x: x, workers=8, learning_rate=0.3, commits=60, runs=50_000)
    estimate = theory.averaged_momentum(x, x)
    parts = np.array([theory.averaged_momentum(part, part) for part in np.split(x, 10)])
    error = mean_and_error(parts).error
    assert np.all(np.abs(np.array(estimate) - [0.875, 0.3 / 8]) < 5 * error)
    assert np.all(error < 0.01)


def test_rows_are_runs():
    x = many_paths(lambda x: x, workers=4, learning_rate=0.3, commits=40, runs=3, noise=1.0)
    stacked = theory.instrumental_momentum(x, x, lags=3)
    assert stacked == pytest.approx(theory.instrumental_momentum(x[[2, 0, 1]], x[[2, 0, 1]], lags=3))
