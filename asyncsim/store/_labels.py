"""Read a folder of results by its small JSON files alone: the study, its origin, the summary and the state.

The origin of a study stands next to its description, for people and for `asyncsim.load`. It does not enter a digest,
because the same study from another script is the same study.
"""

import importlib.metadata
import json
import math
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from asyncsim._checks import truncate
from asyncsim._version import __version__
from asyncsim.components._environment import JAX_SETTINGS
from asyncsim.files._atomic import final_name, is_foreign
from asyncsim.files._hash import is_digest
from asyncsim.files._json import read_owned, to_plain, write_owned
from asyncsim.store._lease import live_holder

SCENARIO, COMPARISON, EXPERIMENT = "scenario.json", "comparison.json", "experiment.json"
LABELS = (SCENARIO, COMPARISON, EXPERIMENT)
QUESTION = "question.json"  # label of the answer to a question, such as `asyncsim staleness`, which is no run
STORE = "store.json"  # says that the folder is the store of a sweep, with the folders of its runs in it
RUNS = "runs"  # the store of a comparison, in its folder
LEASES, SWEEPS = "leases", "sweeps"  # folders of a store: work in progress, and descriptions of sweeps
# Other folders of a store.
TRACES, FAILED, DATA, MAKING, UNFINISHED = "traces", "failed", "data", ".making", "unfinished"
STORE_FOLDERS = (UNFINISHED, TRACES, FAILED, LEASES, SWEEPS, DATA, MAKING)
HOLDER = ".holder"  # names the process that works in the folder
TRACE, RUN, SUMMARY, REPORT = "trace.npz", "run.npz", "summary.json", "report.png"
NUMBERS = "numbers.npz"  # numbers of an experiment
REPORT_PAGE = "report.html"  # page that a person asks for
PAGE, GIF = "movie.html", "movie.gif"  # of an experiment that has a movie, or of `asyncsim animate`
SETTINGS = "settings"  # entry of the origin: the description, with the fields that have their default values
DIGEST, ORIGIN = "digest", "origin"  # entries of a label next to the description: its hash, and where it came from
FORMS = {SETTINGS: dict, "rebuild": dict, "date": str, "command": str}  # entries of an origin, which anybody may write
MEMBERS = "members"  # entry of the origin of a comparison: name -> digest of the scenario


def label_of(folder: Path) -> Path | None:
    """Return the file that describes the study of a folder, or None if there is none."""
    return next((folder / name for name in LABELS if (folder / name).is_file()), None)


def is_store(folder: Path) -> bool:
    """Tell whether a folder is a store, and not one with a file `store.json` of somebody else."""
    return (folder / STORE).is_file() and (folder / SWEEPS).is_dir()


def strangers_in(folder: Path) -> list[str]:
    """List the names of what keeps a folder from being a store, or one that a process is about to make."""
    # A store whose marker is damaged has all its folders.
    is_begun = all((folder / name).is_dir() for name in STORE_FOLDERS)

    def is_own(entry: Path) -> bool:
        name = final_name(entry.name)
        if name == STORE:
            return not is_foreign(entry)
        return is_begun or (name in STORE_FOLDERS and entry.is_dir() and not any(entry.iterdir()))

    return sorted(entry.name for entry in folder.iterdir() if not is_own(entry))


def refuse_stores(argument: str, folder: Path, *, itself: bool = True) -> None:
    """Refuse a folder that lies in a store, or with `itself` is one: other files would lie among its entries."""
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents) if itself else real.parents:
        if is_store(place):
            where = "is the store of a sweep" if place == real else f"lies in the store {str(place)!r}"
            raise ValueError(f"`{argument}` {str(folder)!r} {where}. Choose another folder.")


def digest_of(folder: Path) -> str | None:
    """Read the digest of the study whose results the folder holds, or None if that cannot be read."""
    label = label_of(folder)
    content = None if label is None else read_label(label)
    return None if content is None else content[DIGEST]


def read_label(label: Path) -> dict[str, Any] | None:
    """Read a label, or None if there is none, or it is damaged."""
    content = read_owned(label)
    if content is None or not isinstance(content.get(DIGEST), str):
        return None
    return content if label.parent.name == content[DIGEST] or not is_store(label.parent.parent) else None


def write_label(
    label: Path, digest: str, description: Mapping[str, Any], origin: Mapping[str, Any] | None, *, new: bool = False
) -> None:
    """Write a label for `read_label`, with `new` as in `write_owned`."""
    entry = {} if origin is None else {ORIGIN: origin}
    write_owned(label, {DIGEST: digest, **description, **entry}, digest, new=new)


def members_of(comparison: Path) -> dict[str, Path]:
    """Return name -> folder of each scenario of a comparison, or nothing if that cannot be read."""
    origin = (read_label(comparison / COMPARISON) or {}).get(ORIGIN)
    members = origin.get(MEMBERS) if isinstance(origin, Mapping) else None
    if not isinstance(members, Mapping):
        return {}
    return {name: comparison / RUNS / digest for name, digest in members.items() if is_digest(digest)}


def description_in(label: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description in a label, without its digest and its origin."""
    return {key: value for key, value in label.items() if key not in (DIGEST, ORIGIN)}


def _differences(first: Any, second: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield name and both values of each field in which two descriptions differ, in the order of the second."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        before = f"{name}." if name else ""
        for key in {**second, **first}:
            yield from _differences(first.get(key), second.get(key), f"{before}{key}")
    elif isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)) and len(first) == len(second):
        for place, pair in enumerate(zip(first, second, strict=True)):
            yield from _differences(*pair, f"{name}[{place}]")
    elif first != second:
        yield name, first, second


def first_difference(stored: Any, present: Any) -> str | None:
    """Say in which field two descriptions differ first, with both values, or None if they are equal."""
    for name, *values in _differences(stored, present):
        usual = JAX_SETTINGS.get(name.rpartition(".")[2])  # Descriptions leave out a setting that has its usual value.
        texts = [_value_text(usual if value is None else value) for value in values]
        return f"`{name}` is {texts[0]} there and {texts[1]} here"
    return None


def _value_text(value: Any) -> str:
    return "not given" if value is None else truncate(json.dumps(value, ensure_ascii=False))


COMPLETE, INTERRUPTED, BEGUN, DAMAGED = "complete", "interrupted", "begun", "damaged"  # states of results
RUNNING = "running"


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
            with suppress(OSError):
                return os.stat(self.folder / name).st_mtime
        return 0.0


def read_info(folder: Path) -> RunInfo | None:
    """Read the small files of a folder, or None if it keeps no study. A damaged file is no error."""
    label = label_of(folder)
    if label is None:
        return None
    kind, content = label.name.removesuffix(".json"), _read(read_label, label)
    if content is None:
        return RunInfo(folder, kind, DAMAGED)
    summary = _read(read_owned, folder / SUMMARY, content[DIGEST])
    origin = content[ORIGIN] if isinstance(content.get(ORIGIN), dict) else {}
    origin = {name: value for name, value in origin.items() if isinstance(value, FORMS.get(name, object))}
    info = RunInfo(folder, kind, COMPLETE, description_in(content), origin, summary or {}, content[DIGEST])
    if summary is not None:
        return info
    if (folder / SUMMARY).exists():
        return replace(info, state=DAMAGED)
    holders = filter(None, map(live_holder, (folder / HOLDER, *(folder / RUNS / LEASES).glob("*.json"))))
    if holder := next(holders, None):
        return replace(info, state=RUNNING, holder=holder)
    if label.name == COMPARISON:
        has_results = any(member.is_dir() for member in members_of(folder).values())
    else:
        has_results = (folder / (RUN if label.name == SCENARIO else NUMBERS)).is_file()
    return replace(info, state=INTERRUPTED if has_results else BEGUN)


def _read(read: Callable[..., dict[str, Any] | None], *args: Any) -> dict[str, Any] | None:
    try:
        return read(*args)
    except OSError:
        return None


PACKAGES = ("jax", "jaxlib", "numpy", "optax", "scipy", "simpy")  # packages whose versions can change a number

INFINITE = {"inf": math.inf, "-inf": -math.inf}  # numbers in the changes that JSON cannot hold


@dataclass(frozen=True)
class Origin:
    """The script of a study, and the changes to it."""

    script: Path | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    member: str | None = None

    def with_changes(self, changes: Mapping[str, Any]) -> "Origin":
        """Return the origin of the same study with more fields changed."""
        return replace(self, changes={**self.changes, **changes})

    def describe(self) -> dict[str, Any]:
        """Describe date, command, versions and, if there is a script, its absolute path, as JSON can hold it."""
        program, *arguments = sys.argv or [""]
        name = Path(program).name or "python"
        run_by = name if not name.endswith(".py") else f"python {shlex.quote(program)}"
        described: dict[str, Any] = {
            "date": datetime.now().astimezone().isoformat(timespec="seconds"),
            "command": " ".join([run_by, *map(shlex.quote, arguments)]),
            "folder": os.getcwd(),
            "versions": versions(),
        }
        if self.script is not None:
            described["script"] = {"path": os.path.abspath(self.script)}
            words = {number: word for word, number in INFINITE.items()}
            described["changes"] = {
                name: words.get(value, value) if isinstance(value, float) else to_plain(value)
                for name, value in self.changes.items()
            }
            if self.member is not None:
                described["member"] = self.member
        return described


def origin_in(description: Mapping[str, Any]) -> Origin | None:
    """Rebuild the origin that `Origin.describe` described, or None if it names no script."""
    script = description.get("script")
    if not isinstance(script, Mapping) or not isinstance(script.get("path"), str):
        return None
    changes = description["changes"] if isinstance(description.get("changes"), Mapping) else {}
    numbers = {name: INFINITE[value] for name, value in changes.items() if value in (*INFINITE,)}
    return Origin(Path(script["path"]), {**changes, **numbers}, description.get("member"))


@cache
def versions() -> dict[str, str]:
    """Return package -> version, of Python, asyncsim and the packages that it needs."""
    installed = {"python": platform.python_version(), "asyncsim": __version__}
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[package] = importlib.metadata.version(package)
    return installed
