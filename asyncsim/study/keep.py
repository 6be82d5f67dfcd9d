"""The folder of a study: whose it is, and what is already there."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsim.files import to_plain, write_json

REPORT, SUMMARY = "report.png", "summary.json"
STAGED = ".unfinished"  # folder inside, for what is to replace results that stay until it is complete
SHOWN = 60  # characters of a value in a message


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

    def claim(self, digest: str, description: Mapping[str, Any], force: bool = False) -> "Folder":
        """Make the folder this study's, or find that it is.

        Args:
            digest: Hash of the study.
            description: What is written into the label beside it.
            force: Begin anew, whatever is there.

        Returns:
            Where to work: this folder; or, where `force` gives up what it holds, a hidden one inside, which
            later calls without `force` find again. Hand it to `take` when all is done.

        Raises:
            ValueError: If the folder holds another study, or such files of unknown origin.
            OSError: If it cannot be made or written.
        """
        make_folder(self.path)
        work, staged = self, Folder(self / STAGED, self.label, self.files)
        if force and any(self.has(name) for name in (self.label, *self.files)):
            shutil.rmtree(staged.path, ignore_errors=True)
            make_folder(staged.path)
            work = staged
        elif not force:
            for folder in (staged, self):
                if folder._holds(digest):
                    return folder
            self._refuse_others(to_plain(description))
        write_json(work / self.label, {"digest": digest, **description})
        return work

    def take(self, work: "Folder") -> None:
        """Replace what is here by the finished work that `claim` found a place for.

        The label goes first and comes last: if this is cut short, the files are nobody's, not the wrong one's.
        """
        if work.path == self.path:
            return
        make_folder(self.path)
        (self / self.label).unlink(missing_ok=True)
        for name in (*self.files, self.label):
            os.replace(work / name, self / name)
        shutil.rmtree(work.path)

    def _holds(self, digest: str) -> bool:
        label = self._label()
        return label is not None and label.get("digest") == digest

    def _label(self) -> dict[str, Any] | None:
        """What the label says, {} if it is damaged; None if there is none."""
        if not self.has(self.label):
            return None
        try:
            label = json.loads((self / self.label).read_text(encoding="utf-8"))
        except ValueError:
            return {}
        return label if isinstance(label, dict) and "digest" in label else {}

    def _refuse_others(self, description: Mapping[str, Any]) -> None:
        remedy = "Choose another folder (`--out`), or have it replaced (`--force`)."
        label = self._label()
        if label is not None:
            kept = {key: value for key, value in label.items() if key != "digest"}
            differs = first_difference(kept, description) if label else None
            if differs is None:
                raise ValueError(f"`out` {str(self.path)!r} holds a damaged {self.label!r}. {remedy}")
            kind = self.label.removesuffix(".json")
            raise ValueError(f"`out` {str(self.path)!r} holds a different {kind}: {differs}. {remedy}")
        strange = [name for name in self.files if self.has(name)]
        if strange:
            raise ValueError(f"`out` {str(self.path)!r} holds a {strange[0]!r} but no {self.label!r}. {remedy}")


def make_folder(path: Path) -> None:
    """Create the folder that was given as `out`, and those above it, unless it exists.

    Raises:
        OSError: If it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"`out` {str(path)!r} cannot be made: {reason}. Choose another folder.") from error


def first_difference(kept: Any, new: Any, name: str = "") -> str | None:
    """The first field in which two descriptions differ, with both values; None if they do not.

    Example:
        >>> first_difference({"rule": {"name": "gem", "kappa": 1.0}}, {"rule": {"name": "gem", "kappa": 2.0}})
        '`rule.kappa` is 1.0 there and 2.0 here'
    """
    if isinstance(kept, Mapping) and isinstance(new, Mapping):
        before = f"{name}." if name else ""
        pairs = [(f"{before}{key}", kept.get(key), new.get(key)) for key in {**new, **kept}]
    elif isinstance(kept, (list, tuple)) and isinstance(new, (list, tuple)) and len(kept) == len(new):
        pairs = [(f"{name}[{place}]", kept[place], new[place]) for place in range(len(new))]
    else:
        return None if kept == new else f"`{name}` is {_short(kept)} there and {_short(new)} here"
    return next((found for key, old, now in pairs if (found := first_difference(old, now, key)) is not None), None)


def _short(value: Any) -> str:
    text = "not given" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
