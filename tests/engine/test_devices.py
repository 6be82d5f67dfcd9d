"""Lanes shared by devices give what one device gives."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine import devices
from asyncsim.engine.replayer import Replayer
from tests.problems import gamma_trace, noisy_quadratic, tree_workload


@pytest.fixture
def share_everything(monkeypatch):
    if jax.local_device_count() < 2:
        pytest.skip("JAX has one device here; sharing lanes needs two")
    monkeypatch.setattr(devices, "HEAVY_GRADIENT", 0)


@pytest.mark.parametrize("seed", [3, (3, 4)])
@pytest.mark.parametrize("workload", [tree_workload, noisy_quadratic])
def test_two_devices_are_one(workload, seed, share_everything, x64):
    trace, rule, workload = gamma_trace(workers=7, commits=90), asim.rules.gem(0.05), workload()
    replayer = Replayer(trace, rule, workload, seed)
    assert (replayer.layout.devices, replayer.layout.lanes) == (2, 8)
    shared = asim.replay(trace, rule, workload, seed, record=("energy_proxy",))
    alone = asim.replay(trace, rule, workload, seed, record=("energy_proxy",), lanes=1)
    np.testing.assert_allclose(shared.loss, alone.loss, rtol=1e-10)
    np.testing.assert_allclose(shared.records["energy_proxy"], alone.records["energy_proxy"], rtol=1e-9)


def test_shared_lanes_can_be_resumed(share_everything):
    trace, rule, workload = gamma_trace(workers=7, commits=90), asim.rules.gem(0.05), tree_workload()
    whole = asim.replay(trace, rule, workload)
    half = asim.replay(trace, rule, workload, commits=64)
    np.testing.assert_array_equal(asim.replay(trace, rule, workload, resume=half).loss, whole.loss)


@pytest.mark.parametrize("lanes", [0, -1, 1.5, True])
def test_impossible_lanes_are_named(lanes):
    with pytest.raises(ValueError, match=r"`lanes` must be a whole number of at least 1"):
        asim.replay(gamma_trace(), asim.rules.gem(0.05), noisy_quadratic(), lanes=lanes)
