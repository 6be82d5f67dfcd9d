"""Sums of delays: moments, distributions, and what is refused."""

import math

import numpy as np
import pytest
from scipy import stats

from asyncsim import delays
from tests.delays.laws import CASES, SAMPLES, STANDARD_ERRORS

COUNT = 5
CLOSED = [
    (delays.Constant(1.5), None),
    (delays.Exponential(2.0), stats.gamma(COUNT, scale=2.0)),
    (delays.Erlang(2.0, 3), stats.gamma(3 * COUNT, scale=2.0 / 3)),
    (delays.Gamma(2.0, 0.5), stats.gamma(4 * COUNT, scale=0.5)),
    (delays.ShiftedExponential(1.0, 0.5), stats.gamma(COUNT, loc=COUNT, scale=0.5)),
    (delays.Scaled(delays.Gamma(2.0, 0.5), 3.0, 1.0), stats.gamma(4 * COUNT, loc=COUNT, scale=1.5)),
]
LAWS = [case for case in CASES if not isinstance(case.law, delays.ByJob)]


@pytest.mark.quick
@pytest.mark.parametrize("case", LAWS, ids=lambda case: repr(case.law)[:40])
def test_means_and_variances_add(case):
    total = delays.sum_of(case.law, COUNT)
    assert total.mean == pytest.approx(COUNT * case.law.mean, rel=1e-12)
    if math.isfinite(case.law.variance):
        assert total.variance == pytest.approx(COUNT * case.law.variance, rel=1e-12)
    else:
        assert total.variance == math.inf


@pytest.mark.parametrize("case", LAWS, ids=lambda case: repr(case.law)[:40])
def test_samples_have_the_mean(case):
    if case.moments < 1 or not math.isfinite(case.law.variance):
        pytest.skip("the mean of samples has no standard error")
    total = delays.sum_of(case.law, COUNT)
    error = math.sqrt(total.variance / SAMPLES)
    mean = total.sample(np.random.default_rng(0), SAMPLES).mean()
    assert abs(mean - total.mean) <= STANDARD_ERRORS * error + 1e-9 * total.mean


@pytest.mark.parametrize(("law", "twin"), CLOSED, ids=lambda value: repr(value)[:30])
def test_closed_families_have_the_distribution_of_the_sum(law, twin):
    total = delays.sum_of(law, COUNT)
    assert not isinstance(total, delays.Sum)
    if twin is None:
        assert total == delays.Constant(COUNT * law.value)
        return
    at = twin.ppf(np.linspace(0.01, 0.99, 9))
    np.testing.assert_allclose(total.cdf(at), twin.cdf(at), rtol=1e-10)


@pytest.mark.parametrize("law", [delays.LogNormal(2.0, 1.5), delays.Uniform(0.0, 2.0)], ids=repr)
def test_other_laws_are_drawn_one_delay_after_another(law):
    total = delays.sum_of(law, COUNT)
    drawn = total.sample(np.random.default_rng(3), 8)
    generator = np.random.default_rng(3)
    apart = np.concatenate([total.sample(generator, size) for size in (1, 4, 3)])
    np.testing.assert_array_equal(drawn, apart)
    singles = law.sample(np.random.default_rng(3), 8 * COUNT).reshape(8, COUNT)
    np.testing.assert_array_equal(drawn, singles.sum(axis=1))


def test_one_delay_is_the_law_itself():
    for law, _ in CLOSED:
        assert delays.sum_of(law, 1) is law


def test_sums_of_sums_are_sums():
    for law, _ in CLOSED[1:]:
        nested, flat = delays.sum_of(delays.sum_of(law, 2), 3), delays.sum_of(law, 6)
        assert (nested.mean, nested.variance) == pytest.approx((flat.mean, flat.variance), rel=1e-12)


def test_a_speed_sums_its_work():
    speed = delays.Profile(times=(0.0,), speeds=(0.5,))
    law = delays.sum_of(delays.VariableSpeed(delays.Constant(1.0), speed), 4)
    assert law == delays.VariableSpeed(delays.Constant(4.0), speed)


def test_times_of_whole_jobs_stay():
    law = delays.ByJob(lambda job: 1.0 + job % 2)
    assert delays.sum_of(law, 7) is law


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None, "2"])
def test_counts_that_are_no_number_of_delays(count):
    with pytest.raises(ValueError, match="`count` must be an integer of at least 1"):
        delays.sum_of(delays.Constant(1.0), count)


def test_a_sum_without_distribution_says_so():
    with pytest.raises(ValueError, match=r"a sum of 3 delays of LogNormal.* has none in closed form"):
        delays.sum_of(delays.LogNormal(1.0, 0.5), 3).cdf(1.0)
    with pytest.raises(ValueError, match="`law` must be"):
        delays.sum_of("gamma", 3)
