"""Stability limits, noise floors and energies, also of the proxy: known numbers, spectral radii, replays."""

import math

import numpy as np
import pytest

from asyncsim import theory
from asyncsim.delays import Constant, Erlang, Exponential, Gamma, HyperExponential, Straggler
from asyncsim.reports.stability import momentum_rule, simulated_floor
from asyncsim.theory._stationary import linear_rule
from tests.theory.replicates import many_paths, z_score


def kronecker_radius(kappa, share, momentum, where):
    """Spectral radius of Σ p_w A_w ⊗ A_w with A_w one commit of (z, s_1, …, s_n), written out in full."""
    rule, workers = linear_rule(kappa, momentum, where), len(share)
    p, q = len(rule.e), len(rule.f)
    total = 0
    for w, weight in enumerate(share):
        matrix, mine = np.eye(p + workers * q), slice(p + w * q, p + (w + 1) * q)
        matrix[:p, :p], matrix[:p, mine], matrix[mine, :p], matrix[mine, mine] = rule.F, rule.G, rule.J, rule.K
        total = total + weight * np.kron(matrix, matrix)
    return np.abs(np.linalg.eigvals(total)).max()


@pytest.mark.parametrize(("momentum", "where"), [(0.0, "none"), (0.7, "server"), (0.7, "worker")])
@pytest.mark.parametrize("rates", [(1, 1, 1), (1, 1, 4), (1, 2, 5)])
def test_at_the_limit_the_second_moments_are_neutral(rates, momentum, where):
    compute = [Exponential(1 / rate) for rate in rates]
    limit = theory.stability_limit(workers=3, compute=compute, momentum=momentum, where=where)
    share = np.array(rates) / sum(rates)
    assert kronecker_radius(limit, share, momentum, where) == pytest.approx(1.0, abs=1e-8)
    for fraction in (0.3, 0.7, 0.95):
        assert kronecker_radius(fraction * limit, share, momentum, where) < 1


@pytest.mark.parametrize("fraction", [0.8, 1.2])
def test_second_moments_of_runs_on_either_side_of_the_limit(fraction):
    workers, commits, runs = 8, 40, 30_000
    kappa = fraction * theory.exponential_limit(workers)
    squares = many_paths(lambda x: x, workers=workers, learning_rate=kappa, commits=commits, runs=runs) ** 2
    predicted = theory.exponential_moments(kappa, workers, commits)
    assert np.all(z_score(squares[:, 2:15], predicted[2:15]) < 5)
    assert (predicted[-1] > predicted[20]) == (fraction > 1)


def test_the_mean_is_stable_far_beyond_all_runs():
    assert theory.mean_stability_limit(workers=4, worker_momentum=0.5) == pytest.approx(15.0)
    assert theory.mean_stability_limit(workers=8, worker_momentum=0.9) == pytest.approx(31.8)
    for kappa, stable in ((14.9, True), (15.1, False)):
        way = {"workers": 4, "learning_rate": kappa, "commits": 2000, "momentum": 0.5, "where": "worker"}
        assert (abs(theory.expected_path(lambda x: x, 1.0, **way)[-1]) < 1) == stable


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_the_linear_system_solves_to_the_closed_form(workers, share):
    kappa = share * theory.exponential_limit(workers)
    floor = theory.noise_floor(kappa, workers=workers, compute=Exponential(2.0))
    energy = theory.kinetic_energy(kappa, workers=workers, compute=Exponential(2.0))
    assert floor == pytest.approx(theory.exponential_noise_floor(kappa, workers), rel=1e-8)
    assert energy == pytest.approx(theory.exponential_kinetic_energy(kappa, workers), rel=1e-8)


def test_one_worker_is_sequential_momentum_sgd_whatever_the_law():
    for law in (Constant(1.0), Exponential(1.0), Gamma(1.0, 0.3)):
        for where in ("server", "worker"):
            floor = theory.noise_floor(0.1, workers=1, compute=law, momentum=0.9, where=where)
            energy = theory.kinetic_energy(0.1, workers=1, compute=law, momentum=0.9, where=where)
            assert floor == pytest.approx(theory.proxy_noise_floor(0.1, 0.9))
            assert energy == pytest.approx(theory.proxy_kinetic_energy(0.1, 0.9))


def test_equal_laws_written_differently_are_one_result():
    laws = Erlang(1.0, 2), Gamma(1.0, 0.5**0.5), [Erlang(1.0, 2), Gamma(1.0, 0.5**0.5), Erlang(1.0, 2)]
    floors = [theory.noise_floor(0.2, workers=3, compute=law) for law in laws]
    assert floors == pytest.approx([floors[0]] * 3)
    floor, limit = theory.exponential_noise_floor(0.2, 2), theory.exponential_limit(2)
    for same in (Gamma(1.0, 1.0), HyperExponential((0.3, 0.7), (1.0, 1.0)), Straggler(Exponential(1.0), 0.0, 10.0)):
        assert theory.noise_floor(0.2, workers=2, compute=same) == pytest.approx(floor)
        assert theory.stability_limit(workers=2, compute=same) == pytest.approx(limit, rel=1e-9)


@pytest.mark.parametrize("law", [Exponential(1.0), Erlang(1.0, 2), Constant(1.0)])
def test_the_energy_of_small_steps_is_half_the_number_of_workers(law):
    assert theory.kinetic_energy(1e-5, workers=6, compute=law) == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize("law", [Exponential(1.0), Erlang(1.0, 2), Constant(1.0)])
@pytest.mark.parametrize(("momentum", "where"), [(0.0, "none"), (0.5, "server"), (0.5, "worker")])
def test_the_floor_is_infinite_from_the_limit_on(law, momentum, where):
    cluster = {"workers": 4, "compute": law, "momentum": momentum, "where": where}
    limit = theory.stability_limit(**cluster)
    for answer in (theory.noise_floor, theory.kinetic_energy):
        assert math.isfinite(answer(0.999 * limit, **cluster))
        assert answer(0.999 * limit, **cluster) > answer(0.9 * limit, **cluster)
        assert answer(1.001 * limit, **cluster) == math.inf
        assert answer(3 * limit, **cluster) == math.inf


FLOORS = {
    "hyper-exponential": (6, HyperExponential((0.9, 0.1), (0.5, 5.0)), 0.0, "none"),
    "two kinds of law": (4, [Exponential(1.0), Exponential(1.0), Erlang(0.5, 3), Erlang(0.5, 3)], 0.0, "none"),
    "exponential, server": (8, Exponential(1.0), 0.5, "server"),
    "constant, server": (6, Constant(1.0), 0.5, "server"),
    "erlang, worker": (4, Erlang(1.0, 2), 0.5, "worker"),
}


@pytest.mark.parametrize("name", FLOORS)
def test_floors_are_those_of_simulated_runs(name):
    workers, compute, momentum, where = FLOORS[name]
    cluster = {"workers": workers, "compute": compute, "momentum": momentum, "where": where}
    kappas = np.array([0.3, 0.6]) * theory.stability_limit(**cluster)
    rule = momentum_rule(momentum, where)
    floor = simulated_floor(workers, kappas, compute, rule, seeds=8, commits=2500, most=8)
    for found, error, predict in (
        (floor.variance, floor.variance_error, theory.noise_floor),
        (floor.energy, floor.energy_error, theory.kinetic_energy),
    ):
        expected = np.array([predict(kappa, **cluster) for kappa in kappas])
        # A t distribution with seven degrees of freedom: beyond 6.2 in less than one of a thousand cases.
        assert np.all(abs(found - expected) < 6.2 * error)
        assert np.all(error < 0.05 * expected)


def test_infinite_from_the_limit_on():
    limit = theory.exponential_limit(8, 2)
    assert np.isfinite(theory.exponential_noise_floor(0.999 * limit, 8, 2))
    assert theory.exponential_noise_floor(limit, 8, 2) == math.inf


def test_the_number_of_workers_at_which_stability_is_lost():
    most = theory.most_workers_on_quadratic(0.05, 0.9)
    for workers in (math.floor(most), math.ceil(most)):
        ratio = theory.energy_ratio(0.05, workers=workers, compute=Exponential(1.0), momentum=0.9)
        assert (ratio <= 1) == (workers <= most)
