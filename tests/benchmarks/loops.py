"""The baseline of every tax: sequential SGD in one compiled loop, mini-batches gathered from the data, and no more."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import asyncsim as asim
from asyncsim.engine.batches import Shuffles, init_key


def gamma_trace(workers: int, cv: float, commits: int) -> asim.Trace:
    """A trace of nearly equal (cv .1) to exponential (cv 1) compute times."""
    return asim.simulate(asim.Cluster(workers, asim.delays.Gamma(mean=1.0, cv=cv)), commits=commits)


@partial(jax.jit, static_argnames="gradient")
def _descend(params: Any, data: Any, examples: jax.Array, key: jax.Array, *, gradient: Any) -> tuple[Any, jax.Array]:
    def step(params: Any, examples: jax.Array) -> tuple[Any, jax.Array]:
        batch = jax.tree.map(lambda array: array[examples], data)
        loss, slope = gradient(params, batch, key)
        return jax.tree.map(lambda p, g: p - 1e-4 * g, params, slope), loss

    return jax.lax.scan(step, params, examples)


def bare_loop(workload: asim.Workload, commits: int) -> Callable[[], Any]:
    """A function that takes `commits` gradients one after the other; mini-batches are chosen beforehand."""
    jobs = np.arange(commits)
    examples = Shuffles(workload.examples, workload.batch_size).take(0, np.zeros_like(jobs), jobs)
    arguments = (workload.init(init_key(0)), workload.device_data, jax.numpy.asarray(examples), jax.random.key(0))
    loop = partial(_descend, *arguments, gradient=workload.loss_and_gradient)
    return lambda: jax.block_until_ready(loop())
