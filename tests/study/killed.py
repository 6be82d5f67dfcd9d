"""A sweep whose computations last for a while, or kill the process that computes them."""

import multiprocessing
import os
import signal
import time

import jax

import asyncsim as asim
from tests.problems import draw_bytes, init_quadratic, noisy_gradient

PAUSE = "ASYNCSIM_TEST_PAUSE"  # environment variable: seconds that each computation lasts at least


def evaluate(params):
    """Called once for each run that is computed."""
    if not isinstance(params["x"], jax.core.Tracer):
        time.sleep(float(os.environ.get(PAUSE, "0")))
    return {"test_loss": (params["x"] ** 2).sum()}


def poison(key):
    """Kills every process but the first."""
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return init_quadratic(key)


def scenario(init=init_quadratic, **changes):
    return asim.Scenario(
        cluster=asim.Cluster(workers=3, compute=asim.delays.Constant(1.0)),
        rule=asim.rules.Downpour(0.1),
        workload=asim.Workload(init, loss=None, gradient=noisy_gradient, noise=draw_bytes, evaluate=evaluate),
        commits=30,
        **changes,
    )


def sweep(store, runs, where):
    """Sweep with this many processes, or on the Dask cluster of this address."""
    asked = asim.grid(scenario(), seed=range(int(runs)))
    if where.isdigit():
        return asim.sweep(asked, store, jobs=int(where))
    from distributed import Client

    with Client(where) as client:
        return asim.sweep(asked, store, executor=client.get_executor(retries=2))
