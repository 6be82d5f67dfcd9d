"""Closed forms, identities between laws, and laws that take the place of others. SciPy's are in `test_every_law.py`."""

import dataclasses
import math

import numpy as np
import pytest

from asyncsim import delays
from asyncsim.components import _families as families
from asyncsim.delays import Constant, Exponential, HyperExponential, Mixture, Pareto, Straggler, Weibull

pytestmark = pytest.mark.quick

T = np.linspace(0.0, 10.0, 50)


@pytest.mark.parametrize(
    ("law", "same"),
    [
        (HyperExponential((0.5, 0.5), (2.0, 2.0)), Exponential(2.0)),
        (Straggler(Exponential(1.0), 0.3, 4.0), HyperExponential((0.7, 0.3), (1.0, 4.0))),
        (Mixture((0.25,) * 4, [Constant(x) for x in (1.0, 1.0, 2.0, 5.0)]), delays.Empirical((5.0, 1.0, 2.0, 1.0))),
    ],
)
def test_two_names_of_one_law(law, same) -> None:
    np.testing.assert_allclose(law.cdf(T), same.cdf(T), rtol=1e-11, atol=1e-15)
    assert law.mean == pytest.approx(same.mean)
    assert law.variance == pytest.approx(same.variance)


@pytest.mark.parametrize("shape", [1.01, 1.5, 2.0])
def test_pareto_has_no_variance_up_to_shape_two(shape: float) -> None:
    law = Pareto(3.0, shape)
    assert law.variance == math.inf
    assert law.mean == pytest.approx(3.0 * shape / (shape - 1))
    assert Mixture((0.5, 0.5), (law, Constant(1.0))).variance == math.inf
    assert Straggler(Pareto(3.0, 2.5), 0.0, 2.0).variance == Pareto(3.0, 2.5).variance
    assert Mixture((0.0, 1.0), (law, Constant(1.0))).variance == 0.0


@pytest.mark.parametrize("cv", [1e-4, 0.05, 0.3, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("family", [Weibull, Pareto])
def test_from_cv_has_that_mean_and_cv(family, cv: float) -> None:
    law = family.from_cv(3.0, cv)
    assert law.mean == pytest.approx(3.0)
    assert math.sqrt(law.variance) / law.mean == pytest.approx(cv, rel=1e-6)


@pytest.mark.parametrize("overhead", [0.0, 0.25])
@pytest.mark.parametrize("cv", [0.0, 0.4])
def test_moments_of_a_mini_batch(overhead: float, cv: float) -> None:
    law = delays.for_batch(32, per_sample=0.01, overhead=overhead, cv=cv)
    assert law.mean == pytest.approx(overhead + 0.32)
    assert law.variance == pytest.approx((0.32 * cv) ** 2)


SPREAD = ["uniform", "gamma", "lognormal", "shifted_exponential", "half_normal", "weibull", "pareto"]


@pytest.mark.parametrize("name", SPREAD)
@pytest.mark.parametrize("cv", [0.01, 0.3, 0.57])
def test_mean_and_spread_are_kept(name: str, cv: float) -> None:
    law = delays.by_name(name)(**delays.by_name(name).carried(delays.Gamma(2.0, cv)))
    assert law.mean == pytest.approx(2.0)
    assert math.sqrt(law.variance) == pytest.approx(2.0 * cv)


@pytest.mark.parametrize("name", SPREAD)
@pytest.mark.parametrize("cv", [1.0, 3.0])
def test_the_mean_is_kept_if_the_law_cannot_spread_so_far(name: str, cv: float) -> None:
    law = delays.by_name(name)(**delays.by_name(name).carried(delays.Gamma(2.0, cv)))
    assert law.mean == pytest.approx(2.0)
    assert law.variance <= (2.0 * cv) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("name", [*families.built_in_classes("delays")])
def test_a_law_becomes_itself(name: str) -> None:
    law = delays.by_name(name)(**delays.by_name(name).carried(delays.Gamma(2.0, 0.4)))
    assert delays.by_name(name).carried(law) == pytest.approx(dataclasses.asdict(law))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "law",
    [
        Constant(2.0),
        Pareto(1.0, 2.0),
        (Pareto(1.0, 2.0), Constant(2.0)),
        delays.VariableSpeed(Constant(2.0), delays.Profile([0], [1])),
    ],
)
@pytest.mark.parametrize("name", ["gamma", "weibull", "pareto"])
def test_a_spread_that_is_not_a_number_must_be_given(law, name: str) -> None:
    arguments = delays.by_name(name).carried(law)
    assert not {"cv", "shape"} & arguments.keys()
    assert delays.by_name("exponential").carried(law) == {"mean": 2.0}
