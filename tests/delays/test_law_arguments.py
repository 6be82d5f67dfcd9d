"""Arguments of a law that do not fit are refused in one line: the argument, the value, the remedy.

`tests/test_arguments.py` gives every argument values that are no numbers or out of range.
"""

import math

import numpy as np
import pytest

from asyncsim import delays
from asyncsim.delays import Constant, Exponential, Gamma, Scaled, Uniform
from tests.problems import refusals


def test_gamma_delays_of_which_most_underflow_are_allowed() -> None:
    law = Gamma(1.0, 1e3)
    share = np.mean(law.sample(np.random.default_rng(0), 100_000) > 0)
    assert share == pytest.approx(1 - law.cdf(np.finfo(float).tiny), abs=3e-4)
    assert Gamma(1.0, 1e4).variance == 1e8


UNDERFLOW = r"`cv` must leave delays that are not all 0 .*; got .*Give at most 10 000\.$"

NO_FLOAT = r"`cv` must have a square that is a floating-point number, also times the mean; got .*Use `Constant`"
OF_CV = [(kind, mean, cv) for kind in (Gamma, delays.LogNormal) for mean, cv in ((1.0, 1e-300), (1e-310, 1e-3))]
OF_CV += [(delays.LogNormal, 1.0, 1e160), (Gamma, 1.7e308, 1.5)]


@pytest.mark.parametrize("mean", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("cv", [1e-150, 1e-9, 1.0, 50.0, 1e150])
def test_draws_and_probabilities_of_extreme_laws_are_numbers(mean: float, cv: float) -> None:
    """Or the law is refused."""
    for kind in (Gamma, delays.LogNormal, delays.Weibull.from_cv, delays.Pareto.from_cv):
        try:
            law = kind(mean, cv)
        except ValueError:
            continue
        assert not np.isnan(law.variance)
        assert not np.isnan(law.cdf(np.array([0.0, mean / 2, mean, 2 * mean]))).any()
        if cv <= 50:
            assert np.isfinite(law.sample(np.random.default_rng(0), 20)).all()


@pytest.mark.parametrize("cv", [1e-100, 1e-9, 1e-5, 0.99e-4, 1.01e-4, 1e-2])
def test_a_narrow_weibull_law_has_its_cv(cv: float) -> None:
    law = delays.Weibull.from_cv(2.0, cv)
    assert math.sqrt(law.variance) == pytest.approx(2 * cv, rel=1e-7)
    assert law.shape == pytest.approx(math.pi / math.sqrt(6) / cv, rel=2 * cv + 1e-7)


test_invalid_arguments_are_named = refusals(
    *((lambda kind=kind, mean=mean, cv=cv: kind(mean, cv), NO_FLOAT) for kind, mean, cv in OF_CV),
    (lambda: delays.Erlang(1e-300, 10**300), r"`shape` must leave stages whose mean is a floating-point number"),
    (lambda: Gamma(1.0, 1e9), UNDERFLOW),
    (lambda: Gamma(1e-6, 1e200), UNDERFLOW),
    (lambda: Gamma(2.0, 1e5), UNDERFLOW),
    (lambda: Gamma(1.0, 0), r"`cv` must be finite and positive; got 0\. Use `Constant`"),
    (lambda: Uniform(2.0, 1.0), r"`low` must not exceed `high`; got 2\.0 > 1\.0\. Swap"),
    (lambda: delays.Erlang(1.0, 2.5), r"`shape` must be an integer of at least 1; got 2\.5\. Use `Gamma`"),
    (lambda: delays.Weibull(1.0, 0.05), r"`shape` must be at least 0\.1; got 0\.05\. .*use `Pareto`"),
    (lambda: delays.Weibull.from_cv(1.0, 1e3), r"`cv` must be at most 430; got 1000\.0\. Use `Pareto`"),
    (lambda: delays.Pareto(1.0, 1.0), r"`shape` must be above 1, or the mean would be infinite; got 1\.0\. Use"),
    (lambda: delays.Straggler(Constant(1.0), 1.5, 2.0), r"`probability` must be at most 1; got 1\.5\. Give"),
    (lambda: delays.Mixture((0.5, 0.6), (Constant(1.0),) * 2), r"`weights` must sum to 1; got \(0\.5, 0\.6\)\."),
    (lambda: delays.Mixture((-1.0,), (Constant(1.0),)), r"`weights` must be finite and not negative; got -1\.0\."),
    (lambda: delays.HyperExponential((1.0,), (math.nan,)), r"`means` must be finite and positive; got nan\."),
    (lambda: delays.Mixture((1.0,), (Constant(1.0),) * 2), "`weights` and `laws` must be as many; got 1 and 2"),
    (lambda: delays.Mixture((1.0,), (2.0,)), r"`laws` must be a law of delays; got 2\.0\. Use one"),
    (lambda: delays.HyperExponential((1.0,), (1.0, 2.0)), "`probabilities` and `means` must be as many; got 1"),
    (lambda: delays.Empirical([]), r"`values` must be a sequence of delays, at least one; got \[\]\. Give"),
    (lambda: delays.Empirical(np.ones((1, 2))), r"`values\[0\]` must be finite and .*; got \[1\.0, 1\.0\]"),
    start="^",
)


def test_whole_numbers_are_the_same_law() -> None:
    pairs = [
        (Constant(2), Constant(2.0)),
        (Uniform(0, 2), Uniform(0.0, 2.0)),
        (Exponential(1), Exponential(1.0)),
        (Gamma(1, 1), Gamma(1.0, 1.0)),
        (delays.LogNormal(np.int64(1), 1), delays.LogNormal(1.0, 1.0)),
        (delays.Pareto(1, 2), delays.Pareto(1.0, 2.0)),
        (delays.Erlang(1, np.int64(2)), delays.Erlang(1.0, 2)),
        (delays.HyperExponential([0, 1], np.array([1, 2])), delays.HyperExponential((0.0, 1.0), (1.0, 2.0))),
        (delays.Mixture([1], [Constant(1)]), delays.Mixture((1.0,), (Constant(1.0),))),
        (delays.Empirical(np.array([3, 1])), delays.Empirical((1.0, 3.0))),
        (Scaled(Constant(1), 2), Scaled(Constant(1.0), 2.0, 0.0)),
    ]
    for whole, law in pairs:
        assert (whole, repr(whole), hash(whole)) == (law, repr(law), hash(law))
