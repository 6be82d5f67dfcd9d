"""Distributions to draw from: their range and their shares."""

import numpy as np
import pytest

from asyncsim.calibration._priors import LogUniform, Uniform
from tests.problems import refusals


@pytest.mark.parametrize("prior", [Uniform(-1.0, 3.0), LogUniform(1e-3, 10.0)], ids=repr)
def test_draws_are_below_a_quantile_as_often_as_it_says(prior):
    np.testing.assert_allclose(prior.quantile([0.0, 1.0]), [prior.low, prior.high])
    draws, shares = prior.sample(np.random.default_rng(0), 4000), np.array([0.1, 0.5, 0.9])
    found = (draws[:, None] < prior.quantile(shares)).mean(0)
    np.testing.assert_allclose(found, shares, atol=4 * 0.5 / np.sqrt(4000))


def test_equal_shares_of_each_decade():
    draws = LogUniform(1e-3, 1.0).sample(np.random.default_rng(1), 3000)
    counts = np.histogram(np.log10(draws), bins=[-3, -2, -1, 0])[0]
    np.testing.assert_allclose(counts, 1000, atol=4 * np.sqrt(1000 * 2 / 3))


test_what_is_refused = refusals(
    (lambda: Uniform(2.0, 1.0), "`high` must be greater"),
    (lambda: Uniform(0.0, np.inf), "`high` must be finite"),
    (lambda: LogUniform(0.0, 1.0), "`low` must be finite and positive"),
    (lambda: LogUniform("a", 1.0), "`low` must be a number"),
)
