"""`asyncsim sweep table`: one row a run."""

import click

from asyncsim.cli.command import Command
from asyncsim.cli.output import json_option, print_results
from asyncsim.cli.sweep.rows import as_records, best_line, cell, direction_options, print_rows
from asyncsim.cli.sweep.stored import asked, store_argument
from asyncsim.scenario.lanes import LANES
from asyncsim.study.store import Store
from asyncsim.study.sweep_table import DIGEST

SUMMARY = ("final_loss", "test_accuracy", "diverged_at")


def show_table(store: Store, csv: str | None, y: str, largest: bool | None, as_json: bool) -> None:
    """One row a run: the fields in which the runs differ, the summary, the state."""
    table = asked(store)
    if csv is not None:
        table.to_csv(csv)
        click.echo(f"{table.rows:,} rows in {csv}", err=as_json)
        if not as_json:
            return

    line = "" if as_json else best_line(table, y, largest)

    def show() -> None:
        measured = [y] if y not in SUMMARY else []
        lanes = [LANES] if LANES in table and LANES not in table.fields else []
        names = [*table.fields, *measured, *SUMMARY, *lanes, "status", DIGEST]
        cells = [[cell(value) for value in table[name].tolist()] for name in names]
        rows = list(zip(*cells, strict=True))
        texts = [place for place, name in enumerate(names) if table[name].dtype.kind not in "iuf"]
        print_rows(names, rows, texts, table.fields)
        if line:
            click.echo(line)

    print_results(as_records(table), as_json, show)


command = Command(
    "table",
    params=[
        store_argument(),
        click.Option(["--csv"], metavar="FILE", help="Write the table with all digits there."),
        click.Option(["--y"], default="final_loss", metavar="COLUMN", help="What the best run is by. [final_loss]"),
        *direction_options(),
        json_option("the table"),
    ],
    callback=show_table,
    help=show_table.__doc__,
)
