"""Results are written here, and read: the files of a scenario, and the summaries of comparisons and experiments.

Folders of `asyncsim.run`, entries of a store and checkpoints have the same files, each of which names its owner:

    scenario.json  the label: digest, description and origin. The lease of a folder writes it, when the work begins
    trace.npz      the schedule. In a store, scenarios share it, and its owner is the digest of the schedule
    run.npz        the replay, the seconds that it took, and its summary once it is complete
    summary.json   the summary, the last file: a folder that has it is complete

A checkpoint is a run file without a summary. Both are written by `write_run`.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim._metrics import SHORT, is_notable, metric, metric_text
from asyncsim.engine import Run
from asyncsim.engine import _run_file as run_file
from asyncsim.files import _npz as npz
from asyncsim.files._json import keep_owned, write_owned
from asyncsim.scenario._rebuild import label_notes
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._entry import Folder
from asyncsim.store._labels import RUN, SUMMARY, TRACE, write_label
from asyncsim.store._labels import SCENARIO as LABEL
from asyncsim.study._summary import summarise
from asyncsim.trace import Trace

SECONDS = ("wall_seconds", "compile_seconds")  # notes in a run file
OWN_TRACE = "trace of this scenario"

Seconds = dict[str, float]  # name in `SECONDS` -> what a replay has taken so far


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The results of a scenario.

    Attributes:
        scenario: The scenario, or None if `asyncsim.load` could not rebuild it, because a part is of your own and its
            module is not imported. Trace, losses, parameters and summary are there nevertheless.
        trace: Its schedule.
        run: Its replay.
        summary: Numbers by name, as in ``summary.json``.
        folder: The folder that keeps them, or None.
        recomputed: Whether anything was replayed, rather than everything found in the folder.
        reason: Why there is no scenario, or empty.
    """

    scenario: Scenario | None
    trace: Trace
    run: Run
    summary: dict[str, Any]
    folder: Path | None = None
    recomputed: bool = True
    reason: str = ""

    def __repr__(self) -> str:
        values = {key: self.summary.get(key) for key in SHORT}
        notable = [(key, value) for key, value in values.items() if value is not None and is_notable(key, value)]
        numbers = [f"{metric(key).label} {metric_text(key, value)}" for key, value in notable]
        location = [] if self.folder is None else [f"in {self.folder}"]
        study = repr(self.scenario) if self.scenario is not None else f"no scenario, because {self.reason.rstrip('.')}"
        return f"Result({'; '.join([study, *numbers, *location])})"

    def require_scenario(self) -> Scenario:
        """Return the scenario.

        Raises:
            ValueError: If there is none, with the reason and the remedy.
        """
        if self.scenario is None:
            raise ValueError(
                f"The scenario in {str(self.folder)!r} was not rebuilt: {self.reason.rstrip('.')}. Or give it: "
                "asim.load(…, scenario=…), or `--script FILE` with the script that defines it."
            )
        return self.scenario


class Replayed(NamedTuple):
    """A replay as far as it has got."""

    run: Run
    seconds: Seconds
    summary: dict[str, Any] | None = None  # None until the replay is complete


def read_trace(scenario: Scenario, path: Path) -> Trace:
    """Read the schedule of a scenario, and refuse that of another one."""
    trace = Trace.load(path)
    npz.read_own_notes(path, scenario.digest, scenario.schedule_digest, kind=OWN_TRACE)
    if scenario.trace is not None and trace.digest != scenario.trace.digest:  # A recorded one is part of the scenario.
        raise ValueError(npz.explain_foreign(path, OWN_TRACE))
    return scenario.in_steps(trace)


def write_trace(scenario: Scenario, trace: Trace, path: Path, *, shared: bool = False) -> None:
    """Write the schedule of a scenario, without waiting for the disk if scenarios share it: a lost one is simulated."""
    owner = scenario.schedule_digest if shared else scenario.digest
    trace.save(path, attributes={npz.OWNER: owner}, sync=not shared)


def read_run(scenario: Scenario, path: Path) -> Replayed:
    """Read the replay of a scenario, and refuse that of another one."""
    return Replayed(Run.load(path, scenario.rule, scenario.workload), *_read_notes(path, scenario.digest))


def write_run(scenario: Scenario, replayed: Replayed, path: Path, **options: bool) -> None:
    """Write a replay, complete or not, with options of `run_file.write`."""
    run, seconds, summary = replayed
    complete = {} if summary is None else {SUMMARY: json.dumps(summary)}
    run_file.write(path, vars(run), {npz.OWNER: scenario.digest, **seconds, **complete}, **options)


def _read_notes(path: Path, digest: str) -> tuple[Seconds, dict[str, Any] | None]:
    """Read the seconds of a replay and, if it is complete, its summary."""
    notes = npz.read_own_notes(path, digest, kind="run of this scenario")
    summary = notes.get(SUMMARY)
    return {name: notes[name] for name in SECONDS if name in notes}, json.loads(summary) if summary else None


def read_result(scenario: Scenario, folder: Path) -> Result:
    """Read the results in a folder, as far as the replay has got."""
    trace = read_trace(scenario, folder / TRACE)
    run, seconds, summary = read_run(scenario, folder / RUN)
    summary = summary or summarise(trace, run, **seconds, scenario=scenario)
    return Result(scenario, trace, run, summary, folder, recomputed=False)


def read_data(digest: str, folder: Path, reason: str) -> Result:
    """Read the results in a folder as far as they are data, where `reason` says why there is no scenario."""
    # Without rule and workload, parameters have names in place of a tree, and nothing can be resumed.
    trace, run = Trace.load(folder / TRACE), Run(**run_file.read(folder / RUN, None, None))
    seconds, summary = _read_notes(folder / RUN, digest)
    if run.workers != trace.workers or not np.array_equal(run.worker, trace.worker[: run.commits]):
        raise ValueError(npz.explain_foreign(folder / TRACE, OWN_TRACE))
    summary = summary or summarise(trace, run, **seconds, test={}, scenario=None)
    return Result(None, trace, run, summary, folder, recomputed=False, reason=reason)


def keep_summary(folder: Path | Folder, summary: Mapping[str, Any], digest: str) -> None:
    """Write the summary of a study, after which its folder is complete, unless the file there says the same."""
    keep_owned(folder / SUMMARY, summary, digest)


def write_entry(
    result: Result, seconds: Seconds, schedule: Path, origin: Mapping[str, Any] | None, folder: Path
) -> None:
    """Write complete results into a new folder, with a link to the schedule, which scenarios of a store share."""
    scenario = result.require_scenario()
    replayed = Replayed(result.run, seconds, result.summary)
    # The state from which a run is resumed is n times as large as all else, and a complete run is not resumed.
    write_run(scenario, replayed, folder / RUN, resumable=False, new=True)
    try:
        os.link(schedule, folder / TRACE)
    except FileNotFoundError:
        # A recorded trace is written as it is, before the rule makes its steps of it.
        trace = result.trace if scenario.trace is None else scenario.trace
        write_trace(scenario, trace, folder / TRACE, shared=True)
    except OSError:  # A file system without hard links has an error of its own.
        shutil.copyfile(schedule, folder / TRACE)
    notes = None if origin is None else {**origin, **label_notes(scenario)}
    write_label(folder / LABEL, scenario.digest, scenario.description, notes, new=True)
    write_owned(folder / SUMMARY, result.summary, scenario.digest, new=True)
