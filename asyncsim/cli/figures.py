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

SCALES = ("quick", "paper")
OUT = str(Path("runs", "figures", "SCALE"))
HELP = """Compute and draw the paper's figures, and judge its claims by the numbers.

NAME: figure1 to figure10, energy, stability, staleness, assumptions; all of them by default. What is there is not made
again, and an interrupted run goes on from where it was.

At scale quick a small net learns digits, in minutes. At scale paper the paper's network learns MNIST, from the folder
that ASYNCSIM_DATA names, in hours; figures 7, 9 and 10 want ImageNet's format in the folder that ASYNCSIM_IMAGENET
names, and are drawn of a small network on MNIST without it.
"""


def common(name: str) -> Any:
    """A module of figures/common."""
    import_from_clone("figures")
    return importlib.import_module(f"figures.common.{name}")


def make_all(book: Any, names: tuple[str, ...]) -> list[Any]:
    """Make figure after figure, with a progress bar that names the figure and the seed; conclude whatever happens."""
    made: list[Any] = []
    if book.scale == "paper":
        say_how_long(book, names)
    try:
        with Bar() as bar:
            for name in names:
                bar.expect(name)
                made.append(book.make(name, partial(bar.show, name)))
                bar.close(name)
                click.echo(f"{name}: {state_of(made[-1])}", err=True)
    finally:
        book.conclude(made)
    return made


def say_how_long(book: Any, names: tuple[str, ...]) -> None:
    """What has to be replayed, and about how long that takes here; nothing where nothing has to be."""
    estimates = common("estimate")
    missing = [(common("figure").find(name), seed) for name, seed in book.missing(names)]
    ahead = estimates.estimate(missing, book.scale, book.runs())
    if ahead.runs:
        words = estimates.in_words(ahead.seconds)
        click.echo(f"{ahead.runs} runs, {ahead.commits:,} commits to replay: {words} on this machine.", err=True)


def state_of(made: Any) -> str:
    """What was done for a figure, in words."""
    if made.computed:
        return f"computed {len(made.computed)} seed{'s' if len(made.computed) > 1 else ''}"
    return "drawn again" if made.drawn else "there already"


def show(made: list[Any]) -> None:
    """A row a claim."""
    answers = common("claims").ANSWERS
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="bold")
    for head in ("figure", "the paper says", "measured, all seeds", ""):
        table.add_column(head, overflow="fold")
    for figure in made:
        for claim in figure.claims:
            table.add_row(figure.name, claim.says, claim.measured, answers[claim.holds].strip("*"))
    Console().print(table)


def as_plain(made: list[Any]) -> dict[str, Any]:
    """The claims as JSON can hold them."""
    return {figure.name: {"claims": [claim._asdict() for claim in figure.claims]} for figure in made}


def _callback(names: tuple[str, ...], scale: str, out: str | None, seeds: int, as_json: bool, force: bool) -> None:
    if out is not None and not out.strip():
        raise click.UsageError(f"`--out` must name a folder; got {out!r}. Leave it out for {OUT}.")
    place = out or OUT.replace("SCALE", scale)
    try:
        names = tuple(dict.fromkeys(names)) or common("figure").all_names()
        for name in names:
            common("figure").find(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    book = common("book").Book(Path(place), scale, seeds)
    book.open()
    try:
        if force:
            book.forget(names)
        made = make_all(book, names)
    except (ReplayInterrupted, KeyboardInterrupt) as stopped:
        again = "without --force, the same command" if force else "the same command"
        raise click.ClickException(f"Interrupted; {again} goes on from there.") from stopped
    if as_json:
        click.echo(json.dumps(as_plain(made), allow_nan=False))
        return
    show(made)
    click.echo(f"Pictures, numbers and {common('book').SUMMARY} in {place}")


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
