"""`asyncsim sweep plot`: a measured quantity against a field, and the best settings."""

from collections.abc import Sequence
from typing import Any

import click

from asyncsim.checks import did_you_mean
from asyncsim.cli.command import Command
from asyncsim.cli.output import json_option, print_results
from asyncsim.cli.sweep.rows import QUARTILES, as_records, cell, print_rows
from asyncsim.cli.sweep.stored import asked, store_argument
from asyncsim.cli.tables import spaced
from asyncsim.study.best import best, is_better_larger, medians, require_numbers
from asyncsim.study.store import Store
from asyncsim.study.sweep_table import SweepTable


def plot(store: Store, x: str, y: str, by: Sequence[str], heat: bool, out: str | None, as_json: bool) -> None:
    """Draw a measured quantity against a field."""
    from asyncsim.plots.page import draw_legend_beside, draw_title
    from asyncsim.plots.style import save_png
    from asyncsim.plots.sweep import SIZE, draw_heat, draw_sweep

    table = asked(store)
    names = [name for one in by for name in one.split(",") if name]
    try:
        require_numbers("--y", y, table)
        settings = medians(table, y)
        for flag, name in (("--x", x), *(("--by", name) for name in names)):
            _require_field(flag, name, settings)
        if heat and len(names) != 1:
            raise ValueError(f"`--heat` needs one other field for the vertical axis, `--by FIELD`; got {len(names)}.")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    place = out or str(store.path / f"{y}_against_{'_'.join([x, *names])}.png")

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        if heat:
            draw_heat(ax, settings, x, names[0], y)
        else:
            lines = draw_sweep(ax, settings, x, y, names)
            if names:
                draw_legend_beside(ax, [(str(line.get_label()), line) for line in lines])
        over = sorted({int(count) for count in settings["runs"]})
        seeds = f"{over[0]}" if len(over) == 1 else f"{over[0]} to {over[-1]}"
        free = [name for name in settings.fields if name not in (x, *names)]
        best_of = f"; best of {', '.join(free)}" if free else ""
        draw_title(figure, f"{y} against {x}".replace("_", " "), f"{seeds} runs at each point{best_of}")

    save_png(place, draw, SIZE)
    chosen = best(table, y, per=[name for name in names if name in settings.fields])
    print_results({"picture": place, "best": as_records(chosen)}, as_json, lambda: _show_best(chosen, y, place))


def _show_best(chosen: SweepTable, y: str, place: str) -> None:
    word = "highest" if is_better_larger(y) else "lowest"
    click.echo(f"The {word} {spaced(y)}, quartiles over the seeds:")
    names = [*chosen.fields, "runs", *QUARTILES, "at_the_edge"]
    rows = list(zip(*([cell(value) for value in chosen[name].tolist()] for name in names), strict=True))
    print_rows([QUARTILES.get(name, name) for name in names], rows, ())
    click.echo(f"\nPicture in {place}")


def _require_field(flag: str, name: str, settings: SweepTable) -> None:
    if name not in settings.fields:
        known = ", ".join(settings.fields) or "none"
        hint = did_you_mean(name, settings.fields)
        raise ValueError(f"`{flag}` must be a field in which the runs differ, here {known}; got {name!r}.{hint}")


command = Command(
    "plot",
    params=[
        store_argument(),
        click.Option(["--x"], required=True, metavar="FIELD", help="The field on the horizontal axis."),
        click.Option(["--y"], default="final_loss", metavar="COLUMN", help="What is measured. [final_loss]"),
        click.Option(["--by"], multiple=True, metavar="FIELD", help="Fields of which each value is a line."),
        click.Option(["--heat"], is_flag=True, help="Colours over two fields, --x and --by."),
        click.Option(["--out"], metavar="FILE", help="The picture. [in the store]"),
        json_option("the best settings"),
    ],
    callback=plot,
    help=plot.__doc__,
)
