"""Workers that differ: the compiled engine equals the plain loop, cut equals whole, seeds side by side equal one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine._loop import replay_chunk
from asyncsim.engine._replay import Replayer
from tests.problems import COMMITS, EXAMPLES, INPUTS, RULES, TRACES, compare, draw_bytes, gamma_trace, init_tree

PARTS = [range(9), range(9, 13), range(13, 20), [22, 21], [*range(23, EXAMPLES), 20]]  # of five workers


@jax.jit
def gradient_of_worker(params, batch, key, worker):
    """A small non-convex problem whose workers have other targets; the key must matter."""
    return jax.value_and_grad(loss_of_worker)(params, batch, key, worker)


def loss_of_worker(params, batch, key, worker):
    inputs, targets = batch
    outputs = jnp.tanh(inputs @ params["layers"][0] + params["bias"]) * params["layers"][1]
    keep = jax.random.key_data(key)[-1] % 4 > 0
    return jnp.mean(jnp.where(keep, outputs - targets * (1 + worker), 0.0) ** 2)


@jax.jit
def noise_of_worker(key, worker):
    return draw_bytes(key) * (1.0 + worker)


@jax.jit
def noisy_gradient(params, batch, key, *, worker):
    del key
    return 0.5 * jnp.sum((params["x"] - worker) ** 2), {"x": params["x"] - worker + batch}


def own_data():
    """Every worker has a part of the data, and targets of its own."""
    data = (INPUTS, np.sin(INPUTS[:, :2]))
    return asim.Workload(
        init_tree,
        loss_of_worker,
        data=data,
        batch_size=2,
        parts=PARTS,
        gradient=gradient_of_worker,
        weights=range(1, 6),
    )


def own_noise():
    """Every worker has a minimum and a noise of its own."""
    return asim.Workload(lambda key: {"x": jnp.ones(3)}, None, gradient=noisy_gradient, noise=noise_of_worker)


PROBLEMS = {"data": own_data, "noise": own_noise}
CROSSED = [
    ("downpour", "data", 8),
    ("gem_script", "noise", 1),
    ("downpour_window", "data", 1),
    ("aeasgd", "noise", 8),
    ("fedbuff_windows", "data", 8),
]


@pytest.mark.parametrize(("name", "problem", "lanes"), CROSSED)
def test_replay_equals_the_plain_loop(name, problem, lanes, x64):
    rule = RULES[name][0]()
    kind = "ordinary" if rule.collect else "everything"
    trace = TRACES[kind][0](commits=COMMITS.get(name, 40))
    compare(trace, rule, PROBLEMS[problem](), lanes)


def program(workload):
    replayer = Replayer(gamma_trace(workers=4, commits=40), RULES["gem_script"][0](), workload, lanes=4)
    count, chunk = replayer.feeder.chunk(0, 40)
    return replay_chunk.lower(replayer.carry, count, chunk, replayer.problem, layout=replayer.layout).as_text()


@pytest.mark.networks
def test_a_partition_needs_no_other_program():
    """Parts decide which examples the host asks for: the program is that of workers who have all, to a letter."""
    digits = asim.datasets.Digits()
    alike = program(asim.workloads.Softmax(digits, batch_size=8))
    shared = asim.datasets.partition(digits, 4, least=8)
    assert program(asim.workloads.Softmax(shared, batch_size=8)) == alike
    weighted = asim.datasets.partition(digits, 4, least=8, weighting="sizes")
    assert program(asim.workloads.Softmax(weighted, batch_size=8)) != alike
