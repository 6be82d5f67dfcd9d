"""The flags `--power` and `--price` of commands that show what runs cost, and the cost of one of them."""

import inspect
from typing import Any

import click

from asyncsim._checks import did_you_mean
from asyncsim._component import Component, arguments
from asyncsim._metrics import ABSENT, SPENT, metric, number, percent
from asyncsim.cli._output import print_table
from asyncsim.costs import Cost, Power, Price
from asyncsim.costs._result import JOULES_PER_KILOWATT_HOUR

MEANINGS = {
    "waiting": "until it may read, and between jobs",
    "download": "from the read to the computation",
    "compute": "of all jobs, also those in vain",
    "upload": "to the server, pulls and losses included",
    "queue": "at the server, or for a turn",
    "service": "at the server",
    "down": "after a crash, or offline",
}
SWITCHES = {"true": True, "false": False}


class Settings(click.ParamType):
    """A component as `name=value,…`."""

    name = "settings"

    def __init__(self, kind: type[Component]) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Component:
        """The component, or a usage error."""
        given: dict[str, Any] = {}
        known = arguments(self.kind)
        for word in value.split(","):
            name, equals, text = (part.strip() for part in word.partition("="))
            if name not in known or not equals:
                self.fail(f"got {word!r}; give {'=…, '.join(known)}=….{did_you_mean(name, known)}", param, ctx)
            try:
                given[name] = SWITCHES[text] if text in SWITCHES else float(text)
            except ValueError:
                self.fail(f"`{name}` must be a number, or true or false; got {text!r}.", param, ctx)
        needed = inspect.signature(self.kind).parameters.values()
        if missing := [one.name for one in needed if one.default is one.empty and one.name not in given]:
            self.fail(f"{' and '.join(missing)} must be given too, as {missing[0]}=NUMBER.", param, ctx)
        try:
            return self.kind(**given)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from error


def cost_options() -> list[click.Option]:
    """The flags `--power` and `--price`."""
    power = "Power of the machines in watts, for energy: busy=300,idle=60, and if wanted server=, joules_per_byte=."
    price = "Prices, for money: per_hour=2.5, and egress_per_gigabyte=, billing_seconds=, server_per_hour=, spot=true."
    return [
        click.Option(["--power"], type=Settings(Power), metavar="NAME=W,…", help=power),
        click.Option(["--price"], type=Settings(Price), metavar="NAME=X,…", help=price),
    ]


def size_options() -> list[click.Option]:
    """The flags for the sizes of messages."""
    size = click.IntRange(min=0)
    return [
        click.Option(["--message-bytes"], type=size, metavar="N", help="Size of an update. [that of the run]"),
        click.Option(["--parameter-bytes"], type=size, metavar="N", help="Size of all parameters. [that of the run]"),
    ]


def cost_as_json(found: Cost, sizes_known: bool) -> dict[str, Any]:
    """The cost as JSON can hold it, with the seconds of each worker; bytes are null if sizes are not known."""
    unknown = {} if sizes_known else {"bytes_up": None, "bytes_down": None}
    return {**found.summary(), **unknown, "by_worker": {name: list(map(float, v)) for name, v in found.seconds.items()}}


def show_cost(found: Cost, sizes_known: bool) -> None:
    """Print the time in parts, and a line for each other number."""
    rows = []
    for name, seconds in found.seconds.items():
        least, most = (
            percent(float(value) / (found.duration or float("nan"))) for value in (min(seconds), max(seconds))
        )
        range_of = f"{least} to {most}"
        rows.append((name, number(float(seconds.sum())), percent(found.shares[name]), range_of, MEANINGS[name]))
    rows.append(("sum", number(found.workers * found.duration), percent(1.0), "", ""))
    print_table(("time", "seconds", "share", "of a worker", ""), rows, flush=(0, 4), folded=(4,))
    if found.contains:
        click.echo(f"\nThe trace does not tell these apart from compute: {', '.join(found.contains)}.")
    click.echo()
    bytes_sent = [f"{value:,}" if sizes_known else ABSENT for value in (found.bytes_up, found.bytes_down)]
    lines = [("workers", f"{found.workers:,}"), ("seconds", number(found.duration))]
    lines += [("bytes up", bytes_sent[0]), ("bytes down", bytes_sent[1])]
    if found.joules is not None:
        kilowatt_hours = number(found.joules / JOULES_PER_KILOWATT_HOUR)
        lines.append((SPENT["joules"].label, f"{number(found.joules)} J, {kilowatt_hours} kWh"))
    if found.money is not None:
        lines.append((metric("money").label, number(found.money)))
    print_table((), lines)
    if not sizes_known:
        click.echo("\nFor bytes, give --message-bytes and --parameter-bytes.")
