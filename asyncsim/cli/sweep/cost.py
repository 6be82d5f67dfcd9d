"""What many runs cost, judged by a piece of one, and a question before they start."""

import os
import sys
import tempfile
import time

import click

from asyncsim import memory
from asyncsim.scenario import Scenario
from asyncsim.study.store import open_store
from asyncsim.study.units import compute, units_of

MANY = 5000  # runs that are worth a question beforehand
PROBED = 2000  # commits, at most, by which the time and the disk of a run are estimated


def confirm(base: Scenario, runs: int) -> None:
    """Say how many runs these are, how long they take and how much disk, and ask.

    Raises:
        click.UsageError: If the answer is no, or there is nobody to ask.
    """
    seconds, size = probe(base)
    processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = (
        f"{runs:,} runs: some {memory.duration(max(runs * seconds / processes, 1.0))} on the {processes} cores here, "
        f"and {memory.size(runs * size)} of disk, judging by a piece of one."
    )
    if not sys.stdin.isatty():
        raise click.UsageError(f"{told} Add --yes to start.")
    if not click.confirm(f"{told} Start?", err=True):
        raise click.UsageError("Not started.")


def probe(base: Scenario) -> tuple[float, float]:
    """Seconds and bytes that a run like this one takes, measured on its first commits."""
    total = base.total or PROBED
    short = base.override(commits=min(total, PROBED))
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        (unit,) = units_of([short])
        trace = store.trace(short)
        compute(unit, trace)  # which compiles
        begun = time.perf_counter()
        ((result, seconds),) = compute(unit, trace)
        store.put(result, seconds)
        spent = time.perf_counter() - begun
        size = sum(path.stat().st_size for path in store.folder(short.digest).iterdir())
    share = total / len(trace)
    return spent * share, size * share
