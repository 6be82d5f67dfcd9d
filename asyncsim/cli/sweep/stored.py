"""A store that exists, as an argument of a command, and all that it was asked for."""

from typing import Any

import click

from asyncsim.folders import places
from asyncsim.study.store import Store, open_store
from asyncsim.study.sweep_table import SweepTable, table_of


class StoreName(click.ParamType):
    """The folder of a store that exists."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Store:
        """The store, or a usage error."""
        try:
            return open_store(places.find(value, what="STORE"), create=False)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from error


def store_argument() -> click.Argument:
    """The argument STORE."""
    return click.Argument(["store"], type=StoreName(), metavar="STORE")


def asked(store: Store) -> SweepTable:
    """The table of all that a store was asked for.

    Raises:
        click.ClickException: If that is nothing.
    """
    sweeps = store.sweeps()
    if not sweeps:
        raise click.ClickException(f"The store {str(store.path)!r} was asked for nothing yet.")
    return table_of(store, sweeps)
