"""The time and the disk that many runs take, estimated from a piece of one, and a question before they start."""

import math
import sys
import tempfile
from typing import NamedTuple

import click

from asyncsim import _memory as memory
from asyncsim.scenario import Scenario
from asyncsim.study._batches import batches_of, compute
from asyncsim.study._store import open_store

MANY = 5000  # runs that are worth a question beforehand
PROBED = 2000  # commits, at most, by which the time and the disk of a run are estimated


class Cost(NamedTuple):
    """What a run takes."""

    seconds: float  # of wall time, once its program is compiled
    compiling: float  # seconds to compile the program, once in each process
    size: float  # bytes in the store


def confirm(base: Scenario, runs: int, processes: int) -> None:
    """Say how many runs these are, how long they take and how much disk, and ask."""
    cost = probe(base)
    where = f"{processes:,} process{'es' * (processes > 1)}"
    told = (
        f"{runs:,} runs: about {memory.duration(max(expected_seconds(cost, runs, processes), 1.0))} in {where}, and "
        f"{memory.size(runs * cost.size)} of disk, estimated from a piece of one run."
    )
    if not sys.stdin.isatty():
        raise click.UsageError(f"{told} Add --yes to start.")
    if not click.confirm(f"{told} Start?", err=True):
        raise click.UsageError("Not started.")


def expected_seconds(cost: Cost, runs: int, processes: int) -> float:
    """How long many runs take."""
    return cost.compiling + math.ceil(runs / processes) * cost.seconds


def processes_here(jobs: int | None) -> int:
    """Processes that compute at once: more of them than cores share the cores."""
    return max(1, memory.cores() if jobs is None else min(jobs, memory.cores()))


def probe(base: Scenario) -> Cost:
    """What a run like this one takes, measured on its first commits."""
    total = base.expected_commits
    short = base.override(commits=int(max(1, min(total, PROBED))))
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        (batch,) = batches_of([short])
        trace = store.trace(short)
        ((_, first),) = compute(batch, trace)  # which compiles
        ((result, seconds),) = compute(batch, trace)
        store.put(result, seconds)
        size = sum(path.stat().st_size for path in store.folder(short.digest).iterdir())
    share = total / len(trace)
    spent = seconds["wall_seconds"] - seconds["compile_seconds"]
    return Cost(spent * share, max(0.0, first["wall_seconds"] - spent), size * share)
