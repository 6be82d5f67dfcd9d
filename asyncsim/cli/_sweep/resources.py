"""The processes of a sweep, here or on a Dask cluster, and the time and the disk that many runs take."""

import math
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import click

from asyncsim import _memory as memory
from asyncsim.scenario import Scenario
from asyncsim.store._files import read_json
from asyncsim.study._lists import batches_of
from asyncsim.study._store import compute, open_store

MANY = 5000  # runs that are worth a question beforehand
PROBED = 2000  # commits, at most, by which the time and the disk of a run are estimated


class Cost(NamedTuple):
    """The time and the disk of a run."""

    seconds: float  # of wall time, once its program is compiled
    compiling: float  # seconds to compile the program, once in each process
    size: float  # bytes in the store


def confirm(base: Scenario, runs: int, processes: int) -> None:
    """Say how many runs these are, how long they take and how much disk, and ask."""
    cost = probe(base)
    where = f"{processes:,} process{'es' * (processes > 1)}"
    estimate = (
        f"{runs:,} runs: about {memory.duration(max(expected_seconds(cost, runs, processes), 1.0))} in {where}, and "
        f"{memory.size(runs * cost.size)} of disk, estimated from a piece of one run."
    )
    if not sys.stdin.isatty():
        raise click.UsageError(f"{estimate} Add --yes to start.")
    if not click.confirm(f"{estimate} Start?", err=True):
        raise click.UsageError("Not started.")


def expected_seconds(cost: Cost, runs: int, processes: int) -> float:
    """How long many runs take."""
    return cost.compiling + math.ceil(runs / processes) * cost.seconds


def processes_here(jobs: int | None) -> int:
    """Processes that compute at once: more of them than cores share the cores."""
    return max(1, memory.cores() if jobs is None else min(jobs, memory.cores()))


def probe(base: Scenario) -> Cost:
    """The cost of a run like this one, measured on its first commits."""
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


ADDRESS = r"([a-z]+://)?[^/\s]+:\d+"
REACHED = 5.0  # seconds in which a scheduler must answer


@contextmanager
def dask_executor(address: str | None, file: str | None) -> Iterator[Any]:
    """The executor of a Dask cluster."""
    if file is not None:
        _require_file(file)
    elif address is not None and not re.fullmatch(ADDRESS, address):
        example = "such as tcp://localhost:8786"
        raise click.UsageError(f"`--scheduler` must be an address with a port, {example}; got {address!r}.")
    try:
        from distributed import Client
    except ImportError as error:
        raise click.ClickException(
            "a Dask cluster needs dask[distributed], which is not installed. Run: pip install 'asyncsim[cluster]'"
        ) from error
    import logging

    for name in ("distributed", "distributed.client", "distributed.core", "tornado"):  # Dask sets some of them itself
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # the errors below say it in one line
    where = f"`--scheduler-file` {file!r}" if file is not None else f"`--scheduler` {address!r}"
    try:
        client = Client(address, scheduler_file=file, timeout=REACHED, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise click.ClickException(f"{where} cannot be reached within {REACHED:g} seconds: {reason}") from error
    try:
        if not client.nthreads():
            raise click.ClickException(f"{where} has no workers yet. Start some: dask worker …")
        yield client.get_executor()
    finally:
        with suppress(Exception):
            client.close(timeout=REACHED)


def _require_file(file: str) -> None:
    if not Path(file).is_file():
        raise click.ClickException(f"`--scheduler-file` {file!r} is not a file. Has the scheduler been started?")
    content = read_json(Path(file))
    if not isinstance(content, dict) or "address" not in content:
        remedy = "Start the scheduler anew: dask scheduler --scheduler-file FILE."
        raise click.ClickException(f"`--scheduler-file` {file!r} is not one that Dask has written. {remedy}")
