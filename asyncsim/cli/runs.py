"""`asyncsim runs`: the runs below a folder, from their small files alone."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from asyncsim.checks import did_you_mean
from asyncsim.cli.command import Command
from asyncsim.cli.found import RunFolder, tags_by_place
from asyncsim.cli.output import json_option, print_results
from asyncsim.cli.tables import number, percent
from asyncsim.folders import listing, places
from asyncsim.folders.holders import host_of, is_here
from asyncsim.folders.kept import DAMAGED, Kept
from asyncsim.folders.listing import WHEN, Row
from asyncsim.folders.names import value_text

DEFAULT = "runs"
HEADS = ("name", "swept", "tags", "rule", "n", "commits", "final loss", "accuracy", "when", "state")
TEXT = (0, 1, 2, 3, 8, 9)  # columns set flush left
HELP = """List the runs below FOLDER, a folder or a tag; runs/ by default.

FIELD is a field of a scenario, an entry of its summary, or one of name, tags, state and when; `asyncsim show RUN` shows
what a run has.

\b
  asyncsim runs --rule gem --sort final_loss
  asyncsim runs --where "workers>10" --where "state=complete"
  asyncsim runs --where "when>2026-11-01" --json
"""


@click.command(
    "runs",
    cls=Command,
    help=HELP,
    params=[
        click.Argument(["folder"], required=False, type=RunFolder(lambda text, what: text)),
        click.Option(["--rule"], metavar="NAME", help="Only runs of this rule."),
        click.Option(
            ["--where"], multiple=True, metavar="CONDITION", help='Only these, as in "workers>10"; may be repeated.'
        ),
        click.Option(["--sort"], metavar="FIELD", default="when", help="In this order. [when]"),
        click.Option(["--reverse"], is_flag=True, help="The largest, or the latest, first."),
        json_option("all that is known of the runs"),
    ],
)
def command(
    folder: str | None, rule: str | None, where: tuple[str, ...], sort: str, reverse: bool, as_json: bool
) -> None:
    """List the runs below a folder."""
    top = Path(DEFAULT) if folder is None else _top(folder)
    everything = listing.rows(top, tags_by_place())
    try:
        conditions = [listing.condition(text) for text in (*where, *([] if rule is None else [f"rule={rule}"]))]
        for one in conditions:
            listing.require_field("--where", one.field, everything)
        order = listing.require_field("--sort", sort, everything)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    found = [row for row in everything if all(one.holds(row.values) for one in conditions)]
    found = listing.sort(found, order, reverse)
    results = {"folder": str(top.absolute()), "runs": [as_plain(row) for row in found]}
    print_results(_finite(results), as_json, lambda: show(found, everything, top, rule))


def _top(folder: str) -> Path:
    """The folder that is listed, by its path or its tag."""
    try:
        top = places.find(folder, what="FOLDER")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not top.is_dir():
        raise click.UsageError(f"FOLDER must be a folder; {folder!r} is none. Leave it out for {DEFAULT}/.")
    return top


def show(found: list[Row], everything: list[Row], top: Path, rule: str | None) -> None:
    """Print a line per run."""
    if not found:
        rules = {row.values["rule"] for row in everything if "rule" in row.values}
        hint = "" if rule is None or rule in rules else did_you_mean(rule, rules, quote="'")
        of = f" like that, of {len(everything)}" if everything else ""
        click.echo(f"There are no runs below {str(top)!r}{of}.{hint}", err=True)
        return
    lines = [HEADS, *map(cells, found)]
    empty = {place for place in range(len(HEADS)) if not any(line[place] for line in lines[1:])}
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEADS))]
    for line in lines:
        aligned = [
            text.ljust(width) if place in TEXT else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
            if place not in empty
        ]
        click.echo("  ".join(aligned).rstrip())


def cells(row: Row) -> tuple[str, ...]:
    """The line of a run."""
    values, when = row.values, row.values[WHEN][: len("2026-01-01 00:00")]
    if row.kept.kind != "scenario" or row.kept.state == DAMAGED:
        what = {"comparison": f"{len(row.kept.description.get('scenarios', {}))} scenarios"}.get(row.kept.kind)
        return (row.name, "", ", ".join(row.tags), what or row.kept.kind, "", "", "", "", when, _state(row.kept))
    loss = "diverged" if values.get("diverged_at") is not None else _number(values.get("final_loss"))
    loss += " (stuck)" if values.get("stuck") is True else ""
    accuracy = values.get("test_accuracy")
    return (
        row.name,
        ",".join(f"{name}={value_text(value)}" for name, value in row.swept.items()),
        ", ".join(row.tags),
        str(values.get("rule", "")),
        str(values.get("workers", "")),
        f"{values['commits']:,}" if isinstance(values.get("commits"), int) else "",
        loss,
        percent(accuracy) if isinstance(accuracy, (int, float)) else "",
        when,
        _state(row.kept),
    )


def _state(kept: Kept) -> str:
    """The state, and the host if that is another one."""
    return kept.state if not kept.holder or is_here(kept.holder) else f"{kept.state} on {host_of(kept.holder)}"


def as_plain(row: Row) -> dict[str, Any]:
    """All that is known of a run, as JSON can hold it."""
    return {
        "name": row.name,
        "folder": str(row.kept.folder.absolute()),
        "tags": list(row.tags),
        "swept": row.swept,
        "kind": row.kept.kind,
        "state": row.kept.state,
        "when": datetime.fromtimestamp(row.kept.when).astimezone().isoformat(timespec="seconds"),
        "digest": row.kept.digest,
        "rule": row.values.get("rule"),
        "workers": row.values.get("workers"),
        "commits": row.values.get("commits"),
        "summary": row.kept.summary,
        row.kept.kind: row.kept.description,
    }


def _finite(results: Any) -> Any:
    """The results without numbers that JSON does not have, which a file that was changed by hand may hold."""
    return json.loads(json.dumps(results), parse_constant=lambda name: None)


def _number(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else ""
