"""In what runs differ: their scenarios, their results, and their losses, read from their folders."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim import npz
from asyncsim.engine import run_file
from asyncsim.folders.kept import Kept, read_kept
from asyncsim.folders.labels import RUN, SCENARIO, TRACE, members_of
from asyncsim.folders.listing import flat
from asyncsim.folders.summaries import KEYS
from asyncsim.plots.side_by_side import Curve
from asyncsim.trace import Trace

TIMES = ("wall_seconds", "commits_per_second")  # of a summary: what the machine did that day


class Contrast(NamedTuple):
    """Runs side by side.

    Attributes:
        folders: Name -> folder.
        scenarios: Field -> name of the run -> value, of the fields in which the scenarios differ.
        results: Entry of the summary -> name of the run -> value.
        same: Names of the fields that all have in common.
    """

    folders: dict[str, Path]
    scenarios: dict[str, dict[str, Any]]
    results: dict[str, dict[str, Any]]
    same: list[str]


def members(runs: Mapping[str, Path]) -> dict[str, Path]:
    """The folders of scenarios, by name: those of a comparison in its place.

    Raises:
        ValueError: If a folder holds an experiment, or fewer than two runs are left.
    """
    found: dict[str, Path] = {}
    for name, folder in runs.items():
        kept = read_kept(folder)
        if kept is not None and kept.kind == "comparison":
            inside = {f"{name}/{one}": path for one, path in members_of(folder).items()}
            found |= {one: path for one, path in inside.items() if (path / SCENARIO).is_file()}
        elif kept is not None and kept.kind == "scenario":
            found[name] = folder
        else:
            kind = "none" if kept is None else f"one of an {kept.kind}"
            raise ValueError(f"`RUN` must be the folder of a scenario or a comparison; {str(folder)!r} is {kind}.")
    if len(found) < 2:
        raise ValueError(f"`RUN` must name two runs or more; got {', '.join(found) or 'none'}.")
    return found


def contrast(runs: Mapping[str, Path]) -> Contrast:
    """In what runs differ.

    Args:
        runs: Name -> folder of a scenario.

    Raises:
        ValueError: If a folder's scenario.json is damaged.
    """
    kept = {name: _read(folder) for name, folder in runs.items()}
    values = {name: dict(flat(one.description)) for name, one in kept.items()}
    fields = dict.fromkeys(field for found in values.values() for field in found)
    side_by_side = {field: {name: found.get(field) for name, found in values.items()} for field in fields}
    differing = {field: found for field, found in side_by_side.items() if _differ(found.values())}
    entries = dict.fromkeys([*KEYS, *(entry for one in kept.values() for entry in one.summary)])
    results = {entry: {name: one.summary.get(entry) for name, one in kept.items()} for entry in entries}
    results = {entry: found for entry, found in results.items() if any(value is not None for value in found.values())}
    return Contrast(dict(runs), differing, results, [field for field in fields if field not in differing])


def curves(runs: Mapping[str, Path]) -> list[Curve]:
    """The losses of the runs, of those that have any yet.

    Raises:
        ValueError: If a file is damaged.
    """
    found = []
    for name, folder in runs.items():
        if not all((folder / file).is_file() for file in (TRACE, RUN)):
            continue
        run = npz.read(
            folder / RUN, ["loss", "commits", "workers", "diverged_at"], kind="run", version=run_file.FORMAT_VERSION
        )
        loss = np.atleast_2d(run["loss"]).mean(axis=0)
        times = Trace.load(folder / TRACE).commit_time[: len(loss)]
        diverged = bool((run["diverged_at"] >= 0).any())
        found.append(Curve(name, int(run["workers"]), loss, times, diverged))
    return found


def short_names(folders: Sequence[tuple[str, Path]]) -> dict[str, Path]:
    """A name for each folder: what was typed, or else the end of its path, as long as it takes to tell them apart.

    Example:
        >>> list(short_names([("base", Path("/x/a")), ("runs/b", Path("runs/b")), ("other/b", Path("other/b"))]))
        ['base', 'runs/b', 'other/b']
        >>> list(short_names([("runs/b", Path("runs/b")), ("runs/c", Path("runs/c"))]))
        ['b', 'c']
    """
    ends = [Path(os.path.normpath(text)).name for text, _ in folders]
    names = [end if ends.count(end) == 1 else text for end, (text, _) in zip(ends, folders, strict=True)]
    return {name: folder for name, (_, folder) in zip(names, folders, strict=True)}


def _read(folder: Path) -> Kept:
    kept = read_kept(folder)
    if kept is None or kept.digest is None:
        raise ValueError(f"{str(folder / SCENARIO)!r} is damaged. Compute the folder again (`--force`).")
    return kept


def _differ(values: Iterable[Any]) -> bool:
    first, *rest = values
    return any(value != first for value in rest)
