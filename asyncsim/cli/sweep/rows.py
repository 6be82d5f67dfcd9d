"""Tables of sweeps as a person reads them, and as JSON can hold them."""

import math
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from asyncsim.cli.tables import WIDTH, number, print_table, side_by_side, spaced, width_of
from asyncsim.files import to_plain
from asyncsim.study.best import best, is_better_larger, medians, require_numbers
from asyncsim.study.store import DONE
from asyncsim.study.sweep_table import STATUS, SweepTable

DIRECTION = "Which value is the best. [known of a loss, an error, an accuracy]"
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
    print_rows([QUARTILES.get(name, name) for name in names], cells, texts, settings.fields)


def _in_order(value: Any) -> Any:
    """What a column is sorted by; a number that does not exist comes last."""
    return (math.inf if value != value else value) if isinstance(value, np.floating) else value


def direction_options() -> list[click.Option]:
    """Whether the largest or the smallest value is the best, passed on as `largest`; None where it is not given."""
    return [
        click.Option(["--largest/--smallest", "largest"], default=None, help=DIRECTION),
    ]


def best_line(table: SweepTable, by: str, largest: bool | None) -> str:
    """A line with the best setting of the runs that are done; empty if none has a value.

    Raises:
        click.UsageError: If there is no such column, or whether larger is better is not known.
    """
    done = table[STATUS] == DONE
    finished = SweepTable({name: column[done] for name, column in table.items()}, table.fields)
    try:
        require_numbers("--y", by, table)
        chosen = best(finished, by, largest=largest) if finished.rows else finished
        word = "highest" if is_better_larger(by, largest) else "lowest"
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not chosen.rows or math.isnan(chosen["median"][0]):
        return ""
    values = {name: chosen[name][0].item() for name in chosen.fields}
    setting = ", ".join(f"{spaced(name)} {cell(value)}" for name, value in values.items() if value not in ("", None))
    runs = int(chosen["runs"][0])
    of = f", median of {runs:,} runs" if runs > 1 else ""
    where = f": {setting}" if setting else ""
    return f"\nThe {word} {spaced(by)} so far, {cell(chosen['median'][0].item())}{of}{where}."


def print_rows(
    heads: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int], fields: Sequence[str] = ()
) -> None:
    """The first rows of a table, in several parts if it is too wide.

    Each part begins with the `fields`, or with the number of the row where these leave no room for anything else.
    """
    columns = {spaced(head): [row[place] for row in rows[:SHOWN]] for place, head in enumerate(heads)}
    texts = [place for place, name in enumerate(columns) if place in texts]
    repeated = len(fields)
    if len(side_by_side(columns)) > 1 and width_of({name: columns[name] for name in [*columns][:repeated]}) > WIDTH / 2:
        columns = {"row": [str(number + 1) for number in range(len(rows[:SHOWN]))], **columns}
        texts, repeated = [place + 1 for place in texts], 1
    for part, group in enumerate(side_by_side(columns, repeated=max(repeated, 1))):
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
