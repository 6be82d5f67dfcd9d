"""Published algorithms in NumPy and optax, without any rule, on problems whose gradients are known.

They are compared with the plain loop, which takes a third of the time that a program takes to compile. That the engine
equals it for every rule is shown in `test_conformance.py`.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax

import asyncsim as asim
from asyncsim.engine.reference import replay_plainly
from asyncsim.workloads._batches import commit_key, init_key
from tests.problems import TRACES

H, START = np.array([1.0, 0.3, 0.05]), np.array([1.0, -2.0, 0.5])


def trace_of(kind="everything", **options):
    """A trace of this kind without jobs that continue from a worker's own value, which no published server has."""
    return TRACES[kind][0](**options, **({"owning": 0.0} if kind == "everything" else {}))


def arrivals(trace):
    """Worker of every commit, and the number of the commit after which it had read (0: at the start)."""
    closed = np.concatenate([[0], np.flatnonzero(trace.closes_step) + 1])
    return zip(trace.worker.tolist(), closed[trace.read_version].tolist(), strict=True)


def local_steps(x, rate, window):
    """The displacement of plain local steps."""
    end = x
    for _ in range(window):
        end = end - rate * H * end
    return end - x


def serve(trace, on_arrival):
    """θ after every commit: `on_arrival(worker, x, delay, θ)` returns the new one.

    `delay` counts how often `on_arrival` has set θ between the read and now; returning None leaves θ as it is.
    """
    thetas, sets = [START], [0]
    for worker, read in arrivals(trace):
        new = on_arrival(worker, thetas[read], sets[-1] - sets[read], thetas[-1])
        thetas.append(thetas[-1] if new is None else new)
        sets.append(sets[-1] + (new is not None))
    return np.array(thetas[1:])


def quadratic():
    return asim.workloads.Quadratic(H, start=START)  # in the precision of the test


def versions(trace, send, apply=np.add):
    """θ of every version: `send(k, thetas)` is the message of row k, and `apply(θ, mean message)` the server's step."""
    thetas, messages = [START], []
    for k in range(len(trace)):
        messages.append(send(k, thetas))
        if trace.closes_step[k]:
            thetas.append(apply(thetas[-1], np.mean(messages, axis=0)))
            messages = []
    return thetas


def assert_ends(trace, rule, thetas, replay=replay_plainly):
    """A replay on the quadratic ends where the algorithm by hand does."""
    np.testing.assert_allclose(replay(trace, rule, quadratic()).central["x"], thetas[-1], rtol=1e-9, atol=1e-13)


@cache
def slope(*weights):
    """A workload whose gradient is (1,), or these numbers, everywhere; it starts at 0."""

    @jax.jit
    def gradient(params, batch, key):
        slopes = jnp.asarray(weights or (1.0,), params["x"].dtype)
        return (params["x"] * slopes).sum(), {"x": slopes}

    return asim.Workload(lambda key: {"x": jnp.zeros(len(weights) or 1)}, loss=None, gradient=gradient)


def own_steps(optimiser, workload, steps, seed, worker=0, params=None, state=None, first=0):
    """Parameters and state of an optax optimiser after steps of one worker, in a training loop written by hand."""
    params = workload.init(init_key(seed)) if params is None else params
    state = optimiser.init(params) if state is None else state
    for job in range(first, first + steps):
        key = commit_key(jax.random.key(seed), worker, job)
        _, gradient = workload.loss_and_gradient(params, workload.batch(seed, worker, job), key)
        params, state = stepping(optimiser)(gradient, state, params)
    return params, state


@cache
def stepping(optimiser):
    """A step of an optax optimiser, compiled once."""

    @jax.jit
    def step(gradient, state, params):
        updates, state = optimiser.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    return step
