"""Energies and π: the equations, as identities on random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim import energy
from tests.problems import tree_workload

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(0)
TREE = {"w": RNG.normal(size=(3, 2)), "b": [RNG.normal(size=4), np.array(RNG.normal())]}


@pytest.fixture
def vectors(x64):
    return [jnp.asarray(RNG.normal(size=1000)) for _ in range(3)]


def test_energies_are_half_squares_of_displacements(x64):
    other = jax.tree.map(lambda leaf: RNG.normal(size=np.shape(leaf)), TREE)
    expected = sum(
        0.5 * np.sum((np.asarray(a) - np.asarray(b)) ** 2)
        for a, b in zip(jax.tree.leaves(TREE), jax.tree.leaves(other), strict=True)
    )
    np.testing.assert_allclose(energy.total(energy.central(TREE, other)), expected)
    assert jax.tree.structure(energy.central(TREE, other)) == jax.tree.structure(TREE)


def test_the_papers_pi_matches_energies_where_signs_agree(vectors):
    """(19) solves (18), E_k(central) = E_k(proxy), where (θ - s)·Δθ ≥ 0 and π ≥ 0; else it does not."""
    moment, shift, update = vectors
    pi = energy.scaling(moment, shift, update)
    matched = np.isclose(np.abs(shift + pi * update), np.abs(moment))
    agree = np.asarray(shift * update > 0)
    assert matched[agree].all()
    assert not matched[~agree].any()
    wrong = np.abs(np.abs(moment) - 2 * np.abs(shift))
    np.testing.assert_allclose(np.abs(shift + pi * update)[~agree], wrong[~agree], rtol=1e-9)


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(-10, 10), st.floats(0, 4))
def test_the_scripts_pi_is_the_papers_between_its_clamps(moment, shift, update, kappa):
    if abs(update) < 1e-3:
        return
    arguments = (np.array([moment]), np.array([shift]), np.array([update]), kappa)
    paper, script = energy.scaling(*arguments)[0], energy.clamped_scaling(*arguments)[0]
    assert 0 <= script <= 5
    np.testing.assert_allclose(script, np.clip(paper, 0, 5), rtol=1e-4, atol=1e-5)


def test_epsilons_are_where_paper_and_script_put_them(x64):
    one, zero = jnp.ones(1), jnp.zeros(1)
    assert energy.scaling(one, zero, zero)[0] == pytest.approx(1e16)
    assert energy.clamped_scaling(one * 1e-12, zero, zero)[0] == pytest.approx(1.0)


def test_the_sound_equation_of_motion_is_momentum_sgd(x64):
    """θ̈ = -(1-μ)θ̇ - η∇L, unit steps, semi-implicit Euler: momentum SGD to rounding (the docstring's claim)."""
    trace, workload = asim.Trace.from_commits([0] * 200), asim.workloads.Quadratic([0.7, 0.2], start=2.0)
    run = asim.replay(trace, asim.rules.MomentumSGD(0.3, momentum=0.9), workload)
    position, velocity, h = np.full(2, 2.0), np.zeros(2), np.array([0.7, 0.2])
    for _ in range(200):
        velocity = velocity + (-(1 - 0.9) * velocity - 0.3 * h * position)
        position = position + velocity
    np.testing.assert_allclose(run.central["x"], position, rtol=1e-9, atol=1e-14)


def test_one_workers_momentum_has_the_energy_of_its_own_proxy(x64):
    """n = 1: θ_{t+1} - s_t = m, so (13) holds exactly."""
    record = ("energy_central", "energy_proxy", "compliance")
    trace = asim.Trace.from_commits([0] * 50)
    run = asim.replay(trace, asim.rules.MomentumSGD(0.02), tree_workload(), record=record)
    np.testing.assert_allclose(run.records["energy_central"], run.records["energy_proxy"], rtol=1e-8)
    np.testing.assert_allclose(run.records["compliance"], 1.0, rtol=1e-8)


@pytest.mark.parametrize("workers", [2, 5, 10])
def test_downpour_on_a_slope_has_the_energy_of_theory(workers, x64):
    """Pure drift, round robin: E_k = ½η²g²n², exactly so once every worker has committed."""
    steep = asim.Workload(init=lambda key: {"x": jnp.zeros(1)}, loss=_slope)
    trace = asim.simulate(asim.Cluster(workers, asim.delays.Constant(1.0)), commits=5 * workers)
    run = asim.replay(trace, asim.rules.Downpour(0.1), steep, record=("energy_central",))
    np.testing.assert_allclose(run.records["energy_central"][workers:], 0.5 * 0.01 * 9 * workers**2, rtol=1e-9)


def _slope(params, batch, key):
    del batch, key
    return 3.0 * params["x"].sum()


def test_downpour_under_pure_noise_has_the_energy_of_theory():
    """Pure noise: E_k = ½s²n, s² the variance of a raw update, within four standard errors."""
    workers, size, commits = 8, 400, 4000
    flat = asim.workloads.Quadratic(np.zeros(size), noise=2.0, start=0.0)
    trace = asim.simulate(asim.Cluster(workers, asim.delays.Exponential(1.0)), commits=commits, seed=3)
    run = asim.replay(trace, asim.rules.Downpour(0.1), flat, record=("energy_central",))
    kept = run.records["energy_central"][20 * workers :] / size
    # Given the trace, E_k is ½s²(τ+1) in the mean: the trace's own staleness takes most of the variance away.
    expected = 0.5 * 0.04 * (trace.staleness[20 * workers :] + 1)
    blocks = (kept - expected).reshape(-1, 48).mean(1)  # longer than the correlation, about n commits
    assert abs(blocks.mean()) < 4 * blocks.std() / np.sqrt(len(blocks))
    assert expected.mean() == pytest.approx(0.04 * asim.theory.noise_energy(workers=workers), rel=0.2)
