"""The folder of a study: whose it is, and what is already there."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsim.study.summary import write_json

REPORT, SUMMARY = "report.png", "summary.json"


class Folder:
    """A folder that holds the results of one study and of no other.

    Args:
        path: The folder; made if missing.
        label: The file that says whose it is: "scenario.json" or "comparison.json".
        files: The files that the study writes beside it.
    """

    def __init__(self, path: str | os.PathLike[str], label: str, files: tuple[str, ...]) -> None:
        self.path, self.label, self.files = Path(path), label, files

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self / name).is_file()

    def claim(self, digest: str, description: Mapping[str, Any], force: bool = False) -> None:
        """Make the folder this study's, or find that it is.

        Args:
            digest: Hash of the study.
            description: What is written into the label beside it.
            force: Give up what is there, whatever it is.

        Raises:
            ValueError: If the folder holds another study, or such files of unknown origin.
            OSError: If it cannot be made or written.
        """
        self._make()
        found = self._digest()
        if found == digest and not force:
            return
        if not force:
            self._refuse_others(found)
        for name in self.files:
            (self / name).unlink(missing_ok=True)
        write_json(self / self.label, {"digest": digest, **description})

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                error.errno, f"`out` {str(self.path)!r} cannot be made: {reason}. Choose another folder."
            ) from error

    def _digest(self) -> str | None:
        if not self.has(self.label):
            return None
        try:
            label = json.loads((self / self.label).read_text(encoding="utf-8"))
            return str(label["digest"])
        except (ValueError, KeyError, TypeError):
            return "damaged"

    def _refuse_others(self, found: str | None) -> None:
        remedy = "Choose another folder (`--out`), or have it replaced (`--force`)."
        if found is not None:
            kind = self.label.removesuffix(".json")
            raise ValueError(f"`out` {str(self.path)!r} holds a different {kind} ({found}). {remedy}")
        strange = [name for name in self.files if self.has(name)]
        if strange:
            raise ValueError(f"`out` {str(self.path)!r} holds a {strange[0]!r} but no {self.label!r}. {remedy}")
