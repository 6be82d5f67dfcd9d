"""`asyncsim calibrate`: from a log to a cluster model, with a table, a picture and a scenario that uses it."""

import math
import os
import sys
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from asyncsim._checks import brief, require_count
from asyncsim._metrics import counted, number
from asyncsim.calibration import Fit, Model, calibrate, what_if
from asyncsim.calibration._calibrate import METHODS, SIMULATIONS
from asyncsim.calibration._fit import Unanswered
from asyncsim.calibration._laws import WHOLE_JOBS
from asyncsim.calibration._model import Clusters
from asyncsim.calibration._npe import LEAST_SIMULATIONS
from asyncsim.calibration._rollouts import rollouts_of
from asyncsim.calibration._simulations import ProcessesDied
from asyncsim.calibration._statistics import Checks, unit_of
from asyncsim.calibration._transforms import FAMILIES
from asyncsim.calibration._what_if import common_part, scenario_script
from asyncsim.cli._answer import Answer, answer_options
from asyncsim.cli._command import Command, Interrupted, wrong_usage
from asyncsim.cli._options import Whole
from asyncsim.cli._output import json_option, print_results, print_table
from asyncsim.cli._progress import CountBar
from asyncsim.cli._trace import LogFile, log_file
from asyncsim.cluster import Rollouts
from asyncsim.components._families import FAMILIES as COMPONENTS
from asyncsim.components._parse import parse_whole
from asyncsim.files._atomic import atomic_write
from asyncsim.files._hash import hash_parts
from asyncsim.files._json import to_plain
from asyncsim.plots._calibration import FIT_SIZE, draw_fit
from asyncsim.plots.style import save_png
from asyncsim.study._load import importable, names_of

STORE = Path("runs", "calibrate,simulations")
Numbers = Mapping[str, Any]  # the arrays of `what_if`
LEAST_WIDTH = 0.005  # smallest width of an interval over the prior's that is printed as a number
MOST_ROWS = 24  # parameters that are printed; fit.json has all, of which unequal workers have many


@click.command(
    cls=Command, params=[*answer_options("calibrate", "the log", "fit, picture and scenario"), json_option("the fit")]
)
@log_file
@click.option("--law", metavar="NAME", help=f"Law of the compute times: {', '.join(FAMILIES)}. [the law of least AIC]")
@click.option(
    "--model",
    metavar="SCRIPT.py",
    type=click.Path(exists=True, dir_okay=False),
    help="Script that defines `model`, an asyncsim.calibration.Model. [the laws of least AIC]",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="likelihood (of durations in the log), or npe (by simulation). [npe with a model, else as the columns allow]",
)
@click.option(
    "--simulations",
    type=Whole(min=LEAST_SIMULATIONS),
    default=SIMULATIONS,
    help=f"Number of simulations, for npe. [{SIMULATIONS}]",
)
@click.option("--jobs", type=Whole(min=0), help="Number of processes that simulate. [one for each core]")
@click.option(
    "--store",
    metavar="DIR",
    default=str(STORE),
    help=f"Folder of simulations, which other logs of the same model reuse. [{STORE}]",
)
@click.option("--seed", type=Whole(min=0), default=0, help="Seed of intervals and checks. [0]")
@click.option("--quick", is_flag=True, help="Skip the simulations: no check of the model, and no larger clusters.")
@click.option("--workers", metavar="N,…", help="Numbers of workers that are simulated. [up to three times the log's]")
@click.option("--add", metavar="CLASS=N,…", help="Further workers of some classes, such as fast=12. [none]")
def command(
    log: LogFile,
    model: str | None,
    quick: bool,
    workers: str | None,
    add: str | None,
    out: str | None,
    force: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Fit a cluster model to the log in FILE, with 90 % intervals and the parameters that are not identified.

    FILE is a log with the columns worker and commit_time: CSV with any separator, JSON lines, JSON records or parquet.
    With start_time, finish_time, arrive_time and serve_time, the fit separates computing, messages and service. It
    writes fit.json, calibration.png and scenario.py, which simulates more workers. For example:

    \b
      asyncsim calibrate cluster.csv --start first

    A log of commits alone is fitted by simulation, which takes minutes the first time. Simulations are stored, so the
    same command continues after Ctrl-C, and another log of as many workers and commits takes seconds.

    FILE can also be a log of rollouts, with the columns opened and trained, and ready and taken, one row a group. The
    fit has the laws of generation and of steps. Give your `asim.Rollouts` as `model` by --model SCRIPT.py.

    You can give your own model by --model SCRIPT.py, with --method likelihood if the log has durations.
    """
    defaults = {"law": None, "method": None, "simulations": SIMULATIONS, "seed": 0}  # settings -> default
    file = log.path
    question = {"model": model, "start": log.start} | {name: settings[name] for name in defaults}
    # Folders of calls without these flags keep their names.
    question |= {name: text for name in ("columns", "unit") if (text := getattr(log, name)) is not None}
    question |= {name: text for name, text in (("workers", workers), ("add", add)) if text is not None}
    with wrong_usage():
        sizes, joining = parse_sizes(workers), parse_added(add)
        if quick and (sizes or joining):
            flag = "workers" if sizes else "add"
            raise ValueError(f"`quick` simulates nothing, and `{flag}` are to be simulated. Leave out one of them.")
    changes = {name: value for name, value in question.items() if value != defaults.get(name)}
    # The question is about the contents of both files, wherever they lie.
    script = model and content_of(model, Path(model).read_bytes())
    owner = Answer("calibrate", question | {"log": content_of(file, log.contents.data), "model": script})
    place = owner.place(out, {"log": Path(file).stem, **changes}, "fit.json", "calibration.png")
    owner.require(place, force)
    with CountBar("simulations") as bar, ExitStack() as stack:
        try:
            with wrong_usage():
                trace, is_of_rollouts = log.read()
                # The folder is made at the end, and a refusal then would cost minutes.
                require_writable(place.path)
                fitted_model, notes = None, []
                if model is not None:
                    # The script may import modules that lie beside it, in the processes of the simulation too.
                    stack.enter_context(importable(model))
                    # `build` may print, and standard output is for the results.
                    stack.enter_context(redirect_stdout(sys.stderr))
                    fitted_model = model_of(model)
                if is_of_rollouts:
                    if sizes or joining:
                        flag = "workers" if sizes else "add"
                        raise ValueError(f"`{flag}` must be left out for a log of rollouts: other leads are simulated.")
                    if isinstance(fitted_model, Model):
                        raise ValueError("`model` must be an `asim.Rollouts(…)` for a log of rollouts; got a Model.")
                    if fitted_model is None:
                        fitted_model, note = rollouts_of(trace)
                        notes = [f"{note} Give yours by --model."]
                fit = calibrate(trace, fitted_model, progress=bar.update, **settings)
                fit = replace(fit, notes=(*notes, *fit.notes))
                if joining:  # Unknown classes are refused before anything is simulated.
                    fit.with_workers(fit.workers, joining)
        except ProcessesDied as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt as interrupt:
            message = "Stopped before the first simulation."
            if bar.done:
                message = f"Stopped; {bar.done} are in {settings['store']}. The same command continues."
            raise Interrupted(message, interrupt) from interrupt
    checks = None if quick else fit.check()
    numbers, refusal = None, ""
    if not quick:
        try:
            values = sizes or ([fit.workers] if joining else fit.model.ladder(fit.workers))
            with warnings.catch_warnings(record=True) as refused:
                warnings.simplefilter("always")
                numbers = what_if(fit, values, add=joining, seed=settings["seed"])
            refusal = " ".join(str(warning.message) for warning in refused)
        except Unanswered as error:  # The fit is printed all the same.
            refusal = str(error)
    draw = partial(draw_fit, fit=fit, numbers=numbers, log=Path(file).name)
    with owner.lease(place, force) as folder:
        fit.save(folder / "fit.json")
        # A picture of an earlier call without --quick shows larger clusters too, so it stays.
        if not quick or not folder.has("calibration.png"):
            save_png(folder / "calibration.png", draw, FIT_SIZE)
    is_kept = write_script(place.path, Path(file).name, fit)
    content = as_json_of(fit, checks, numbers, refusal)
    joined = ", ".join(f"{count} more of {name}" for name, count in (joining or {}).items())
    print_results(content, as_json, lambda: show(fit, checks, numbers, place.path, is_kept, refusal, joined))


def content_of(path: str, data: bytes) -> dict[str, str]:
    """Return the name and the hash of a file."""
    return {"name": Path(path).name, "hash": hash_parts(data)}


def parse_sizes(text: str | None) -> list[int]:
    """Return the numbers of workers in a flag, none without one."""
    remedy = "Separate whole numbers by commas: 12,16,24."
    try:
        sizes = [] if text is None else list(map(parse_whole, text.split(",")))
    except ValueError:
        raise ValueError(f"`workers` must be numbers of workers; got {brief(text)}. {remedy}") from None
    return sorted({require_count("workers", size, remedy=remedy) for size in sizes})


def parse_added(text: str | None) -> dict[str, int] | None:
    """Return the numbers of workers that join, by class, None without a flag."""
    if text is None:
        return None
    parts = [part.rpartition("=") for part in text.split(",")]
    names = [name.strip() for name, _, _ in parts]
    try:
        counts = [parse_whole(number) for _, _, number in parts]
    except ValueError:
        counts = []
    if not counts or not all(names) or len({*names}) < len(names):
        remedy = "Write classes with their numbers: fast=12,slow=4."
        raise ValueError(f"`add` must be numbers of workers by class, each class once; got {brief(text)}. {remedy}")
    joining = dict(zip(names, counts, strict=True))
    return {name: require_count(f"add of {name!r}", joining[name], remedy="Add one worker or more.") for name in names}


def require_writable(folder: Path) -> None:
    """Refuse a folder where nothing can be written, before minutes of simulation. It is created afterwards."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(f"`out` {str(folder)!r} cannot be written to. Choose another folder.")


def model_of(path: str) -> Model | Rollouts:
    """Return the model that a script defines."""
    model = names_of(path).get("model")
    if isinstance(model, Model | Rollouts):
        return model
    other = "no `model`" if model is None else f"a `model` of type {type(model).__name__}"
    raise ValueError(f"{path} defines {other}. Write `model = asim.calibration.Model(build, prior={{…}})`.")


def as_json_of(fit: Fit, checks: Checks | None, numbers: Numbers | None, refusal: str) -> Any:
    """Return parameters, notes, checks, and answers for other numbers of workers or a refusal, as plain data."""
    parameters = {name: parameter._asdict() for name, parameter in fit.parameters.items()}
    checked = None if checks is None else {name: asdict(check) for name, check in checks.items()}
    fits = None if checks is None else checks.fits
    content: dict[str, Any] = {"method": fit.method, "parameters": parameters, "notes": fit.notes, "hidden": fit.hidden}
    content |= {"log": fit.log.statistics, "what_if": numbers}
    if fit.evidence.widths:
        content["widths"] = fit.evidence.widths
    if fit.evidence.coverage:
        content |= {name: getattr(fit.evidence, name) for name in ("coverage", "held_back", "simulations")}
    return to_plain({**content, "checks": checked, "fits": fits, "refusal": refusal or None})


def write_script(folder: Path, log: str, fit: Fit) -> bool:
    """Write scenario.py, and return whether it was left as it is because somebody has changed it."""
    path, text = folder / "scenario.py", scenario_script(fit, log, str(folder))
    if path.exists() and common_part(path.read_text(encoding="utf-8")) != common_part(text):
        return True
    atomic_write(path, lambda file: file.write(text.encode()))
    return False


def show(
    fit: Fit, checks: Checks | None, numbers: Numbers | None, folder: Path, is_kept: bool, refusal: str, joined: str
) -> None:
    """Print the tables, the notes, and the files."""
    click.echo(f"{fit.model.size(fit.log.commits, fit.workers)} in {number(fit.log.seconds)} s\n")
    for name, stage in fit.model.stages.items():
        least = min((stage.aic[name] for name in stage.families if name in stage.aic), default=math.nan)
        # The next best laws show by how much the choice is one.
        others = sorted((value, other) for other, value in stage.aic.items() if other not in stage.families)[:2]
        worse = ", ".join(f"{other} {value - least:+.3g}" for value, other in others)
        click.echo(f"{name}: {', '.join(stage.families)}{f' (AIC of the next: {worse})' if worse else ''}")
    show_parameters(fit)
    if any(len(stage.alternatives) > 1 for stage in fit.model.stages.values()):
        click.echo("\nIntervals of mean and cv count the other laws too, by their Akaike weights.")
    if numbers is not None:
        click.echo(f"\nMedians of simulations with other values of {fit.model.varied}, and where 90 % of them lie:")
        if joined:
            click.echo(f"(with {joined})")
        ends = {"": "", "_low": ", 5 %", "_high": ", 95 %"}
        rows = [
            (f"{label}{what}", "" if end else number(fit.log.statistics.get(name)), *map(number, numbers[name + end]))
            for name, label in fit.model.labels.items()
            for end, what in ends.items()
        ]
        values = ["none" if value == math.inf else number(value) for value in numbers[fit.model.varied]]
        print_table((fit.model.varied, "log", *values), rows)
    for note in fit.notes:
        click.echo(f"\n{note}")
    if checks is not None:
        click.echo(f"\n{_judgement(checks)}")
    click.echo(f"\nFit, picture and scenario in {folder}" + ("; your changed scenario.py was kept" if is_kept else ""))
    if refusal:
        click.echo(f"No answer for {'other' if numbers is None else 'some'} numbers of workers: {refusal}")
        return
    # An infinite lead of rollouts is drawn, but it is no number for a flag.
    most = max(value for value in fit.model.ladder(fit.workers) if value < math.inf)
    click.echo(f"{fit.model.script}: asyncsim run {folder / 'scenario.py'} --{fit.model.varied} {most:.0f}")


SECONDS = {name for law in COMPONENTS["delays"].values() for name in getattr(law, "in_seconds", ())} | {"mean"}


def unit_of_parameter(name: str, fit: Fit) -> str:
    """Return the unit of a parameter of a law, "none" for a pure number, and "own" where a model defines it."""
    if isinstance(fit.model, Clusters) and fit.model.priors[name] is not None:
        return "own"
    if isinstance(fit.model, Clusters):
        return "s"
    return "s" if SECONDS.intersection(name.split(".")) else "none"


def show_parameters(fit: Fit) -> None:
    """Print the table of the parameters and, for a model, how it was fitted."""
    widths, coverage, simulations = fit.evidence.widths, fit.evidence.coverage, fit.evidence.simulations
    if widths:
        way = counted(simulations, "simulation", ",") if simulations else "the likelihood of the durations"
        click.echo(f"by {way}, from {', '.join(name.removesuffix('_time') for name in fit.log.columns)} times")
    click.echo()
    rows = []
    for name, parameter in list(fit.parameters.items())[:MOST_ROWS]:
        where = "of whole jobs" if parameter.method == WHOLE_JOBS else "yes"
        numbers = map(number, (parameter.estimate, parameter.low, parameter.high))
        rows.append([name, unit_of_parameter(name, fit), *numbers, where if parameter.identifiable else "no"])
        if widths:
            rows[-1].append(f"{widths[name]:.2f}" if widths[name] >= LEAST_WIDTH or not widths[name] else "< .01")
        if coverage:
            rows[-1].append(f"{coverage[name]:.2f}")
    further_heads = ("identified", *("width / prior",) * bool(widths), *("coverage",) * bool(coverage))
    print_table(("parameter", "unit", "estimate", "5 %", "95 %", *further_heads), rows, flush=(0, 1), folded=(0,))
    if coverage:
        click.echo(
            "\nCoverage: share of the posterior's 90 % intervals that held the truth, in "
            f"{fit.evidence.held_back:,} simulations that were held back. The intervals above are corrected by it."
        )
    if len(fit.parameters) > MOST_ROWS:
        click.echo(f"and {len(fit.parameters) - MOST_ROWS:,} more in fit.json")


def _judgement(checks: Checks) -> str:
    worst = min(checks, key=lambda name: checks[name].p_value)

    def measured(name: str) -> str:
        unit = unit_of(name)
        return f"{name}: {number(checks[name].log)} in the log, {number(checks[name].mean)} by the model" + (
            f" ({unit})" if unit else ""
        )

    if checks.fits:
        least = f"the least p-value is {number(checks[worst].p_value)} ({worst})"
        return f"The model produces such logs: of {len(checks)} statistics, {least}."
    parts = "; ".join(map(measured, checks.suspect))
    return f"The model does NOT produce such logs: {parts}. Log more columns, or name another law or model."
