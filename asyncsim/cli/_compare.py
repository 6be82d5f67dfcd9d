"""`asyncsim compare`: differences between runs, in a table and a picture."""

from functools import partial
from pathlib import Path

import click

from asyncsim._metrics import cell, cut, metric, text
from asyncsim.cli._command import RUN, Command
from asyncsim.cli._output import json_option, out_option, print_columns, print_results
from asyncsim.cli._trace import cost_options
from asyncsim.costs import Power, Price
from asyncsim.plots._comparison import draw_side_by_side, size_of
from asyncsim.plots.style import save_png
from asyncsim.store._files import make_folder, write_json
from asyncsim.store._places import find_run
from asyncsim.study._compare import TIMES, Contrast, contrast, curves, members, short_names

NAME = "compare"
OUT = str(Path("runs", NAME))
LONGEST = 24  # characters of a value, so that three runs fit a line
HELP = """Compare runs: their scenarios, their results, and their losses in a picture.

Give two or more RUNs, each a tag or the folder of a run or of a comparison. For example:

\b
  asyncsim compare runs/gem runs/downpour
"""


@click.command(
    NAME,
    cls=Command,
    help=HELP,
    params=[
        click.Argument(["run"], nargs=-1, required=True, type=RUN),
        out_option(OUT, "Folder for the picture and the numbers."),
        *cost_options(),
        json_option("the differences"),
    ],
)
def command(run: tuple[str, ...], out: str | None, power: Power | None, price: Price | None, as_json: bool) -> None:
    """Compare runs."""
    try:
        found = contrast(members(short_names([(text, find_run(text)) for text in dict.fromkeys(run)])), power, price)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    folder = Path(out or OUT)
    make_folder(folder)
    title = f"{len(found.folders)} runs" if len(found.folders) > 2 else " and ".join(found.folders)
    lines = curves(found.folders, power, price)
    fields = [field.rpartition(".")[2] for field in found.scenarios if not field.startswith("record.")]
    subtitle = f"They differ in {', '.join(dict.fromkeys(fields))}." if fields else ""
    page = partial(draw_side_by_side, curves=lines, title=title, subtitle=subtitle)
    save_png(folder / f"{NAME}.png", page, size_of(lines))
    numbers = {
        "runs": {name: str(path.absolute()) for name, path in found.folders.items()},
        "scenarios": found.scenarios,
        "results": found.results,
    }
    write_json(folder / f"{NAME}.json", numbers)
    print_results(numbers, as_json, partial(print_contrast, found), f"Picture and numbers in {folder}")


def print_contrast(found: Contrast) -> None:
    """A table of the fields in which the scenarios differ, and one of the results."""
    names = list(found.folders)
    scenarios = {field: [cell(of[name]) for name in names] for field, of in found.scenarios.items()}
    results = {metric(key).label: [text(key, of[name]) for name in names] for key, of in found.results.items()}
    for head, table in (("scenario", scenarios), ("result", results)):
        if not table:
            click.echo(f"The {head}s are the same.\n")
            continue
        rows = [[cut(value, LONGEST) for value in values] for values in table.values()]
        heads = [name.replace(",", ", ") for name in names]  # which may be broken at blanks
        columns = dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))
        print_columns({head: [*table], **columns}, [head])
        click.echo()
    times = [metric(name).label for name in TIMES if name in found.results]
    click.echo(f"The same in all: {len(found.same)} fields. Of real time: {', '.join(times)}.")
