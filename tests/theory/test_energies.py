"""Energies of plain asynchronous SGD and of its proxy, against traces, replays and one another."""

import math

import pytest

from asyncsim import theory
from asyncsim.delays import Constant, Exponential


@pytest.mark.parametrize("workers", [2, 5, 10, 20])
def test_known_drift_energies(workers):
    assert theory.drift_energy(workers=workers, compute=Exponential(1.0)) == workers * (2 * workers - 1) / 2
    assert theory.drift_energy(workers=workers, compute=Constant(1.0)) == workers**2 / 2


def test_small_steps_see_only_noise():
    for momentum in (0.0, 0.5, 0.9):
        small = theory.proxy_kinetic_energy(1e-9, momentum)
        assert small == pytest.approx(theory.proxy_noise_energy(momentum))
        assert theory.most_workers_on_quadratic(1e-9, momentum) == pytest.approx(1 / (1 - momentum**2))


def test_the_proxy_on_a_constant_gradient():
    velocity = 0.0
    for _ in range(400):
        velocity = 0.9 * velocity - 1
    assert theory.proxy_drift_energy(0.9) == pytest.approx(velocity**2 / 2)


def test_the_number_of_workers_at_which_stability_is_lost():
    most = theory.most_workers_on_quadratic(0.05, 0.9)
    for workers in (math.floor(most), math.ceil(most)):
        ratio = theory.energy_ratio(0.05, workers=workers, compute=Exponential(1.0), momentum=0.9)
        assert (ratio <= 1) == (workers <= most)


def test_infinite_where_it_is():
    assert theory.energy_ratio(0.6, workers=8, compute=Exponential(1.0)) == math.inf
    assert theory.proxy_noise_floor(3.9, 0.9) == theory.proxy_kinetic_energy(3.9, 0.9) == math.inf
    assert theory.most_workers_on_quadratic(3.9, 0.9) == math.inf
