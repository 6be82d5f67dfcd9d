"""`asyncsim runs`, `show`, `tag`, `untag`, `retag`, `tags` and `path`: runs, by their small files and by names."""

import json
import os
import warnings
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

import click

from asyncsim._checks import did_you_mean
from asyncsim._metrics import KEYS, SHORT, field_lines, is_notable, metric, metric_text
from asyncsim.cli._command import RUN, Checked, Command, echo, say, wrong_usage
from asyncsim.cli._output import (
    json_option,
    print_comparison,
    print_lines,
    print_numbers,
    print_results,
    print_summary,
    print_table,
    width,
)
from asyncsim.store import _listing as listing
from asyncsim.store import _places as places
from asyncsim.store import tags as tag_file
from asyncsim.store._labels import BEGUN, COMPLETE, DAMAGED, RUNNING, RunInfo, read_info
from asyncsim.store._lease import host_of, in_words, is_here
from asyncsim.store._listing import TIME_COLUMN, Row, flat
from asyncsim.store._places import explain_recomputation, value_text
from asyncsim.store.tags import Tag

DEFAULT = "runs"
NUMBERS = ("commits", *SHORT)
NUMERIC = ("workers", *(metric(name).label for name in NUMBERS))  # heads of columns of numbers
HEADS = ("name", "swept", "tags", "rule", *NUMERIC, "when", "state")
# Columns that a narrow terminal does without, in this order.
GIVE_WAY = ("state", "when", "commits", "workers", "rule", metric("test_accuracy").label)
HELP = """List the runs below FOLDER, which is a folder or a tag. The default is runs/.

FIELD is a field of a scenario, an entry of its summary, or one of name, tags, state and when. `asyncsim show RUN`
prints the fields of a run. For example:

\b
  asyncsim runs --rule gem --sort final_loss
  asyncsim runs --where "workers>10" --where "state=complete"
  asyncsim runs --where "when>2026-11-01" --json
"""
TAG = Checked("name", str, "tags")  # the name of a tag, which need not exist


def tags_by_place() -> dict[str, list[str]]:
    """Return real path -> tags, or nothing, with a warning, if their file cannot be read."""
    try:
        return tag_file.names_by_place()
    except (OSError, ValueError) as error:
        warnings.warn(str(error), stacklevel=2)
        return {}


@click.command(
    "runs",
    cls=Command,
    help=HELP,
    params=[
        click.Argument(["folder"], required=False, type=RUN),
        click.Option(["--rule"], metavar="NAME", help="Only runs of this rule."),
        click.Option(
            ["--where"],
            multiple=True,
            metavar="CONDITION",
            help='Only runs with, for example, "workers>10". Repeatable.',
        ),
        click.Option(["--sort"], metavar="FIELD", default="when", help="Field to sort by. [when]"),
        click.Option(["--reverse"], is_flag=True, help="Largest or latest first."),
        json_option("settings and results of the runs"),
    ],
)
def command(
    folder: str | None, rule: str | None, where: tuple[str, ...], sort: str, reverse: bool, as_json: bool
) -> None:
    """List the runs below a folder."""
    with wrong_usage():
        top = Path(DEFAULT) if folder is None else places.find(folder, what="FOLDER")
        if folder is not None and not top.is_dir():
            raise ValueError(f"FOLDER must be a folder; {folder!r} is none. Leave it out for {DEFAULT}/.")
    # All rows are read first: a field may be unknown in the rows that conditions leave.
    everything = listing.rows(top, tags_by_place())
    with wrong_usage():
        written = [listing.condition(text) for text in (*where, *([] if rule is None else [f"rule={rule}"]))]
        conditions = [each._replace(field=listing.require_field("--where", each.field, everything)) for each in written]
        order = listing.require_field("--sort", sort, everything)
    rows = [row for row in everything if all(condition.holds(row.values) for condition in conditions)]
    rows = listing.sort(rows, order, reverse)
    results = json.dumps({"folder": str(top.absolute()), "runs": [as_plain(row) for row in rows]})
    # A summary that was changed by hand may hold NaN or Infinity, which are no JSON.
    finite = json.loads(results, parse_constant=lambda name: None)
    print_results(finite, as_json, lambda: print_runs(rows, everything, top, rule))


def print_runs(rows: list[Row], everything: list[Row], top: Path, rule: str | None) -> None:
    """Print a line per run."""
    if not rows:
        rules = {row.values["rule"] for row in everything if "rule" in row.values}
        hint = "" if rule is None or rule in rules else did_you_mean(rule, rules, quote="'")
        of = f" like that, of {len(everything)}" if everything else ""
        say(f"There are no runs below {str(top)!r}{of}.{hint}")
        return
    lines = [cells(row) for row in rows]
    # A column that is empty in all rows is left out.
    columns = {head: column for head in HEADS if any(column := [line[head] for line in lines])}
    left_out = too_many(columns)
    heads = [head for head in columns if head not in left_out]
    flush = [place for place, head in enumerate(heads) if head not in NUMERIC]
    print_table(heads, [[line[head] for head in heads] for line in lines], flush=flush, broken=False)
    if left_out:
        say(f"Left out at {width()} characters: {', '.join(left_out)}. --json prints all.")


def too_many(columns: dict[str, list[str]]) -> list[str]:
    """Return the columns without which a line of the list fits the terminal, or is as short as it can be."""
    room, left_out = width() + 2, []  # The last column has no space behind it.
    widths = {head: 2 + max(map(len, [head, *column])) for head, column in columns.items()}
    for head in GIVE_WAY:
        has_news = head == "state" and set(columns[head]) != {COMPLETE}
        if sum(widths.values()) > room and head in widths and not has_news:
            widths.pop(head)
            left_out.append(head)
    return left_out


def cells(row: Row) -> dict[str, str]:
    """Return the line of a run, where a cell without news is empty."""
    values, info = row.values, row.info
    shared = {"name": row.name, "tags": ", ".join(row.tags), "when": values[TIME_COLUMN][: len("2026-01-01 00:00")]}
    # A lease of another machine in a shared folder can only be ended there.
    host = f" on {host_of(info.holder)}" if info.holder and not is_here(info.holder) else ""
    line = dict.fromkeys(HEADS, "") | shared | {"state": f"{info.state}{host}"}
    if info.kind == "comparison":
        return line | {"rule": f"{len(info.description.get('scenarios', {}))} scenarios"}
    if info.kind != "scenario" or info.state == DAMAGED:
        return line | {"rule": info.kind}
    # The name of a scenario in a store is its digest, so the fields that the sweep varies say which run it is.
    swept = ",".join(f"{path.rpartition('.')[2]}={value_text(value)}" for path, value in row.swept.items())
    numbers = {metric(name).label: _number(name, values.get(name)) for name in NUMBERS}
    names = {name: str(values.get(name, "")) for name in ("rule", "workers")}
    return line | {"swept": swept} | names | numbers


def as_plain(row: Row) -> dict[str, Any]:
    """Return a run of the list as JSON can hold it."""
    return {
        "name": row.name,
        **_plain(row.info, row.tags),
        "swept": row.swept,
        "when": datetime.fromtimestamp(row.info.when).astimezone().isoformat(timespec="seconds"),
        **{name: row.values.get(name) for name in ("rule", "workers", "commits")},
    }


def _plain(info: RunInfo, tag_names: Iterable[str]) -> dict[str, Any]:
    """Return state, results and settings of a run as JSON can hold them."""
    return {
        "folder": str(info.folder.absolute()),
        "tags": [*tag_names],
        "kind": info.kind,
        "state": info.state,
        "digest": info.digest,
        "summary": info.summary,
        info.kind: info.description,
    }


def _number(name: str, value: Any) -> str:
    # A summary that was changed by hand may hold anything.
    is_number = isinstance(value, (int, float)) and is_notable(name, value)
    return metric_text(name, value) if is_number else ""


@click.command("show", cls=Command, params=[json_option("summary, scenario and origin")])
@click.argument("run", type=RUN)
def show(run: str, as_json: bool) -> None:
    """Print the summary and the scenario of RUN, a folder or a tag."""
    folder = places.find_run(run)
    info = read_info(folder)
    assert info is not None, "`find_run` has seen it"
    # Tags know real paths, so a link to the folder has them too.
    names = tags_by_place().get(os.path.realpath(folder), [])
    results = {**_plain(info, names), "origin": info.origin}
    print_results(results, as_json, lambda: print_info(info, names))


def print_info(info: RunInfo, names: list[str]) -> None:
    """Print the state, the results and the settings of a run."""
    tagged = f", tagged {', '.join(names)}" if names else ""
    echo(f"{info.folder}: {info.kind}{tagged}")
    if info.digest is not None:
        date, origin = info.origin.get("date"), info.origin.get("command", "")
        echo(f"{date.replace('T', ' ')[:16]}  {origin}" if date else "from an unknown date and command")
    if info.state == RUNNING:
        echo(f"{in_words(info.holder)} is at work there")
    elif info.digest is None:
        echo(f"damaged: its {info.kind}.json cannot be read. {explain_recomputation(info.folder)}")
    elif info.state != COMPLETE:
        remark = "no results yet" if info.state == BEGUN else info.state
        echo(f"{remark}; go on with it: asyncsim run {quote(str(info.folder))}")
    else:
        echo()
        # The summary of an older version may lack numbers, and is then printed entry by entry.
        is_complete = info.kind != "scenario" or info.summary.keys() >= set(KEYS)
        shows = {"scenario": print_summary, "comparison": print_comparison}
        (shows.get(info.kind, print_numbers) if is_complete else print_numbers)(info.summary)
    echo()
    print_lines(field_lines(flat(info.settings)))


@click.command(cls=Command)
@click.argument("run", type=RUN)
@click.argument("name", required=False)
@click.option("--move", is_flag=True, help="Move the tag from its present place.")
def tag(run: str, name: str | None, move: bool) -> None:
    """Give RUN, a folder or a file, the tag NAME. The default is the name of its folder.

    Every command that takes a run also takes NAME. If the working directory has a file or folder of that name, you get
    it instead, with a warning. A tag of another place moves only with --move. Tags are stored in your data folder, or
    in the file that ASYNCSIM_TAGS names. For example: asyncsim tag runs/gem baseline
    """
    tagged = tag_file.add(places.find(run), name, move=move)
    echo(f"{tagged.name} → {tagged.place}")


@click.command(cls=Command)
@click.argument("name", type=TAG)
def untag(name: str) -> None:
    """Remove the tag NAME. Its folder stays."""
    removed = tag_file.remove(name)
    echo(f"{removed.name} is no longer a tag of {removed.place}")


@click.command(cls=Command)
@click.argument("old", type=TAG)
@click.argument("new")
def retag(old: str, new: str) -> None:
    """Rename the tag OLD to NEW."""
    tagged = tag_file.rename(old, new)
    echo(f"{tagged.name} → {tagged.place}")


@click.command("tags", cls=Command, params=[json_option("the tags")])
@click.option("--names", is_flag=True, help="Print only the names, one on a line.")
def tags(names: bool, as_json: bool) -> None:
    """List the tags and their folders.

    A tag is dangling if its folder is gone, and changed if the folder now holds another study.
    """
    every_tag = tag_file.every()
    if names:
        # Completion scripts ask for this at each completion, so only the file of tags is read.
        click.echo("".join(f"{name}\n" for name in every_tag), nl=False)
        return
    # The state of a tag is read from its folder, once for both forms of the output.
    states = {name: tag.state for name, tag in every_tag.items()}

    def show() -> None:
        print_lines([(name, f"{tag.place}{_remark(tag, states[name])}") for name, tag in every_tag.items()])
        if not every_tag:
            say("There are no tags. Give a run one: asyncsim tag RUN NAME")

    listed: dict[str, Any] = {
        name: {"path": str(tag.place), "state": states[name], "date": tag.date} for name, tag in every_tag.items()
    }
    print_results(listed, as_json, show)


@click.command(cls=Command)
@click.argument("name", type=TAG)
def path(name: str) -> None:
    """Print the folder of the tag NAME. For example: cd "$(asyncsim path NAME)"."""
    tag = tag_file.get(name)
    # It raises an error for a dangling tag, before anything is printed.
    place = tag_file.place_of(name)
    if tag.state == tag_file.CHANGED:
        warnings.warn(tag_file.changed(tag), stacklevel=2)
    click.echo(place)  # A shell reads it, so nothing is escaped.


def _remark(tag: Tag, state: str) -> str:
    if state != tag_file.DANGLING:
        return "  (changed: holds another study than when it was tagged)" if state == tag_file.CHANGED else ""
    moved = tag_file.moved_to(tag)
    return "  (dangling)" if moved is None else f"  (dangling; seems to have moved to {moved})"
