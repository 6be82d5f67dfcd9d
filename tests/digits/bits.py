"""Compare runs alone, in a sweep in this process and in two others, and resumed after an interruption, bit by bit."""

import itertools
import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

import asyncsim as asim
from asyncsim import datasets, delays, workloads
from tests.digits.cases import ALL_RULES, FEW_RULES, SYSTEM, columns
from tests.digits.compute import few
from tests.digits.numbers import Parts, compare_parts, hash_part
from tests.digits.problems import images, own_workload
from tests.tables import CLUSTERS, PIPELINES

# So large that a run has several chunks and can be interrupted between two of them.
CONTEXTS = 64
os.environ["NPROC"] = "1"  # Convolutions round otherwise on more threads, and processes of a sweep have one each.
JOBS = (0, 2)  # processes of the sweeps that are compared, 0 for this one
LONG = {
    "quadratic": (lambda: workloads.Quadratic(np.linspace(0.1, 1.0, 3000), noise=0.1), 600),
    "own": (lambda: own_workload(batch_size=200), 1200),
    "mlp": (lambda: workloads.MLP(datasets.Digits(), hidden=(16, 8), batch_size=128), 600),
    "convnet": (lambda: workloads.ConvNet(images(), batch_size=4), 150),
    "transformer": (
        lambda: workloads.Transformer(datasets.Markov(1, 6, context=8), layers=2, width=16, batch_size=128),
        400,
    ),
    "bits": (lambda: workloads.Bits(least=[4] * CONTEXTS, bits=16, samples=32, estimator="ppo"), 2200),
}
SYSTEMS = CLUSTERS | {f"pipeline {name}": make for name, make in PIPELINES.items()}
SYSTEMS["rollouts"] = lambda: asim.Rollouts(**SYSTEM, train=delays.Constant(0.3), lead=1.5)


def list_scenarios() -> list[tuple[str, str, str]]:
    """List rules × workloads, and one rule on every kind of cluster, as names of rule, workload and cluster."""
    rows = [(rule, workload, "plain") for workload in ("quadratic", "own") for rule in ALL_RULES]
    rows += [(rule, workload, "plain") for workload in ("mlp", "convnet", "transformer") for rule in FEW_RULES]
    rows += [("momentum_sgd", "bits", "rollouts"), ("pipemare", "mlp", "pipeline pipedream")]
    rows += [(rule, "transformer", "plain") for rule in ("diloco", "local, muon", "local, compressed")]
    rows += [("downpour", "transformer", "pipeline pipedream")]
    return rows + [("gem_script", "quadratic", kind) for kind in SYSTEMS if kind != "plain"]


def build(rule: str, workload: str, kind: str) -> asim.Scenario:
    """Return a scenario by its names."""
    make, commits = LONG[workload]
    return asim.Scenario(SYSTEMS[kind](), ALL_RULES[rule](), make(), commits=commits, seed=3)


def interrupt(progress: asim.Progress) -> None:
    """Press Ctrl-C once, before the end."""
    if progress.done < progress.total:
        raise KeyboardInterrupt


def resume(scenario: asim.Scenario) -> asim.Result:
    """Interrupt a run after its first chunk, and call it again."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            asim.run(scenario, Path(folder, "run"), progress=interrupt, picture=False)
        except asim.ReplayInterrupted:
            return asim.run(scenario, Path(folder, "run"), picture=False)
    raise ValueError("The run is too short to be interrupted.")


def numbers_of(result: asim.Result) -> Parts:
    """Hash all that two computations of one scenario have in common."""
    run = result.run
    parts = {"schedule": columns(result.trace), "loss": run.loss, "records": run.records}
    return {name: hash_part(value) for name, value in (parts | {"central": jax.tree.leaves(run.central)}).items()}


def compare_bits(words: Sequence[str] = (), quick: bool = False) -> int:
    """Compare each scenario's ways to be computed, print those that differ, and return the status."""
    warnings.simplefilter("ignore")  # of rules that are made for rounds
    names = {f"{rule} on {workload}, {kind}": (rule, workload, kind) for rule, workload, kind in list_scenarios()}
    names = {name: row for name, row in names.items() if name.startswith(tuple(words) or "")}
    alone, scenarios = {}, {}
    for name in few(list(names)) if quick else names:
        try:
            scenario = build(*names[name])
            alone[name], scenarios[name] = numbers_of(asim.run(scenario)), scenario
        except ValueError as error:  # a rule that does not go with a cluster
            print(f"refused  {name}: {error}")
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        ways = {"resumed": resume}
        for jobs in JOBS:
            ways[f"swept, jobs={jobs}"] = asim.sweep(scenarios.values(), Path(folder, str(jobs)), jobs=jobs).result
        for name, way in itertools.product(scenarios, ways):
            difference = compare_parts(alone[name], numbers_of(ways[way](scenarios[name])))
            if difference:
                differing += 1
                print(f"differs  {name}, {way}: {difference}")
    print(f"{differing} of {len(scenarios) * len(ways)} comparisons differ")
    return int(differing > 0)
