"""`asyncsim sweep status`: what of a sweep is done, running, failed or missing."""

import click

from asyncsim.cli.command import Command
from asyncsim.cli.output import json_option, print_results
from asyncsim.cli.sweep.rows import SHOWN, best_line, cell, direction_options
from asyncsim.cli.sweep.stored import asked, store_argument
from asyncsim.cli.tables import print_table
from asyncsim.study.store import DONE, FAILURE, MISSING, RUNNING, Store
from asyncsim.study.sweep_table import DIGEST, SweepTable


def status(store: Store, y: str, largest: bool | None, as_json: bool) -> None:
    """How many runs are done, running, failed and missing, and why they failed."""
    table = asked(store)
    counts = {state: int((table["status"] == state).sum()) for state in (DONE, RUNNING, FAILURE, MISSING)}
    failed = {str(one): store.failure(str(one)) or {} for one in table[DIGEST][table["status"] == FAILURE]}

    line = "" if as_json else best_line(table, y, largest)

    def show() -> None:
        print_table((), [(state, f"{count:,}") for state, count in counts.items()])
        for reason, digests in list(by_reason.items())[:SHOWN]:
            count = f" ({len(digests):,} runs, of which this is the first)" if len(digests) > 1 else ""
            click.echo(f"\nfailed: {_setting(table, digests[0])}\n  {reason}{count}")
        if line:
            click.echo(line)
        if failed:
            click.echo("\nThe whole tracebacks are in the folder `failed`; --retry-failed tries again.")

    by_reason: dict[str, list[str]] = {}
    for digest, failure in failed.items():
        by_reason.setdefault(str(failure.get("reason", "for an unknown reason")), []).append(digest)
    reasons = {digest: failure.get("reason") for digest, failure in failed.items()}
    print_results({**counts, "reasons": reasons}, as_json, show)


def _setting(table: SweepTable, digest: str) -> str:
    """The fields of a run, in words."""
    row = table[DIGEST].tolist().index(digest)
    values = ((name, cell(table[name][row].item())) for name in table.fields)
    return ", ".join(f"{name} {value}" for name, value in values if value not in ("", "–")) or digest


command = Command(
    "status",
    params=[
        store_argument(),
        click.Option(["--y"], default="final_loss", metavar="COLUMN", help="What the best run is by. [final_loss]"),
        *direction_options(),
        json_option("it"),
    ],
    callback=status,
    help=status.__doc__,
)
