"""The sweeps of a store: which scenarios each one asked for, in sweeps/NAME.json. This module owns their format.

Each scenario has one row, with its digest and its values of the settings in which the scenarios differ. Settings go by
their paths, and labels by their names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncsim.files._hash import is_digest
from asyncsim.files._json import read_owned, write_owned
from asyncsim.store._labels import SWEEPS

ENTRY_NAMES = ("common", "fields", "rows", "labels", "when")  # entries of the file


@dataclass(frozen=True)
class SweepSettings:
    """The settings of the scenarios of a sweep."""

    common: dict[str, Any]  # those in which the scenarios agree
    fields: list[str]  # names of the others
    rows: list[list[Any]]  # digest of a scenario, and its values of `fields`
    labels: list[str]  # names of settings that are labels, on which no digest depends
    when: str = ""  # time at which the sweep was started last

    @property
    def digests(self) -> list[str]:
        """Digests of the scenarios."""
        return [row[0] for row in self.rows]

    def scenarios(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield digest and settings of each scenario."""
        for digest, *values in self.rows:
            yield digest, self.common | dict(zip(self.fields, values, strict=True))

    def changes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield digest of each scenario, its labels, and its settings that differ from those of others."""
        names = [*self.labels, *self.fields]
        for digest, settings in self.scenarios():
            yield digest, {name: settings[name] for name in names if settings.get(name) is not None}


def settings_of(scenarios: Sequence[tuple[str, Mapping[str, Any]]], labels: list[str]) -> SweepSettings:
    """Separate settings in which scenarios agree from the others. Each scenario is its digest and its settings."""
    settings = [values for _, values in scenarios]
    names = list(dict.fromkeys(name for values in settings for name in values))
    differing = [name for name in names if any(values.get(name) != settings[0].get(name) for values in settings)]
    return SweepSettings(
        common={name: settings[0].get(name) for name in names if name not in differing},
        fields=differing,
        rows=[[digest, *(values.get(name) for name in differing)] for digest, values in scenarios],
        labels=labels,
    )


def write_sweep(store: Path, name: str, sweep: SweepSettings) -> None:
    """Write what a sweep asked for into a store."""
    write_owned(store / SWEEPS / f"{name}.json", vars(sweep), name)


def read_sweeps(store: Path) -> tuple[list[SweepSettings], list[Path]]:
    """Read what sweeps asked of a store, the oldest first, and list files that are damaged or of another form."""
    sweeps = {path: _read(path) for path in sorted((store / SWEEPS).glob("*.json"))}
    whole = [sweep for sweep in sweeps.values() if sweep is not None]
    return sorted(whole, key=lambda sweep: sweep.when), [path for path, sweep in sweeps.items() if sweep is None]


def _read(path: Path) -> SweepSettings | None:
    """Read a file, in which everything is checked: anybody may have written it, with a checksum that fits."""
    content: dict[str, Any] = {"common": {}, "labels": [], "when": "", **(read_owned(path, path.stem) or {})}
    fields: Any = content.get("fields")
    rows: Any = content.get("rows")
    has_lists = _is_list_of(str, fields) and _is_list_of(list, rows) and _is_list_of(str, content["labels"])
    if not (has_lists and isinstance(content["common"], dict) and isinstance(content["when"], str)):
        return None
    is_table = all(len(row) == 1 + len(fields) and is_digest(row[0]) for row in rows)
    return SweepSettings(**{name: content[name] for name in ENTRY_NAMES}) if is_table else None


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)
