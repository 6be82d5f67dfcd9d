"""`asyncsim sweep plot`: a measured quantity against a field, and the best settings."""

from collections.abc import Sequence
from typing import Any

import click

from asyncsim.checks import did_you_mean
from asyncsim.cli.command import Command
from asyncsim.cli.output import json_option, print_results
from asyncsim.cli.sweep.rows import QUARTILES, as_records, cell, direction_options, print_rows
from asyncsim.cli.sweep.shown import chosen_among, has_value, showable, told, unmeasured
from asyncsim.cli.sweep.stored import asked, store_argument
from asyncsim.cli.tables import spaced
from asyncsim.study.best import SEEDS, best, is_better_larger, medians, require_numbers
from asyncsim.study.store import Store
from asyncsim.study.sweep_table import SweepTable


def plot(
    store: Store,
    x: str,
    y: str,
    by: Sequence[str],
    heat: bool,
    largest: bool | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Draw a measured quantity against a field."""
    from asyncsim.plots.page import draw_legend_beside, draw_title, fit_tick_labels
    from asyncsim.plots.style import save_png
    from asyncsim.plots.sweep import SIZE, draw_heat, draw_sweep

    table = asked(store)
    names = [name for one in by for name in one.split(",") if name]
    try:
        _require_axes(table, x, y, names, heat)
        table, lacking = showable(table, [x, *names])
        _require_values(table, x, y, names)
        lost = unmeasured(table, y)
        larger = is_better_larger(y, largest)
        settings = medians(table, y, largest=larger)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    place = out or str(store.path / f"{y}_against_{'_'.join([x, *names])}.png")

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        if heat:
            draw_heat(ax, settings, x, names[0], y, largest=larger)
        else:
            lines = draw_sweep(ax, settings, x, y, names, largest=larger)
            if names:
                draw_legend_beside(ax, [(str(line.get_label()), line) for line in lines])
        over = sorted({int(count) for count in settings["runs"]})
        seeds = f"{over[0]:,}" if len(over) == 1 else f"{over[0]:,} to {over[-1]:,}"
        free = chosen_among(settings, [x, *names])
        best_of = f"best of {', '.join(map(spaced, free))}" if free else ""
        details = [f"{seeds} run{'s' * (over[-1] != 1)} at each point", best_of, told(lacking, lost)]
        against = f"{x} and {names[0]}" if heat else x
        draw_title(figure, spaced(f"{y} against {against}"), "; ".join(filter(None, details)))
        fit_tick_labels(ax)

    save_png(place, draw, SIZE)
    chosen = best(table, y, per=[name for name in names if name in settings.fields], largest=larger)
    records = {"picture": place, "best": as_records(chosen), "left_out": lacking, "worst": lost}
    print_results(records, as_json, lambda: _show_best(chosen, y, larger, place, told(lacking, lost)))


def _show_best(chosen: SweepTable, y: str, larger: bool, place: str, remark: str) -> None:
    click.echo(f"The {'highest' if larger else 'lowest'} {spaced(y)}, quartiles over the seeds:")
    names = [*chosen.fields, "runs", *QUARTILES, "at_the_edge"]
    rows = list(zip(*([cell(value) for value in chosen[name].tolist()] for name in names), strict=True))
    print_rows([QUARTILES.get(name, name) for name in names], rows, (), chosen.fields)
    if remark:
        click.echo(f"\n{remark[0].upper()}{remark[1:]}.")
    click.echo(f"\nPicture in {place}")


def _require_axes(table: SweepTable, x: str, y: str, names: Sequence[str], heat: bool) -> None:
    require_numbers("--y", y, table)
    fields = [name for name in table.fields if name not in SEEDS]
    for flag, name in (("--x", x), *(("--by", name) for name in names)):
        if name not in fields:
            known = ", ".join(fields) or "none"
            hint = did_you_mean(name, fields)
            raise ValueError(f"`{flag}` must be a field in which the runs differ, here {known}; got {name!r}.{hint}")
    if x in names or len(set(names)) < len(names):
        raise ValueError(f"`--x` and `--by` must name different fields; got {', '.join([x, *names])}.")
    if heat and len(names) != 1:
        raise ValueError(f"`--heat` needs one other field for the vertical axis, `--by FIELD`; got {len(names)}.")


def _require_values(table: SweepTable, x: str, y: str, names: Sequence[str]) -> None:
    if not table.rows:
        raise ValueError(
            f"`--x` and `--by` must be fields that some run has together; none has {', '.join([x, *names])}."
        )
    if not has_value(table[y]).any():
        what = ", ".join(f"{count:,} {words}" for words, count in unmeasured(table, y).items())
        raise ValueError(f"`--y` {y!r} is not there in any of these {table.rows:,} runs: {what}.")


command = Command(
    "plot",
    params=[
        store_argument(),
        click.Option(["--x"], required=True, metavar="FIELD", help="The field on the horizontal axis."),
        click.Option(["--y"], default="final_loss", metavar="COLUMN", help="What is measured. [final_loss]"),
        click.Option(["--by"], multiple=True, metavar="FIELD", help="Fields of which each value is a line."),
        click.Option(["--heat"], is_flag=True, help="Colours over two fields, --x and --by."),
        *direction_options(),
        click.Option(["--out"], metavar="FILE", help="The picture. [in the store]"),
        json_option("the best settings"),
    ],
    callback=plot,
    help=plot.__doc__,
)
