"""Behaviour parameters: a worker draws data by its read, and takes the gradient at its last pull."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.engine import _devices as devices
from asyncsim.engine import _replay as replayer
from asyncsim.engine._replay import Replayer
from tests.problems import RULES, TRACES, by_group, compare, draw_bytes, init_tree, trace_for

LANE = (False, False, None)  # not batched, seeds not in turn, one device
ROLLOUTS = asim.Rollouts(
    slots=6, group=1, batch=3, generate=delays.Exponential(1.0), train=delays.Constant(0.4), lead=2
)
CASES = [
    ("ordinary", "downpour", 1),
    ("waiting", "gem_script", 8),
    ("early_pulls", "gem_signed_server", 3),
    ("own", "aeasgd", 8),
    ("everything", "downpour", 1),
    ("everything", "dana_zero", 3),
]


def tree_loss(params, batch, key, behaviour):
    """Another value for every exchange of what was read and what was pulled."""
    drawn = jnp.tanh(behaviour["layers"][0].sum(axis=1) + batch)
    outputs = drawn @ params["layers"][0] * params["layers"][1] + params["bias"] * behaviour["layers"][1]
    keep = jax.random.key_data(key)[-1] % 4 > 0
    return jnp.mean(jnp.where(keep, outputs - drawn.sum(), outputs) ** 2)


def tree_loss_of_worker(params, batch, key, worker, behaviour):
    return tree_loss(params, batch, key, behaviour) * (1 + worker)


GRADIENT = jax.jit(asim.Workload(init_tree, tree_loss).loss_and_gradient)
GRADIENT_OF_WORKER = jax.jit(jax.value_and_grad(tree_loss_of_worker))


def gradient(params, batch, key, behaviour):
    return GRADIENT(params, batch, key, behaviour)


def gradient_of_worker(params, batch, key, *, worker, behaviour):
    return GRADIENT_OF_WORKER(params, batch, key, worker, behaviour)


def workload(**options):
    return asim.Workload(init_tree, None, gradient=gradient, noise=draw_bytes, **options)


def product(params, batch, key, behaviour):
    """Its gradient is what drew the data plus twice the point."""
    return params["x"] * behaviour["x"] + params["x"] ** 2


@pytest.mark.quick
def test_gradients_at_the_newest_value_equal_those_by_hand(x64):
    """Two workers and θ ← θ - (read + 2·θ)/10 from 1: worker 0 has read 1, 1 and then the value after its commit."""
    line = asim.Workload(lambda key: {"x": jnp.ones(())}, product)
    trace = asim.Trace.from_commits([0, 1, 0])
    first = 1 - 0.1 * (1 + 2 * 1)
    second = first - 0.1 * (1 + 2 * first)
    third = second - 0.1 * (first + 2 * second)
    run = asim.replay(trace, asim.rules.Downpour(0.1), line, record=("central", "read"))
    np.testing.assert_allclose(run.records["central"].ravel(), [first, second, third], rtol=1e-14)
    np.testing.assert_allclose(run.records["read"].ravel(), [1, 1, first], rtol=1e-14)
    np.testing.assert_allclose(run.loss, [2, first + first**2, second * first + second**2], rtol=1e-14)


@pytest.mark.parametrize(("kind", "name", "lanes"), CASES)
def test_replay_equals_the_plain_loop(kind, name, lanes, x64):
    rule = RULES[name][0]()
    compare(trace_for(rule, kind, seed=2, commits=40), rule, workload(), lanes)


def test_rollouts_equal_the_plain_loop(x64):
    compare(asim.simulate(ROLLOUTS, commits=40), asim.rules.Downpour(0.05), workload(), lanes=8)


def test_parameter_groups_and_workers_that_differ_equal_the_plain_loop(x64):
    weighted = asim.Workload(
        init_tree, None, gradient=gradient_of_worker, noise=draw_bytes, weights=range(1, 6), groups=None
    )
    trace = by_group(TRACES["everything"][0](seed=2, commits=40, owning=0.0))
    compare(trace, asim.rules.Downpour(0.01), weighted.grouped(["first", "second", "first"]), lanes=3)


def test_gradients_of_one_step_are_taken_together():
    """And those of different steps are not: as many waves as steps, with lanes for the longest one."""
    trace = asim.simulate(ROLLOUTS, commits=42)
    replayer = Replayer(trace, asim.rules.Downpour(0.1), workload(), lanes=8)
    waves, chunk = replayer.feeder.chunk(0, 42)
    assert waves == trace.steps == 14
    assert chunk.wave_size[:waves].tolist() == [3] * 14


def test_no_more_lanes_than_a_step_has_commits(monkeypatch):
    asked = []
    monkeypatch.setattr(replayer, "choose_lanes", lambda *arguments: asked.append(arguments) or devices.Lanes(1, *LANE))
    Replayer(asim.simulate(ROLLOUTS, commits=42), asim.rules.Downpour(0.1), workload())
    assert asked[0][:2] == (None, 3)


def test_a_chunk_has_room_for_its_draws():
    """16 384 uniform numbers a commit: chunks are short, although there are few parameters."""
    trace = asim.Trace.from_commits([0, 1] * 20)
    many = asim.workloads.Bits(least=3, bits=4, samples=4096)
    few = asim.workloads.Bits(least=3, bits=4, samples=4)
    rule = asim.rules.Downpour(0.1)
    assert Replayer(trace, rule, many).feeder.length * 4096 * 4 * 4 <= 8 * 2**20
    assert Replayer(trace, rule, few).feeder.length > 1024
