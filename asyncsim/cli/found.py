"""Names of runs on the command line: paths and tags, and what a shell offers to complete them."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from asyncsim.folders import places, tags


class TagName(click.ParamType):
    """The name of a tag, which need not exist."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The tags that begin like this."""
        return tags_like(incomplete)


class RunFolder(click.ParamType):
    """The folder of a run, by its path or its tag.

    Args:
        find: What makes a path of the text; raises a ValueError.
    """

    name = "run"

    def __init__(self, find: Callable[..., Path | str] = places.find_run) -> None:
        self.find = find

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        """The path; an error of one line if there is none."""
        return self.find(value, what=f"`{param.human_readable_name}`" if param is not None else "`RUN`")

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The tags that begin like this; or else files and folders, which the shell itself lists."""
        return [*tags_like(incomplete), CompletionItem(incomplete, type="file")]


def tags_like(incomplete: str) -> list[CompletionItem]:
    """The tags that begin with some letters, with the place of each; none if their file cannot be read."""
    try:
        found = tags.every()
    except (OSError, ValueError):
        return []
    return [CompletionItem(name, help=str(tag.place)) for name, tag in found.items() if name.startswith(incomplete)]


def tags_by_place() -> dict[str, list[str]]:
    """Real path -> tags; none, with a warning, if their file cannot be read."""
    try:
        return tags.names_by_place()
    except (OSError, ValueError) as error:
        warnings.warn(str(error), stacklevel=2)
        return {}
