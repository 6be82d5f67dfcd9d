"""Where a study came from: kept beside its description, for people, and for loading what has no name of its own.

Nothing of it enters a digest: the same study from another script is the same study.
"""

import importlib.metadata
import math
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from asyncsim._version import __version__
from asyncsim.store._files import digest, to_plain

PACKAGES = ("jax", "jaxlib", "numpy", "optax", "scipy", "simpy")  # whose versions can change a number

INFINITE = {"inf": math.inf, "-inf": -math.inf}  # what JSON cannot hold, in the changes


@dataclass(frozen=True)
class Origin:
    """From which script a study came, and what was changed in it."""

    script: Path | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    member: str | None = None

    def of_member(self, name: str) -> "Origin":
        """The origin of one of a comparison's scenarios."""
        return replace(self, member=name)

    def with_changes(self, changes: Mapping[str, Any]) -> "Origin":
        """The origin of the same study with more fields changed."""
        return replace(self, changes={**self.changes, **changes})

    def describe(self) -> dict[str, Any]:
        """Date, command, versions and, if there is a script, its absolute path and its hash; as JSON can hold it."""
        described: dict[str, Any] = {
            "date": datetime.now().astimezone().isoformat(timespec="seconds"),
            "command": command_line(),
            "folder": os.getcwd(),
            "versions": versions(),
        }
        if self.script is not None:
            described["script"] = {"path": os.path.abspath(self.script), "hash": hash_of(self.script)}
            described["changes"] = {name: _storable(value) for name, value in self.changes.items()}
            if self.member is not None:
                described["member"] = self.member
        return described


def origin_in(told: Mapping[str, Any]) -> Origin | None:
    """The origin that `Origin.describe` told of; None if it names no script."""
    script = told.get("script")
    if not isinstance(script, Mapping) or not isinstance(script.get("path"), str):
        return None
    changes = {name: INFINITE.get(value, value) if isinstance(value, str) else value for name, value in _changes(told)}
    return Origin(Path(script["path"]), changes, told.get("member"))


def _changes(told: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    changes = told.get("changes")
    return changes.items() if isinstance(changes, Mapping) else ()


def _storable(value: Any) -> Any:
    """A value as JSON can hold it, infinity as a word."""
    words = {number: word for word, number in INFINITE.items()}
    return words.get(value, value) if isinstance(value, float) else to_plain(value)


def hash_of(script: Path) -> str | None:
    """Hash of a file's contents; None if it cannot be read."""
    try:
        return digest(script.read_bytes())
    except OSError:
        return None


def command_line() -> str:
    """The command of this process, as one would type it."""
    if not sys.argv:
        return "python"
    program, *arguments = sys.argv
    name = Path(program).name or "python"
    shown = name if not name.endswith(".py") else f"python {shlex.quote(program)}"
    return " ".join([shown, *map(shlex.quote, arguments)])


@cache
def versions() -> dict[str, str]:
    """Package -> version, of Python, asyncsim and those below it."""
    found = {"python": platform.python_version(), "asyncsim": __version__}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
