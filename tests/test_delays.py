"""Each law against its own samples, with tolerances from standard errors, and against closed forms."""

import math

import numpy as np
import pytest

from asyncsim.delays import Constant, Delay, Exponential, Gamma, LogNormal, Uniform

LAWS = [
    Constant(0.0),
    Constant(1.5),
    Uniform(0.5, 2.0),
    Uniform(1.0, 1.0),
    Exponential(mean=0.7),
    Gamma(mean=1.0, cv=0.1),
    Gamma(mean=2.0, cv=1.5),
    LogNormal(mean=1.0, cv=0.3),
    LogNormal(mean=3.0, cv=0.8),
]
SAMPLES = 200_000
STANDARD_ERRORS = 5  # a false alarm once in some 2 million


def draw(law: Delay, size: int = SAMPLES) -> np.ndarray:
    return law.sample(np.random.default_rng(1), size)


def within(measured: float, expected: float, standard_error: float) -> bool:
    return abs(measured - expected) <= STANDARD_ERRORS * standard_error + 1e-12


@pytest.mark.parametrize("law", LAWS, ids=repr)
class TestEveryLaw:
    def test_is_a_delay(self, law: Delay) -> None:
        assert isinstance(law, Delay)
        assert hash(law) == hash(type(law)(**vars(law)))

    def test_samples_are_finite_float64_and_not_negative(self, law: Delay) -> None:
        sample = draw(law)
        assert sample.shape == (SAMPLES,)
        assert sample.dtype == np.float64
        assert np.isfinite(sample).all()
        assert (sample >= 0).all()

    def test_mean(self, law: Delay) -> None:
        assert within(draw(law).mean(), law.mean, math.sqrt(law.variance / SAMPLES))

    def test_variance(self, law: Delay) -> None:
        squares = (draw(law) - law.mean) ** 2
        assert within(squares.mean(), law.variance, squares.std() / math.sqrt(SAMPLES))

    def test_cdf_is_that_of_the_samples(self, law: Delay) -> None:
        # Dvoretzky-Kiefer-Wolfowitz: P(sup|F_N - F| > e) <= 2 exp(-2 N e²).
        sample = draw(law)
        t = np.quantile(sample, np.linspace(0, 1, 101))
        empirical = np.searchsorted(np.sort(sample), t, side="right") / SAMPLES
        assert np.abs(law.cdf(t) - empirical).max() <= math.sqrt(math.log(2e7) / (2 * SAMPLES))

    def test_cdf_is_zero_before_time_zero_and_one_at_infinity(self, law: Delay) -> None:
        np.testing.assert_array_equal(law.cdf([-math.inf, -1.0, math.inf]), [0, 0, 1])

    def test_cdf_keeps_the_shape(self, law: Delay) -> None:
        assert law.cdf(np.ones((2, 3))).shape == (2, 3)
        assert np.shape(law.cdf(1.0)) == ()

    def test_drawing_in_blocks_changes_nothing(self, law: Delay) -> None:
        generator = np.random.default_rng(1)
        blocks = [law.sample(generator, size) for size in (1, 16, 83)]
        np.testing.assert_array_equal(np.concatenate(blocks), draw(law, 100))


def test_gamma_with_cv_one_is_exponential() -> None:
    t = np.linspace(0, 10, 50)
    np.testing.assert_allclose(Gamma(2.0, cv=1.0).cdf(t), Exponential(2.0).cdf(t), rtol=1e-12)


@pytest.mark.parametrize(("cv", "late"), [(0.1, 0.0094), (0.6, 0.2796)])
def test_gamma_gives_the_published_share_of_late_jobs(cv: float, late: float) -> None:
    assert 1 - Gamma(1.0, cv).cdf(1.25) == pytest.approx(late, abs=5e-5)


def test_lognormal_median() -> None:
    assert LogNormal(2.0, cv=0.75).cdf(2.0 / math.sqrt(1 + 0.75**2)) == pytest.approx(0.5)


def test_uniform_and_exponential_closed_forms() -> None:
    np.testing.assert_allclose(Uniform(1.0, 3.0).cdf([1.0, 1.5, 3.0, 9.0]), [0, 0.25, 1, 1])
    assert Uniform(1.0, 3.0).variance == pytest.approx(1 / 3)
    assert Exponential(2.0).cdf(2.0 * math.log(2)) == pytest.approx(0.5)


BAD = [-1.0, math.nan, math.inf, "1", None]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: Constant(x), "value"),
        (lambda x: Uniform(x, 1.0), "low"),
        (lambda x: Uniform(0.0, x), "high"),
        (lambda x: Exponential(x), "mean"),
        (lambda x: Gamma(x, 1.0), "mean"),
        (lambda x: Gamma(1.0, x), "cv"),
        (lambda x: LogNormal(x, 1.0), "mean"),
        (lambda x: LogNormal(1.0, x), "cv"),
    ],
)
def test_bad_arguments_are_named(make, name: str, bad: object) -> None:
    with pytest.raises(ValueError, match=rf"^`{name}` must be finite and .*; got {bad!r}\. .+\.$"):
        make(bad)


@pytest.mark.parametrize("law", [Gamma, LogNormal])
def test_zero_cv_points_to_constant(law) -> None:
    with pytest.raises(ValueError, match=r"`cv` must be finite and positive; got 0\. Use `Constant`"):
        law(1.0, 0)


def test_uniform_bounds_in_order() -> None:
    with pytest.raises(ValueError, match=r"`low` must not exceed `high`; got 2\.0 > 1\.0\. Swap"):
        Uniform(2.0, 1.0)


def test_whole_numbers_are_the_same_law() -> None:
    pairs = [
        (Constant(2), Constant(2.0)),
        (Uniform(0, 2), Uniform(0.0, 2.0)),
        (Exponential(1), Exponential(1.0)),
        (Gamma(1, 1), Gamma(1.0, 1.0)),
        (LogNormal(np.int64(1), 1), LogNormal(1.0, 1.0)),
    ]
    for whole, law in pairs:
        assert whole == law
        assert repr(whole) == repr(law)
