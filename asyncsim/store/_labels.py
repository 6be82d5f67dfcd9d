"""What a folder holds, by the small JSON files in it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from asyncsim.store._files import read_owned, write_owned

SCENARIO, COMPARISON, EXPERIMENT = "scenario.json", "comparison.json", "experiment.json"
LABELS = (SCENARIO, COMPARISON, EXPERIMENT)
STORE = "store.json"  # says that the folder is the store of a sweep, with the folders of its runs in it
RUNS = "runs"  # the store of a comparison, in its folder
LEASES, SWEEPS = "leases", "sweeps"  # folders of a store: who computes what, and what was asked for
TRACES, FAILED, DATA, MAKING, UNFINISHED = "traces", "failed", "data", ".making", "unfinished"  # its other ones
STORE_FOLDERS = (UNFINISHED, TRACES, FAILED, LEASES, SWEEPS, DATA, MAKING)
TRACE, RUN, SUMMARY, REPORT = "trace.npz", "run.npz", "summary.json", "report.png"
REPORT_PAGE = "report.html"  # where it is asked for
PAGE, GIF = "movie.html", "movie.gif"  # of an experiment that has a movie, or of `asyncsim animate`
SETTINGS = "settings"  # entry of the origin: the description, with the fields that have their default values
DIGEST, ORIGIN = "digest", "origin"  # entries of a label beside the description: its hash, and where it came from
MEMBERS = "members"  # entry of the origin of a comparison: name -> digest of the scenario


def label_of(folder: Path) -> Path | None:
    """The file that says what the folder holds; None if there is none."""
    return next((folder / name for name in LABELS if (folder / name).is_file()), None)


def digest_of(folder: Path) -> str | None:
    """The digest of the study whose results the folder holds; None if that cannot be read."""
    label = label_of(folder)
    content = None if label is None else read_label(label)
    return None if content is None else content[DIGEST]


def read_label(label: Path) -> dict[str, Any] | None:
    """The content of a label; None if there is none, or it is damaged."""
    content = read_owned(label)
    if content is None or not isinstance(content.get(DIGEST), str):
        return None
    in_store = (label.parent.parent / STORE).is_file()
    return None if in_store and label.parent.name != content[DIGEST] else content


def write_label(
    label: Path, digest: str, description: Mapping[str, Any], origin: Mapping[str, Any] | None, *, new: bool = False
) -> None:
    """Write a label for `read_label`; `new` as in `write_owned`."""
    told = {} if origin is None else {ORIGIN: origin}
    write_owned(label, {DIGEST: digest, **description, **told}, digest, new=new)


def members_of(comparison: Path) -> dict[str, Path]:
    """Name -> folder of each scenario of a comparison; nothing if that cannot be read."""
    origin = (read_label(comparison / COMPARISON) or {}).get(ORIGIN) or {}
    return {name: comparison / RUNS / digest for name, digest in origin.get(MEMBERS, {}).items()}


def description_in(label: Mapping[str, Any]) -> dict[str, Any]:
    """The description in a label, without its digest and its origin."""
    return {key: value for key, value in label.items() if key not in (DIGEST, ORIGIN)}


SHOWN = 60  # characters of a value in a message


class Difference(NamedTuple):
    """A field in which two descriptions differ."""

    name: str
    one: Any
    other: Any


def differences(one: Any, other: Any, name: str = "") -> Iterator[Difference]:
    """The fields in which two descriptions differ, in the order of the second."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        before = f"{name}." if name else ""
        for key in {**other, **one}:
            yield from differences(one.get(key), other.get(key), f"{before}{key}")
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        for place, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{name}[{place}]")
    elif one != other:
        yield Difference(name, one, other)


def first_difference(found: Any, wanted: Any) -> str | None:
    """The first field in which two descriptions differ, with both values; None if they are equal."""
    first = next(differences(found, wanted), None)
    return None if first is None else f"`{first.name}` is {shown(first.one)} there and {shown(first.other)} here"


def shown(value: Any) -> str:
    """A value in a message, in at most 60 characters."""
    text = "not given" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
