"""`asyncsim show`: the summary and the scenario of a run, from its small files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from asyncsim.cli.command import Command
from asyncsim.cli.found import RunFolder, tags_by_place
from asyncsim.cli.output import json_option, print_results
from asyncsim.cli.tables import print_comparison, print_numbers, print_summary
from asyncsim.folders import tags
from asyncsim.folders.holders import in_words
from asyncsim.folders.kept import COMPLETE, DAMAGED, INTERRUPTED, RUNNING, Kept, read_kept
from asyncsim.folders.places import again
from asyncsim.folders.summaries import KEYS

LONGEST = 60  # characters of a value
KINDS = ("law", "class", "name")  # entries that say what the others belong to
REMARKS = {INTERRUPTED: "interrupted", DAMAGED: "damaged"}


@click.command("show", cls=Command, params=[json_option("summary, scenario and origin")])
@click.argument("run", type=RunFolder())
def command(run: Path, as_json: bool) -> None:
    """Print the summary and the scenario of RUN, a folder or a tag."""
    kept = read_kept(run)
    assert kept is not None, "RunFolder has seen it"
    names = tags_by_place().get(os.path.realpath(run), [])
    results = {
        "folder": str(run.absolute()),
        "tags": names,
        "kind": kept.kind,
        "state": kept.state,
        "digest": kept.digest,
        "summary": kept.summary,
        kept.kind: kept.description,
        "origin": kept.origin,
    }
    print_results(results, as_json, lambda: show(kept, names))


def show(kept: Kept, names: list[str]) -> None:
    """Print what a folder keeps."""
    tagged = f", tagged {', '.join(names)}" if names else ""
    click.echo(f"{kept.folder}: {kept.kind}{tagged}")
    if kept.digest is not None:
        click.echo(_came_from(kept.origin))
    if kept.state == RUNNING:
        click.echo(f"{in_words(kept.holder)} is at work there")
    elif kept.digest is None:
        click.echo(f"damaged: its {kept.kind}.json cannot be read. {again(kept.folder)}")
    elif kept.state != COMPLETE:
        click.echo(f"{REMARKS.get(kept.state, 'no results yet')}; go on with it: asyncsim run {_quoted(kept.folder)}")
    elif kept.kind == "scenario" and kept.summary.keys() >= set(KEYS):
        click.echo()
        print_summary(kept.summary)
    elif kept.kind == "comparison":
        click.echo()
        print_comparison(kept.summary)
    else:
        click.echo()
        print_numbers(kept.summary)
    for group, rows in groups(kept.description):
        click.echo(f"\n{group}")
        width = max(len(name) for name, _ in rows)
        for name, text in rows:
            click.echo(f"  {name:<{width}}  {text}")


def groups(description: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A description in groups of lines: what it is, its value.

    Example:
        >>> list(groups({"rule": {"name": "gem", "kappa": 2.0}, "commits": 40, "seconds": None}))
        [('rule', [('name', 'gem'), ('kappa', '2.0')]), ('study', [('commits', '40')])]
    """
    nested = {name: value for name, value in description.items() if isinstance(value, Mapping) and name != "record"}
    for name, value in nested.items():
        rows = [(key, text) for key, text in leaves(value) if text]
        if rows:
            yield name, rows
    rest = {name: value for name, value in description.items() if name not in nested and value is not None}
    if rest:
        yield "study", [*leaves(rest)]


def leaves(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The values of a description with their paths, those of laws and of lists in one line.

    Example:
        >>> list(leaves({"compute": {"law": "gamma", "mean": 1.0}, "server": {"class": "Server", "slots": 2}}))
        [('compute', 'gamma, mean 1.0'), ('server.slots', '2')]
    """
    for key, one in value.items():
        name = f"{before}{key}"
        if isinstance(one, Mapping) and one.keys() & {"network", "server", "latency", "slots", "fingerprint"}:
            yield from leaves({k: v for k, v in one.items() if k != "class"}, f"{name}.")
        elif isinstance(one, Mapping) and not any(isinstance(v, Mapping) for v in one.values()):
            yield name, _cut(_in_line(one))
        elif isinstance(one, Mapping):
            yield from leaves(one, f"{name}.")
        elif one is not None:
            yield name, _cut(_text(one))


def _in_line(one: Mapping[str, Any]) -> str:
    """A law, a fault or strides in one line."""
    kind = next((one[key] for key in KINDS if key in one), None)
    rest = [f"{key} {_text(v)}" for key, v in one.items() if key not in KINDS and v is not None]
    return ", ".join([str(kind), *rest] if kind is not None else rest) or "none"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"({_in_line(one)})" if isinstance(one, Mapping) else _text(one) for one in value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _came_from(origin: Mapping[str, Any]) -> str:
    """The date and the command, as far as they are known."""
    if "date" not in origin:
        return "from an unknown date and command"
    return f"{origin['date'].replace('T', ' ')[:16]}  {origin.get('command', '')}"


def _quoted(folder: Path) -> str:
    return tags.quoted(str(folder))
