"""Replicates: means and standard errors over seeds, and the lanes of one replay for all of them."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.reports.replicates import batched, mean_and_error, replicate

pytestmark = pytest.mark.quick


def test_the_error_is_that_of_a_mean():
    """Of 400 means of 25 values with variance 4, the errors average 2/5."""
    samples = np.random.default_rng(0).normal(3.0, 2.0, size=(400, 25))
    mean, error = mean_and_error(samples, axis=1)
    np.testing.assert_allclose(mean, samples.mean(axis=1))
    assert error.mean() == pytest.approx(0.4, rel=0.05)
    assert mean.std() == pytest.approx(0.4, rel=0.15)
    assert np.isnan(mean_and_error([[1.0, 2.0]]).error).all()  # of a single replicate


def test_every_measured_name_gets_its_error():
    found = replicate(lambda seed: {"seed": seed, "pair": [seed, -seed]}, seeds=3)
    assert list(found) == ["seed", "seed_error", "pair", "pair_error"]
    assert found["pair"].tolist() == [1.0, -1.0]
    np.testing.assert_allclose(found["pair_error"], np.sqrt(1 / 3))
    with pytest.raises(ValueError, match="`seeds` must be"):
        replicate(lambda seed: {}, seeds=0)


def test_lanes_are_the_replays_that_they_stand_for():
    trace = asim.simulate(asim.Cluster(3, asim.delays.Exponential(1.0)), commits=30)
    workload = asim.workloads.Quadratic([1.0], noise=0.1)
    steps = [0.1, 0.2]
    values, seeds = batched(steps, seeds=2)
    together = asim.replay(trace, asim.rules.Downpour(values), workload, seed=seeds).loss.reshape(2, 2, -1)
    for seed in range(2):
        for k, step in enumerate(steps):
            alone = asim.replay(trace, asim.rules.Downpour(step), workload, seed=seed).loss
            np.testing.assert_allclose(together[seed, k], alone, rtol=1e-5)
