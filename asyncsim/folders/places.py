"""From what somebody typed to a folder or file: a path that exists, or else a tag."""

import os
import warnings
from pathlib import Path

from asyncsim.checks import nearest
from asyncsim.folders import tags
from asyncsim.folders.labels import LABELS, STORE, label_of


def find(text: str | os.PathLike[str], *, what: str = "`RUN`") -> Path:
    """The path of this name if something is there, or else the place of the tag of this name.

    A path wins over a tag of the same name, with a warning: `./NAME` is always a path, `asyncsim path NAME` always a
    tag. A tag whose folder holds another study than when it was tagged is followed with a warning, too.

    Args:
        text: What was given.
        what: Its name, for messages.

    Raises:
        ValueError: If there is neither, or the tag's place is no longer there; names what is near.
    """
    path = Path(tags.require_path(text))
    if isinstance(text, os.PathLike) or path.name != str(text):  # has a folder before it, or one after it
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
    """The folder of a run, a comparison or an experiment, by its path or tag.

    Raises:
        ValueError: If there is none; names what is near.
    """
    folder = find(text, what=what)
    if folder.name in ("", ".."):  # so that it has a name, which others are made of
        folder = Path(os.path.abspath(folder))
    if folder.is_file():
        if folder.name in LABELS or label_of(folder.parent) is not None:
            return folder.parent
        raise ValueError(f"{what} must be the folder of a run or a tag; {str(text)!r} is a file.")
    if (folder / STORE).is_file():
        text = tags.quoted(str(text))
        raise ValueError(f"{what} must be one run; {text} is the store of a sweep. See: asyncsim sweep table {text}")
    if label_of(folder) is None:
        inside = sorted(entry for entry in folder.iterdir() if entry.is_dir() and label_of(entry) is not None)
        hint = f" Did you mean {str(inside[0])!r}?" if inside else f" It has none of {', '.join(LABELS)}."
        raise ValueError(f"{what} must be the folder of a run or a tag; {str(text)!r} holds no run.{hint}")
    return folder


def again(folder: Path) -> str:
    """How the results of a folder are computed again whose study cannot be read there."""
    if (folder.parent / STORE).is_file():
        return "The same sweep or comparison computes it again (a sweep with `--retry-failed`)."
    return f"Compute it again with its script: asyncsim run SCRIPT.py --out {tags.quoted(str(folder))} --force"


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
    """What was probably meant: a folder beside it or in `runs`, or a tag."""
    known = {name: name for name in tags.every()} if path.name == str(path) else {}
    for folder in dict.fromkeys((path.parent, Path("runs") / path.parent)):
        if folder.is_dir():
            for entry in sorted(folder.iterdir()):
                if entry.is_dir() and label_of(entry) is not None:
                    known.setdefault(entry.name, str(entry))
    meant = path.name if path.name in known else nearest(path.name, known)
    return None if meant is None else known[meant]
