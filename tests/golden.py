"""A dozen small runs whose numbers are kept, so that a change of the library that alters any is noticed.

`python -m tests.golden` computes and keeps them again, for a new `REVISION` (asyncsim/_version.py).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import asyncsim as asim
from asyncsim import compressors, delays, faults, protocols, rules, workloads
from asyncsim._version import REVISION
from asyncsim.files._hash import hash_parts

FILE = Path(__file__).with_suffix(".json")
COLUMNS = ("worker", "read_version", "version", "pull_version", "closes_step")
DIGITS = 9  # decimal digits of a number that are kept
GAMMA = delays.Gamma(mean=1.0, cv=0.5)


def bowl() -> asim.Workload:
    return workloads.Quadratic([1.0, 0.3, 0.1], noise=0.1)


def digits(**how: Any) -> asim.Workload:
    data = asim.datasets.Digits()
    return workloads.Softmax(asim.datasets.partition(data, workers=4, **how) if how else data, batch_size=8)


def cluster(**parts: Any) -> asim.Cluster:
    return asim.Cluster(**{"workers": 4, "compute": GAMMA, **parts})


RUNS: dict[str, Callable[[], tuple[asim.Cluster | asim.Rollouts, asim.Rule, asim.Workload]]] = {
    "gem": lambda: (cluster(), rules.GEM(0.05), bowl()),
    "gem, signed": lambda: (cluster(compute=delays.LogNormal(1.0, 0.8)), rules.GEM(0.01, variant="signed"), bowl()),
    "downpour, SSP, mlp": lambda: (
        cluster(protocol=protocols.SSP(2)),
        rules.Downpour(0.1),
        workloads.MLP(asim.datasets.Digits(), hidden=(6,), batch_size=8),
    ),
    "easgd, rounds": lambda: (cluster(protocol=protocols.Synchronous()), rules.EASGD(0.1, window=2), bowl()),
    "adam at the server, K-sync": lambda: (
        cluster(protocol=protocols.KSync(2), compute=delays.Exponential(1.0)),
        rules.ServerOptimiser(0.05, optimiser="adam"),
        bowl(),
    ),
    "fedbuff, network": lambda: (
        cluster(network=asim.Network(latency=delays.Exponential(0.1), bandwidth=1e3, message_bytes=12.0)),
        rules.FedBuff(0.1, server_learning_rate=1.0, buffer=2, window=2),
        bowl(),
    ),
    "dana, queue": lambda: (
        cluster(server=asim.Server(slots=1, service=delays.Gamma(0.2, 1.0))),
        rules.DANA(0.02),
        bowl(),
    ),
    "rennala": lambda: (cluster(), rules.Rennala(0.1, batch=3), bowl()),
    "compressed, faults": lambda: (
        cluster(faults=(faults.Crash(worker=1, time=3.0, restart_after=2.0), faults.MessageLoss(0.2, timeout=1.0))),
        rules.compressed(rules.MomentumSGD(0.02), compressors.RandK(0.4)),
        bowl(),
    ),
    "delay adaptive, gap": lambda: (
        cluster(server=asim.Server(atomic=False, resume="own", pull_to_commit=delays.Constant(0.3))),
        rules.DelayAdaptive(0.01),
        workloads.Surface("booth", noise=0.1, start=(0.0, 1.0)),
    ),
    "gap aware, parts of the data": lambda: (
        cluster(compute=delays.fleet.two_classes(GAMMA, 4, slow=1, factor=3.0)),
        rules.GapAware(0.05),
        digits(by="dirichlet", alpha=0.5),
    ),
    "policy gradients, rollouts": lambda: (
        asim.Rollouts(slots=8, group=2, batch=3, generate=GAMMA, train=delays.Constant(0.5), lead=1.5),
        rules.MomentumSGD(0.5),
        workloads.Bits(least=[2, 3], bits=4, samples=6, estimator="ppo"),
    ),
    "yellowfin, stragglers": lambda: (
        cluster(compute=delays.Straggler(GAMMA, probability=0.1, factor=5.0)),
        rules.YellowFin(0.01),
        bowl(),
    ),
}


def numbers_of(name: str) -> dict[str, Any]:
    """The schedule of a run, exactly, and its times, losses and final parameters in double precision, rounded.

    XLA, NumPy and the C library choose instructions by the processor, and what they compute differs in the last bits.
    The order of the commits does not depend on them.
    """
    with jax.enable_x64(True):
        machines, rule, workload = RUNS[name]()
        trace = asim.simulate(machines, commits=60, seed=1)
        run = asim.replay(trace, rule, workload, seed=2)
        central = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(run.central)])
        return {
            "schedule": hash_parts(*(np.ascontiguousarray(getattr(trace, column)) for column in COLUMNS)),
            "times": rounded(trace.commit_time[::20]),
            "loss": rounded(np.asarray(run.loss, float)[::12]),
            "central": rounded([np.linalg.norm(central), *central[:3]]),
        }


def rounded(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def as_kept() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    kept = {"revision": REVISION, "runs": {name: numbers_of(name) for name in RUNS}}
    FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
