"""`asyncsim compare`: in what runs differ, as a table and a picture."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from asyncsim.cli.command import Command
from asyncsim.cli.found import RunFolder
from asyncsim.cli.output import json_option, out_option, print_results
from asyncsim.cli.tables import WIDTH, cell, print_table, spaced
from asyncsim.files import write_json
from asyncsim.folders.places import find_run
from asyncsim.plots.side_by_side import SIZE, draw_side_by_side
from asyncsim.plots.style import save_png
from asyncsim.study.keep import make_folder
from asyncsim.study.side_by_side import TIMES, Contrast, contrast, curves, members, short_names

NAME = "compare"
OUT = str(Path("runs", NAME))
LONGEST = 24  # characters of a value, so that three runs fit a line
HELP = """Say in what runs differ: their scenarios, their results, and their losses in a picture.

RUN is the folder of a run or a comparison, or a tag; give two or more.
"""


@click.command(
    NAME,
    cls=Command,
    help=HELP,
    params=[
        click.Argument(["run"], nargs=-1, required=True, type=RunFolder(lambda text, what: Path(text))),
        out_option(OUT, "Folder for the picture and the numbers."),
        json_option("the differences"),
    ],
)
def command(run: tuple[Path, ...], out: str | None, as_json: bool) -> None:
    """Compare runs."""
    texts = dict.fromkeys(map(str, run))
    try:
        found = contrast(members(short_names([(text, find_run(text)) for text in texts])))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    folder = Path(out or OUT)
    make_folder(folder)
    title = f"{len(found.folders)} runs" if len(found.folders) > 2 else " and ".join(found.folders)
    lines = curves(found.folders)
    page = partial(draw_side_by_side, curves=lines, title=title, subtitle=differing_settings(found))
    save_png(folder / f"{NAME}.png", page, SIZE)
    numbers = {
        "runs": {name: str(path.absolute()) for name, path in found.folders.items()},
        "scenarios": found.scenarios,
        "results": found.results,
    }
    write_json(folder / f"{NAME}.json", numbers)

    def show() -> None:
        print_contrast(found)
        click.echo(f"\nPicture and numbers in {folder}")

    print_results(numbers, as_json, show)


def print_contrast(found: Contrast) -> None:
    """A table of the fields in which the scenarios differ, and one of the results."""
    names = list(found.folders)
    for head, table in (("scenario", found.scenarios), ("result", found.results)):
        if not table:
            click.echo(f"The {head}s are the same.\n")
            continue
        for some in groups(names, table):
            rows = [(spaced(field), *(_text(values[name]) for name in some)) for field, values in table.items()]
            print_table((head, *some), rows, folded=range(len(some) + 1))
            click.echo()
    times = [spaced(name) for name in TIMES if name in found.results]
    click.echo(f"The same in all: {len(found.same)} fields. Of real time: {', '.join(times)}.")


def groups(names: list[str], table: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Runs in groups whose columns fit a line."""
    first = max(len(field) for field in table)
    found: list[list[str]] = [[]]
    room = WIDTH - first
    for name in names:
        width = 3 + max(len(name), *(len(_text(values[name])) for values in table.values()))
        if found[-1] and width > room:
            found.append([])
            room = WIDTH - first
        found[-1].append(name)
        room -= width
    return found


def differing_settings(found: Contrast) -> str:
    """The fields in which the scenarios differ, by their last names."""
    fields = [field.rpartition(".")[2] for field in found.scenarios if not field.startswith("record.")]
    return f"They differ in {', '.join(dict.fromkeys(fields))}." if fields else ""


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    text = cell(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
