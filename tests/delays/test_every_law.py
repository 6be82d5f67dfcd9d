"""Every law: its moments and distribution against its samples and SciPy, blocks, scaling, equality."""

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

from asyncsim import delays
from asyncsim.delays import Delay, scaled
from asyncsim.delays._law import log_outlasted
from tests.delays.laws import CASES, LAWS, SAMPLES, Case, Own, Pattern, cases, draw, within

TIMES = np.array([0.0, 0.1, 0.5, 0.9, 1.2, 1.9, 2.5, 4.0, 9.0, 30.0])
INVERTIBLE = [law for law in LAWS if hasattr(law, "quantile") and hasattr(getattr(law, "law", law), "quantile")]
SHARES = np.concatenate([[0.0, 1e-9], np.linspace(0.01, 0.99, 40), [1 - 1e-9, 1 - 2**-53]])


def test_the_table_has_every_law() -> None:
    exported = [getattr(delays, name) for name in delays.__all__]
    laws = {one for one in exported if isinstance(one, type) and hasattr(one, "sample")} - {Delay}
    assert laws - {delays.Sum} == {type(law) for law in LAWS}  # a sum has no distribution function: see test_sums


@pytest.mark.parametrize("law", LAWS, ids=repr)
class TestEveryLaw:
    def test_samples_are_finite_float64_and_not_negative(self, law: Delay) -> None:
        assert isinstance(law, Delay)
        sample = draw(law)
        assert sample.shape == (SAMPLES,)
        assert sample.dtype == np.float64
        assert np.isfinite(sample).all()
        assert (sample >= 0).all()

    def test_cdf_is_that_of_the_samples(self, law: Delay) -> None:
        # Dvoretzky-Kiefer-Wolfowitz: P(sup|F_N - F| > e) <= 2 exp(-2 N e²).
        sample = np.sort(draw(law))
        t = np.unique(sample)
        empirical = np.searchsorted(sample, t, side="right") / SAMPLES
        assert np.abs(law.cdf(t) - empirical).max() <= math.sqrt(math.log(2e7) / (2 * SAMPLES))

    def test_cdf_grows_from_zero_to_one_and_keeps_the_shape(self, law: Delay) -> None:
        np.testing.assert_allclose(law.cdf([-math.inf, -1.0, math.inf]), [0, 0, 1], rtol=1e-14)
        assert (np.diff(law.cdf(TIMES)) >= 0).all()
        assert law.cdf(np.ones((2, 3))).shape == (2, 3)
        assert np.shape(law.cdf(1.0)) == ()

    def test_drawing_in_blocks_changes_nothing(self, law: Delay) -> None:
        generator = np.random.default_rng(1)
        blocks = [law.sample(generator, size) for size in (1, 16, 0, 83, 1, 899)]
        np.testing.assert_array_equal(np.concatenate(blocks), draw(law, 1000))

    def test_scaling_multiplies_the_delays(self, law: Delay) -> None:
        slower = scaled(law, 2.5)
        assert type(slower) is type(law)
        assert slower.mean == pytest.approx(2.5 * law.mean)
        assert slower.variance == pytest.approx(6.25 * law.variance)
        np.testing.assert_allclose(slower.cdf(2.5 * TIMES * 1.001), law.cdf(TIMES * 1.001), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(draw(slower, 100), 2.5 * draw(law, 100), rtol=1e-9)
        assert (slower == law) == (law.mean == 0)

    def test_equal_by_value(self, law: Delay) -> None:
        law.sample(np.random.default_rng(0), 1)  # what a law caches beside its arguments does not count
        twins = (dataclasses.replace(law), copy.deepcopy(law), pickle.loads(pickle.dumps(law)))  # type: ignore[type-var]
        assert set(twins) == {law}
        assert {repr(twin) for twin in twins} == {repr(law)}
        assert eval(repr(law), vars(delays) | {"Own": Own, "Pattern": Pattern}) == law


@pytest.mark.parametrize(**cases(lambda case: case.moments > 0))
def test_mean(case: Case) -> None:
    sample = draw(case.law)
    assert within(sample.mean(), case.law.mean, math.sqrt(case.law.variance / SAMPLES))


@pytest.mark.parametrize(**cases(lambda case: case.moments > 1))
def test_variance(case: Case) -> None:
    squares = (draw(case.law) - case.law.mean) ** 2
    assert within(squares.mean(), case.law.variance, squares.std() / math.sqrt(SAMPLES))


@pytest.mark.parametrize(**cases(lambda case: case.twin is not None))
def test_scipy_agrees(case: Case) -> None:
    np.testing.assert_allclose(case.law.cdf(TIMES), case.twin.cdf(TIMES), rtol=1e-10, atol=1e-15)
    assert case.law.mean == pytest.approx(case.twin.mean(), rel=1e-12)
    assert case.law.variance == pytest.approx(case.twin.var(), rel=1e-10)
    if hasattr(case.law, "quantile"):
        np.testing.assert_allclose(case.law.quantile(SHARES[:-1]), case.twin.ppf(SHARES[:-1]), rtol=1e-6)


@pytest.mark.parametrize("law", INVERTIBLE, ids=repr)
def test_quantile_inverts_the_cdf(law) -> None:
    delays_at = law.quantile(SHARES)
    assert delays_at.shape == SHARES.shape
    assert np.isfinite(delays_at).all()
    assert (np.diff(delays_at) >= 0).all()
    assert (law.cdf(delays_at * (1 + 1e-12)) >= SHARES - 1e-9).all()
    assert (law.cdf(delays_at * (1 - 1e-12) - 1e-12) <= SHARES + 1e-9).all()


def test_few_cases_are_exempt() -> None:
    assert sum(case.moments < 2 for case in CASES) == 2
    assert {type(case.law) for case in CASES if case.moments < 2} == {delays.Pareto}


def _has_density(law: Any) -> bool:
    """Return whether likelihoods take a law: the parts of a mixture must have densities as well."""
    try:
        return bool(np.isfinite(delays.log_likelihood(law, [], censored=[0.0])) and law.log_density(1.0) is not None)
    except (ValueError, AttributeError):
        return False


class TestLogSurvival:
    """log P(delay > t), by which unfinished jobs count: also where 1 - cdf has rounded to 0."""

    @pytest.mark.parametrize("law", LAWS, ids=repr)
    def test_is_that_of_the_cdf(self, law: Delay) -> None:
        times = np.concatenate([[-1.0, 0.0], TIMES * max(law.mean, 0.1)])
        times = times[law.cdf(times) < 1 - 1e-6]
        np.testing.assert_allclose(np.exp(log_outlasted(law, times)), 1 - law.cdf(times), rtol=1e-9)
        assert np.shape(log_outlasted(law, 1.0)) == ()
        assert log_outlasted(law, np.ones((2, 3))).shape == (2, 3)

    @pytest.mark.parametrize("law", [law for law in LAWS if _has_density(law)], ids=repr)
    def test_falls_by_the_integral_of_the_hazard_into_the_far_tail(self, law: Any) -> None:
        """-d/dt log P(delay > t) = exp(log density - log survival), here over panels up to a thousand means."""
        edges = law.mean * np.geomspace(1.0, 1000.0, 400)
        edges = edges[np.isfinite(law.log_survival(edges))]
        nodes, weights = np.polynomial.legendre.leggauss(12)
        half = np.diff(edges)[:, None] / 2
        times = edges[:-1, None] + half * (nodes + 1)
        falls = (half * weights * np.exp(law.log_density(times) - law.log_survival(times))).sum(axis=1)
        np.testing.assert_allclose(-np.diff(law.log_survival(edges)), falls, rtol=1e-6)

    def test_is_minus_infinity_where_no_delay_is_that_long(self) -> None:
        for law in (delays.Constant(1.0), delays.Uniform(0.5, 2.0), delays.Uniform(1.0, 1.0), delays.Empirical([1.0])):
            assert law.log_survival(2.0) == -math.inf
            assert delays.Scaled(law, 2.0).log_survival(4.0) == -math.inf

    def test_of_a_gamma_law_is_the_sum_of_poisson_probabilities(self) -> None:
        """With k whole stages, P(delay > t) is that of fewer than k events of a Poisson process, at any distance."""
        for shape in (1, 2, 7, 40):
            for ratio in (1e2, 3e2, 7e2, 1e3, 1e5):
                terms = [k * math.log(ratio) - math.lgamma(k + 1) - ratio for k in range(shape)]
                expected = np.logaddexp.reduce(terms)
                assert delays.Erlang(float(shape), shape).log_survival(ratio) == pytest.approx(expected, rel=1e-12)

    def test_of_a_law_without_it_is_that_of_its_cdf_with_a_floor(self) -> None:
        assert log_outlasted(Own(1.0), 3.0) == pytest.approx(-3.0)
        assert log_outlasted(Own(1.0), 100.0) == pytest.approx(math.log(1e-300))
