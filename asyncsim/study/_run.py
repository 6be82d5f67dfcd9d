"""`asyncsim.run`: a scenario simulated and replayed, in a folder from which an interrupted run can be resumed."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from asyncsim._metrics import counted, field_lines, metric, metric_text
from asyncsim.cluster import Cluster, Gossip
from asyncsim.cluster._simulation import Simulated
from asyncsim.components._checked import checked
from asyncsim.components._field import Field, describe_changes
from asyncsim.datasets import Dataset
from asyncsim.delays import FloatArray
from asyncsim.engine import Progress, Run
from asyncsim.engine._plan import plan_for
from asyncsim.files import _npz as npz
from asyncsim.files._atomic import atomic_write, require_folder, require_own
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
from asyncsim.study._replay import is_finished, replay_to_end
from asyncsim.study._result_files import OWN_TRACE, Result, keep_summary, read_run, read_trace, write_run, write_trace
from asyncsim.study._summary import summarise
from asyncsim.trace import Trace

FILES = (TRACE, RUN, SUMMARY, REPORT, REPORT_PAGE)
LAW = "Law"  # section of settings of the compute law
SECTIONS = ("Rule", "Compressor", "Workload", LAW, "Cluster", "Study")  # parts of a subtitle, in this order
SHOWN_BY_PICTURE = (*LENGTHS, "record", "workers", "rule", "workload")  # A subtitle does not repeat them.
LONGEST = 200  # characters of a value in a table


@checked
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
        replayed, seconds, _ = replay_to_end(scenario, trace, progress=progress)
        return Result(scenario, trace, replayed, summarise(trace, replayed, **seconds, scenario=scenario))
    output = Folder(require_folder("out", out), LABEL, FILES)
    notes = {**(origin or Origin()).describe(), **label_notes(scenario)}
    with output.lease(scenario, force, notes) as folder:
        trace = _find_trace(scenario, folder / TRACE, simulating)
        result = replace(_find_result(scenario, trace, folder, progress), folder=output.path)
        keep_summary(folder, result.summary, scenario.digest)
        if picture:
            keep_report(result, folder / REPORT, again=result.recomputed)
    return result


def _find_trace(scenario: Scenario, path: Path, simulating: Callable[[Simulated], None] | None) -> Trace:
    """Read the schedule, or else simulate and write it."""
    trace = npz.unless_damaged(partial(read_trace, scenario), path)
    if trace is not None:
        return trace
    schedule = scenario.schedule(simulating)
    write_trace(scenario, schedule, path)
    return scenario.in_steps(schedule)


def _find_result(
    scenario: Scenario, trace: Trace, folder: Folder, progress: Callable[[Progress], None] | None
) -> Result:
    """Read the replay, or replay what is missing of it and write that."""
    path = folder / RUN
    replayed = npz.unless_damaged(partial(read_run, scenario), path)
    if not _belongs(trace, scenario, replayed and replayed.run):
        raise ValueError(f"{npz.explain_foreign(folder / TRACE, OWN_TRACE)} {npz.REMEDY}")
    if replayed is not None and is_finished(replayed.run, trace, scenario):
        summary = replayed.summary or summarise(trace, replayed.run, **replayed.seconds, scenario=scenario)
        return Result(scenario, trace, replayed.run, summary, recomputed=False)
    (folder / SUMMARY).unlink(missing_ok=True)  # A summary says that the folder is complete.
    if LANES in scenario.description:  # Alone, the run would be rounded differently.
        raise ValueError(f"`path` {str(path)!r} is missing, and belongs to a sweep with lanes: start that sweep again.")
    replayed, summary = replay_to_end(scenario, trace, replayed, progress, path), dict[str, Any]()
    try:
        summary = summarise(trace, replayed.run, **replayed.seconds, scenario=scenario)
    finally:  # On Ctrl-C, too, the replay is kept.
        write_run(scenario, replayed._replace(summary=summary or None), path)
    return Result(scenario, trace, replayed.run, summary)


def _belongs(trace: Trace, scenario: Scenario, run: Run | None) -> bool:
    """Tell whether the trace can be this scenario's, and is that of the run as far as the run has got."""
    right_length = scenario.trace is not None or scenario.total in (None, len(trace))
    if trace.computing != scenario.workers or not right_length:
        return False
    # A replay keeps the hash of the commits that it has gone through.
    return run is None or plan_for(trace, scenario.rule, scenario.workload.counts).digest(run.commits) == run.digest


def keep_report(result: Result, path: Path, *, again: bool = False) -> None:
    """Draw report.png of a result, unless it is there and not `again`."""

    scenario = result.require_scenario()

    def page(figure: Any) -> None:
        title, subtitle = headline(scenario)
        predicted = predicted_staleness(scenario, result.trace)
        draw_report(figure, trace=result.trace, run=result.run, title=title, subtitle=subtitle, predicted=predicted)

    keep_png(path, page, SIZE, scenario.digest, again=again)


def predicted_staleness(scenario: Scenario, trace: Trace) -> FloatArray | None:
    """Predict the staleness of a run, from its cluster or else from its recorded trace."""
    if scenario.trace is not None:
        return recorded_prediction(trace)
    cluster = scenario.scheduled  # It has the sizes of messages, which its network may need.
    return run_prediction(cluster, trace) if isinstance(cluster, Cluster | Gossip) else None


def headline(scenario: Scenario) -> tuple[str, str]:
    """Write two lines of text: rule, workload and number of workers, then settings that differ from the defaults."""
    data, name = scenario.workload.data, scenario.workload.name
    task = f"{data.name} ({name})" if isinstance(data, Dataset) else name
    sections: dict[str, list[Field]] = {section: [] for section in SECTIONS}
    for path, field in scenario.settings().items():
        if field.name not in SHOWN_BY_PICTURE:
            sections[LAW if path.startswith("cluster.compute") else field.group].append(field)
    parts = [describe_changes(section) for section in sections.values()]
    if scenario.trace is not None:
        parts.append("recorded schedule")
    return f"{scenario.rule.name} on {task}, {counted(scenario.workers, 'worker')}", "; ".join(filter(None, parts))


def write_html(result: Result, path: str | os.PathLike[str]) -> None:
    """Write the report of a result as one page: curves with values, the whole timeline, staleness and tables."""
    from asyncsim.animation._report import report_page

    require_own(Path(path))
    scenario = result.require_scenario()
    title, subtitle = headline(scenario)
    tables = {
        "Summary": [(metric(name).label, metric_text(name, value)) for name, value in result.summary.items()],
        "Scenario": field_lines(flat(scenario.describe()), LONGEST),
    }
    predicted = predicted_staleness(scenario, result.trace)
    page = report_page(result.trace, result.run, title, subtitle, predicted=predicted, tables=tables)
    atomic_write(path, lambda file: file.write(page.encode()))
