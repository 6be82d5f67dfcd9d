"""Scenarios whose computations are counted, or kill the process that computes them; other processes import this."""

import multiprocessing
import os
import signal
from pathlib import Path

import jax
import numpy as np

import asyncsim as asim
from tests.problems import draw_bytes, init_quadratic, noisy_gradient

LOG = "ASYNCSIM_TEST_LOG"  # environment variable: the file in which computations are counted


def evaluate(params):
    """Called once for each run that is computed."""
    if not isinstance(params["x"], jax.core.Tracer):
        with open(os.environ[LOG], "a") as file:
            file.write(f"{np.asarray(params['x']).tobytes().hex()}\n")
    return {"test_loss": (params["x"] ** 2).sum()}


def poison(key):
    """Kills every process but the first."""
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return init_quadratic(key)


def scenario(init=init_quadratic, **changes):
    return asim.Scenario(
        cluster=asim.Cluster(workers=3, compute=asim.delays.Constant(1.0)),
        rule=asim.rules.downpour(0.1),
        workload=asim.Workload(init, loss=None, gradient=noisy_gradient, noise=draw_bytes, evaluate=evaluate),
        commits=30,
        **changes,
    )


def counted():
    """How often each result was computed."""
    path = Path(os.environ[LOG])
    lines = path.read_text().split() if path.exists() else []
    return {line: lines.count(line) for line in lines}
