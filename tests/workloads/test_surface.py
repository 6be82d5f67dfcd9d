"""Landscapes of two parameters: their minima, gradients, noise, and that a scenario can be made of them by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.scenario._rebuild import rebuild
from asyncsim.workloads import LANDSCAPES
from asyncsim.workloads._analytic import landscape_of
from tests.problems import refusals

KEY = jax.random.key(0)


def saddle(x, y):
    return x**2 - y**2


@pytest.mark.quick
@pytest.mark.parametrize("name", LANDSCAPES)
def test_minima_are_stationary_and_lower_than_their_surroundings(name):
    landscape, workload = LANDSCAPES[name], asim.workloads.Surface(name)
    around = np.array([[0.01, 0.0], [-0.01, 0.0], [0.0, 0.01], [0.0, -0.01]])
    for minimum in landscape.minima:
        value, gradient = workload.gradient({"x": jnp.array(minimum)}, None, KEY)
        assert (float(value), gradient["x"].tolist()) == (0.0, [0.0, 0.0])
        assert all(float(landscape.function(*(np.array(minimum) + step))) > 0 for step in around)
    assert workload.init(KEY)["x"].tolist() == pytest.approx(landscape.starts[0])


def test_noise_is_added_to_the_gradient_only():
    workload = asim.workloads.Surface("quadratic", noise=0.5)
    params = {"x": jnp.array([0.2, -1.0])}
    value, gradient = workload.gradient(params, workload.draw(KEY), KEY)
    assert float(value) == float(workload.loss(params, None, KEY)) == float(workload.evaluate(params)["test_loss"])
    np.testing.assert_allclose(gradient["x"] - jnp.array([2.0, -1.0]), workload.draw(KEY), rtol=1e-5)
    draws = np.asarray(jax.vmap(workload.draw)(jax.random.split(KEY, 4000)))
    assert abs(draws.std() / 0.5 - 1) < 4 / (2 * draws.size) ** 0.5


def scenario(workload):
    cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
    return asim.Scenario(cluster, asim.rules.Downpour(1e-3), workload, commits=4)


def test_a_scenario_is_made_again_by_name_and_overridden():
    one = scenario(asim.workloads.Surface("beale", noise=0.1, start=(1.0, 2.0)))
    assert rebuild(one.describe()) == one
    other = one.override(landscape="booth", start=[0.0, 1.0])
    assert landscape_of(other.workload) is LANDSCAPES["booth"]
    assert other.workload.init(KEY)["x"].tolist() == [0.0, 1.0]
    usual = scenario(asim.workloads.Surface("beale")).override(landscape="booth")
    assert usual.workload.init(KEY)["x"].tolist() == [90.0, 90.0]  # a start that was not given follows the landscape


def test_a_surface_takes_a_function_of_the_user():
    workload = asim.workloads.Surface(saddle, start=(1.0, 0.5))
    assert repr(workload) == "Surface(landscape='saddle', noise=0.0, start=[1.0, 0.5])"
    assert landscape_of(workload).function is saddle
    assert landscape_of(asim.workloads.Quadratic([1.0, 2.0])) is None
    assert scenario(workload) == scenario(asim.workloads.Surface(saddle, start=(1.0, 0.5)))
    assert scenario(workload).describe()["workload"]["landscape"]["code"]
    assert scenario(workload) != scenario(asim.workloads.Surface(LANDSCAPES["booth"].function, start=(1.0, 0.5)))


test_bad_arguments_are_named = refusals(
    ({"landscape": "bealle"}, "`landscape` must be one of .* got 'bealle'. Did you mean 'beale'"),
    ({"landscape": None}, "`landscape` must be one of .* got None"),
    ({"landscape": lambda x: x}, "`landscape` must be a function of x and y"),
    ({"landscape": lambda x, y: (x, y)}, "`landscape` must return one number"),
    ({"noise": -1.0}, "`noise` must not be negative"),
    ({"start": (1.0,)}, "`start` must be two numbers, x and y; got"),
    ({"start": (1.0, np.nan)}, "`start` must be finite"),
    call=lambda arguments: asim.workloads.Surface(**arguments),
)
