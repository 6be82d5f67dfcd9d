"""Noise floors and kinetic energies: against known numbers, one another, and the simulator."""

import math

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, theory
from asyncsim.delays import Constant, Erlang, Exponential, Gamma, HyperExponential
from asyncsim.reports.stability import momentum_rule
from tests.theory.replicates import stationary, z_score

FAST_AND_SLOW = [Exponential(1 / rate) for rate in (1, 1, 1, 1, 2, 2, 4, 8)]


@pytest.mark.parametrize(
    ("workers", "share", "variance", "energy"), [(4, 0.3, 3.9828, 2.5096), (8, 0.3, 7.1612, 4.827)]
)
def test_known_values_of_exponential_workers(workers, share, variance, energy):
    kappa = share * theory.exponential_limit(workers)
    assert theory.exponential_noise_floor(kappa, workers) == pytest.approx(variance, abs=1e-4)
    assert theory.exponential_kinetic_energy(kappa, workers) == pytest.approx(energy, abs=1e-3)


def test_known_values_of_other_clusters():
    fast = theory.noise_floor(0.15, workers=8, compute=FAST_AND_SLOW)
    erlang = theory.noise_floor(0.3468, workers=4, compute=Erlang(1.0, 2))
    assert fast == pytest.approx(6.1548, abs=1e-4)
    assert erlang == pytest.approx(4.4246, abs=1e-4)


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
    mixed = HyperExponential((0.3, 0.7), (1.0, 1.0))
    assert theory.noise_floor(0.2, workers=3, compute=mixed) == pytest.approx(theory.exponential_noise_floor(0.2, 3))


def test_the_floor_grows_as_compute_times_become_regular():
    laws = [HyperExponential((0.9, 0.1), (0.5, 5.0)), Exponential(1.0), Erlang(1.0, 2), Erlang(1.0, 4), Constant(1.0)]
    floors = [theory.noise_floor(0.1, workers=8, compute=law) for law in laws]
    assert floors == sorted(floors)
    assert floors[1] == pytest.approx(8.911, abs=1e-3)
    assert floors[-1] == pytest.approx(11.511, abs=1e-3)


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


CASES = {
    "exponential": (8, Exponential(1.0), 0.2, 0.0, "none"),
    "round robin": (8, Constant(1.0), 0.1, 0.0, "none"),
    "round robin, server": (4, Constant(1.0), 0.05, 0.6, "server"),
    "round robin, worker": (4, Constant(1.0), 0.08, 0.6, "worker"),
    "erlang": (4, Erlang(1.0, 2), 0.35, 0.0, "none"),
    "hyper-exponential": (6, HyperExponential((0.9, 0.1), (0.5, 5.0)), 0.2, 0.0, "none"),
    "fast and slow": (8, FAST_AND_SLOW, 0.2, 0.0, "none"),
    "two kinds of law": (4, [Exponential(1.0), Exponential(1.0), Erlang(0.5, 3), Erlang(0.5, 3)], 0.25, 0.0, "none"),
    "exponential, server": (8, Exponential(1.0), 0.1, 0.5, "server"),
    "exponential, worker": (8, Exponential(1.0), 0.1, 0.5, "worker"),
    "erlang, worker": (4, Erlang(1.0, 2), 0.15, 0.5, "worker"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_agrees(name):
    workers, compute, kappa, momentum, where = CASES[name]
    rule = {
        "none": lambda: asim.rules.downpour(kappa),
        "server": lambda: momentum_rule(momentum, "server")(kappa),
        "worker": lambda: asim.rules.momentum_sgd(kappa, momentum=momentum),
    }[where]()
    variance, energy = stationary(asim.Cluster(workers, compute), rule, kappa, commits=4000, replicates=12)
    cluster = {"workers": workers, "compute": compute, "momentum": momentum, "where": where}
    # Twelve replicates: 4.5 standard errors of a t distribution with 11 degrees of freedom are passed 1 time in 1000.
    assert abs(z_score(variance, theory.noise_floor(kappa, **cluster))) < 4.5
    assert abs(z_score(energy, theory.kinetic_energy(kappa, **cluster))) < 4.5
    assert variance.std(ddof=1) / np.sqrt(12) < 0.02 * variance.mean(), "too noisy to tell anything"


@pytest.mark.parametrize("law", [Gamma(1.0, 0.3), delays.LogNormal(1.0, 0.5), delays.Uniform(0.5, 1.5)])
def test_laws_without_a_result_are_refused_with_a_way_out(law):
    with pytest.raises(ValueError, match=r"`compute` has no closed form.*Exponential.*lyapunov_exponent"):
        theory.noise_floor(0.1, workers=4, compute=law)


@pytest.mark.parametrize(
    "bad", [{"kappa": 0.0}, {"kappa": -1.0}, {"kappa": math.nan}, {"workers": 0}, {"momentum": 1.0}]
)
def test_arguments_that_cannot_be_meant(bad):
    good = {"kappa": 0.1, "workers": 4, "compute": Exponential(1.0), "momentum": 0.5, "where": "server"}
    with pytest.raises(ValueError, match=rf"`{next(iter(bad))}`"):
        theory.noise_floor(**(good | bad))
