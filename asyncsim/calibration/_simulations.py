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
from asyncsim.calibration._statistics import Columns, summaries
from asyncsim.calibration._transforms import FloatArray
from asyncsim.cluster import simulate
from asyncsim.cluster._simulation import Simulated
from asyncsim.components._code_hash import hash_reachable
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
    columns: tuple[Columns, ...]  # sets of columns, from each of which statistics are computed
    seed: int  # of all draws


class Simulations(NamedTuple):
    """Finished simulations of clusters drawn from a prior.

    Attributes:
        values: (simulations, p) values of the parameters.
        statistics: For each set of columns an array (simulations, k), as `summarise` computes them.
    """

    values: FloatArray  # (simulations, p) drawn from the prior
    statistics: tuple[FloatArray, ...]  # for each set of columns, (simulations, k)


class SimulationProgress(NamedTuple):
    """The progress of the simulations."""

    done: int  # number of finished simulations, stored ones included
    total: int  # number of simulations of the call
    new: int  # number of simulations that this call has finished itself
    seconds: float  # since the call began
    stage: str = "simulating"  # "simulating", and then "learning"


Report = Callable[[SimulationProgress], None]


class ProcessesDied(RuntimeError):
    """Processes that simulate were killed, or ended by themselves, again and again."""


def simulations(
    job: Job, count: int, *, folder: Path | None = None, jobs: int | None = None, progress: Report | None = None
) -> Simulations:
    """Draw clusters from the prior, and simulate them."""
    work = _Simulating(job, count, folder, progress)
    missing = [_Group(begin, work.size, folder) for begin, group in work.groups.items() if group is None]
    if missing and work.leases is not None:
        work.leases.mkdir(exist_ok=True)
        lease.remove_void(work.leases)
    with slots(None, 0 if len(missing) < 2 else jobs, len(missing), (_check, None)) as processes:
        for _ in Queue(work, missing).run(processes):
            work.report()
    groups = [group for group in work.groups.values() if group is not None]
    columns = zip(*(group.statistics for group in groups), strict=True)
    values = np.concatenate([group.values for group in groups])[:count]
    return Simulations(values, tuple(np.concatenate(column)[:count] for column in columns))


def simulate_group(job: Job, begin: int, size: int) -> Simulations:
    """Simulate some successive numbers."""
    values, rows, workers = [], [], job.model.workers
    for number in range(begin, begin + size):
        generator = np.random.default_rng([job.seed, STREAM, number])
        drawn = job.model.at(generator.random(len(job.model.prior)))
        trace = _simulate_log(job, drawn, workers, int(generator.integers(2**31)))
        values.append(drawn)
        rows.append([list(summaries(trace, columns).values()) for columns in job.columns])
    return Simulations(np.array(values), tuple(np.array(columns) for columns in zip(*rows, strict=True)))


def _simulate_log(job: Job, drawn: FloatArray, workers: int, seed: int) -> Trace:
    """Simulate one log."""
    cluster = job.model.cluster(drawn)
    if cluster.workers != workers:
        raise ValueError(
            f"`build` must give as many workers for all values; got {workers}, and {cluster.workers} at "
            f"{job.model.in_words(drawn)}. Fit one number of workers at a time."
        )
    most = MOST_SECONDS + MOST_SLOWER * job.commits / COMMITS_PER_SECOND
    start = time.monotonic()

    def watch(simulated: Simulated) -> None:
        if time.monotonic() - start > most:
            raise ValueError(
                f"the simulation takes more than {most:.0f} s, for {simulated.commits:,} of {job.commits:,} commits"
            )

    try:
        return simulate(cluster, commits=job.commits, seed=seed, progress=watch)
    except ValueError as error:
        reason = str(error).rstrip(".")
        remedy = "Narrow the prior to values at which the cluster works."
        raise ValueError(
            f"`build` makes a cluster that fails at {job.model.in_words(drawn)}: {reason}. {remedy}"
        ) from error


def read_group(folder: Path, begin: int, size: int, job: Job) -> Simulations | None:
    """Read a stored group, or return None if it is missing, damaged, or of another size."""
    content = npz.read_if_whole(_path(folder, begin), kind="simulation", version=FORMAT_VERSION, owner=folder.name)
    if content is None or len(content["values"]) != size:
        return None
    return Simulations(content["values"], tuple(content[f"statistics{i}"] for i in range(len(job.columns))))


def write_group(folder: Path, begin: int, group: Simulations) -> None:
    """Store a group atomically, but without waiting for the disk, because a damaged one is simulated again."""
    statistics = {f"statistics{i}": columns for i, columns in enumerate(group.statistics)}
    arrays, notes = {"values": group.values, **statistics}, {npz.OWNER: folder.name}
    npz.write(_path(folder, begin), arrays, version=FORMAT_VERSION, notes=notes, sync=False)


def _path(folder: Path, begin: int) -> Path:
    """Return the file of a group."""
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
        self.stored, self.start = self._done, time.monotonic()

    @property
    def _done(self) -> int:
        """Number of finished simulations."""
        return sum(min(self.size, self.count - begin) for begin, group in self.groups.items() if group is not None)

    @cached_property
    def _content(self) -> bytes:
        """The job as other processes receive it."""
        return dumps(
            self.job, own_modules(), hash_reachable, name="model", remedy="Let `build` make such things itself"
        )

    def here(self, task: _Group) -> Outcome:
        """Simulate in this process."""
        return _simulate(task, self.job)

    def call(self, task: _Group) -> Call:
        """Return the call that simulates in another process."""
        return _work, (task, self._content)

    def receive(self, task: _Group, outcome: Outcome) -> None:
        """Store the simulations of a group."""
        self.groups[task.begin] = outcome.value

    def discard(self, task: _Group, reason: str) -> None:
        """Raise an error with the reason."""
        raise ProcessesDied(
            f"Simulations {task.begin} to {task.begin + task.size - 1} failed: {reason}. Killed, or out of memory? "
            "Where a `store` keeps finished simulations, the same call goes on; `jobs=0` shows why they die."
        )

    def report(self) -> None:
        """Report the progress."""
        if self.progress is not None:
            new, seconds = self._done - self.stored, time.monotonic() - self.start
            self.progress(SimulationProgress(self._done, self.count, new, seconds))


def _simulate(task: _Group, job: Job) -> Outcome:
    """Read a group that was stored meanwhile, or else simulate and store it, unless another process is about to."""
    folder = task.folder
    with nullcontext(True) if folder is None else lease.hold_batch(folder / LEASES, task.digests) as is_mine:
        group = None if folder is None else read_group(folder, task.begin, task.size, job)
        if group is None and is_mine:
            group = simulate_group(job, task.begin, task.size)
            if folder is not None:
                write_group(folder, task.begin, group)
    return Outcome(group, busy=group is None)


def _work(task: tuple[_Group, bytes]) -> Outcome:
    """Do the work of `_simulate` in another process, where output of `build` does not mix with a command's results."""
    group, content = task
    with redirect_stdout(sys.stderr):
        return _simulate(group, _unpack(content))


def _check(nothing: None) -> None:
    """Accept any process, because all of this machine can simulate."""


@lru_cache(maxsize=1)
def _unpack(content: bytes) -> Job:
    """Unpack the job, once in each process."""
    return pickle.loads(content)
