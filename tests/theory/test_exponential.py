"""Exponential workers, K at a time: the two ends of K, known numbers, and a plain simulation."""

import math

import numpy as np
import pytest

from asyncsim import theory
from tests.theory.replicates import many_paths

LIMITS = {(8, 1): 0.566391, (8, 2): 1.150199, (8, 4): 2.223537, (8, 7): 2.455467, (16, 4): 1.563802, (30, 10): 2.656989}


@pytest.mark.parametrize("workers_and_k", LIMITS)
def test_known_limits(workers_and_k):
    assert theory.k_async_stability_limit(*workers_and_k) == pytest.approx(LIMITS[workers_and_k], abs=1e-6)


@pytest.mark.parametrize("workers", [1, 2, 5, 16])
def test_from_asynchronous_to_synchronous(workers):
    kappa = 0.5 * theory.exponential_limit(workers)
    assert theory.k_async_stability_limit(workers, 1) == pytest.approx(theory.exponential_limit(workers))
    assert theory.k_async_noise_floor(kappa, workers, 1) == pytest.approx(
        theory.exponential_noise_floor(kappa, workers)
    )
    assert theory.k_async_stability_limit(workers, workers) == pytest.approx(2.0)
    assert theory.k_async_noise_floor(0.3, workers, workers) == pytest.approx(1 / (workers * 0.3 * 1.7))


@pytest.mark.parametrize(("workers", "k", "kappa"), [(8, 2, 0.5), (8, 4, 0.9), (16, 4, 0.5), (6, 5, 1.0)])
def test_the_floor_of_simulated_runs(workers, k, kappa):
    paths = many_paths(
        lambda x: x, workers=workers, learning_rate=kappa, commits=60, runs=20_000, k=k, noise=1.0 / kappa
    )
    squares = (paths[:, 40:] ** 2).mean(axis=1)  # the start has decayed by then
    error = squares.std(ddof=1) / math.sqrt(len(squares))
    predicted = theory.k_async_noise_floor(kappa, workers, k)
    assert abs(squares.mean() - predicted) < 4.5 * error
    assert error < 0.01 * predicted


def test_infinite_from_the_limit_on():
    limit = theory.k_async_stability_limit(8, 2)
    assert np.isfinite(theory.k_async_noise_floor(0.999 * limit, 8, 2))
    assert theory.k_async_noise_floor(limit, 8, 2) == math.inf


def test_more_gradients_than_workers_are_refused():
    with pytest.raises(ValueError, match="`k` must not exceed `workers`; got 5 > 4"):
        theory.k_async_noise_floor(0.1, 4, 5)
