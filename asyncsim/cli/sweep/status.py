"""`asyncsim sweep status`: what of a sweep is done, running, failed or missing."""

import click

from asyncsim.cli.command import Command
from asyncsim.cli.output import json_option, print_results
from asyncsim.cli.sweep.rows import SHOWN, cell
from asyncsim.cli.sweep.stored import asked, store_argument
from asyncsim.cli.tables import print_table
from asyncsim.study.store import DONE, FAILURE, MISSING, RUNNING, Store
from asyncsim.study.sweep_table import DIGEST


def status(store: Store, as_json: bool) -> None:
    """How many runs are done, running, failed and missing, and why they failed."""
    table = asked(store)
    counts = {state: int((table["status"] == state).sum()) for state in (DONE, RUNNING, FAILURE, MISSING)}
    failed = {str(one): store.failure(str(one)) or {} for one in table[DIGEST][table["status"] == FAILURE]}

    def show() -> None:
        print_table((), [(state, f"{count:,}") for state, count in counts.items()])
        for digest, failure in list(failed.items())[:SHOWN]:
            row = table[DIGEST].tolist().index(digest)
            setting = ", ".join(f"{name} {cell(table[name][row].item())}" for name in table.fields)
            click.echo(f"\nfailed: {setting or digest}\n  {failure.get('reason', 'for an unknown reason')}")
        if failed:
            click.echo("\nThe whole tracebacks are in the folder `failed`; --retry-failed tries again.")

    reasons = {digest: failure.get("reason") for digest, failure in failed.items()}
    print_results({**counts, "reasons": reasons}, as_json, show)


command = Command("status", params=[store_argument(), json_option("it")], callback=status, help=status.__doc__)
