"""Tables of sweeps as a person reads them, and as JSON can hold them."""

import math
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from asyncsim.cli.tables import number, print_table, side_by_side, spaced
from asyncsim.files import to_plain
from asyncsim.study.best import medians
from asyncsim.study.sweep_table import SweepTable

LARGE = 1e6  # numbers from which on the digits of a table are not written out
QUARTILES = {"lower_quartile": "lower", "median": "median", "upper_quartile": "upper"}  # column -> its head
SHOWN = 40  # rows of a table in a terminal


def show_settings(table: SweepTable, by: str = "final_loss") -> None:
    """A row for each setting: quartiles over the seeds."""
    settings = medians(table, by)
    click.echo(f"{spaced(by).capitalize()}, quartiles over the seeds:")
    names = [*settings.fields, "runs", *QUARTILES]
    rows = sorted(range(settings.rows), key=lambda row: [_in_order(settings[name][row]) for name in settings.fields])
    cells = [[cell(settings[name][row].item()) for name in names] for row in rows]
    texts = [place for place, name in enumerate(settings.fields) if settings[name].dtype.kind not in "iuf"]
    print_rows([QUARTILES.get(name, name) for name in names], cells, texts)


def _in_order(value: Any) -> Any:
    """What a column is sorted by; a number that does not exist comes last."""
    return (math.inf if value != value else value) if isinstance(value, np.floating) else value


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int]) -> None:
    """The first rows of a table, in several parts if it is too wide."""
    columns = {spaced(head): [row[place] for row in rows[:SHOWN]] for place, head in enumerate(heads)}
    for part, group in enumerate(side_by_side(columns)):
        if part:
            click.echo()
        names = list(group)
        flush = [place for place, name in enumerate(names) if list(columns).index(name) in texts]
        print_table(names, list(zip(*group.values(), strict=True)), text=flush, folded=range(len(names)))
    _tell_rest(len(rows))


def as_records(table: SweepTable) -> dict[str, Any]:
    """The table as JSON can hold it."""
    return {"fields": table.fields, "columns": {name: to_plain(column) for name, column in table.items()}}


def cell(value: Any) -> str:
    """A value as a person reads it; a dash for a number that does not exist."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) >= LARGE else number(None if math.isnan(value) else value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _tell_rest(rows: int) -> None:
    if rows > SHOWN:
        click.echo(f"… and {rows - SHOWN:,} more rows (--csv FILE for all)")
