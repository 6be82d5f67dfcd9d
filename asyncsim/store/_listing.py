"""Lists of runs: every folder below one that keeps a study, its values, and conditions on them."""

import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from asyncsim._checks import brief, did_you_mean
from asyncsim.store._labels import COMPARISON, LABELS, RUNS, RunInfo, is_store, members_of, read_info
from asyncsim.store._sweeps import read_sweeps

ALIASES = {"n": "workers", "loss": "final_loss", "accuracy": "test_accuracy", "lr": "learning_rate"}
TIME_COLUMN = "when"  # name of the time of a run: its texts sort in the order of time
KIND = "kind"  # entry whose value stands for the whole part, as in "rules.gem"
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
CONDITION = re.compile(r"^\s*([\w.]+)\s*(>=|<=|!=|==|>|<|=)\s*(.*?)\s*$")


class Condition(NamedTuple):
    """A condition on a run."""

    field: str
    compare: Callable[[Any, Any], bool]
    value: float | str

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Tell whether a run with these values satisfies it. False if it has no such value, or one of another kind."""
        value = values.get(self.field)
        if isinstance(value, bool):
            value = str(value).lower()
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        if value is None:
            return False
        # A number and a text are never equal, and neither is smaller.
        if isinstance(value, (int, float)) != isinstance(self.value, float):
            return self.compare is operator.ne
        return self.compare(value, self.value)


class Row(NamedTuple):
    """A run in a list."""

    name: str
    info: RunInfo
    tags: tuple[str, ...]
    values: Mapping[str, Any]
    swept: Mapping[str, Any] = {}


def rows(top: Path, names: Mapping[str, list[str]]) -> list[Row]:
    """List all runs below a folder, and the folder itself, in alphabetical order."""
    listed, swept_once = [], cache(swept_in)  # Entries of one store share its sweeps.
    for info in sorted(runs_below(top), key=lambda info: str(info.folder)):
        name = os.path.relpath(info.folder, top) if info.folder != top else top.absolute().name
        tags = tuple(names.get(os.path.realpath(info.folder), ())) if names else ()
        swept = swept_once(info.folder.parent).get(info.digest or "", {})
        listed.append(Row(name, info, tags, {**swept, **values_of(name, info, tags)}, swept))
    return listed


def swept_in(store: Path) -> dict[str, dict[str, Any]]:
    """Return digest -> setting -> value that the sweeps of a store changed, or nothing if the folder is no store."""
    swept: dict[str, dict[str, Any]] = {}
    for sweep in read_sweeps(store)[0] if is_store(store) else ():
        for digest, changes in sweep.changes():
            swept.setdefault(digest, {}).update(changes)
    return swept


def runs_below(top: Path) -> Iterator[RunInfo]:
    """Yield the results in the folders below one, without hidden ones. A folder that cannot be read is skipped."""
    for folder, folders, files in os.walk(top):
        if not {*LABELS}.isdisjoint(files) and (info := read_info(Path(folder))) is not None:
            yield info
        folders[:] = [name for name in folders if not name.startswith(".")]  # `os.walk` descends into these.
        if COMPARISON in files:  # Its runs are listed under their names, not under their digests.
            yield from _members(Path(folder))
            folders[:] = [name for name in folders if name != RUNS]


def _members(comparison: Path) -> Iterator[RunInfo]:
    """Yield the results of each scenario of a comparison, in a folder of its name if there is such a link."""
    for name, folder in members_of(comparison).items():
        info = read_info(folder) if folder.parent.name == RUNS else None
        if info is not None:
            linked = comparison / name
            yield replace(info, folder=linked if os.path.realpath(linked) == os.path.realpath(folder) else folder)


def values_of(name: str, info: RunInfo, tags: Iterable[str] = ()) -> dict[str, Any]:
    """Collect everything that can be listed of a run, by name. See `Row`."""
    paths = dict(flat(info.settings)) if info.kind == "scenario" else {}
    short: dict[str, Any] = {}  # last word of a path -> value of the first path that ends so
    for path, value in paths.items():
        short.setdefault(path.rpartition(".")[2], value)
    when = datetime.fromtimestamp(info.when).isoformat(" ")  # People read local time.
    folder = {"name": name, "tags": ",".join(tags), "kind": info.kind, "state": info.state, TIME_COLUMN: when}
    summary = info.summary if info.kind == "scenario" else {}
    labels = info.origin.get("rebuild", {}).get("labels") if info.kind == "scenario" else None
    labels = labels if isinstance(labels, dict) else {}
    return {**short, **paths, **labels, **{key: value for key, value in summary.items() if value is not None}, **folder}


def flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a description with their paths, where the name of a part stands for the part."""
    for key, item in value.items():
        path = f"{before}.{key}" if before else key
        if key == KIND and before:
            yield before, str(item).rpartition(".")[2]
        elif isinstance(item, Mapping):
            yield from flat(item, path)
        elif isinstance(item, list) and item and all(isinstance(entry, Mapping) for entry in item):
            yield from flat({str(number): entry for number, entry in enumerate(item)}, path)
        elif item is not None:
            yield path, item


def condition(text: str) -> Condition:
    """Parse a condition, as in "workers>10" or "rule=gem"."""
    match = CONDITION.match(text)
    if match is None:
        raise ValueError(f"`--where` must be a field, a comparison and a value, as in 'workers>10'; got {brief(text)}.")
    field, sign, value = match.groups()
    try:
        bound: float | str = value if field == TIME_COLUMN else float(value)
    except ValueError:
        bound = value.strip("'\"")
        if sign not in ("=", "==", "!="):
            raise ValueError(f"`--where` must compare with a number by {sign!r}; got {brief(text)}.") from None
    return Condition(ALIASES.get(field, field), COMPARISONS[sign], bound)


def require_field(option: str, field: str, listed: Iterable[Row]) -> str:
    """Return the name of a value that at least one run has: this one, or the path that ends in its words.

    A path is shortened as flags are, so that `regions_0_workers` means `cluster.regions.0.workers`.
    """
    names = {name for row in listed for name in row.values}
    field = ALIASES.get(field, field)
    ending = f"_{field.replace('.', '_')}"
    paths = sorted(name for name in names if "." in name and f"_{name}".replace(".", "_").endswith(ending))
    if field not in names and len(paths) > 1:
        raise ValueError(f"`{option}` names {field!r}, which fits {' and '.join(paths)}. Write one of them.")
    if names and field not in names:
        if paths:
            return paths[0]
        hint = did_you_mean(field, names, quote="'") or " `asyncsim show RUN` lists the fields."
        raise ValueError(f"`{option}` names {field!r}, which no run here has.{hint}")
    return field


def sort(listed: Iterable[Row], field: str, reverse: bool = False) -> list[Row]:
    """Sort runs by a value, numbers before texts and runs without it last. `reverse` puts texts first."""

    def key(row: Row) -> tuple[bool, float, str]:
        value = row.values[field]
        is_number = isinstance(value, (int, float))
        return not is_number, float(value) if is_number else 0.0, "" if is_number else str(value)

    has = [row for row in listed if row.values.get(field) not in (None, "")]
    lacks = [row for row in listed if row.values.get(field) in (None, "")]
    return [*sorted(has, key=key, reverse=reverse), *lacks]
