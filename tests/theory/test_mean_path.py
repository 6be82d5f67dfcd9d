"""Implicit momentum: recursions for the mean of many runs, of any loss where they claim it, and its estimators."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim import delays, theory
from asyncsim.reports.replicates import mean_and_error
from tests.theory.replicates import many_paths, z_score

RUNS = 20_000  # which are alike until the second commit
WAYS = [(1, 0.0, "none"), (1, 0.5, "server"), (1, 0.5, "worker"), (3, 0.0, "none"), (3, 0.7, "worker")]


def linear(x):
    return x


def wavy(x):
    return np.sin(3 * x) + 0.3 * x**3 / (1 + np.abs(x))


@pytest.mark.parametrize(("k", "momentum", "where"), WAYS)
def test_the_mean_path_on_a_quadratic(k, momentum, where):
    way = {"workers": 8, "learning_rate": 0.3, "commits": 60, "k": k, "momentum": momentum, "where": where}
    predicted = theory.expected_path(linear, 1.0, **way)
    # Sixty correlated values: a maximum beyond 5 standard errors is rarer than 1 in 20 000.
    assert z_score(many_paths(linear, runs=RUNS, **way)[:, 2:], predicted[2:]).max() < 5


@pytest.mark.parametrize(("k", "momentum"), [(1, 0.0), (1, 0.7), (3, 0.0)])
def test_displacements_of_any_loss_follow_from_mean_gradients(k, momentum):
    where = "worker" if momentum else "none"
    way = {"workers": 6, "learning_rate": 0.2, "k": k}
    paths = many_paths(wavy, runs=RUNS, commits=30, momentum=momentum, where=where, **way)
    carried, share = theory.implicit_momentum(6, k, momentum), k / 6
    displacement = np.diff(paths)
    # One step of the recursion in every run: its residuals have mean zero.
    residual = displacement[:, 1:] - carried * displacement[:, :-1] + 0.2 * share * wavy(paths[:, 1:-1])
    assert z_score(residual[:, 2:], 0.0).max() < 5


def mean_polynomial(kappa, workers, momentum, where):
    """Coefficients, highest power first, as the docstring of `implicit_momentum` has them."""
    roots = [1.0, 1 - 1 / workers, momentum] if where == "server" else [1.0, 1 - (1 - momentum) / workers]
    coefficients = np.poly(roots)
    coefficients[1] += kappa / workers
    return coefficients


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.floats(0.01, 1.0), st.floats(0, 0.9), st.sampled_from(["server", "worker"]))
def test_the_path_obeys_its_characteristic_polynomial(workers, kappa, momentum, where):
    path = theory.expected_path(
        lambda x: kappa * x, 1.0, workers=workers, learning_rate=1.0, commits=30, momentum=momentum, where=where
    )
    residual = np.convolve(path, mean_polynomial(kappa, workers, momentum, where), mode="valid")
    assert residual == pytest.approx(0, abs=1e-10 * np.abs(path).max() * 30)


def test_workers_with_different_rates():
    rates = np.array([1.0, 1.0, 2.0, 4.0])
    compute = [delays.Exponential(1 / rate) for rate in rates]
    predicted = theory.expected_quadratic_path(0.3, workers=4, compute=compute, commits=40)
    paths = many_paths(linear, workers=4, learning_rate=0.3, commits=40, runs=RUNS, share=rates / 8)
    assert z_score(paths[:, 2:], predicted[2:]).max() < 5
    share = rates / 8
    staleness = (share**2 * (1 - share) ** np.arange(200)[:, None]).sum(axis=1)
    kernel = theory.kernel_path(staleness / staleness.sum(), kappa=0.3, commits=40)
    assert 0.005 < np.abs(kernel - predicted).max() < 0.03  # the kernel is off where rates differ


def test_the_kernel_is_exact_for_a_round_robin():
    path, x = theory.kernel_path([0, 0, 0, 1.0], kappa=0.2, commits=30), [1.0]
    for t in range(30):
        x.append(x[-1] - 0.2 * x[max(t - 3, 0)])
    assert path == pytest.approx(x)
    assert theory.kernel_rate([0, 0, 0, 1.0], kappa=0.2) == pytest.approx(theory.constant_delay_rate(0.2, 3))
    path = theory.kernel_path([0.2, 0.5, 0.3], kappa=0.3, commits=500)  # a path decays by its largest root
    tops = [np.abs(path[start : start + 100]).max() for start in (200, 400)]
    assert theory.kernel_rate([0.2, 0.5, 0.3], kappa=0.3) == pytest.approx((tops[1] / tops[0]) ** (1 / 200), abs=1e-3)


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
    x = many_paths(linear, workers=8, learning_rate=0.3, commits=60, runs=50_000)
    estimate = theory.averaged_momentum(x, x)
    parts = np.array([theory.averaged_momentum(part, part) for part in np.split(x, 10)])
    error = mean_and_error(parts).error
    assert np.all(np.abs(np.array(estimate) - [0.875, 0.3 / 8]) < 5 * error)
    assert np.all(error < 0.01)


def test_rows_are_runs():
    x = many_paths(linear, workers=4, learning_rate=0.3, commits=40, runs=3, noise=1.0)
    stacked = theory.instrumental_momentum(x, x, lags=3)
    assert stacked == pytest.approx(theory.instrumental_momentum(x[[2, 0, 1]], x[[2, 0, 1]], lags=3))
