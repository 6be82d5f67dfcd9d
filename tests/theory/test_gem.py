"""GEM's predictions: the variant that is exact, and how far the mean field is off."""

import math
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Constant, Erlang, Exponential, Gamma, Pareto
from asyncsim.reports.stability import simulated_floor


@pytest.mark.parametrize("law", [Exponential(2.0), Erlang(3.0, 2), Gamma(1.0, 0.125), Pareto(1.0, 2.5), Constant(2.0)])
@pytest.mark.parametrize("cap", [5.0, math.inf])
def test_the_mean_field_solves_its_equation(law, cap):
    """Against sums over drawn compute times."""
    workers, goal = 12, 10.0
    r = theory.gem_velocity(workers=workers, compute=law, cap=cap)
    drawn = law.sample(np.random.default_rng(0), 100_000) / law.mean
    committed = np.minimum(np.maximum(goal - r * drawn, 0), cap)
    error = committed.std() / np.sqrt(drawn.size) + 1e-9
    assert abs(committed.mean() - r / workers) < 4.5 * error
    if law.variance < 3:  # where the mean of squares converges
        square = np.minimum(np.maximum(goal, r * drawn), r * drawn + cap) ** 2 / goal**2
        error = square.std() / np.sqrt(drawn.size) + 1e-9
        assert abs(square.mean() - theory.gem_energy_ratio(workers=workers, compute=law, cap=cap)) < 4.5 * error


def at_zero(key):
    del key
    return {"x": jnp.zeros(1)}


def slope(params, batch, key):
    """A constant gradient of 1; the recorded loss is the parameter where the gradient was taken."""
    del batch, key
    return params["x"].sum()


def ride(law, workers, cycles, rule=None):
    """Trace and central variable after 0, 1, … commits on a constant gradient, as far as anyone read it."""
    trace = asim.simulate(asim.Cluster(workers=workers, compute=law), commits=cycles * workers, seed=3)
    run = asim.replay(trace, rule or asim.rules.GEM(1.0), asim.Workload(init=at_zero, loss=slope))
    x = np.full(len(trace) + 1, np.nan)
    x[trace.read_version] = run.loss
    x[-1] = run.central["x"][0]
    return trace, x


@pytest.mark.parametrize(("law", "workers"), [(Exponential(1.0), 5), (Exponential(1.0), 30), (Gamma(1.0, 0.5), 10)])
@pytest.mark.usefixtures("x64")
def test_the_mean_field_is_as_far_off_as_stated(law, workers):
    trace, x = ride(law, workers, cycles=2000)
    velocity = -x[-1] / 2000
    assert 0.99 < velocity / theory.gem_velocity(workers=workers, compute=law) < 1.05
    late = np.flatnonzero(trace.read_version > 100 * workers)
    between_pulls = x[late + 1] - x[trace.read_version[late] - 1]
    ratio = 0.5 * np.nanmean(between_pulls**2) / theory.proxy_drift_energy(0.9)
    assert 0.97 < ratio / theory.gem_energy_ratio(workers=workers, compute=law) < 1.15


@pytest.mark.usefixtures("x64")
def test_round_robin_without_a_clamp():
    _, x = ride(Constant(1.0), 5, cycles=600, rule=asim.rules.GEM(1.0, variant="paper"))
    last = (len(x) - 50) // 6 * 6  # in whole patterns of n + 1 commits
    mean = -(x[last] - x[last - 1200]) / 1200
    assert mean == pytest.approx(theory.gem_round_robin_scaling(workers=5), rel=1e-6)


def test_signed_gem_has_the_floor_of_its_proxy():
    rule = partial(asim.rules.GEM, momentum=0.8, variant="signed")
    floor = simulated_floor(4, [0.3], Exponential(1.0), rule, seeds=10, commits=1500)
    assert abs(floor.variance - theory.proxy_noise_floor(0.3, 0.8)) < 5 * floor.variance_error


@pytest.mark.parametrize(
    ("workers", "momentum", "variant", "limit"),
    [
        (1, 0.6, "signed", theory.signed_gem_limit(0.6)),
        (3, 0.6, "signed", theory.signed_gem_limit(0.6)),
        (1, 0.9, "script", theory.gem_single_worker_limit(0.9)),
    ],
)
@pytest.mark.usefixtures("x64")
def test_gem_breaks_at_its_limit(workers, momentum, variant, limit):
    trace = asim.simulate(asim.Cluster(workers=workers, compute=Exponential(1.0)), commits=3000, seed=0)
    rules = [asim.rules.GEM(factor * limit, momentum=momentum, variant=variant) for factor in (0.98, 1.02)]
    below, above = (asim.replay(trace, rule, asim.workloads.Quadratic([1.0])).loss[-50:].max() for rule in rules)
    assert below < 1e-3
    assert above > 1e3
