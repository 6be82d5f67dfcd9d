"""`asyncsim calibrate`: from a log to a cluster, with a table, a picture and a scenario that uses it."""

import math
import os
import sys
from contextlib import ExitStack, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import click

from asyncsim.calibration import Calibration, Model, ModelFit, Parameter, Posterior, calibrate, ladder, what_if
from asyncsim.calibration.calibrate import AVO, METHODS, SIMULATIONS
from asyncsim.calibration.coordinates import CLASSES
from asyncsim.calibration.predictive import Checks
from asyncsim.calibration.result import WHOLE_JOBS
from asyncsim.calibration.script import own_part, scenario_script
from asyncsim.calibration.simulated.npe import LEAST_SIMULATIONS
from asyncsim.calibration.simulated.simulations import ProcessesDied, SimulationProgress
from asyncsim.cli.command import Command
from asyncsim.cli.errors import Interrupted
from asyncsim.cli.output import json_option, out_option, print_results
from asyncsim.cli.progress import SimulationBar
from asyncsim.cli.tables import number, print_table
from asyncsim.cli.trace import START, TraceFile, load
from asyncsim.files import atomic_write, to_plain
from asyncsim.plots import draw_band, draw_posterior, draw_quantiles, draw_title
from asyncsim.plots.style import save_png
from asyncsim.study.keep import make_folder
from asyncsim.study.script import importable, names_of

DEFAULT = Path("runs", "calibrate")
STORE = Path("runs", "calibrate,simulations")
MOST_PANELS = 6  # parameters that are drawn
SIZE = (10.0, 8.0)  # inches
BEYOND = 3  # times the log's number of workers, up to which the picture asks what if
LEAST_WIDTH = 0.005  # beside that of the prior, that is printed
LABELS = {"throughput": "commits per second", "staleness": "mean staleness"}
MOST_ROWS = 24  # parameters that are printed: with many workers of their own, the others are in fit.json


OUTPUT = [out_option(str(DEFAULT), "Folder for fit, picture and scenario."), json_option("the fit")]


@click.command(cls=Command, params=OUTPUT)
@click.argument("file", type=TraceFile())
@click.option(
    "--law",
    metavar="NAME",
    help=f"Law of the compute times: {', '.join(CLASSES)}. [the one of least AIC]",
)
@click.option(
    "--model",
    metavar="SCRIPT.py",
    type=click.Path(exists=True, dir_okay=False),
    help="Script that defines `model`, an asyncsim.calibration.Model, to be fitted. [the laws of least AIC]",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="likelihood (of durations in the log), npe (by simulation), or avo (by simulation, no posterior). "
    "[npe with a model, else what the columns allow]",
)
@click.option(
    "--simulations",
    type=click.IntRange(min=LEAST_SIMULATIONS),
    default=SIMULATIONS,
    help=f"Simulations, for npe and avo. [{SIMULATIONS}]",
)
@click.option("--jobs", type=click.IntRange(min=0), help="Processes that simulate. [one for each core]")
@click.option(
    "--store",
    metavar="DIR",
    default=str(STORE),
    help=f"Folder of simulations, for other logs of the same model too. [{STORE}]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of intervals and checks. [0]")
@click.option("--quick", is_flag=True, help="Leave out what is simulated: the check of the model, and what if.")
@START
def command(
    file: str,
    law: str | None,
    model: str | None,
    method: str | None,
    simulations: int,
    jobs: int | None,
    store: str,
    seed: int,
    quick: bool,
    start: Any,
    out: str | None,
    as_json: bool,
) -> None:
    """Fit a cluster to the log in FILE: laws, their parameters with 90 % intervals, and what the log cannot tell.

    FILE is a CSV log with the columns worker and commit_time; start_time, finish_time, arrive_time and serve_time let
    it tell computing, messages and service apart. The folder gets fit.json, calibration.png and scenario.py, which
    answers what more workers would do.

    A log of commits alone is fitted by simulation, which takes minutes the first time. Simulations are kept: the same
    command goes on after Ctrl-C, and another log of as many workers and commits takes seconds.

    A model of your own says what is fitted: --model SCRIPT.py, with --method likelihood where the log has durations.
    """
    folder = Path(out or DEFAULT)
    with SimulationBar() as bar, ExitStack() as stack:
        try:
            log = load(file, start)
            require_writable(folder)
            chosen = None
            if model is not None:
                stack.enter_context(importable(model))
                stack.enter_context(redirect_stdout(sys.stderr))  # `build` may print
                chosen = model_of(model)
            fit = calibrate(
                log,
                chosen,
                method=method,
                law=law,
                simulations=simulations,
                seed=seed,
                jobs=jobs,
                store=store,
                progress=bar.update,
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        except ProcessesDied as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt as stopped:
            raise Interrupted(_stopped(bar.latest, None if method == AVO else store), stopped) from stopped
    checks = None if quick else fit.check()
    make_folder(folder)
    fit.save(folder / "fit.json")
    kept = write_script(folder, Path(file).name, fit.workers)
    numbers, refusal = None, ""
    if not quick:
        try:
            numbers = what_if(fit, ladder(1, max(BEYOND * fit.workers, 4)), seed=seed)
        except ValueError as error:  # the fit is told all the same
            refusal = str(error)
    save_png(folder / "calibration.png", partial(draw, fit, numbers, Path(file).name), SIZE)
    print_results(as_json_of(fit, checks, refusal), as_json, lambda: show(fit, checks, folder, kept, refusal))


def require_writable(folder: Path) -> None:
    """Refuse a folder where nothing can be written, before minutes of simulation; it is made afterwards.

    Raises:
        OSError: With the remedy.
    """
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(f"`out` {str(folder)!r} cannot be written to. Choose another folder.")


def model_of(path: str) -> Model:
    """The model that a script defines.

    Raises:
        ValueError: If the script fails, or defines none.
    """
    found = names_of(path).get("model")
    if isinstance(found, Model):
        return found
    other = "no `model`" if found is None else f"a `model` of type {type(found).__name__}"
    raise ValueError(f"{path} defines {other}. Write `model = asim.calibration.Model(build, prior={{…}})`.")


def _stopped(latest: SimulationProgress | None, store: str | None) -> str:
    if latest is None:
        return "Stopped before the first simulation."
    if store is None:
        return f"Stopped after {latest.done:,} of {latest.total:,} simulations. Nothing is kept."
    return f"Stopped; {latest.done:,} of {latest.total:,} simulations are kept in {store}. The same command goes on."


def as_json_of(fit: Calibration, checks: Checks | None, refusal: str = "") -> Any:
    """Parameters, what was found, the checks, and why other numbers of workers are refused, as plain data."""
    parameters = {name: parameter._asdict() for name, parameter in fit.parameters.items()}
    judged = None if checks is None else {name: check._asdict() for name, check in checks.items()}
    fits = None if checks is None else checks.fits
    told = {"method": fit.method, "parameters": parameters, "notes": fit.notes, "hidden": fit.hidden}
    if isinstance(fit, ModelFit):
        told |= {"widths": fit.widths}
    if isinstance(fit, Posterior):
        told |= {name: getattr(fit, name) for name in ("coverage", "held_back", "simulations")}
    return to_plain({**told, "checks": judged, "fits": fits, "refusal": refusal or None})


def write_script(folder: Path, log: str, workers: int) -> bool:
    """Write scenario.py unless there is one that somebody changed; whether such a one was kept."""
    path, text = folder / "scenario.py", scenario_script(log, str(folder), workers)
    if path.exists() and own_part(path.read_text(encoding="utf-8")) != own_part(text):
        return True
    atomic_write(path, lambda file: file.write(text.encode()))
    return False


def show(fit: Calibration, checks: Checks | None, folder: Path, kept: bool, refusal: str = "") -> None:
    """The table, what was found, and what is where."""
    click.echo(f"{fit.commits:,} commits by {fit.workers:,} workers in {number(fit.seconds)} s\n")
    for name, stage in fit.stages.items():
        families = {group.estimate.family for group in stage.groups}
        own = min((stage.aic[name] for name in families if name in stage.aic), default=math.nan)
        beside = sorted((value, other) for other, value in stage.aic.items() if other not in families)[:2]
        worse = ", ".join(f"{other} {value - own:+.3g}" for value, other in beside)
        click.echo(f"{name}: {', '.join(sorted(families))}{f' (AIC of the next: {worse})' if worse else ''}")
    if isinstance(fit, ModelFit):
        click.echo(_way(fit))
    click.echo()
    rows = [
        (name, _number(one.estimate), _number(one.low), _number(one.high), _told(one), *_learned(fit, name))
        for name, one in list(fit.parameters.items())[:MOST_ROWS]
    ]
    more = ("told", "width / prior") if isinstance(fit, ModelFit) else ("told by the log",)
    more += ("coverage",) if isinstance(fit, Posterior) else ()
    print_table(("parameter", "estimate", "5 %", "95 %", *more), rows, folded=(0,))
    if isinstance(fit, Posterior):
        click.echo(
            "\nCoverage: share of the posterior's 90 % intervals that held the truth, in "
            f"{fit.held_back:,} simulations that were held back. The intervals above are corrected by it."
        )
    if len(fit.parameters) > MOST_ROWS:
        click.echo(f"and {len(fit.parameters) - MOST_ROWS:,} more in fit.json")
    if any(len(stage.rivals) > 1 for stage in fit.stages.values()):
        click.echo("\nIntervals of mean and cv count the other laws too, by their Akaike weights.")
    for note in fit.notes:
        click.echo(f"\n{note}")
    if checks is not None:
        click.echo(f"\n{_judgement(checks)}")
    click.echo(f"\nFit, picture and scenario in {folder}" + ("; your changed scenario.py was kept" if kept else ""))
    if refusal:
        click.echo(f"No answer for other numbers of workers: {refusal}")
        return
    click.echo(f"What if there were more workers: asyncsim run {folder / 'scenario.py'} --workers {2 * fit.workers}")


def _way(fit: ModelFit) -> str:
    """How a model was fitted."""
    columns = ", ".join(name.removesuffix("_time") for name in fit.seen)
    if isinstance(fit, Posterior):
        return f"by {fit.simulations:,} simulations, from {columns} times"
    if fit.avo is not None:
        return f"by {len(fit.avo.history.critic):,} steps of AVO, whose proposal is NO posterior, from {columns} times"
    return f"by the likelihood of the durations, from {columns} times"


def draw(fit: Calibration, numbers: Any, log: str, figure: Any) -> None:
    """Quantiles of each stage above, or what is known of each parameter; throughput and staleness below."""
    grid = figure.add_gridspec(1 if numbers is None else 2, 1)
    if isinstance(fit, ModelFit):
        _draw_parameters(fit, figure, grid[0, 0])
    else:
        _draw_stages(fit, figure, grid[0, 0])
    if numbers is not None:
        _draw_what_if(fit, numbers, figure, grid[1, 0])
    _title(fit, log, figure)


def _draw_stages(fit: Calibration, figure: Any, place: Any) -> None:
    for cell, (name, stage) in zip(place.subgridspec(1, len(fit.stages)), fit.stages.items(), strict=True):
        ax = figure.add_subplot(cell)
        draw_quantiles(ax, *stage.quantiles)
        families = sorted({group.estimate.family for group in stage.groups})
        ax.set(title=f"{name}: {', '.join(families)}")


def _draw_parameters(fit: ModelFit, figure: Any, place: Any) -> None:
    """What is known of each parameter, and where the prior ends."""
    shown = list(fit.found)[:MOST_PANELS]
    for i, (cell, name) in enumerate(zip(place.subgridspec(1, len(shown)), shown, strict=True)):
        ax, one = figure.add_subplot(cell), fit.found[name]
        draw_posterior(ax, fit.draws[:, i], fit.priors[name], (one.low, one.high), told=one.identifiable)
        ax.set(xlabel=name, yticks=[])
        ax.set_title("" if one.identifiable else "hardly told by the log", fontsize="small")


def _draw_what_if(fit: Calibration, numbers: Any, figure: Any, place: Any) -> None:
    for cell, (name, label) in zip(place.subgridspec(1, 2), LABELS.items(), strict=True):
        ax = figure.add_subplot(cell)
        predicted = numbers[f"predicted_{name}"]
        ends = [numbers[f"{name}{end}"] for end in ("_low", "", "_high")]
        known = predicted if all(map(math.isfinite, predicted)) else None
        draw_band(ax, numbers["workers"], *ends, theory=known)
        ax.axvline(fit.workers, color="0.6", linewidth=0.8, linestyle=":", label="the log's")
        ax.set(ylabel=label, ylim=(0, None))
        ax.legend(fontsize="small")


def _title(fit: Calibration, log: str, figure: Any) -> None:
    hidden = f"; not told by the log: {', '.join(fit.hidden)}" if fit.hidden else ""
    proposal = "; AVO's proposal, no posterior" if isinstance(fit, ModelFit) and fit.avo is not None else ""
    size = f"{fit.commits:,} commits, {fit.workers:,} workers"
    draw_title(figure, f"A cluster fitted to {log}", f"{size}{proposal}{hidden}")


def _judgement(checks: Checks) -> str:
    worst = min(checks, key=lambda name: checks[name].p_value)
    if checks.fits:
        least = f"the least p-value is {number(checks[worst].p_value)} ({worst})"
        return f"The model produces such logs: of {len(checks)} statistics, {least}."
    parts = [
        f"{name}: {number(checks[name].log)} in the log, {number(checks[name].mean)} by the model"
        for name in checks.suspect
    ]
    return f"The model does NOT produce such logs ({'; '.join(parts)}). Log more columns, or name another law."


def _told(parameter: Parameter) -> str:
    if not parameter.identifiable:
        return "no"
    return "of whole jobs" if parameter.method == WHOLE_JOBS else "yes"


def _learned(fit: Calibration, name: str) -> tuple[str, ...]:
    """How wide the interval is beside the prior's, and how far intervals could be trusted."""
    if not isinstance(fit, ModelFit):
        return ()
    width = f"{fit.widths[name]:.2f}" if fit.widths[name] >= LEAST_WIDTH or not fit.widths[name] else "< .01"
    return (width, f"{fit.coverage[name]:.2f}") if isinstance(fit, Posterior) else (width,)


def _number(value: float) -> str:
    return number(None if math.isnan(value) else value)
