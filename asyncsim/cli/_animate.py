"""`asyncsim animate`, a run or a schedule as a movie, and `asyncsim explore`, the page with sliders."""

import webbrowser
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from asyncsim.animation import Movie, animate, mechanism
from asyncsim.animation._graph import MOST_NUMBERS
from asyncsim.animation._movie import VIEWS
from asyncsim.animation._page import make_explorable
from asyncsim.animation._paths import PRINCIPAL
from asyncsim.cli._answer import RUNS
from asyncsim.cli._command import RUN, Checked, Command, echo, say
from asyncsim.cli._trace import COLUMNS, UNIT, LogFile
from asyncsim.engine import Run, replay, use_all_cores
from asyncsim.files._atomic import atomic_write, require_own
from asyncsim.store import _places as places
from asyncsim.store._labels import EXPERIMENT, PAGE, label_of
from asyncsim.store._places import find_run, folder_name
from asyncsim.study._load import load_study, load_with
from asyncsim.study._result_files import Result
from asyncsim.study._run import headline, predicted_staleness

NAME = "animate"
KINDS = (".html", ".gif", ".mp4")
NO_TRACES = (".py", ".html", ".gif", ".mp4")  # other files are traces and logs
HELP = """Animate a run: who reads, computes and commits, and how stale each worker is.

RUN is the folder of a run or its tag, the folder of a comparison whose rules share one schedule, or the file of a
trace (.npz) or a log. A landscape needs the parameters of each commit, so a run that did not record them is replayed.
For example:

\b
  asyncsim animate runs/gem --view gravity --out gem.gif
"""


def target_of(text: str, kinds: Sequence[str] = KINDS) -> Path:
    """Return the path of a page or a movie."""
    path = Path(text)
    if path.suffix.lower() not in kinds or path.is_dir():
        got = "is a folder" if path.is_dir() else f"ends in {path.suffix!r}"
        raise ValueError(f"`--out` must end in {', '.join(kinds[:-1])} or {kinds[-1]}; {text!r} {got}.")
    if not path.parent.is_dir():
        raise ValueError(f"`--out` must be in a folder that exists; {str(path.parent)!r} does not.")
    return path


@click.command(
    NAME,
    cls=Command,
    help=HELP,
    params=[
        click.Argument(["run"], type=RUN),
        click.Option(
            ["--view"],
            type=click.Choice(VIEWS),
            help="landscape is the path of the central variable and the parameters that workers read, and gravity is "
            "workers as masses around the server. [landscape for two parameters, else gravity]",
        ),
        click.Option(["--start"], type=float, metavar="SECONDS", help="Start of the movie. [0]"),
        click.Option(["--stop"], type=float, metavar="SECONDS", help="End of the movie. [the last commit]"),
        click.Option(
            ["--principal"],
            is_flag=True,
            help="Draw a landscape for a model of any size, on the plane in which its parameters move most.",
        ),
        click.Option(
            ["--out"],
            type=Checked("file", target_of),
            metavar="FILE",
            help="A page (.html), or a movie (.gif or .mp4). [movie.html and other flags, in the folder of the run]",
        ),
        click.Option(["--open", "show"], is_flag=True, help="Open it in the browser."),
        click.Option(
            ["--script"],
            metavar="FILE",
            help="Script that defines the study of RUN, for the landscape of a model of your own. It is run, so read "
            "it before.",
        ),
    ],
)
@COLUMNS
@UNIT
def command(
    run: str,
    view: str | None,
    principal: bool,
    out: Path | None,
    show: bool,
    script: str | None,
    columns: str | None,
    unit: str | None,
    **times: float | None,
) -> None:
    """Animate a run."""
    use_all_cores()
    options: dict[str, Any] = {"start": times["start"] or 0.0, "stop": times["stop"]}
    flags = {"view": view, "principal": principal, **times}
    # Each choice of flags has a file of its own.
    named = partial(folder_name, changes={name: value for name, value in flags.items() if value}, digest="")
    if principal:
        view, options["directions"] = "landscape", PRINCIPAL
    path = Path(run)
    # A trace has no losses, so its movie shows the schedule alone.
    if path.is_file() and path.suffix.lower() not in NO_TRACES:
        movie = animate(LogFile(run, None, columns, unit).read()[0], view=view, title=path.name, **options)
        target = path.with_name(f"{named(path.stem)}.html")
    else:
        place = places.find(run)
        label, page = label_of(place), place / PAGE
        # An experiment may have drawn a page of its own, which is shown as it is.
        has_no_run = label is None or label.name == EXPERIMENT
        if has_no_run and page.is_file() and not (view or principal or out or any(times.values())):
            if show:
                raise click.UsageError(
                    f"`--open` is for pages that this command writes; {str(page)!r} was there before. Open it yourself "
                    "if you trust the folder."
                )
            echo(f"Page in {page}")
            return
        folder = find_run(place)
        study = None if script is None else load_study(folder, script).study
        movie = movie_of(load_with(folder, study), folder, view, options)
        target = folder / f"{named(Path(PAGE).stem)}.html"
    # A file that the user names is replaced; one of a default name must be asyncsim's.
    if out is None:
        require_own(target)
    target = out or target
    {".html": movie.html, ".gif": movie.gif, ".mp4": movie.mp4}[target.suffix.lower()](target)
    _show_page(f"{movie!r}\n\n{'Page' if target.suffix.lower() == '.html' else 'Movie'} in {target}", target, show)


def _show_page(words: str, page: Path, show: bool) -> None:
    echo(words)
    if show:
        webbrowser.open(page.resolve().as_uri())


def movie_of(loaded: Any, folder: Path, view: str | None, options: dict[str, Any]) -> Movie:
    """Return the movie of a run, or of a comparison."""
    import jax

    if isinstance(loaded, Result):
        title, subtitle = (folder.name, "") if loaded.scenario is None else headline(loaded.scenario)
        results = {"run" if loaded.scenario is None else loaded.scenario.rule.name: loaded}
    elif isinstance(loaded, Mapping):
        title, subtitle, results = f"{folder.name}: {len(loaded)} rules on one schedule", "", dict(loaded)
    else:
        raise ValueError(f"`RUN` {str(folder)!r} is an experiment, which holds no run. Give the folder of a run.")
    if not results:
        raise ValueError(f"`RUN` {str(folder)!r} holds no run. Compute it first: asyncsim run SCRIPT.py --out DIR")
    # If a run has no scenario, because its parts are the user's own, none of them can be replayed.
    first = min(results.values(), key=lambda result: result.scenario is not None)
    for name, other in results.items():
        # A movie has one clock, which the rules of a comparison share if their schedule is the same.
        if not np.array_equal(first.trace.commit_time, other.trace.commit_time):
            remedy = f"Give one of them: asyncsim animate {folder / name}"
            raise ValueError(f"`RUN` {str(folder)!r} holds runs of different schedules. {remedy}")
    runs = {name: result.run for name, result in results.items()}
    # The landscape of a loss can be drawn over two parameters only.
    sizes = {sum(leaf.size for leaf in jax.tree.leaves(run.central)) for run in runs.values()}
    if view == "landscape" and sizes != {2} and "directions" not in options:
        remedy = "Give --principal for the plane in which it moves most, or --view gravity."
        raise click.UsageError(f"`--view` landscape is for two parameters; this model has {max(sizes):,}. {remedy}")
    if first.trace.variables > 1:
        if view != "landscape":  # which `animate` refuses
            runs = {name: with_models(result, sizes) for name, result in results.items()}
    elif view == "landscape" or (view is None and sizes == {2} and first.scenario is not None):
        view, runs = "landscape", {name: recorded(result, sizes) for name, result in results.items()}
    if first.scenario is None:
        runs = {}  # Without the rule, only the schedule can be drawn.
    predicted = None if first.scenario is None else predicted_staleness(first.scenario, first.trace)
    return animate(first.trace, runs or None, view=view, predicted=predicted, title=title, subtitle=subtitle, **options)


def with_models(result: Result, sizes: set[int]) -> Run:
    """Return the run of workers on a graph with the model of each commit, replayed if it is small enough."""
    run, scenario = result.run, result.scenario
    has_models = len(run.recorded_at.get("central", ())) == run.commits
    if has_models or scenario is None or max(sizes) * run.commits > MOST_NUMBERS:
        return run
    say("Replaying, to record how far the models are apart.")
    return replay(result.trace, scenario.rule, scenario.workload, scenario.seed, record={"central": 1})


def recorded(result: Result, sizes: set[int]) -> Run:
    """Return the run with the records of a landscape: as it is, or replayed."""
    run, scenario = result.run, result.require_scenario()
    records: dict[str, Any] = {"central": 1, "read": 1}
    if max(sizes) == 2:
        records["mechanism"] = mechanism
    # Each commit needs its records, and a run may have made them less often.
    if all(len(run.recorded_at.get(name, ())) == run.commits for name in records):
        return run
    if max(sizes) > 2:
        say("Replaying, to record the central variable and where gradients were taken.")
    return replay(result.trace, scenario.rule, scenario.workload, scenario.seed, record=records)


EXPLORE_PAGE = str(Path(RUNS, "explore.html"))
EXPLORE_HELP = """Write a page with sliders, on which you explore staleness, stability and waiting.

The page simulates a cluster with the workers, spread of compute times, step size and server rate of its sliders. It is
one file that works without a network, also on a phone. For example: asyncsim explore --out staleness.html
"""


@click.command(
    "explore",
    cls=Command,
    help=EXPLORE_HELP,
    params=[
        click.Option(
            ["--out"],
            type=Checked("file", partial(target_of, kinds=(".html", ".htm"))),
            metavar="FILE",
            help=f"The page, a file that ends in .html. [{EXPLORE_PAGE}]",
        ),
        click.Option(["--open", "show"], is_flag=True, help="Open it in the browser."),
        click.Option(["--force"], is_flag=True, help="Replace another file of that name."),
    ],
)
def explore(out: Path | None, show: bool, force: bool) -> None:
    """Write the page."""
    text = make_explorable().encode()
    if out is None:
        out = Path(EXPLORE_PAGE)
        out.parent.mkdir(exist_ok=True)
    # The page is the same for everybody, so a file with the same contents is no loss.
    if out.exists() and out.read_bytes() != text and not force:
        raise click.UsageError(f"`--out` {str(out)!r} is another file. Choose another name, or replace it by --force.")
    atomic_write(out, lambda file: file.write(text))
    _show_page(f"Page in {out}", out, show)
