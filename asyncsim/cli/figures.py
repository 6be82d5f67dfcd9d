"""`asyncsim figures`: the paper's figures, their numbers, and which of its claims hold."""

import importlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from asyncsim.cli.script import import_from_clone
from asyncsim.cli.show import Bar
from asyncsim.engine import ReplayInterrupted
from asyncsim.study.cache import in_words
from asyncsim.study.figure_set import SUMMARY, FigureSet, MadeFigure

SCALES = ("quick", "paper")
OUT = str(Path("runs", "figures", "SCALE"))
HELP = """Compute and draw the paper's figures, and judge its claims by the numbers.

NAME: figure1 to figure10, energy, stability, staleness, assumptions; all of them by default. What is there is not made
again, and an interrupted run goes on from where it was.

At scale quick a small net learns digits, in minutes. At scale paper the paper's network learns MNIST, from the folder
that ASYNCSIM_DATA names, in hours; figures 7, 9 and 10 want ImageNet's format in the folder that ASYNCSIM_IMAGENET
names, and are drawn of a small network on MNIST without it.
"""


def catalogue() -> Any:
    """The module that lists the clone's figures."""
    import_from_clone("figures")
    return importlib.import_module("figures.catalogue")


def make_all(figure_set: FigureSet, names: tuple[str, ...]) -> list[MadeFigure]:
    """Make figure after figure, with a progress bar that names the figure and the seed; conclude whatever happens."""
    made: list[MadeFigure] = []
    if figure_set.scale == "paper":
        say_how_long(figure_set, names)
    try:
        with Bar() as bar:
            for name in names:
                bar.expect(name)
                made.append(figure_set.make(name, partial(bar.show, name)))
                bar.close(name)
                click.echo(f"{name}: {state_of(made[-1])}", err=True)
    finally:
        figure_set.conclude(made)
    return made


def say_how_long(figure_set: FigureSet, names: tuple[str, ...]) -> None:
    """Say what has to be replayed and how long that takes here; nothing if all runs exist."""
    ahead = figure_set.estimate(names)
    if ahead.runs:
        words = in_words(ahead.seconds)
        click.echo(f"{ahead.runs} runs, {ahead.commits:,} commits to replay: {words} on this machine.", err=True)


def state_of(made: MadeFigure) -> str:
    """What was done for a figure, in words."""
    if made.computed:
        return f"computed {len(made.computed)} seed{'s' if len(made.computed) > 1 else ''}"
    return "drawn again" if made.drawn else "there already"


def show(made: list[MadeFigure]) -> None:
    """A row a claim."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="bold")
    for head in ("figure", "the paper says", "measured, all seeds", ""):
        table.add_column(head, overflow="fold")
    for figure in made:
        for claim in figure.claims:
            table.add_row(figure.name, claim.says, claim.measured, claim.answer)
    Console().print(table)


def as_plain(made: list[MadeFigure]) -> dict[str, Any]:
    """The claims as JSON can hold them."""
    return {figure.name: {"claims": [claim._asdict() for claim in figure.claims]} for figure in made}


def _callback(names: tuple[str, ...], scale: str, out: str | None, seeds: int, as_json: bool, force: bool) -> None:
    if out is not None and not out.strip():
        raise click.UsageError(f"`--out` must name a folder; got {out!r}. Leave it out for {OUT}.")
    place = out or OUT.replace("SCALE", scale)
    figure_set = catalogue().figure_set(Path(place), scale, seeds)
    try:
        names = tuple(dict.fromkeys(names)) or tuple(figure_set.figures)
        for name in names:
            figure_set.find(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    figure_set.open()
    try:
        if force:
            figure_set.forget(names)
        made = make_all(figure_set, names)
    except (ReplayInterrupted, KeyboardInterrupt) as stopped:
        again = "without --force, the same command" if force else "the same command"
        raise click.ClickException(f"Interrupted; {again} goes on from there.") from stopped
    if as_json:
        click.echo(json.dumps(as_plain(made), allow_nan=False))
        return
    show(made)
    click.echo(f"Pictures, numbers and {SUMMARY} in {place}")


figures = click.Command(
    "figures",
    params=[
        click.Argument(["names"], nargs=-1, metavar="[NAME]..."),
        click.Option(["--scale"], type=click.Choice(SCALES), default="quick", show_default=True, help="How large."),
        click.Option(["--out"], metavar="DIR", help=f"Folder for the results. [{OUT}]"),
        click.Option(
            ["--seeds"], type=click.IntRange(min=1), default=3, show_default=True, help="How many seeds: 0, 1, …"
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the claims as one JSON object."),
        click.Option(["--force"], is_flag=True, help="Forget what was computed for these figures, and begin anew."),
    ],
    help=HELP,
    callback=_callback,
)
