"""Scenarios whose computations are counted, or kill the process that computes them; other processes import this."""

import multiprocessing
import os
import signal
from collections import Counter
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


def computed():
    """Each result that was computed, and the number of the process that did it."""
    path = Path(os.environ[LOG])
    return [tuple(line.split()) for line in path.read_text().splitlines()] if path.exists() else []


def counted():
    """How often each result was computed."""
    return Counter(result for result, _ in computed())


def have_computed(processes):
    """Those of the processes that have computed a result."""
    known = {int(process) for _, process in computed()}
    return [process for process in processes if process in known]
