"""`asyncsim tag`, `untag`, `retag`, `tags` and `path`: names by which commands and people find folders again."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from asyncsim.cli._command import Command
from asyncsim.cli._output import json_option, print_lines, print_results
from asyncsim.store import _places as places
from asyncsim.store import tags as kept


class TagName(click.ParamType):
    """The name of a tag, which need not exist."""

    name = "name"


class RunFolder(click.ParamType):
    """The folder of a run, by its path or its tag; `find` makes a path of the text, or raises a ValueError."""

    name = "run"

    def __init__(self, find: Callable[..., Path | str] = places.find_run) -> None:
        self.find = find

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        """The path; an error of one line if there is none."""
        return self.find(value, what=f"`{param.human_readable_name}`" if param is not None else "`RUN`")


def tags_by_place() -> dict[str, list[str]]:
    """Real path -> tags; none, with a warning, if their file cannot be read."""
    try:
        return kept.names_by_place()
    except (OSError, ValueError) as error:
        warnings.warn(str(error), stacklevel=2)
        return {}


@click.command(cls=Command)
@click.argument("run", type=RunFolder(places.find))
@click.argument("name", required=False)
@click.option("--move", is_flag=True, help="Move the tag from its present place.")
def tag(run: Path, name: str | None, move: bool) -> None:
    """Give RUN, a folder or a file, the tag NAME. The default is the name of its folder.

    Every command that takes a run also takes NAME. If the working directory has a file or folder of that name, you get
    it instead, with a warning. A tag of another place moves only with --move. Tags are stored in your data folder, or
    in the file that ASYNCSIM_TAGS names. For example: asyncsim tag runs/gem baseline
    """
    made = kept.add(run, name, move=move)
    click.echo(f"{made.name} → {made.place}")


@click.command(cls=Command)
@click.argument("name", type=TagName())
def untag(name: str) -> None:
    """Remove the tag NAME. Its folder stays."""
    gone = kept.remove(name)
    click.echo(f"{gone.name} is no longer a tag of {gone.place}")


@click.command(cls=Command)
@click.argument("old", type=TagName())
@click.argument("new")
def retag(old: str, new: str) -> None:
    """Rename the tag OLD to NEW."""
    made = kept.rename(old, new)
    click.echo(f"{made.name} → {made.place}")


@click.command("tags", cls=Command, params=[json_option("the tags")])
@click.option("--names", is_flag=True, help="Print only the names, one on a line.")
def command(names: bool, as_json: bool) -> None:
    """List the tags and their folders.

    A tag is dangling if its folder is gone, and changed if the folder now holds another study.
    """
    found = kept.every()
    if names:
        click.echo("".join(f"{name}\n" for name in found), nl=False)
        return
    states = {name: tag.state for name, tag in found.items()}

    def show() -> None:
        print_lines([(name, f"{tag.place}{_remark(tag, states[name])}") for name, tag in found.items()])
        if not found:
            click.echo("There are no tags. Give a run one: asyncsim tag RUN NAME", err=True)

    listed: dict[str, Any] = {
        name: {"path": str(tag.place), "state": states[name], "date": tag.date} for name, tag in found.items()
    }
    print_results(listed, as_json, show)


@click.command(cls=Command)
@click.argument("name", type=TagName())
def path(name: str) -> None:
    """Print the folder of the tag NAME. For example: cd "$(asyncsim path NAME)"."""
    found = kept.get(name)
    place = kept.place_of(name)
    if found.state == kept.CHANGED:
        warnings.warn(kept.changed(found), stacklevel=2)
    click.echo(place)


def _remark(tag: kept.Tag, state: str) -> str:
    if state != kept.DANGLING:
        return "  (changed: holds another study than when it was tagged)" if state == kept.CHANGED else ""
    moved = kept.moved_to(tag)
    return "  (dangling)" if moved is None else f"  (dangling; seems to have moved to {moved})"
