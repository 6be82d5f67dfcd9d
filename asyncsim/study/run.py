"""Running a scenario, and keeping its results in a folder that can be come back to."""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from asyncsim.engine import Progress, ReplayInterrupted, Run, replay, run_file
from asyncsim.engine.plan import plan_for
from asyncsim.files import write_json
from asyncsim.reports.staleness import run_prediction
from asyncsim.scenario.components import LENGTHS, network_and_server_fields
from asyncsim.scenario.fields import settings
from asyncsim.scenario.scenario import Scenario, study_fields
from asyncsim.study.clock import Clock
from asyncsim.study.keep import REPORT, SUMMARY, Folder
from asyncsim.study.summary import KEYS, summarise
from asyncsim.trace import Trace

LABEL, TRACE, RUN = "scenario.json", "trace.npz", "run.npz"
FILES = (TRACE, RUN, SUMMARY, REPORT)
CHECKPOINT_EVERY = 60.0  # seconds: at most this much is lost when the machine goes down
SHOWN_BY_PICTURE = (*LENGTHS, "record")  # need not be repeated in a subtitle

Kept = TypeVar("Kept", Trace, Run)


@dataclass(frozen=True, eq=False)
class Result:
    """What a scenario gave.

    Attributes:
        scenario: The scenario.
        trace: Its schedule.
        run: Its replay.
        summary: Numbers by name, as in ``summary.json``; see `asyncsim.study.summary.summarise`.
        folder: Where it is kept, or None.
        recomputed: Whether anything was replayed, and not all of it found in the folder.
    """

    scenario: Scenario
    trace: Trace = field(repr=False)
    run: Run = field(repr=False)
    summary: dict[str, Any]
    folder: Path | None = None
    recomputed: bool = True


def run(
    scenario: Scenario,
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    force: bool = False,
    picture: bool = True,
) -> Result:
    """Simulate and replay a scenario, and keep what it gave.

    With a folder, the files scenario.json, trace.npz, run.npz, summary.json and report.png are written
    there, each whole or not at all. What is already there of the same scenario is not computed again; an
    interrupted run goes on from its last checkpoint and ends as if it had never been interrupted.

    Args:
        scenario: What to run.
        out: Folder; made if missing. By default nothing is kept.
        progress: Called with a `Progress(done, total, loss)` now and then.
        force: Begin anew and replace what the folder holds; it stays there until the new results are complete.
            After an interruption the same call without `force` goes on.
        picture: Whether to draw report.png, which takes a second.

    Raises:
        ValueError: If the folder holds a different scenario, a damaged file or a trace that is not the run's.
        OSError: If a file cannot be written; those that were there stay whole.
        ReplayInterrupted: On Ctrl-C; with a folder, a checkpoint is there to go on from.

    Example:
        >>> import asyncsim as asim
        >>> scenario = asim.Scenario(
        ...     cluster=asim.Cluster(workers=4, compute=asim.delays.Constant(1.0)),
        ...     rule=asim.rules.gem(learning_rate=0.05),
        ...     workload=asim.workloads.quadratic([1.0, 0.1]),
        ...     commits_per_worker=100,
        ... )
        >>> result = asim.run(scenario)
        >>> result.summary["commits"], round(result.summary["mean_staleness"], 2)
        (400, 2.98)
    """
    if out is None:
        trace = scenario.simulate()
        replayed, seconds = _replay(scenario, trace, None, {}, progress, lambda run, seconds: None)
        return Result(scenario, trace, replayed, summarise(trace, replayed, **seconds))
    place = Folder(out, LABEL, FILES if picture else FILES[:-1])
    folder = place.claim(scenario.digest, scenario.describe(), force)
    trace = _kept_trace(scenario, folder)
    replayed, seconds, recomputed = _kept_run(scenario, trace, folder, progress)
    summary = _kept_summary(trace, replayed, seconds, folder, recomputed)
    if picture and (recomputed or not folder.has(REPORT)):
        _write_report(folder / REPORT, scenario, trace, replayed)
    place.take(folder)
    return Result(scenario, trace, replayed, summary, place.path, recomputed)


def _kept_trace(scenario: Scenario, folder: Folder) -> Trace:
    if folder.has(TRACE):
        return _load(Trace.load, folder / TRACE)
    trace = scenario.simulate()
    trace.save(folder / TRACE)
    return trace


def _kept_run(
    scenario: Scenario, trace: Trace, folder: Folder, progress: Callable[[Progress], None] | None
) -> tuple[Run, dict[str, float], bool]:
    """The finished run, the time it took, and whether anything had to be replayed for it."""
    path = folder / RUN
    load = partial(Run.load, rule=scenario.rule, workload=scenario.workload)
    before = _load(load, path) if folder.has(RUN) else None
    if not _belong(scenario, trace, before):
        raise ValueError(
            f"`path` {str(folder / TRACE)!r} is not the trace of this scenario and the run beside it. Delete it to "
            "have it made again, or have all results replaced (`--force`)."
        )
    seconds = run_file.load_notes(path) if before is not None else {}
    if before is not None and _finished(before, trace):
        return before, seconds, False
    (folder / SUMMARY).unlink(missing_ok=True)
    checkpoint = partial(_checkpoint, path)
    return *_replay(scenario, trace, before, seconds, progress, checkpoint), True


def _load(load: Callable[[Path], Kept], path: Path) -> Kept:
    try:
        return load(path)
    except ValueError as error:
        raise ValueError(f"{error} Here, `--force` computes all results again.") from error


def _belong(scenario: Scenario, trace: Trace, run: Run | None) -> bool:
    """Whether the trace can be this scenario's, and is that of the run as far as it has got."""
    if trace.workers != scenario.cluster.workers or scenario.total not in (None, len(trace)):
        return False
    return run is None or plan_for(trace, scenario.rule).digest(run.commits) == run.digest


def _finished(run: Run, trace: Trace) -> bool:
    return run.commits == len(trace) or run.diverged_at is not None


def _checkpoint(path: Path, run: Run, seconds: dict[str, float]) -> None:
    run_file.save(run, path, notes=seconds)


def _replay(
    scenario: Scenario,
    trace: Trace,
    before: Run | None,
    seconds: dict[str, float],
    progress: Callable[[Progress], None] | None,
    checkpoint: Callable[[Run, dict[str, float]], None],
) -> tuple[Run, dict[str, float]]:
    """Replay to the end, with a checkpoint now and then, one on Ctrl-C and one at the end."""

    def so_far() -> dict[str, float]:
        spent = {"wall_seconds": clock.seconds, "compile_seconds": clock.compiling}
        return {name: seconds.get(name, 0.0) + value for name, value in spent.items()}

    def keep(run: Run) -> None:
        checkpoint(run, so_far())

    go_on = partial(replay, trace, scenario.rule, scenario.workload, scenario.seed, record=scenario.strides)
    done = before
    with Clock() as clock:
        try:
            while done is None or not _finished(done, trace):
                done = go_on(resume=done, progress=progress, checkpoint=keep, checkpoint_every=CHECKPOINT_EVERY)
        except ReplayInterrupted as interrupted:
            keep(interrupted.run)
            raise
    keep(done)
    return done, so_far()


def _kept_summary(
    trace: Trace, run: Run, seconds: dict[str, float], folder: Folder, recomputed: bool
) -> dict[str, Any]:
    path = folder / SUMMARY
    if not recomputed and folder.has(SUMMARY):
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            kept = None
        if _is_summary(kept):  # else it is made again from the run, which is whole
            return kept
    summary = summarise(trace, run, **seconds)
    write_json(path, summary)
    return summary


def _is_summary(kept: Any) -> TypeGuard[dict[str, Any]]:
    """Whether this has the keys of a summary, each with a number or none."""
    if not isinstance(kept, dict) or tuple(kept) != KEYS:
        return False
    return all(value is None or (isinstance(value, (int, float)) and math.isfinite(value)) for value in kept.values())


def _write_report(path: Path, scenario: Scenario, trace: Trace, run: Run) -> None:
    from asyncsim.plots.report import SIZE, draw_report
    from asyncsim.plots.style import save_png

    title, subtitle = headline(scenario)
    predicted = run_prediction(scenario.scheduled, trace)
    save_png(path, lambda figure: draw_report(figure, trace, run, title, subtitle, predicted=predicted), SIZE)


def headline(scenario: Scenario) -> tuple[str, str]:
    """Two lines of text: rule, workload and number of workers; and the settings that differ from the defaults.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Gamma(mean=1.0, cv=0.3))
        >>> rule, workload = asim.rules.gem(0.1, kappa=2.0), asim.workloads.quadratic([1.0])
        >>> for line in headline(asim.Scenario(cluster, rule, workload, commits=8)):
        ...     print(line)
        gem on quadratic, 2 workers
        learning_rate 0.1, kappa 2; eigenvalues 1.0; compute gamma, mean 1, cv 0.3
    """
    law, protocol, rule, workload = scenario.components
    data, name = scenario.workload.dataset, scenario.workload.describe()["name"]
    task = name if data is None else f"{data.name} ({name})"
    cluster = [*protocol.fields(), *network_and_server_fields(scenario.cluster)]
    groups = rule.arguments(), workload.arguments(), law.fields(), cluster, study_fields(scenario)
    told = [settings(field for field in group if field.name not in SHOWN_BY_PICTURE) for group in groups]
    return f"{scenario.rule.name} on {task}, {scenario.cluster.workers} workers", "; ".join(filter(None, told))
