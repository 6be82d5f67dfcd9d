"""The folder or file that a typed text means: a path that exists, or else a tag."""

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from asyncsim._checks import nearest
from asyncsim.store import tags
from asyncsim.store._labels import LABELS, is_store, label_of


def find(text: str | os.PathLike[str], *, what: str = "`RUN`") -> Path:
    """Return the path of this name if something is there, or else the place of the tag of this name."""
    path = Path(tags.require_path(text))
    if isinstance(text, os.PathLike) or path.name != str(text):  # A tag has no folder before it, and no slash after it.
        return _existing(path, what)
    tag = _tag(str(text))
    if path.exists():
        if tag is not None and os.path.realpath(tag.place) != os.path.realpath(path):
            warnings.warn(
                f"{str(text)!r} is taken as {str(path.absolute())!r}; the tag of this name, {str(tag.place)!r}, is not "
                "meant.",
                stacklevel=2,
            )
        return path
    if tag is None:
        return _existing(path, what)
    if tag.state == tags.CHANGED:
        warnings.warn(tags.changed(tag), stacklevel=2)
    return tags.place_of(tag.name)


def find_run(text: str | os.PathLike[str], *, what: str = "`RUN`") -> Path:
    """Return the folder of a run, a comparison or an experiment, by its path or tag."""
    return require_run(find(text, what=what), text, what=what)


def require_run(folder: Path, text: str | os.PathLike[str], *, what: str = "`RUN`") -> Path:
    """Return the folder of a run that a text means, and refuse whatever else is there."""
    if folder.name in ("", ".."):  # Names of other folders are made of its name.
        folder = Path(os.path.abspath(folder))
    if folder.is_file():
        if folder.name in LABELS or label_of(folder.parent) is not None:
            return folder.parent
        raise ValueError(f"{what} must be the folder of a run or a tag; {str(text)!r} is a file.")
    if is_store(folder):
        text = quote(str(text))
        raise ValueError(f"{what} must be one run; {text} is the store of a sweep. See: asyncsim sweep table {text}")
    if label_of(folder) is None:
        inside = sorted(entry for entry in folder.iterdir() if entry.is_dir() and label_of(entry) is not None)
        hint = f" Did you mean {str(inside[0])!r}?" if inside else f" It has none of {', '.join(LABELS)}."
        raise ValueError(f"{what} must be the folder of a run or a tag; {str(text)!r} holds no run.{hint}")
    return folder


def explain_recomputation(folder: Path) -> str:
    """Say how to compute the results of a folder again whose study cannot be read there."""
    if is_store(folder.parent):
        return "The same sweep or comparison computes it again (a sweep with `--retry-failed`)."
    return f"Compute it again with its script: asyncsim run SCRIPT.py --out {quote(str(folder))} --force"


def _tag(name: str) -> tags.Tag | None:
    try:
        name = tags.require_name(name)
    except ValueError:
        return None
    return tags.every().get(name)


def _existing(path: Path, what: str) -> Path:
    if path.exists():
        return path
    meant = _similar(path)
    hint = f" Did you mean {meant!r}?" if meant else " `asyncsim runs` lists the runs, `asyncsim tags` the tags."
    raise ValueError(f"{what} must be a path or a tag; {str(path)!r} does not exist.{hint}")


def _similar(path: Path) -> str | None:
    """Guess the name that was meant: a folder next to it or in `runs`, or a tag."""
    names = {name: name for name in tags.every()} if path.name == str(path) else {}
    for folder in dict.fromkeys((path.parent, Path("runs") / path.parent)):
        if folder.is_dir():
            for entry in sorted(folder.iterdir()):
                if entry.is_dir() and label_of(entry) is not None:
                    names.setdefault(entry.name, str(entry))
    meant = path.name if path.name in names else nearest(path.name, names)
    return None if meant is None else names[meant]


MOST_BYTES = 120  # bytes of a name: file systems take 255, and suffixes need some of them
DIGITS = 8  # digits of the digest in a name that does not say everything
UNSAFE_CHARACTER = re.compile(r"[^\w.+-]")


def folder_name(base: str, changes: Mapping[str, Any], digest: str) -> str:
    """Return the name of the folder for a study with some fields changed."""
    texts = {name: value_text(value) for name, value in changes.items()}
    safe = {name: UNSAFE_CHARACTER.sub("-", text) for name, text in texts.items()}
    name = ",".join([base, *(f"{field}={text}" for field, text in safe.items())])
    lossy = any(isinstance(changes[field], str) and safe[field] != texts[field] for field in safe)
    if not lossy and len(name.encode()) <= MOST_BYTES:
        return name
    beginning = name.encode()[: max(MOST_BYTES - DIGITS - 1, len(base.encode()))].decode(errors="ignore")
    return f"{beginning.rstrip(',')},{digest[:DIGITS]}"


def value_text(value: Any) -> str:
    """Write a value for a name: numbers with all digits that tell them apart."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, Mapping):
        named = (f"{name}" if stride is None else f"{name}-{value_text(stride)}" for name, stride in value.items())
        return "_".join(named) or "none"
    if isinstance(value, (list, tuple)):
        return "_".join(map(value_text, value)) or "none"
    return str(value)
