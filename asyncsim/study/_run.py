"""Running a scenario, and keeping its results in a folder from which an interrupted run can be resumed."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax.monitoring
import numpy as np

from asyncsim._metrics import KEYS, SHORT, counted, field_lines, is_notable, metric, text
from asyncsim.cluster import Cluster
from asyncsim.cluster._simulation import Simulated
from asyncsim.components._texts import Field, settings
from asyncsim.costs._usage import UNSIZED, messages_by, shows_pulls, sizes_of
from asyncsim.datasets import Dataset
from asyncsim.delays import FloatArray
from asyncsim.engine import Progress, Replayer, ReplayInterrupted, Run
from asyncsim.engine import _run_file as run_file
from asyncsim.engine._plan import plan_for
from asyncsim.engine._replay import finish
from asyncsim.files import _npz as npz
from asyncsim.files._atomic import atomic_write, require_folder, require_own
from asyncsim.files._json import keep_owned, to_plain
from asyncsim.plots._report import SIZE, draw_report
from asyncsim.plots.style import keep_png
from asyncsim.reports._trace import recorded_prediction
from asyncsim.reports.staleness import run_prediction
from asyncsim.scenario._rebuild import LANES, label_notes
from asyncsim.scenario._scenario import Scenario
from asyncsim.scenario._tree import LENGTHS
from asyncsim.store._entry import Folder
from asyncsim.store._labels import REPORT, REPORT_PAGE, RUN, SUMMARY, TRACE, Origin
from asyncsim.store._labels import SCENARIO as LABEL
from asyncsim.store._listing import flat
from asyncsim.trace import Trace
from asyncsim.trace._columns import end_of_trace

FILES = (TRACE, RUN, SUMMARY, REPORT, REPORT_PAGE)
CHECKPOINT_EVERY = 60.0  # seconds: at most this much is lost when the machine goes down
LAW = "Law"  # of the compute times
SECTIONS = ("Rule", "Compressor", "Workload", LAW, "Cluster", "Study")  # of a subtitle
SHOWN_BY_PICTURE = (*LENGTHS, "record", "workers", "rule", "workload")  # need not be repeated in a subtitle

SECONDS = ("wall_seconds", "compile_seconds")
OWN_TRACE = "trace of this scenario"

Seconds = dict[str, float]  # wall_seconds and compile_seconds of a replay so far


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
        found = {key: self.summary.get(key) for key in SHORT}
        shown = [(key, value) for key, value in found.items() if value is not None and is_notable(key, value)]
        numbers = [f"{metric(key).label} {text(key, value)}" for key, value in shown]
        place = [] if self.folder is None else [f"in {self.folder}"]
        study = repr(self.scenario) if self.scenario is not None else f"no scenario, because {self.reason.rstrip('.')}"
        return f"Result({'; '.join([study, *numbers, *place])})"

    def require_scenario(self) -> Scenario:
        """The scenario.

        Raises:
            ValueError: If there is none, with the reason and the remedy.
        """
        if self.scenario is None:
            raise ValueError(
                f"The scenario in {str(self.folder)!r} was not rebuilt: {self.reason.rstrip('.')}. Or give it: "
                "asim.load(…, scenario=…), or `--script FILE` with the script that defines it."
            )
        return self.scenario


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
    atomically, and `asyncsim.load` reads them. Existing results of the same scenario are reused. An interrupted run
    resumes from its last checkpoint and ends as if it had never been interrupted.

    Args:
        scenario: The scenario to run.
        out: Folder, created if missing. By default nothing is kept.
        progress: Called with a `Progress(done, total, loss)` now and then.
        simulating: The same for the schedule, before: called with a `Simulated(commits, seconds, share)`.
        force: Start afresh and replace the folder's results, which stay there until the new ones are complete. After
            an interruption, the same call without `force` resumes.
        picture: Whether to draw report.png, which takes a second.
        origin: Where the scenario came from: its script and the changes to it, for people. The command line fills it
            in.

    Raises:
        ValueError: If this machine does not have the memory, another process works in the folder, or the folder holds a
            different scenario, a damaged file, or one that is not this scenario's.
        OSError: If a file cannot be written. Existing files stay whole.
        ReplayInterrupted: On Ctrl-C. With a folder, the next call resumes from a checkpoint.

    Example:
        >>> import asyncsim as asim
        >>> scenario = asim.Scenario(
        ...     cluster=asim.Cluster(workers=4, compute=asim.delays.Constant(1.0)),
        ...     rule=asim.rules.GEM(learning_rate=0.05),
        ...     workload=asim.workloads.Quadratic([1.0, 0.1]),
        ...     commits_per_worker=100,
        ... )
        >>> result = asim.run(scenario)
        >>> result
        Result(Scenario(gem on quadratic, 4 workers, 400 commits, seed 0); final loss 2.038e-07)
        >>> round(result.summary["mean_staleness"], 2)
        2.98
    """
    scenario.require_memory()
    scenario = scenario.current()
    if out is None:
        trace = scenario.simulate(simulating)
        replayed, seconds = replay_to_end(scenario, trace, None, {}, progress)
        return Result(scenario, trace, replayed, summarise(trace, replayed, **seconds, scenario=scenario))
    place = Folder(require_folder("out", out), LABEL, FILES)
    told = {**(origin or Origin()).describe(), **label_notes(scenario)}
    with place.lease(scenario, force, told) as folder:
        trace = _find_trace(scenario, folder, simulating)
        replayed, summary, recomputed = _find_run(scenario, trace, folder, progress)
        keep_owned(folder / SUMMARY, summary, scenario.digest)
        result = Result(scenario, trace, replayed, summary, place.path, recomputed)
        if picture:
            keep_report(result, folder / REPORT, again=recomputed)
    return result


def _find_trace(scenario: Scenario, folder: Folder, report: Callable[[Simulated], None] | None) -> Trace:
    path = folder / TRACE
    trace = npz.unless_damaged(partial(load_trace, scenario), path)
    if trace is None:
        trace = scenario.schedule(report)
        trace.save(path, notes={npz.OWNER: scenario.digest})
    return scenario.in_steps(trace)


def load_trace(scenario: Scenario, path: Path) -> Trace:
    """The schedule of a scenario from its file, as `Scenario.schedule` gives it."""
    trace = Trace.load(path)
    npz.read_own_notes(path, scenario.digest, scenario.schedule_digest, kind=OWN_TRACE)
    if scenario.trace is not None and trace.digest != scenario.trace.digest:
        raise ValueError(npz.foreign(path, OWN_TRACE))
    return trace


def _find_run(
    scenario: Scenario, trace: Trace, folder: Folder, progress: Callable[[Progress], None] | None
) -> tuple[Run, dict[str, Any], bool]:
    """The finished run, its summary, and whether any of it had to be replayed."""
    path = folder / RUN
    before, seconds, kept = npz.unless_damaged(partial(load_run, scenario), path) or (None, {}, None)
    if not _belongs(trace, scenario, before):
        raise ValueError(f"{npz.foreign(folder / TRACE, OWN_TRACE)} {npz.REMEDY}")
    if before is not None and _is_finished(before, trace, scenario):
        return before, kept or summarise(trace, before, **seconds, scenario=scenario), False
    (folder / SUMMARY).unlink(missing_ok=True)
    if LANES in scenario.description:
        raise ValueError(f"`path` {str(path)!r} is missing, and belongs to a sweep with lanes: start that sweep again.")
    done, seconds = replay_to_end(scenario, trace, before, seconds, progress, path)
    notes = {npz.OWNER: scenario.digest, **seconds}
    try:
        summary = summarise(trace, done, **seconds, scenario=scenario)
        notes[SUMMARY] = json.dumps(summary)
    finally:  # also on Ctrl-C: the replay is not lost
        done.save(path, notes=notes)
    return done, summary, True


def load_run(scenario: Scenario, path: Path) -> tuple[Run, Seconds, dict[str, Any] | None]:
    """The run of a scenario from its file, its seconds and, if it is complete, its summary."""
    return Run.load(path, scenario.rule, scenario.workload), *_notes_of_run(path, scenario.digest)


def _notes_of_run(path: Path, digest: str) -> tuple[Seconds, dict[str, Any] | None]:
    notes = npz.read_own_notes(path, digest, kind="run of this scenario")
    kept = notes.get(SUMMARY)
    return {name: notes[name] for name in SECONDS if name in notes}, json.loads(kept) if kept else None


def load_result(scenario: Scenario, folder: Path) -> Result:
    """The result in a folder, as far as its run has got."""
    trace = scenario.in_steps(load_trace(scenario, folder / TRACE))
    run, seconds, kept = load_run(scenario, folder / RUN)
    summary = kept or summarise(trace, run, **{"wall_seconds": 0.0, **seconds}, scenario=scenario)
    return Result(scenario, trace, run, summary, folder, recomputed=False)


def load_data(digest: str, folder: Path, reason: str) -> Result:
    """The same without its scenario, as far as it is data."""
    trace, run = Trace.load(folder / TRACE), Run(**run_file.read(folder / RUN, None, None))
    seconds, kept = _notes_of_run(folder / RUN, digest)
    if run.workers != trace.workers or not np.array_equal(run.worker, trace.worker[: run.commits]):
        raise ValueError(npz.foreign(folder / TRACE, OWN_TRACE))
    summary = kept or summarise(trace, run, **({"wall_seconds": 0.0} | seconds), test={}, scenario=None)
    return Result(None, trace, run, summary, folder, recomputed=False, reason=reason)


def _belongs(trace: Trace, scenario: Scenario, run: Run | None) -> bool:
    """Whether the trace can be this scenario's, and is that of the run as far as the run has got."""
    right_length = scenario.trace is not None or scenario.total in (None, len(trace))
    if trace.workers != scenario.workers or not right_length:
        return False
    return run is None or plan_for(trace, scenario.rule, scenario.workload.counts).digest(run.commits) == run.digest


def _is_finished(run: Run, trace: Trace, scenario: Scenario) -> bool:
    commits = len(trace) if scenario.replayed is None else scenario.replayed
    return run.commits >= commits or run.diverged_at is not None


def replayer_of(scenario: Scenario, trace: Trace, resume: Run | None) -> Replayer:
    """The replay of a scenario."""
    record, commits = scenario.recorded, scenario.replayed
    return Replayer(
        trace, scenario.rule, scenario.workload, scenario.seed, record=record, commits=commits, resume=resume
    )


def replay_to_end(
    scenario: Scenario,
    trace: Trace,
    before: Run | None,
    seconds: Seconds,
    progress: Callable[[Progress], None] | None,
    path: Path | None = None,
    prepare: Callable[[Scenario, Trace, Run | None], Replayer] = replayer_of,
) -> tuple[Run, Seconds]:
    """Replay to the end, with a checkpoint in a file, if one is given, now and then and on Ctrl-C."""

    def so_far() -> Seconds:
        spent = {"wall_seconds": watch.seconds, "compile_seconds": watch.compiling}
        return {name: seconds.get(name, 0.0) + value for name, value in spent.items()}

    def keep(run: Run) -> None:
        if path is not None:
            run.save(path, notes={npz.OWNER: scenario.digest, **so_far()})

    done = before
    with Stopwatch() as watch:
        try:
            if done is None or not _is_finished(done, trace, scenario):
                done = finish(prepare(scenario, trace, done), progress, keep, CHECKPOINT_EVERY)
        except ReplayInterrupted as interrupted:
            keep(interrupted.run)
            raise
    return done, so_far()


def keep_report(result: Result, path: Path, *, again: bool = False) -> None:
    """Draw report.png of a result, unless it is there and not `again`."""

    scenario = result.require_scenario()

    def page(figure: Any) -> None:
        title, subtitle = headline(scenario)
        predicted = predicted_staleness(scenario, result.trace)
        draw_report(figure, trace=result.trace, run=result.run, title=title, subtitle=subtitle, predicted=predicted)

    keep_png(path, page, SIZE, scenario.digest, again=again)


def predicted_staleness(scenario: Scenario, trace: Trace) -> FloatArray | None:
    """The predicted staleness of a run, from its cluster or else from its recorded trace."""
    if scenario.trace is not None:
        return recorded_prediction(trace)
    cluster = scenario.scheduled
    return run_prediction(cluster, trace) if isinstance(cluster, Cluster) else None


def headline(scenario: Scenario) -> tuple[str, str]:
    """Two lines of text: first rule, workload and number of workers, then settings that differ from the defaults."""
    data, name = scenario.workload.data, scenario.workload.name
    task = f"{data.name} ({name})" if isinstance(data, Dataset) else name
    sections: dict[str, list[Field]] = {section: [] for section in SECTIONS}
    for path, field in scenario.settings().items():
        if field.name not in SHOWN_BY_PICTURE:
            sections[LAW if path.startswith("cluster.compute") else field.group].append(field)
    told = [settings(section) for section in sections.values()]
    if scenario.trace is not None:
        told.append("recorded schedule")
    return f"{scenario.rule.name} on {task}, {counted(scenario.workers, 'worker')}", "; ".join(filter(None, told))


LEARNED = 0.05  # share of the initial loss by which it must fall: a network that gives every class even odds has not


def summarise(
    trace: Trace,
    run: Run,
    wall_seconds: float,
    compile_seconds: float = 0.0,
    *,
    test: Any = None,
    scenario: Scenario | None = None,
) -> dict[str, Any]:
    """The summary of a run of one seed. The scenario has the size of messages, and whether workers pull."""
    done = slice(run.commits)
    test = run.evaluate() if test is None else test
    working = wall_seconds - compile_seconds
    before, final = loss_before_training(trace, run), run.final_loss()
    values = {
        "commits": run.commits,
        "simulated_seconds": trace.commit_time[run.commits - 1] if run.commits else 0.0,
        "mean_staleness": trace.staleness[done].mean() if run.commits else None,
        **bytes_sent(trace, run, scenario),
        "initial_loss": before,
        "final_loss": final,
        "test_loss": test.get("test_loss"),
        "test_accuracy": test.get("test_accuracy"),
        "diverged_at": run.diverged_at,
        "stuck": is_stuck(before, final) if trace.read_version[done].any() else None,
        "wall_seconds": wall_seconds,
        "commits_per_second": run.commits / working if working > 0 else None,
    }
    own = {name: value for name, value in test.items() if name not in KEYS}
    return {key: to_plain(value) for key, value in {**values, **own}.items()}


def bytes_sent(trace: Trace, run: Run, scenario: Scenario | None = None) -> dict[str, int | None]:
    """Bytes in both directions until the last replayed commit, or the end of a trace that was replayed as a whole."""
    cluster = scenario and scenario.cluster
    if run.is_data or isinstance(cluster, UNSIZED):
        return {"bytes_up": None, "bytes_down": None}
    known = sizes_of(run.rule, run.central, cluster)
    whole = run.commits == len(trace)
    end = end_of_trace(trace) if whole else trace.commit_time[run.commits - 1] if run.commits else 0.0
    up, down = messages_by(trace, end, known["pulls"] if "pulls" in known else shows_pulls(trace))
    return {"bytes_up": int(up) * known["message_bytes"], "bytes_down": int(down) * known["parameter_bytes"]}


def loss_before_training(trace: Trace, run: Run) -> float:
    """Mean loss of the gradients that were taken at the initial central variable, or NaN without commits."""
    first = trace.read_version[: run.commits] == 0
    return float(run.loss[first].mean()) if run.commits else np.nan


def is_stuck(before: float, final: float) -> bool | None:
    """Whether a run failed to learn: its loss fell by less than a twentieth. None for a run that diverged."""
    known = np.isfinite(before) and np.isfinite(final)
    return bool(final > before - LEARNED * abs(before)) if known else None


COMPILING = "/jax/core/compile/"  # tracing, lowering and compiling report under this name, each when it ends


class Stopwatch:
    """Measures a block of code."""

    def __enter__(self) -> "Stopwatch":
        self._start = time.perf_counter()
        self._end: float | None = None
        self._spans: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, *error: object) -> None:
        self._end = time.perf_counter()
        jax.monitoring.unregister_event_duration_listener(self._listen)

    @property
    def seconds(self) -> float:
        """Wall time since the block began, up to its end."""
        return (self._end or time.perf_counter()) - self._start

    @property
    def compiling(self) -> float:
        """Length of the union of all reported spans: one function may be traced while another is."""
        total, last = 0.0, self._start
        for start, end in sorted(self._spans):
            total += max(0.0, end - max(start, last))
            last = max(last, end)
        return total

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs  # Which function it was does not matter.
        if event.startswith(COMPILING):
            now = time.perf_counter()
            self._spans.append((now - duration_secs, now))


LONGEST = 200  # characters of a value in a table


def write_html(result: Result, path: str | os.PathLike[str]) -> None:
    """Write the report of a result as one page: curves with values, the whole timeline, staleness and tables."""
    from asyncsim.animation._report import report_page

    require_own(Path(path))
    scenario = result.require_scenario()
    title, subtitle = headline(scenario)
    tables = {
        "Summary": [(metric(name).label, text(name, value)) for name, value in result.summary.items()],
        "Scenario": field_lines(flat(scenario.describe()), LONGEST),
    }
    predicted = predicted_staleness(scenario, result.trace)
    page = report_page(result.trace, result.run, title, subtitle, predicted=predicted, tables=tables)
    atomic_write(path, lambda file: file.write(page.encode()))
