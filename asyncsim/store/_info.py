"""What a folder keeps, as far as its small files tell: the study, its summary, when, and whether it is complete."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asyncsim.store._files import read_owned
from asyncsim.store._labels import (
    COMPARISON,
    DIGEST,
    EXPERIMENT,
    LEASES,
    ORIGIN,
    RUN,
    RUNS,
    SCENARIO,
    SETTINGS,
    SUMMARY,
    description_in,
    label_of,
    members_of,
    read_label,
)
from asyncsim.store._lease import live_holder

COMPLETE, INTERRUPTED, BEGUN, DAMAGED = "complete", "interrupted", "begun", "damaged"  # states
RUNNING = "running"
HOLDER = ".holder"  # the file in which a process says that it is at work in the folder
NUMBERS = {SCENARIO: RUN, EXPERIMENT: "numbers.npz"}  # label -> the file that an interrupted study may have already


@dataclass(frozen=True)
class RunInfo:
    """The results of one study."""

    folder: Path
    kind: str
    state: str
    description: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None
    holder: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The description, with the fields that have their default values where they are known."""
        return {**self.description, **self.origin.get(SETTINGS, {})}

    @property
    def when(self) -> float:
        """When the results were written, or else the study was begun, in seconds of Unix time."""
        for name in (SUMMARY, f"{self.kind}.json"):
            try:
                return os.stat(self.folder / name).st_mtime
            except OSError:
                continue
        return 0.0


def read_info(folder: Path) -> RunInfo | None:
    """What a folder keeps; None if it keeps no study. A damaged file is no error."""
    label = label_of(folder)
    if label is None:
        return None
    kind, content = label.name.removesuffix(".json"), _read(read_label, label)
    if content is None:
        return RunInfo(folder, kind, DAMAGED)
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
    return RunInfo(
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
    files = (folder / HOLDER, *(folder / RUNS / LEASES).glob("*.json"))
    return next((holder for holder in map(live_holder, files) if holder is not None), None)


def _read(read: Callable[..., dict[str, Any] | None], *args: Any) -> dict[str, Any] | None:
    try:
        return read(*args)
    except OSError:
        return None
