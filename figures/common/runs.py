"""Runs of scenarios, kept by what they are and not by whose they are: figures that need the same run share it."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import asyncsim
from asyncsim import Result, Scenario, npz, run
from asyncsim.engine import Progress

FORMAT_VERSION = 1
COLUMNS = ("worker", "staleness", "commit_time")


@dataclass(frozen=True, eq=False)
class Outcome:
    """What figures need of a run, without its parameters.

    Attributes:
        workers: n.
        loss: (commits,) mini-batch losses; NaN after the run stopped because it had diverged.
        worker, staleness, commit_time: (commits,) columns of the whole trace.
        records, recorded_at: Name -> values, and the commits at which they were recorded.
        diverged_at: The first commit with something not finite, or None.
        test_loss, test_accuracy: Of the last central variable; NaN where the workload has no test.
        final_loss: Mean training loss of the last 50 commits of each worker; NaN after divergence.
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
        """Whole commits of each worker on average."""
        return len(self.loss) // self.workers


@dataclass(frozen=True)
class Runs:
    """Where runs come from.

    Attributes:
        folder: Where they are kept, one file for each scenario and version of asyncsim and JAX, with checkpoints of one
            that is under way; None to keep nothing.
        progress: Called with the scenario and a `Progress(done, total, loss)` now and then.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> workload = asim.workloads.quadratic([1.0])
        >>> outcome = Runs().outcome(asim.Scenario(cluster, asim.rules.downpour(0.1), workload, commits_per_worker=20))
        >>> outcome.commits_per_worker, outcome.staleness[-1], outcome.diverged_at
        (20, np.int32(1), None)
    """

    folder: Path | None = None
    progress: Callable[[Scenario, Progress], None] | None = None

    def has(self, scenario: Scenario) -> bool:
        """Whether the run is there and need not be made."""
        return self.folder is not None and self._file(self.folder, scenario).is_file()

    def outcome(self, scenario: Scenario) -> Outcome:
        """The run of a scenario, from the folder or made now; with a folder it can be interrupted and goes on.

        Raises:
            ReplayInterrupted: On Ctrl-C; with a folder, the next call goes on from a checkpoint.
            OSError: If a file cannot be written.
        """
        progress = None if self.progress is None else partial(self.progress, scenario)
        if self.folder is None:
            return outcome_of(run(scenario, progress=progress))
        file, unfinished = self._file(self.folder, scenario), self.folder / "unfinished" / scenario.digest
        kept = read(file)
        if kept is not None:
            return kept
        made = outcome_of(run(scenario, unfinished, progress=progress, picture=False))
        npz.write(file, to_arrays(made), version=FORMAT_VERSION)
        shutil.rmtree(unfinished)  # with all workers' parameters it takes a hundred times the room
        return made

    def forget(self, scenario: Scenario) -> None:
        """Remove a run and its checkpoints, so that it will be made again."""
        if self.folder is not None:
            self._file(self.folder, scenario).unlink(missing_ok=True)
            shutil.rmtree(self.folder / "unfinished" / scenario.digest, ignore_errors=True)

    @staticmethod
    def _file(folder: Path, scenario: Scenario) -> Path:
        return folder / f"{scenario.digest}_{asyncsim.__version__}_{jax.__version__}.npz"


def read(file: Path) -> Outcome | None:
    """A kept run; None where there is none or the file is damaged, as it can be made again."""
    try:
        return from_arrays(npz.read(file, kind="run", version=FORMAT_VERSION))
    except (FileNotFoundError, ValueError):
        return None


def outcome_of(result: Result) -> Outcome:
    """What is kept of a result."""
    trace, replayed, summary = result.trace, result.run, result.summary
    loss = np.full(len(trace), np.nan, np.float32)
    loss[: replayed.commits] = replayed.loss
    if replayed.diverged_at is not None:
        loss[replayed.diverged_at :] = np.nan
    return Outcome(
        workers=trace.workers,
        loss=loss,
        **{name: getattr(trace, name) for name in COLUMNS},
        records=replayed.records,
        recorded_at=replayed.recorded_at,
        diverged_at=replayed.diverged_at,  # type: ignore[arg-type]  # one seed
        test_loss=_number(summary["test_loss"]),
        test_accuracy=_number(summary["test_accuracy"]),
        final_loss=np.nan if replayed.diverged_at is not None else _number(summary["final_loss"]),
    )


def to_arrays(outcome: Outcome) -> dict[str, Any]:
    """The outcome as named arrays."""
    plain = {name: value for name, value in vars(outcome).items() if not isinstance(value, Mapping)}
    plain["diverged_at"] = -1 if outcome.diverged_at is None else outcome.diverged_at
    records = {f"records.{name}": values for name, values in outcome.records.items()}
    return {**plain, **records, **{f"recorded_at.{name}": at for name, at in outcome.recorded_at.items()}}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Outcome:
    """What `to_arrays` made."""
    own = {name: value for name, value in arrays.items() if "." not in name}
    single: dict[str, Any] = {name: value.item() if value.shape == () else value for name, value in own.items()}
    single["diverged_at"] = None if single["diverged_at"] < 0 else single["diverged_at"]
    return Outcome(**single, records=_part(arrays, "records."), recorded_at=_part(arrays, "recorded_at."))


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)
