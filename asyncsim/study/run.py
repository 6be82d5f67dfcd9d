"""Running a scenario, and keeping its results in a folder from which an interrupted run can be resumed."""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from asyncsim import npz
from asyncsim.cluster import Cluster
from asyncsim.cluster.simulation import Simulated
from asyncsim.delays import FloatArray
from asyncsim.engine import Progress, ReplayInterrupted, Run, replay, run_file
from asyncsim.engine.plan import plan_for
from asyncsim.files import read_owned, require_folder, write_owned
from asyncsim.folders.labels import REPORT, REPORT_PAGE, RUN, SUMMARY, TRACE
from asyncsim.folders.labels import SCENARIO as LABEL
from asyncsim.reports.staleness import run_prediction
from asyncsim.reports.trace import recorded_prediction
from asyncsim.scenario.components import LENGTHS, network_and_server_fields
from asyncsim.scenario.fields import settings
from asyncsim.scenario.lanes import LANES
from asyncsim.scenario.rebuild import hints
from asyncsim.scenario.scenario import Scenario, study_fields
from asyncsim.study.keep import Folder, is_picture_of, owner_of
from asyncsim.study.origin import Origin
from asyncsim.study.stopwatch import Stopwatch
from asyncsim.study.summary import summarise
from asyncsim.trace import Trace
from asyncsim.trace.trace import read_notes as read_trace_notes

FILES = (TRACE, RUN, SUMMARY, REPORT, REPORT_PAGE)
CHECKPOINT_EVERY = 60.0  # seconds: at most this much is lost when the machine goes down
SHOWN_BY_PICTURE = (*LENGTHS, "record")  # need not be repeated in a subtitle
SHORT = ("final_loss", "test_accuracy", "diverged_at")  # of a summary, in one line

SECONDS = ("wall_seconds", "compile_seconds")
OWNER = "scenario"  # note in the files: the digest of the scenario that they belong to

Seconds = dict[str, float]  # wall_seconds and compile_seconds of a replay so far
Loaded = TypeVar("Loaded")


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The results of a scenario.

    Attributes:
        scenario: The scenario.
        trace: Its schedule.
        run: Its replay.
        summary: Numbers by name, as in ``summary.json``; see `asyncsim.study.summary.summarise`.
        folder: The folder that keeps them, or None.
        recomputed: Whether anything was replayed, rather than everything found in the folder.
    """

    scenario: Scenario
    trace: Trace
    run: Run
    summary: dict[str, Any]
    folder: Path | None = None
    recomputed: bool = True

    def __repr__(self) -> str:
        numbers = [f"{key} {_digits(self.summary[key])}" for key in SHORT if self.summary[key] is not None]
        numbers += ["stuck"] if self.summary["stuck"] else []
        place = [] if self.folder is None else [f"in {self.folder}"]
        return f"Result({'; '.join([repr(self.scenario), *numbers, *place])})"


def run(
    scenario: Scenario,
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    simulating: Callable[[Simulated], None] | None = None,
    force: bool = False,
    picture: bool = True,
    origin: Origin | None = None,
) -> Result:
    """Simulate and replay a scenario, and keep its results.

    With a folder, the files scenario.json, trace.npz, run.npz, summary.json and report.png are written there, each
    whole or not at all; `asyncsim.load` reads them. Existing results of the same scenario are reused; an interrupted
    run resumes from its last checkpoint and ends as if it had never been interrupted.

    Args:
        scenario: What to run.
        out: Folder; created if missing. By default nothing is kept.
        progress: Called with a `Progress(done, total, loss)` now and then.
        simulating: The same for the schedule, before: called with a `Simulated(commits, seconds, share)`.
        force: Start afresh and replace the folder's results, which stay there until the new ones are complete. After
            an interruption, the same call without `force` resumes.
        picture: Whether to draw report.png, which takes a second.
        origin: Where the scenario came from: the script that `asyncsim.load` may run to have it again, for a scenario
            with parts of your own. The command line fills it in.

    Raises:
        ValueError: If this machine does not have the memory; or if another process works in the folder, or it holds a
            different scenario, a damaged file, or one that is not this scenario's.
        OSError: If a file cannot be written; existing files stay whole.
        ReplayInterrupted: On Ctrl-C; with a folder, the next call resumes from a checkpoint.

    Example:
        >>> import asyncsim as asim
        >>> scenario = asim.Scenario(
        ...     cluster=asim.Cluster(workers=4, compute=asim.delays.Constant(1.0)),
        ...     rule=asim.rules.GEM(learning_rate=0.05),
        ...     workload=asim.workloads.quadratic([1.0, 0.1]),
        ...     commits_per_worker=100,
        ... )
        >>> result = asim.run(scenario)
        >>> result
        Result(Scenario(gem on quadratic, 4 workers, 400 commits, seed 0); final_loss 2.04e-07)
        >>> round(result.summary["mean_staleness"], 2)
        2.98
    """
    scenario.require_memory()
    scenario = scenario.current()
    if out is None:
        trace = _simulate(scenario, simulating)
        replayed, seconds = replay_to_end(scenario, trace, None, {}, progress, lambda run, seconds: None)
        return Result(scenario, trace, replayed, summarise(trace, replayed, **seconds))
    place = Folder(require_folder("out", out), LABEL, FILES)
    told = {**(origin or Origin()).describe(), "rebuild": hints(scenario)}
    with place.claim(scenario, force, told) as folder:
        trace = _find_trace(scenario, folder, simulating)
        replayed, summary, recomputed = _find_run(scenario, trace, folder, progress)
        if recomputed or read_owned(folder / SUMMARY, scenario.digest) != summary:
            write_owned(folder / SUMMARY, summary, scenario.digest)
        if picture and (recomputed or not is_picture_of(scenario, folder / REPORT)):
            _write_report(folder / REPORT, scenario, trace, replayed)
    return Result(scenario, trace, replayed, summary, place.path, recomputed)


def _simulate(scenario: Scenario, report: Callable[[Simulated], None] | None) -> Trace:
    return scenario.simulate() if report is None else scenario.simulate(progress=report)


def _find_trace(scenario: Scenario, folder: Folder, report: Callable[[Simulated], None] | None) -> Trace:
    path = folder / TRACE
    trace = _load(partial(load_trace, scenario), path)
    if trace is None:
        trace = scenario.schedule() if report is None else scenario.schedule(progress=report)
        trace.save(path, notes={OWNER: scenario.digest})
    return scenario.in_steps(trace)


def load_trace(scenario: Scenario, path: Path) -> Trace:
    """The schedule of a scenario from its file, as `Scenario.schedule` gives it.

    Raises:
        ValueError: If the file is damaged, or belongs to another scenario.
    """
    trace = Trace.load(path)
    owner = read_trace_notes(path).get(OWNER)
    is_own = scenario.trace is None or trace.digest == scenario.trace.digest
    _require(is_own and owner in (scenario.digest, scenario.schedule_digest), path, "trace")
    return trace


def _find_run(
    scenario: Scenario, trace: Trace, folder: Folder, progress: Callable[[Progress], None] | None
) -> tuple[Run, dict[str, Any], bool]:
    """The finished run, its summary, and whether any of it had to be replayed."""
    path = folder / RUN
    before, notes = _load(partial(load_run, scenario), path) or (None, {})
    with _advice():
        _require(_belongs(trace, scenario, before), folder / TRACE, "trace")
    seconds = {name: notes[name] for name in SECONDS if name in notes}
    if before is not None and _is_finished(before, trace, scenario):
        kept = notes.get(SUMMARY)
        return before, json.loads(kept) if kept else summarise(trace, before, **seconds), False
    (folder / SUMMARY).unlink(missing_ok=True)
    if LANES in scenario.description:
        raise ValueError(f"`path` {str(path)!r} is missing, and belongs to a sweep with lanes: start that sweep again.")

    def checkpoint(run: Run, seconds: Seconds, **further: Any) -> None:
        run.save(path, notes={OWNER: scenario.digest, **seconds, **further})

    done, seconds = replay_to_end(scenario, trace, before, seconds, progress, checkpoint)
    try:
        summary = summarise(trace, done, **seconds)
    except BaseException:  # Ctrl-C included: what has been replayed is not lost
        checkpoint(done, seconds)
        raise
    checkpoint(done, seconds, **{SUMMARY: json.dumps(summary)})
    return done, summary, True


def load_run(scenario: Scenario, path: Path) -> tuple[Run, dict[str, Any]]:
    """The run of a scenario from its file, and the notes beside it.

    Raises:
        ValueError: If the file is damaged, or belongs to another scenario.
    """
    run = Run.load(path, scenario.rule, scenario.workload)
    notes = run_file.read_notes(path)
    _require(notes.get(OWNER) == scenario.digest, path, "run")
    return run, notes


def _require(own: bool, path: Path, kind: str) -> None:
    """Refuse a file that was made for another scenario."""
    if not own:
        raise ValueError(
            f"`path` {str(path)!r} is not the {kind} of this scenario, or not that of the files beside it."
        )


def _load(load: Callable[[Path], Loaded], path: Path) -> Loaded | None:
    """What a file holds; None, so that it is computed again, if it is missing or damaged."""
    if not path.is_file():
        return None
    try:
        with _advice():
            return load(path)
    except npz.Damaged:
        warnings.warn(f"{str(path)!r} is damaged. It is computed again.", stacklevel=4)
        return None


@contextmanager
def _advice() -> Iterator[None]:
    """Say what to do with a file that does not belong in the folder of a run."""
    try:
        yield
    except npz.Damaged:
        raise
    except ValueError as error:
        remedy = "Delete it to have it computed again, or replace all results (`--force`)."
        raise ValueError(f"{error} {remedy}") from error


def _belongs(trace: Trace, scenario: Scenario, run: Run | None) -> bool:
    """Whether the trace can be this scenario's, and is that of the run as far as the run has got."""
    right_length = scenario.trace is not None or scenario.total in (None, len(trace))
    if trace.workers != scenario.cluster.workers or not right_length:
        return False
    return run is None or plan_for(trace, scenario.rule, scenario.workload.counts).digest(run.commits) == run.digest


def _is_finished(run: Run, trace: Trace, scenario: Scenario) -> bool:
    commits = len(trace) if scenario.replayed is None else scenario.replayed
    return run.commits >= commits or run.diverged_at is not None


def replay_to_end(
    scenario: Scenario,
    trace: Trace,
    before: Run | None,
    seconds: Seconds,
    progress: Callable[[Progress], None] | None,
    checkpoint: Callable[[Run, Seconds], None],
) -> tuple[Run, Seconds]:
    """Replay to the end, with a checkpoint now and then and on Ctrl-C.

    Args:
        scenario: What to replay.
        trace: Its schedule.
        before: What had been replayed, or None.
        seconds: The time that it had taken.
        progress: As in `run`.
        checkpoint: Keeps the run so far, and the time so far.

    Returns:
        The run, and the time that it took in all.
    """

    def so_far() -> Seconds:
        spent = {"wall_seconds": watch.seconds, "compile_seconds": watch.compiling}
        return {name: seconds.get(name, 0.0) + value for name, value in spent.items()}

    def keep(run: Run) -> None:
        checkpoint(run, so_far())

    go_on = partial(
        replay,
        trace,
        scenario.rule,
        scenario.workload,
        scenario.seed,
        record=scenario.recorded,
        commits=scenario.replayed,
    )
    done = before
    with Stopwatch() as watch:
        try:
            while done is None or not _is_finished(done, trace, scenario):
                done = go_on(resume=done, progress=progress, checkpoint=keep, checkpoint_every=CHECKPOINT_EVERY)
        except ReplayInterrupted as interrupted:
            keep(interrupted.run)
            raise
    return done, so_far()


def _digits(value: float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def keep_report(result: Result) -> None:
    """Draw report.png into the folder of a result, unless it is there."""
    assert result.folder is not None
    if not is_picture_of(result.scenario, result.folder / REPORT):
        _write_report(result.folder / REPORT, result.scenario, result.trace, result.run)


def _write_report(path: Path, scenario: Scenario, trace: Trace, run: Run) -> None:
    from asyncsim.plots.report import SIZE, draw_report
    from asyncsim.plots.style import save_png

    title, subtitle = headline(scenario)
    predicted = predicted_staleness(scenario, trace)
    page = partial(draw_report, trace=trace, run=run, title=title, subtitle=subtitle, predicted=predicted)
    save_png(path, page, SIZE, owner_of(scenario))


def predicted_staleness(scenario: Scenario, trace: Trace) -> FloatArray | None:
    """The distribution of staleness to be shown beside that of a run, from its cluster or else from its recorded trace.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Exponential(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.quadratic([1.0])
        >>> scenario = asim.Scenario(cluster, rule, workload, commits=400)
        >>> predicted_staleness(scenario, scenario.simulate())[:3].tolist()
        [0.5, 0.25, 0.125]
    """
    return run_prediction(scenario.scheduled, trace) if scenario.trace is None else recorded_prediction(trace)


def headline(scenario: Scenario) -> tuple[str, str]:
    """Two lines of text: rule, workload and number of workers; and the settings that differ from the defaults.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Gamma(mean=1.0, cv=0.3))
        >>> rule, workload = asim.rules.GEM(0.1, kappa=2.0), asim.workloads.quadratic([1.0])
        >>> for line in headline(asim.Scenario(cluster, rule, workload, commits=8)):
        ...     print(line)
        gem on quadratic, 2 workers
        learning_rate 0.1, kappa 2; eigenvalues 1.0; compute gamma, mean 1, cv 0.3
    """
    *modelled, rule, compressor, workload = scenario.components
    data, name = scenario.workload.dataset, scenario.workload.describe()["name"]
    task = name if data is None else f"{data.name} ({name})"
    groups = [rule.arguments(), compressor.fields(), workload.arguments()]
    if isinstance(scenario.cluster, Cluster):
        law, protocol = modelled
        groups += [law.fields(), [*protocol.fields(), *network_and_server_fields(scenario.cluster)]]
    groups.append(study_fields(scenario))
    told = [settings(field for field in group if field.name not in SHOWN_BY_PICTURE) for group in groups]
    if scenario.trace is not None:
        told.append("recorded schedule")
    return f"{scenario.rule.name} on {task}, {scenario.cluster.workers} workers", "; ".join(filter(None, told))
