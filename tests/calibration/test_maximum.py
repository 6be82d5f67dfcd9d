"""The maximum within bounds and the approximation around it, against closed forms."""

import numpy as np
import pytest

from asyncsim.calibration._maximum import IMPOSSIBLE, ActiveBound, NoInteriorMaximum, at_bounds, maximise, shape_of

LOW, HIGH = np.array([-3.0, -3.0]), np.array([3.0, 3.0])
HESSIAN = np.array([[50.0, 30.0], [30.0, 40.0]])


def quadratic(centre):
    def value(x):
        away = x - centre
        return float(7 - away @ HESSIAN @ away / 2)

    return value


def found(value, low=LOW, high=HIGH, floor=1e-6, start=0.3):
    begun = maximise(value, np.clip(np.full(len(low), start), low, high), low, high)
    maximum = at_bounds(value, begun, low, high)
    return maximum, shape_of(value, maximum, np.full(len(low), 0.1), floor, low, high)


def test_a_maximum_inside():
    maximum, shape = found(quadratic(np.array([0.5, -1.0])))
    np.testing.assert_allclose(maximum.at, [0.5, -1.0], atol=1e-5)
    assert (maximum.height, maximum.active) == (pytest.approx(7), ())
    np.testing.assert_allclose(shape.information, HESSIAN, rtol=1e-5)
    drawn = shape.draw(np.random.default_rng(0), 20_000, LOW, HIGH)
    np.testing.assert_allclose(np.cov(drawn.T), np.linalg.inv(HESSIAN), rtol=0.05)


def test_curvature_of_no_parabola():
    """n log x - n x, the likelihood of n exponential delays with mean 1 in their rate: information n."""
    low, high = np.array([0.1]), np.array([9.0])
    maximum, shape = found(lambda x: float(500 * (np.log(x[0]) - x[0])), low, high)
    assert maximum.at[0] == pytest.approx(1, abs=1e-5)
    assert shape.information[0, 0] == pytest.approx(500, rel=2e-3)


def test_a_maximum_at_a_bound():
    maximum, shape = found(quadratic(np.array([3.5, 0.0])))
    assert maximum.active == (ActiveBound(0, 1, True),)
    assert maximum.at[0] == 3.0
    assert maximum.at[1] == pytest.approx(0.5 * 30 / 40, abs=1e-5)
    slope = HESSIAN[0, 0] * 0.5 - 30 * maximum.at[1]
    assert shape.slope[0] == pytest.approx(slope, rel=1e-3)
    np.testing.assert_allclose(shape.information, HESSIAN, rtol=1e-3)


@pytest.mark.parametrize(("centre", "places"), [([3.5, 0.0], [0]), ([3.05, 3.05], [0, 1])])
def test_draws_at_bounds(centre, places):
    """Beyond a bound the likelihood grows: truncated normal there, and normal given it in the other coordinate."""
    _, shape = found(quadratic(np.array(centre)))
    assert [bound.place for bound in shape.active] == places
    drawn = shape.draw(np.random.default_rng(0), 20_000, LOW, HIGH)
    plain = np.random.default_rng(1).multivariate_normal(centre, np.linalg.inv(HESSIAN), 1_000_000)
    plain = plain[(plain <= 3.0).all(axis=1)]
    error = plain.std(axis=0) * np.sqrt(1 / len(plain) + 1 / len(drawn))
    assert (np.abs(drawn.mean(axis=0) - plain.mean(axis=0)) < 5 * error).all()
    np.testing.assert_allclose(drawn.std(axis=0), plain.std(axis=0), rtol=0.05)


def test_a_wall():
    """The likelihood of 200 delays from `shift` on: it grows with the shift, up to the shortest of them."""

    def value(x):
        return float(200 * x[0] - 60 * (x[1] - 1) ** 2) if x[0] <= 0.7 else IMPOSSIBLE

    maximum, shape = found(value)
    assert maximum.active == (ActiveBound(0, 1, False),)
    np.testing.assert_allclose(maximum.at, [0.7, 1.0], atol=1e-5)
    drawn = shape.draw(np.random.default_rng(0), 20_000, LOW, HIGH)
    assert drawn[:, 0].max() <= maximum.at[0]
    assert (0.7 - drawn[:, 0]).mean() == pytest.approx(1 / 200, rel=0.05)


def test_no_interior_maximum():
    """Uniform delays by their middle and half their width: each end is a wall to both."""
    times = np.random.default_rng(0).uniform(1.0, 2.0, 100)

    def value(x):
        possible = (np.abs(times - x[0]) <= x[1]).all()
        return float(-100 * np.log(x[1])) if possible else 2 * IMPOSSIBLE

    with pytest.raises(NoInteriorMaximum):
        found(value, np.array([0.5, 0.01]), np.array([3.0, 3.0]), start=1.6)


def test_a_flat_direction_is_as_wide_as_the_floor_says():
    maximum, shape = found(lambda x: float(-50 * (x[0] + x[1]) ** 2), floor=4.0)
    assert maximum.active == ()
    values = np.linalg.eigvalsh(shape.information)
    np.testing.assert_allclose(values, [4.0, 200.0], rtol=1e-3)
