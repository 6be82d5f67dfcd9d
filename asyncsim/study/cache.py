"""Runs that are computed once: a cache from scenarios to what figures need of their runs, shared by whoever asks."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from asyncsim import npz
from asyncsim.cluster import Cluster, simulate
from asyncsim.delays import Constant
from asyncsim.engine import Progress, replay
from asyncsim.files import remove_temporary_files
from asyncsim.rules import downpour
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.keep import locked, make_folder
from asyncsim.study.run import Result, run
from asyncsim.version import __version__
from asyncsim.workloads import Workload

FORMAT_VERSION = 1
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
        final_loss: Mean training loss of each worker's last 50 commits; NaN after divergence.
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

    A run is found by its scenario, so that all figures that need the same run share it.

    Attributes:
        folder: Where runs are stored: one file for each scenario and version of asyncsim and JAX, and the checkpoints
            of an unfinished run. None stores nothing.
        progress: Called with the scenario and an `asyncsim.engine.Progress` after every chunk of a replay.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> workload = asim.workloads.quadratic([1.0])
        >>> run = RunCache().get(asim.Scenario(cluster, asim.rules.downpour(0.1), workload, commits_per_worker=20))
        >>> run.commits_per_worker, run.staleness[-1], run.diverged_at
        (20, np.int32(1), None)
    """

    folder: Path | None = None
    progress: Callable[[Scenario, Progress], None] | None = None

    def has(self, scenario: Scenario) -> bool:
        """Whether the cache holds the run of a scenario."""
        return self.folder is not None and self._file(self.folder, scenario).is_file()

    def get(self, scenario: Scenario) -> CachedRun:
        """The run of a scenario, replayed if the cache does not hold it.

        Raises:
            ReplayInterrupted: On Ctrl-C; with a folder, the next call resumes from a checkpoint.
            ValueError: If another process replays this scenario for the same cache.
            OSError: If a file cannot be written.
        """
        progress = None if self.progress is None else partial(self.progress, scenario)
        if self.folder is None:
            return cached_run(run(scenario, progress=progress))
        file, unfinished = self._file(self.folder, scenario), self._unfinished(self.folder, scenario)
        found = read(file)
        if found is not None:
            return found
        make_folder(self.folder)
        with locked(self.folder, scenario.digest):
            found = read(file)  # which another process may have written by now
            if found is not None:
                return found
            remove_temporary_files(self.folder, (file.name,))
            computed = cached_run(run(scenario, unfinished, progress=progress, picture=False))
            npz.write(file, to_arrays(computed), version=FORMAT_VERSION)
            shutil.rmtree(unfinished)  # with all workers' parameters, a hundred times as large as the file
        return computed

    def forget(self, scenario: Scenario) -> None:
        """Remove a run and its checkpoints, so that the next `get` replays it from the start."""
        if self.folder is None or not self.folder.is_dir():
            return
        with locked(self.folder, scenario.digest):
            self._file(self.folder, scenario).unlink(missing_ok=True)
            shutil.rmtree(self._unfinished(self.folder, scenario), ignore_errors=True)

    @staticmethod
    def _file(folder: Path, scenario: Scenario) -> Path:
        return folder / f"{scenario.digest}_{__version__}_{jax.__version__}.npz"

    @staticmethod
    def _unfinished(folder: Path, scenario: Scenario) -> Path:
        return folder / "unfinished" / scenario.digest


UNCACHED = RunCache()  # replays whatever it is asked for


def read(file: Path) -> CachedRun | None:
    """A run from its file; None if there is no file or it is damaged, because the run can be computed again."""
    try:
        return from_arrays(npz.read(file, kind="run", version=FORMAT_VERSION))
    except (FileNotFoundError, ValueError):
        return None


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


def to_arrays(cached: CachedRun) -> dict[str, Any]:
    """The run as named arrays."""
    single = {name: value for name, value in vars(cached).items() if not isinstance(value, Mapping)}
    single["diverged_at"] = -1 if cached.diverged_at is None else cached.diverged_at
    records = {f"records.{name}": values for name, values in cached.records.items()}
    return {**single, **records, **{f"recorded_at.{name}": at for name, at in cached.recorded_at.items()}}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> CachedRun:
    """The inverse of `to_arrays`."""
    own = {name: value for name, value in arrays.items() if "." not in name}
    single: dict[str, Any] = {name: value.item() if value.shape == () else value for name, value in own.items()}
    single["diverged_at"] = None if single["diverged_at"] < 0 else single["diverged_at"]
    return CachedRun(**single, records=_below(arrays, "records."), recorded_at=_below(arrays, "recorded_at."))


def _below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


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
        replay(trace, downpour(0.0), workload)
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
