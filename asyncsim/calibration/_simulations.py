"""Clusters drawn from a prior, simulated in the processes of a queue, and stored in a folder as they finish.

Each simulation depends on the model, the seed and its own number alone. Stored simulations are therefore used again,
whatever stopped the work and however many are asked for next.
"""

import pickle
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asyncsim.calibration._model import Model
from asyncsim.calibration._statistics import Seen, summaries
from asyncsim.calibration._transforms import FloatArray
from asyncsim.cluster import simulate
from asyncsim.cluster._simulation import Simulated
from asyncsim.components._digest import reach
from asyncsim.components._user_files import own_modules
from asyncsim.files import _npz as npz
from asyncsim.pool import _queue as queue
from asyncsim.pool._parcels import dumps
from asyncsim.pool._queue import Outcome, Patience, Queue
from asyncsim.pool._slots import Call, slots
from asyncsim.store import _lease as lease
from asyncsim.store._labels import LEASES
from asyncsim.trace import Trace

SECONDS = 2.0  # that a group of simulations takes, roughly: far longer than its transfer, and Ctrl-C loses little
COMMITS_PER_SECOND = 40_000
MOST_SECONDS = 60.0  # of a simulation, and
MOST_SLOWER = 100.0  # times as long as such many commits usually take: it may have many events for few commits
FORMAT_VERSION = 2  # of files
STREAM = 5  # of random numbers, apart from those of other purposes


class Job(NamedTuple):
    """Simulations to be made."""

    model: Model  # the model
    commits: int  # of each simulated log
    seen: tuple[Seen, ...]
    seed: int  # of all draws


class Simulations(NamedTuple):
    """Finished simulations."""

    values: FloatArray  # (simulations, p) drawn from the prior
    statistics: tuple[FloatArray, ...]  # for each way of seeing, (simulations, k)


class SimulationProgress(NamedTuple):
    """The progress of the simulations."""

    done: int  # finished simulations, with those that were stored before
    total: int  # number of simulations that are wanted
    new: int  # number of finished simulations that this call made
    seconds: float  # since it began
    stage: str = "simulating"  # "simulating", and then "learning"


Report = Callable[[SimulationProgress], None]


class ProcessesDied(RuntimeError):
    """Processes that simulate were killed, or ended by themselves, again and again."""


def simulations(
    job: Job, count: int, *, folder: Path | None = None, jobs: int | None = None, progress: Report | None = None
) -> Simulations:
    """Draw and simulate."""
    work = _Simulating(job, count, folder, progress)
    missing = [_Group(begin, work.size, folder) for begin, group in work.groups.items() if group is None]
    if missing and work.leases is not None:
        work.leases.mkdir(exist_ok=True)
        lease.clear(work.leases)
    with slots(None, 0 if len(missing) < 2 else jobs, len(missing), (_check, None)) as found:
        for _ in Queue(work, missing).run(found):
            work.tell()
    groups = [group for group in work.groups.values() if group is not None]
    columns = zip(*(group.statistics for group in groups), strict=True)
    values = np.concatenate([group.values for group in groups])[:count]
    return Simulations(values, tuple(np.concatenate(column)[:count] for column in columns))


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
    """One log."""
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
    """A stored group, or None if it is missing, damaged, or of another size."""
    found = npz.read_if_whole(_path(folder, begin), kind="simulation", version=FORMAT_VERSION, owner=folder.name)
    if found is None or len(found["values"]) != size:
        return None
    return Simulations(found["values"], tuple(found[f"statistics{i}"] for i in range(len(job.seen))))


def write_group(folder: Path, begin: int, group: Simulations) -> None:
    """Store a group atomically, but without waiting for the disk, because a damaged one is made again."""
    statistics = {f"statistics{i}": one for i, one in enumerate(group.statistics)}
    arrays, notes = {"values": group.values, **statistics}, {npz.OWNER: folder.name}
    npz.write(_path(folder, begin), arrays, version=FORMAT_VERSION, notes=notes, sync=False)


def _path(folder: Path, begin: int) -> Path:
    return folder / f"simulations-{begin:08d}.npz"


@dataclass(frozen=True)
class _Group:
    """A task of the queue: simulations of successive numbers."""

    begin: int  # the first number
    size: int  # number of simulations
    folder: Path | None  # where they are stored, or None
    program: str = ""
    schedule: str = ""

    @cached_property
    def name(self) -> str:
        """The first number, which decides all others."""
        return f"{self.begin:08d}"

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """The name of its lease."""
        return (self.name,)


class _Simulating(queue.Job[_Group]):
    """Simulations in progress, with the arguments of `simulations`."""

    ends = (Exception,)

    def __init__(self, job: Job, count: int, folder: Path | None, progress: Report | None) -> None:
        self.job, self.count, self.folder, self.progress = job, count, folder, progress
        self.patience, self.leases = Patience(), None if folder is None else folder / LEASES
        self.size = max(10, round(SECONDS * COMMITS_PER_SECOND / job.commits))
        self.groups = {
            begin: None if folder is None else read_group(folder, begin, self.size, job)
            for begin in range(0, count, self.size)
        }
        self.before, self.begun = self._done, time.monotonic()

    @property
    def _done(self) -> int:
        return sum(min(self.size, self.count - begin) for begin, group in self.groups.items() if group is not None)

    @cached_property
    def _content(self) -> bytes:
        return dumps(self.job, own_modules(), reach, name="model", remedy="Let `build` make such things itself")

    def here(self, task: _Group) -> Outcome:
        """Simulate in this process."""
        return _simulate(task, self.job)

    def call(self, task: _Group) -> Call:
        """The same in another process."""
        return _work, (task, self._content)

    def receive(self, task: _Group, outcome: Outcome) -> None:
        """Take simulations."""
        self.groups[task.begin] = outcome.value

    def discard(self, task: _Group, reason: str) -> None:
        """End with the reason."""
        raise ProcessesDied(
            f"Simulations {task.begin} to {task.begin + task.size - 1} failed: {reason}. Killed, or out of memory? "
            "Where a `store` keeps finished simulations, the same call goes on; `jobs=0` shows why they die."
        )

    def tell(self) -> None:
        """Report the progress."""
        if self.progress is not None:
            new, seconds = self._done - self.before, time.monotonic() - self.begun
            self.progress(SimulationProgress(self._done, self.count, new, seconds))


def _simulate(task: _Group, job: Job) -> Outcome:
    """Read a group stored in the meantime, or else simulate and store it, unless another process is about to."""
    folder = task.folder
    with nullcontext(True) if folder is None else lease.leased(folder / LEASES, task.digests) as is_mine:
        found = None if folder is None else read_group(folder, task.begin, task.size, job)
        if found is None and is_mine:
            found = simulate_group(job, task.begin, task.size)
            if folder is not None:
                write_group(folder, task.begin, found)
    return Outcome(found, busy=found is None)


def _work(task: tuple[_Group, bytes]) -> Outcome:
    """As `_simulate`, in another process, where output of `build` does not mix with a command's results."""
    group, content = task
    with redirect_stdout(sys.stderr):
        return _simulate(group, _unpacked(content))


def _check(nothing: None) -> None:
    """Any process of this machine can simulate."""


@lru_cache(maxsize=1)
def _unpacked(content: bytes) -> Job:
    return pickle.loads(content)
