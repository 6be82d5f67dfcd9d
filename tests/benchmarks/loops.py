"""Loops to compare a replay with: bare gradients in one compiled loop, and bare memory traffic in another."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import asyncsim as asim
from asyncsim.engine._layout import Packing, row_packing
from asyncsim.engine._rows import at, put_row, take_row
from asyncsim.workloads._batches import Shuffles, init_key


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


def traffic_loop(rule: asim.Rule, workload: asim.Workload, trace: asim.Trace) -> Callable[[], Any]:
    """A function that moves the bytes of every commit, and computes next to nothing: no replay can be faster.

    A commit reads the worker's row and the central variable, and writes both.
    """
    params = Packing.of(workload.init(init_key(0))).seen_by(rule)
    parts = round(row_packing(rule, params, ()).size / params.size)
    rows = jax.numpy.zeros((trace.workers, 1, parts * params.size), params.dtype)
    central = jax.numpy.zeros(params.size, params.dtype)
    arguments = (rows, central, jax.numpy.asarray(trace.worker), jax.numpy.bool_(True))
    return lambda: jax.block_until_ready(_move(*arguments, parts=parts))


@partial(jax.jit, static_argnames="parts")
def _move(
    rows: jax.Array, central: jax.Array, worker: jax.Array, opaque_true: jax.Array, *, parts: int
) -> tuple[jax.Array, jax.Array]:
    size = central.shape[0]

    def commit(k: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rows, central = state
        row, place = take_row(rows, at(worker, k), opaque_true)
        central = central + row[0, :size]
        new = [row[:, part * size : (part + 1) * size] + central for part in range(parts)]
        return put_row(rows, new, place, [part * size for part in range(parts)]), central

    return jax.lax.fori_loop(0, len(worker), commit, (rows, central))
