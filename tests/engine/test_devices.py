"""Devices that share the lanes give what one device gives."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import asyncsim as asim
from asyncsim.engine import devices, replayer
from asyncsim.engine.replayer import Replayer
from tests.problems import TRACES, gamma_trace, noisy_quadratic, tree_workload


@pytest.fixture
def share_everything(monkeypatch):
    if jax.local_device_count() < 2:
        pytest.skip("JAX has one device here; sharing lanes needs two")
    monkeypatch.setattr(devices, "HEAVY_GRADIENT", 0)


@pytest.mark.parametrize(
    ("workload", "seed", "kind"),
    [
        (tree_workload, 3, "ordinary"),
        (tree_workload, (3, 4), "ordinary"),
        (noisy_quadratic, 3, "ordinary"),
        (noisy_quadratic, (3, 4), "ordinary"),
        (noisy_quadratic, (3, 4), "everything"),
    ],
)
def test_two_devices_give_what_one_gives(workload, seed, kind, share_everything, x64):
    trace, rule, workload = TRACES[kind][0](workers=7, commits=90), asim.rules.gem(0.05), workload()
    layout = Replayer(trace, rule, workload, seed).layout
    assert (layout.devices, layout.lanes) == (2, 8)
    shared = asim.replay(trace, rule, workload, seed, record=("energy_proxy",))
    alone = asim.replay(trace, rule, workload, seed, record=("energy_proxy",), lanes=1)
    np.testing.assert_allclose(shared.loss, alone.loss, rtol=1e-10)
    np.testing.assert_allclose(shared.records["energy_proxy"], alone.records["energy_proxy"], rtol=1e-9)


@pytest.mark.parametrize("kind", ["ordinary", "everything"])
def test_shared_lanes_can_be_resumed(kind, share_everything):
    trace, rule, workload = TRACES[kind][0](workers=7, commits=90), asim.rules.gem(0.05), noisy_quadratic()
    whole = asim.replay(trace, rule, workload)
    half = asim.replay(trace, rule, workload, commits=64)
    np.testing.assert_array_equal(asim.replay(trace, rule, workload, resume=half).loss, whole.loss)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", [3, (3, 4)])
@pytest.mark.parametrize("workload", [tree_workload, noisy_quadratic])
def test_batched_lanes_equal_lanes_in_turn(workload, seed, shared, monkeypatch, x64):
    """The program of one accelerator, or of several, run on the CPU."""
    trace, rule, workload = gamma_trace(workers=7, commits=90), asim.rules.gem(0.05), workload()
    alone = asim.replay(trace, rule, workload, seed, lanes=1)
    mesh = Mesh(np.array(jax.local_devices()[:2]), ("lanes",)) if shared else None
    monkeypatch.setattr(replayer, "choose_lanes", lambda *_: devices.Lanes(4, batched=True, in_turn=False, mesh=mesh))
    batched = Replayer(trace, rule, workload, seed)
    assert batched.layout.batched
    while not batched.finished():
        batched.advance()
    np.testing.assert_allclose(batched.run().loss, alone.loss, rtol=1e-10)


@pytest.mark.parametrize("lanes", [1, 4])
def test_heavy_seeds_in_turn_equal_seeds_side_by_side(lanes, monkeypatch, x64):
    trace, rule, workload = gamma_trace(commits=90), asim.rules.gem(0.05), tree_workload()
    together = asim.replay(trace, rule, workload, (3, 4), lanes=lanes)
    monkeypatch.setattr(replayer, "choose_lanes", lambda *_: devices.Lanes(lanes, False, in_turn=True, mesh=None))
    np.testing.assert_allclose(asim.replay(trace, rule, workload, (3, 4)).loss, together.loss, rtol=1e-10)


@pytest.mark.parametrize("lanes", [0, -1, 1.5, True])
def test_impossible_lanes_are_refused(lanes):
    with pytest.raises(ValueError, match=r"`lanes` must be a whole number of at least 1"):
        asim.replay(gamma_trace(), asim.rules.gem(0.05), noisy_quadratic(), lanes=lanes)
