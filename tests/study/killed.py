"""A sweep whose computations are counted, or kill the process that computes them: `python -m tests.study.killed`."""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np

import asyncsim as asim
from tests.problems import draw_bytes, init_quadratic, noisy_gradient

LOG = "ASYNCSIM_TEST_LOG"  # environment variable: the file in which computations are counted
PAUSE = "ASYNCSIM_TEST_PAUSE"  # environment variable: seconds that each of them lasts at least


def evaluate(params):
    """Called once for each run that is computed."""
    if not isinstance(params["x"], jax.core.Tracer):
        time.sleep(float(os.environ.get(PAUSE, "0")))
        with open(os.environ[LOG], "a") as file:
            file.write(f"{np.asarray(params['x']).tobytes().hex()} {os.getpid()}\n")
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


def sweep(store, runs, **options):
    return asim.sweep(asim.grid(scenario(), seed=range(runs)), store, **options)


def counted():
    """How often each result was computed."""
    path = Path(os.environ[LOG])
    return Counter(line.split()[0] for line in path.read_text().splitlines()) if path.exists() else Counter()


def main(store, runs, address=""):
    """Sweep with two processes, or on a Dask cluster."""
    if not address:
        return sweep(store, int(runs), jobs=2)
    from distributed import Client

    with Client(address) as client:
        return sweep(store, int(runs), executor=client.get_executor(retries=2))


if __name__ == "__main__":
    from tests.study import killed  # whose functions other processes import

    killed.main(*sys.argv[1:])
