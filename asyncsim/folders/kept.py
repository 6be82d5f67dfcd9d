"""What a folder keeps, as far as its small files tell: the study, its summary, when, and whether it is complete."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asyncsim.files import read_json
from asyncsim.folders.labels import (
    CLAIMS,
    COMPARISON,
    DIGEST,
    EXPERIMENT,
    ORIGIN,
    RUN,
    RUNS,
    SCENARIO,
    SUMMARY,
    description_in,
    label_of,
    members_of,
)

COMPLETE, INTERRUPTED, BEGUN, DAMAGED = "complete", "interrupted", "begun", "damaged"  # states
RUNNING = "running"
HOLDER = ".holder"  # the file in which a process says that it is at work in the folder
NUMBERS = {SCENARIO: RUN, EXPERIMENT: "numbers.npz"}  # label -> the file that an interrupted study may have already


@dataclass(frozen=True)
class Kept:
    """The results of one study.

    Attributes:
        folder: The folder.
        kind: "scenario", "comparison" or "experiment".
        state: "complete"; "running" if a process is at work there; "interrupted" if there is a checkpoint; "begun" if
            there is nothing yet; or "damaged".
        description: Of the study; empty if it cannot be read.
        origin: Where it came from; empty if it cannot be read.
        summary: The numbers; empty if there are none yet.
        digest: Of the study; None if it cannot be read.
    """

    folder: Path
    kind: str
    state: str
    description: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None

    @property
    def when(self) -> float:
        """When the results were written, or else the study was begun, in seconds of Unix time."""
        for name in (SUMMARY, f"{self.kind}.json"):
            try:
                return os.stat(self.folder / name).st_mtime
            except OSError:
                continue
        return 0.0


def read_kept(folder: Path) -> Kept | None:
    """What a folder keeps; None if it keeps no study. A damaged file is no error.

    Example:
        >>> read_kept(Path("no/such/folder")) is None
        True
    """
    label = label_of(folder)
    if label is None:
        return None
    kind, content, summary = label.name.removesuffix(".json"), _mapping(label), _mapping(folder / SUMMARY)
    if content is None or not isinstance(content.get(DIGEST), str):
        return Kept(folder, kind, DAMAGED, summary=summary or {})
    numbers = NUMBERS.get(label.name)
    if summary is not None:
        state = COMPLETE
    elif (folder / SUMMARY).exists():
        state = DAMAGED
    elif label.name == COMPARISON:
        state = INTERRUPTED if any(member.is_dir() for member in members_of(folder).values()) else BEGUN
    else:
        state = INTERRUPTED if numbers is not None and (folder / numbers).is_file() else BEGUN
    if state in (INTERRUPTED, BEGUN) and _is_held(folder):
        state = RUNNING
    origin = content.get(ORIGIN)
    return Kept(
        folder,
        kind,
        state,
        description_in(content),
        origin if isinstance(origin, dict) else {},
        summary or {},
        content[DIGEST],
    )


def _is_held(folder: Path) -> bool:
    """Whether a process says that it works in a folder, or in the store of a comparison."""
    return any(map(_is_at_work, (folder / HOLDER, *(folder / RUNS / CLAIMS).glob("*.json"))))


def _is_at_work(file: Path) -> bool:
    """Whether the process that a file names is alive, or on another host."""
    holder = _mapping(file)
    if holder is None or not isinstance(holder.get("process"), int):
        return False
    if str(holder.get("host")).split()[:1] != socket.gethostname().split():
        return True
    try:
        os.kill(holder["process"], 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def _mapping(path: Path) -> dict[str, Any] | None:
    try:
        content = read_json(path)
    except OSError:
        return None
    return content if isinstance(content, dict) else None
