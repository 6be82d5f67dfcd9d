"""Laws by their names: another law keeps the mean and, where it can, the spread of the present one."""

import dataclasses
import math

import pytest

from asyncsim import _component as families
from asyncsim.delays import Constant, Gamma, Pareto, Profile, VariableSpeed, by_name

SPREAD = ["uniform", "gamma", "lognormal", "shifted_exponential", "half_normal", "weibull", "pareto"]


@pytest.mark.parametrize("name", SPREAD)
@pytest.mark.parametrize("cv", [0.01, 0.3, 0.57])
def test_mean_and_spread_are_kept(name: str, cv: float) -> None:
    law = by_name(name)(**by_name(name).in_place_of(Gamma(2.0, cv)))
    assert law.mean == pytest.approx(2.0)
    assert math.sqrt(law.variance) == pytest.approx(2.0 * cv)


@pytest.mark.parametrize("name", SPREAD)
@pytest.mark.parametrize("cv", [1.0, 3.0])
def test_the_mean_is_kept_if_the_law_cannot_spread_so_far(name: str, cv: float) -> None:
    law = by_name(name)(**by_name(name).in_place_of(Gamma(2.0, cv)))
    assert law.mean == pytest.approx(2.0)
    assert law.variance <= (2.0 * cv) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("name", [*families.ours("delays")])
def test_a_law_becomes_itself(name: str) -> None:
    law = by_name(name)(**by_name(name).in_place_of(Gamma(2.0, 0.4)))
    assert by_name(name).in_place_of(law) == pytest.approx(dataclasses.asdict(law))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "law",
    [
        Constant(2.0),
        Pareto(1.0, 2.0),
        (Pareto(1.0, 2.0), Constant(2.0)),
        VariableSpeed(Constant(2.0), Profile([0], [1])),
    ],
)
@pytest.mark.parametrize("name", ["gamma", "weibull", "pareto"])
def test_a_spread_that_is_not_a_number_must_be_given(law, name: str) -> None:
    arguments = by_name(name).in_place_of(law)
    assert not {"cv", "shape"} & arguments.keys()
    assert by_name("exponential").in_place_of(law) == {"mean": 2.0}
