"""Clusters drawn from a prior, simulated in the processes of a sweep, and kept in a folder as they come.

Each simulation depends on the model, the seed and its own number alone. So those that are kept are used again, whatever
stopped the work and however many are asked for next.
"""

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.model import Model
from asyncsim.calibration.summaries import Seen, summaries
from asyncsim.cluster import simulate
from asyncsim.engine.devices import cores
from asyncsim.files import atomic_write
from asyncsim.study.processes import start_process, stop_processes, without_main

SECONDS = 2.0  # that a group of simulations takes, roughly: long beside its journey, short beside what Ctrl-C loses
COMMITS_PER_SECOND = 40_000
MOST_DEATHS = 2  # of processes, by one group, before it is given up
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
        RuntimeError: If processes die.
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
    with_processes = jobs != 0 and len(missing) > 1
    for begin, found in _in_processes(job, size, missing, jobs) if with_processes else _here(job, size, missing):
        groups[begin] = found
        if folder is not None:
            write_group(folder, begin, found)
        tell()
    values = np.concatenate([groups[begin].values for begin in begins])[:count]
    rows = [np.concatenate([groups[begin].statistics[i] for begin in begins])[:count] for i in range(len(job.seen))]
    return Simulations(values, tuple(rows))


def simulate_group(job: Job, begin: int, size: int) -> Simulations:
    """The simulations of some successive numbers."""
    values, rows = [], []
    for number in range(begin, begin + size):
        generator = np.random.default_rng([job.seed, STREAM, number])
        drawn = job.model.at(generator.random(len(job.model.prior)))
        trace = simulate(job.model.cluster(drawn), commits=job.commits, seed=int(generator.integers(2**31)))
        values.append(drawn)
        rows.append([list(summaries(trace, seen).values()) for seen in job.seen])
    return Simulations(np.array(values), tuple(np.array(columns) for columns in zip(*rows, strict=True)))


def read_group(folder: Path, begin: int, size: int, job: Job) -> Simulations | None:
    """A group that is kept; None if it is not there, damaged, or of another size."""
    with suppress(OSError, ValueError, KeyError, EOFError, BadZipFile), open(_path(folder, begin), "rb") as content:
        file = np.load(content)
        statistics = tuple(file[f"statistics{i}"] for i in range(len(job.seen)))
        if file["values"].shape == (size, len(job.model.prior)) and all(len(one) == size for one in statistics):
            return Simulations(file["values"], statistics)
    return None


def write_group(folder: Path, begin: int, group: Simulations) -> None:
    """Keep a group, whole or not at all; without waiting for the disk, because a damaged one is made again."""
    arrays: dict[str, Any] = {f"statistics{i}": one for i, one in enumerate(group.statistics)}
    write = lambda file: np.savez(file, values=group.values, **arrays)  # noqa: E731
    atomic_write(_path(folder, begin), write, sync=False)


def _path(folder: Path, begin: int) -> Path:
    return folder / f"simulations-{begin:08d}.npz"


def _here(job: Job, size: int, missing: list[int]) -> Iterator[tuple[int, Simulations]]:
    for begin in missing:
        yield begin, simulate_group(job, begin, size)


def _in_processes(job: Job, size: int, missing: list[int], jobs: int | None) -> Iterator[tuple[int, Simulations]]:
    """Each process has one group at a time, so that the one of which it dies is known."""
    content = _packed(job)
    waiting, deaths = deque(missing), dict.fromkeys(missing, 0)
    seats: list[ProcessPoolExecutor] = []
    busy: dict[Future[Any], tuple[int, ProcessPoolExecutor]] = {}

    def begin_next(seat: ProcessPoolExecutor) -> None:
        if waiting:
            begin = waiting.popleft()
            with without_main():
                busy[seat.submit(_work, content, begin, size)] = begin, seat

    try:
        for _ in range(min(jobs or cores(), len(missing))):
            seats.append(start_process())
            begin_next(seats[-1])
        while busy:
            done, _ = wait(busy, return_when=FIRST_COMPLETED)
            for future in done:
                begin, seat = busy.pop(future)
                error = future.exception()
                if isinstance(error, OSError | RuntimeError) and "process" in str(error).lower():  # BrokenProcessPool
                    deaths[begin] += 1
                    if deaths[begin] >= MOST_DEATHS:
                        raise RuntimeError(
                            f"Processes die of simulations {begin} to {begin + size - 1} ({error}). What is done is "
                            "kept where there is a folder for it; give `jobs=0` to see why."
                        ) from error
                    waiting.appendleft(begin)
                    seats.remove(seat)
                    seat.shutdown(wait=False)
                    seat = start_process()
                    seats.append(seat)
                elif error is not None:
                    raise error
                else:
                    yield begin, Simulations(*future.result())
                begin_next(seat)
    finally:
        stop_processes(seats)


def _packed(job: Job) -> bytes:
    """The job as bytes; functions that another process could not import travel by value, which takes cloudpickle."""
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    try:
        return pickler.dumps(job)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        remedy = "Define `build` at module level, install cloudpickle (pip install 'asyncsim[calibrate]'), or give "
        raise ValueError(f"`model` cannot be sent to other processes: {error}. {remedy}`jobs=0`.") from error


def _work(content: bytes, begin: int, size: int) -> tuple[Any, ...]:
    """As `simulate_group`, in another process."""
    return tuple(simulate_group(_unpacked(content), begin, size))


@lru_cache(maxsize=1)
def _unpacked(content: bytes) -> Job:
    return pickle.loads(content)
