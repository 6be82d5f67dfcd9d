"""Clusters drawn from a prior, simulated in the processes of a sweep, and kept in a folder as they come.

Each simulation depends on the model, the seed and its own number alone. So those that are kept are used again, whatever
stopped the work and however many are asked for next.
"""

import pickle
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import redirect_stdout, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim import npz
from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.model import Model
from asyncsim.calibration.simulated.summaries import Seen, summaries
from asyncsim.cluster import simulate
from asyncsim.cluster.simulation import Simulated
from asyncsim.engine.devices import cores
from asyncsim.study.processes import start_process, stop_processes, without_main
from asyncsim.trace import Trace

SECONDS = 2.0  # that a group of simulations takes, roughly: long beside its journey, short beside what Ctrl-C loses
COMMITS_PER_SECOND = 40_000
MOST_SECONDS = 60.0  # of a simulation, and
MOST_SLOWER = 100.0  # times as long as such many commits usually take: it may have many events for few commits
MOST_DEATHS = 2  # of processes, by one group, before it is given up
FORMAT_VERSION = 1  # of files
STREAM = 5  # of random numbers, beside those of other purposes


class Job(NamedTuple):
    """What is simulated.

    Attributes:
        model: The model.
        commits: Of each simulated log.
        seen: The columns that the log has; several, for statistics of the same logs seen in several ways.
        seed: Of all draws.
    """

    model: Model
    commits: int
    seen: tuple[Seen, ...]
    seed: int


class Simulations(NamedTuple):
    """What came of it.

    Attributes:
        values: (simulations, p) drawn from the prior.
        statistics: For each way of seeing, (simulations, k).
    """

    values: FloatArray
    statistics: tuple[FloatArray, ...]


class SimulationProgress(NamedTuple):
    """How far the simulations have come.

    Attributes:
        done: Simulations that are there, with those that were kept before.
        total: How many are wanted.
        new: Of those that are there, how many were made by this call.
        seconds: Since it began.
        stage: "simulating", and then "learning".
    """

    done: int
    total: int
    new: int
    seconds: float
    stage: str = "simulating"


Report = Callable[[SimulationProgress], None]
There = Callable[[int], Simulations | None]  # what is kept of a group


class ProcessesDied(RuntimeError):
    """Processes that simulate were killed, or ended by themselves, again and again."""


def simulations(
    job: Job,
    count: int,
    *,
    folder: Path | None = None,
    jobs: int | None = None,
    progress: Report | None = None,
) -> Simulations:
    """Draw and simulate.

    Args:
        job: What.
        count: How many.
        folder: Where they are kept, which must exist; None keeps nothing.
        jobs: Processes, by default one for each core; 0 computes in this one.
        progress: Called whenever some have come.

    Raises:
        ValueError: If the model cannot be sent to other processes, or fails on values that its prior draws.
        ProcessesDied: If processes die, again and again.
    """
    size = max(10, round(SECONDS * COMMITS_PER_SECOND / job.commits))
    begins = range(0, count, size)
    groups: dict[int, Simulations] = {}
    for begin in begins:
        kept = None if folder is None else read_group(folder, begin, size, job)
        if kept is not None:
            groups[begin] = kept
    missing = [begin for begin in begins if begin not in groups]
    begun = time.monotonic()
    before = sum(min(size, count - begin) for begin in groups)

    def tell() -> None:
        if progress is not None:
            done = sum(min(size, count - begin) for begin in groups)
            progress(SimulationProgress(done, count, done - before, time.monotonic() - begun))

    tell()
    there = lambda begin: None if folder is None else read_group(folder, begin, size, job)  # noqa: E731
    with_processes = jobs != 0 and len(missing) > 1
    source = _in_processes(job, size, missing, jobs, there) if with_processes else _here(job, size, missing, there)
    for begin, found, new in source:
        groups[begin] = found
        if folder is not None and new:
            write_group(folder, begin, found)
        tell()
    values = np.concatenate([groups[begin].values for begin in begins])[:count]
    rows = [np.concatenate([groups[begin].statistics[i] for begin in begins])[:count] for i in range(len(job.seen))]
    return Simulations(values, tuple(rows))


def simulate_group(job: Job, begin: int, size: int) -> Simulations:
    """The simulations of some successive numbers."""
    values, rows, workers = [], [], job.model.workers
    for number in range(begin, begin + size):
        generator = np.random.default_rng([job.seed, STREAM, number])
        drawn = job.model.at(generator.random(len(job.model.prior)))
        trace = _simulated(job, drawn, workers, int(generator.integers(2**31)))
        values.append(drawn)
        rows.append([list(summaries(trace, seen).values()) for seen in job.seen])
    return Simulations(np.array(values), tuple(np.array(columns) for columns in zip(*rows, strict=True)))


def _simulated(job: Job, drawn: FloatArray, workers: int, seed: int) -> Trace:
    """One log.

    Raises:
        ValueError: With the values drawn, if the cluster is of another size, gets stuck, or takes far too long.
    """
    cluster = job.model.cluster(drawn)
    if cluster.workers != workers:
        raise ValueError(
            f"`build` must give as many workers for all values; got {workers}, and {cluster.workers} at "
            f"{job.model.in_words(drawn)}. Fit one number of workers at a time."
        )
    most = MOST_SECONDS + MOST_SLOWER * job.commits / COMMITS_PER_SECOND
    begun = time.monotonic()

    def watch(simulated: Simulated) -> None:
        if time.monotonic() - begun > most:
            raise ValueError(
                f"the simulation takes more than {most:.0f} s, for {simulated.commits:,} of {job.commits:,} commits"
            )

    try:
        return simulate(cluster, commits=job.commits, seed=seed, progress=watch)
    except ValueError as error:
        what = str(error).rstrip(".")
        remedy = "Narrow the prior to values at which the cluster works."
        raise ValueError(
            f"`build` makes a cluster that fails at {job.model.in_words(drawn)}: {what}. {remedy}"
        ) from error


def read_group(folder: Path, begin: int, size: int, job: Job) -> Simulations | None:
    """A group that is kept; None if it is not there, damaged, or of another size."""
    found = npz.read_if_whole(_path(folder, begin), kind="simulation", version=FORMAT_VERSION)
    if found is None or len(found["values"]) != size:
        return None
    return Simulations(found["values"], tuple(found[f"statistics{i}"] for i in range(len(job.seen))))


def write_group(folder: Path, begin: int, group: Simulations) -> None:
    """Keep a group, whole or not at all; without waiting for the disk, because a damaged one is made again."""
    statistics = {f"statistics{i}": one for i, one in enumerate(group.statistics)}
    npz.write(_path(folder, begin), {"values": group.values, **statistics}, version=FORMAT_VERSION, sync=False)


def _path(folder: Path, begin: int) -> Path:
    return folder / f"simulations-{begin:08d}.npz"


def _here(job: Job, size: int, missing: list[int], there: There) -> Iterator[tuple[int, Simulations, bool]]:
    waiting = deque(missing)
    while waiting:
        begin = waiting.popleft()
        kept = there(begin)
        found = simulate_group(job, begin, size) if kept is None else kept
        _apart(waiting, there(begin))
        yield begin, found, kept is None


def _apart(waiting: "deque[int]", kept: Simulations | None) -> None:
    """Where another call has kept the group that is at hand, go on elsewhere: else both would do the same work."""
    if kept is not None and waiting:
        waiting.rotate(random.randrange(len(waiting)))


class _Processes:
    """Processes that simulate, each one group at a time, so that the one of which it dies is known."""

    def __init__(self, job: Job, size: int) -> None:
        self.content = _packed(job)
        self.size = size
        self.seats: list[ProcessPoolExecutor] = []
        self.busy: dict[Future[Any], tuple[int, ProcessPoolExecutor]] = {}

    def begin(self, group: int, seat: ProcessPoolExecutor | None) -> None:
        """Begin a group in a process, a new one if this is None or has ended unasked."""
        for _ in range(MOST_DEATHS + 1):
            if seat is None:
                seat = start_process()
                self.seats.append(seat)
            with suppress(BrokenExecutor), without_main():
                self.busy[seat.submit(_work, self.content, group, self.size)] = group, seat
                return
            self.remove(seat)
            seat = None
        raise ProcessesDied("Processes that should simulate die at once. Give `jobs=0` to do without.")

    def remove(self, seat: ProcessPoolExecutor) -> None:
        """Forget a process that died."""
        self.seats.remove(seat)
        seat.shutdown(wait=False)


def _in_processes(
    job: Job, size: int, missing: list[int], jobs: int | None, there: There
) -> Iterator[tuple[int, Simulations, bool]]:
    waiting, deaths = deque(missing), dict.fromkeys(missing, 0)
    processes = _Processes(job, size)
    free: list[ProcessPoolExecutor | None] = [None] * min(jobs or cores(), len(missing))
    try:
        while waiting or processes.busy:
            while free and waiting:
                begin = waiting.popleft()
                kept = there(begin)
                if kept is None:
                    processes.begin(begin, free.pop())
                    continue
                _apart(waiting, kept)
                yield begin, kept, False
            if not processes.busy:
                return
            done, _ = wait(processes.busy, return_when=FIRST_COMPLETED)
            for future in done:
                begin, seat = processes.busy.pop(future)
                error = future.exception()
                if isinstance(error, BrokenExecutor):
                    processes.remove(seat)
                    free.append(None)
                    deaths[begin] += 1
                    if deaths[begin] >= MOST_DEATHS:
                        raise ProcessesDied(
                            f"Processes died {MOST_DEATHS} times of simulations {begin} to {begin + size - 1}: killed, "
                            "or out of memory? Where a `store` keeps what is done, the same call goes on; `jobs=0` "
                            "shows why they die."
                        ) from error
                    waiting.appendleft(begin)
                    continue
                free.append(seat)
                if error is not None:
                    raise error
                _apart(waiting, there(begin))
                yield begin, Simulations(*future.result()), True
    finally:
        stop_processes(processes.seats)


def _packed(job: Job) -> bytes:
    """The job as bytes; functions that another process could not import travel by value, which takes cloudpickle."""
    remedy = "Let `build` make such things itself"
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler, remedy = pickle, "Define `build` at module level, install cloudpickle"
    try:
        return pickler.dumps(job)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"`model` cannot be sent to other processes: {error}. {remedy}, or give `jobs=0`.") from error


def _work(content: bytes, begin: int, size: int) -> tuple[Any, ...]:
    """As `simulate_group`, in another process; what `build` prints does not mix with a command's results."""
    with redirect_stdout(sys.stderr):
        return tuple(simulate_group(_unpacked(content), begin, size))


@lru_cache(maxsize=1)
def _unpacked(content: bytes) -> Job:
    return pickle.loads(content)
