"""Runs that are computed once: a cache from scenarios to what figures need of their runs, shared by whoever asks."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from asyncsim.cluster import Cluster, simulate
from asyncsim.delays import Constant
from asyncsim.engine import Progress, replay
from asyncsim.rules import Downpour
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.run import Result, run
from asyncsim.study.store import Store, open_store
from asyncsim.study.work import obtain
from asyncsim.version import __version__
from asyncsim.workloads import Workload

VERSIONS = f"asyncsim-{__version__},jax-{jax.__version__}"  # name of a folder: what other ones computed is not used
COLUMNS = ("worker", "staleness", "commit_time")  # of the trace, as far as figures need them
COMPILING = 8.0  # seconds that one of the larger networks' programs takes to compile
PROBED = 8  # workers in a probe of the speed, and commits of each
SLOWER = 1.3  # the time of GEM with its records over that of DOWNPOUR


@dataclass(frozen=True, eq=False)
class CachedRun:
    """What figures need of a run, without its parameters.

    Attributes:
        workers: Number of workers n.
        loss: (commits,) mini-batch losses; NaN after the run stopped because it had diverged.
        worker, staleness, commit_time: (commits,) columns of the whole trace.
        records, recorded_at: Name -> recorded values, and the commits at which they were recorded.
        diverged_at: The first commit with a non-finite loss or parameter, or None.
        test_loss, test_accuracy: Of the final central variable; NaN if the workload has no test set.
        final_loss: As `Run.final_loss` has it; NaN after divergence.
    """

    workers: int
    loss: np.ndarray = field(repr=False)
    worker: np.ndarray = field(repr=False)
    staleness: np.ndarray = field(repr=False)
    commit_time: np.ndarray = field(repr=False)
    records: Mapping[str, np.ndarray] = field(repr=False)
    recorded_at: Mapping[str, np.ndarray] = field(repr=False)
    diverged_at: int | None
    test_loss: float
    test_accuracy: float
    final_loss: float

    @property
    def commits_per_worker(self) -> int:
        """Commits of each worker on average, rounded down."""
        return len(self.loss) // self.workers


@dataclass(frozen=True)
class RunCache:
    """Where runs come from: the cache if it holds them, otherwise a replay.

    A run is found by its scenario, so that all figures that need the same run share it; and so do all processes that
    ask at the same time.

    Attributes:
        folder: Where results are kept: a store (`asyncsim.study.store`) for each version of asyncsim and JAX, as
            sweeps have them. None keeps nothing.
        progress: Called with the scenario and an `asyncsim.engine.Progress` after every chunk of a replay.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> workload = asim.workloads.quadratic([1.0])
        >>> run = RunCache().get(asim.Scenario(cluster, asim.rules.Downpour(0.1), workload, commits_per_worker=20))
        >>> run.commits_per_worker, run.staleness[-1], run.diverged_at
        (20, np.int32(1), None)
    """

    folder: Path | None = None
    progress: Callable[[Scenario, Progress], None] | None = None

    def has(self, scenario: Scenario) -> bool:
        """Whether the cache holds the run of a scenario."""
        return self.folder is not None and Store(self.folder / VERSIONS).has(scenario.digest)

    def get(self, scenario: Scenario) -> CachedRun:
        """The run of a scenario, replayed if the cache does not hold it.

        Raises:
            ReplayInterrupted: On Ctrl-C; with a folder, the next call resumes from a checkpoint.
            OSError: If a file cannot be written.
        """
        progress = None if self.progress is None else partial(self.progress, scenario)
        if self.folder is None:
            return cached_run(run(scenario, progress=progress))
        return cached_run(obtain(scenario, open_store(self.folder / VERSIONS), progress=progress))

    def forget(self, scenario: Scenario) -> None:
        """Remove a run and its checkpoints, so that the next `get` replays it from the start."""
        if self.folder is not None and (self.folder / VERSIONS).is_dir():
            open_store(self.folder / VERSIONS).discard(scenario.digest)

    def unused(self) -> list[Path]:
        """What the folder holds and this cache does not use: runs of other versions, which may be deleted."""
        found = [] if self.folder is None or not self.folder.is_dir() else self.folder.iterdir()
        return sorted(path for path in found if path.name != VERSIONS)


UNCACHED = RunCache()  # replays whatever it is asked for


def cached_run(result: Result) -> CachedRun:
    """The part of a result that is cached."""
    trace, replayed, summary = result.trace, result.run, result.summary
    loss = np.full(len(trace), np.nan, np.float32)
    loss[: replayed.commits] = replayed.loss
    if replayed.diverged_at is not None:
        loss[replayed.diverged_at :] = np.nan
    return CachedRun(
        workers=trace.workers,
        loss=loss,
        **{name: getattr(trace, name) for name in COLUMNS},
        records=replayed.records,
        recorded_at=replayed.recorded_at,
        diverged_at=replayed.diverged_at,  # type: ignore[arg-type]  # one seed
        test_loss=_or_nan(summary["test_loss"]),
        test_accuracy=_or_nan(summary["test_accuracy"]),
        final_loss=np.nan if replayed.diverged_at is not None else _or_nan(summary["final_loss"]),
    )


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else float(value)


class Estimate(NamedTuple):
    """The work that the cache does not spare.

    Attributes:
        runs: Number of replays.
        commits: Total number of their commits.
        seconds: Roughly how long they will take on this machine; 0 if there are none.
    """

    runs: int
    commits: int
    seconds: float


def estimate(scenarios: Iterable[Scenario], cache: RunCache) -> Estimate:
    """Count the runs that the cache lacks, and estimate their time from a few commits of each workload.

    This takes some seconds itself and is right to about a factor of two: where several cores share the gradients of
    a replay, runs with few workers are slower than the estimate.
    """
    missing = {scenario.digest: scenario for scenario in scenarios if not cache.has(scenario)}
    workloads = {id(scenario.workload): scenario.workload for scenario in missing.values()}
    cost = {key: SLOWER * seconds_per_commit(workload) for key, workload in workloads.items()}
    commits = seconds = 0.0
    for scenario in missing.values():
        commits += scenario.total or 0
        seconds += (scenario.total or 0) * cost[id(scenario.workload)]
    programs = len({(s.rule.name, s.cluster.workers, id(s.workload)) for s in missing.values()})
    return Estimate(len(missing), int(commits), seconds + COMPILING * programs)


def seconds_per_commit(workload: Workload) -> float:
    """Wall time per commit of DOWNPOUR with a few workers, measured when the program has been compiled."""
    trace = simulate(Cluster(PROBED, Constant(1.0)), commits=PROBED * PROBED)
    for _ in range(2):
        begun = time.perf_counter()
        replay(trace, Downpour(0.0), workload)
        spent = time.perf_counter() - begun
    return spent / len(trace)  # type: ignore[possibly-undefined]  # the loop ran


def in_words(seconds: float) -> str:
    """A duration, in words.

    Example:
        >>> in_words(40), in_words(700), in_words(9000)
        ('less than a minute', 'about 12 minutes', 'about 2.5 hours')
    """
    if seconds < 60:
        return "less than a minute"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"
