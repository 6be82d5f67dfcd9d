"""What a folder keeps, as far as its small files tell: the study, its summary, when, and whether it is complete."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asyncsim.files import read_owned
from asyncsim.folders.holders import live_holder
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
    read_label,
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
        holder: The process at work there, as `asyncsim.folders.holders.this_process` describes it; empty if none is.
    """

    folder: Path
    kind: str
    state: str
    description: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None
    holder: Mapping[str, Any] = field(default_factory=dict)

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
    kind, content = label.name.removesuffix(".json"), _read(read_label, label)
    if content is None:
        return Kept(folder, kind, DAMAGED)
    summary = _read(read_owned, folder / SUMMARY, content[DIGEST])
    numbers = NUMBERS.get(label.name)
    holder: Mapping[str, Any] = {}
    if summary is not None:
        state = COMPLETE
    elif (folder / SUMMARY).exists():
        state = DAMAGED
    elif label.name == COMPARISON:
        state = INTERRUPTED if any(member.is_dir() for member in members_of(folder).values()) else BEGUN
    else:
        state = INTERRUPTED if numbers is not None and (folder / numbers).is_file() else BEGUN
    if state in (INTERRUPTED, BEGUN):
        holder = holder_of(folder) or {}
        state = RUNNING if holder else state
    origin = content.get(ORIGIN)
    return Kept(
        folder,
        kind,
        state,
        description_in(content),
        origin if isinstance(origin, dict) else {},
        summary or {},
        content[DIGEST],
        holder,
    )


def holder_of(folder: Path) -> dict[str, Any] | None:
    """The process that works in a folder, or in the store of a comparison; None if there is none that is alive."""
    files = (folder / HOLDER, *(folder / RUNS / CLAIMS).glob("*.json"))
    return next((holder for holder in map(live_holder, files) if holder is not None), None)


def _read(read: Callable[..., dict[str, Any] | None], *args: Any) -> dict[str, Any] | None:
    try:
        return read(*args)
    except OSError:
        return None
