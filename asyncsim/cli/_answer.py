"""The folder of one command's output, which the output of another question never replaces in silence."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from asyncsim.cli._output import out_option
from asyncsim.components._description import describe
from asyncsim.components._digest import hash_of
from asyncsim.store._entry import Folder
from asyncsim.store._labels import QUESTION, Origin
from asyncsim.store._places import folder_name

RUNS = "runs"  # the folder of all default folders


def answer_options(name: str, named_after: str, holds: str) -> list[click.Option]:
    """Return the flags that say where the answer goes, and whether it may replace that to another question."""
    return [
        out_option(f"{Path(RUNS, name)} and {named_after}", f"Folder for {holds}."),
        click.Option(["--force"], is_flag=True, help="Replace the answer to another question in the folder."),
    ]


@dataclass(frozen=True)
class Answer:
    """The answer of a command to a question, which owns its files.

    Attributes:
        command: Name of the command.
        settings: Everything on which the answer depends.
    """

    command: str
    settings: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        """Describe the question as plain data."""
        return describe({"command": self.command, **self.settings}, self.command)

    @cached_property
    def digest(self) -> str:
        """Hash of the question."""
        return hash_of(self.describe())

    def place(self, out: str | None, changes: Mapping[str, Any], *files: str) -> Folder:
        """Return the folder of the answer: that of `out`, or the default one with the changed settings in its name."""
        return Folder(Path(out or Path(RUNS, folder_name(self.command, changes, self.digest))), QUESTION, files)

    def require(self, place: Folder, force: bool) -> None:
        """Refuse a folder with the answer to another question, before anything is computed."""
        if not force:
            place.require(self)

    @contextmanager
    def lease(self, place: Folder, force: bool) -> Iterator[Folder]:
        """Hold the folder while the files of the answer are written."""
        with place.lease(self, force, Origin().describe()) as folder:
            yield folder
