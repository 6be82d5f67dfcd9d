"""Tags: names by which a folder is found again from anywhere.

They are kept in one small file in the user's data folder, or where the environment variable ASYNCSIM_TAGS says: a file,
or a folder for it. Any number of processes may change them at once, because the file is written atomically.
"""

import json
import os
import unicodedata
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from asyncsim._checks import brief, did_you_mean
from asyncsim.files._atomic import require_format
from asyncsim.files._json import write_json
from asyncsim.store._labels import digest_of
from asyncsim.store._lease import hold

__all__ = ["Tag", "add", "every", "file", "get", "place_of", "remove", "rename"]

VARIABLE = "ASYNCSIM_TAGS"
FILE = "tags.json"
FORMAT_VERSION = 1
TIMEOUT = 10.0  # seconds to wait for other processes, each of which takes milliseconds
MOST_LETTERS = 100  # letters of a name
# Categories of letters that nobody sees. Only the usual blank, which is of the last one, may be in a name.
INVISIBLE_CATEGORIES = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
INVISIBLE_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # invisible letters of other categories
MOST_SEARCHED = 2000  # folders in which one that has moved is looked for
PRESENT, DANGLING, CHANGED = "there", "dangling", "changed"  # states of a tag


class Tag(NamedTuple):
    """A name for a folder or file.

    Attributes:
        name: The name.
        place: Absolute path of the folder or file.
        digest: Of the study whose results the folder held when it was tagged, or None if it held none.
        inode: Device and number by which the file system knew the place, by which it is found after it was renamed.
        date: When it was tagged.
    """

    name: str
    place: Path
    digest: str | None = None
    inode: tuple[int, int] | None = None
    date: str = ""

    @property
    def state(self) -> str:
        """Whether the place is "there", "dangling" where nothing is any more, or holds another study ("changed")."""
        if not self.place.exists():
            return DANGLING
        return PRESENT if self.digest in (None, digest_of(self.place)) else CHANGED


def add(place: str | os.PathLike[str], name: str | None = None, *, move: bool = False) -> Tag:
    """Give a folder or file a name.

    Args:
        place: The folder of a run, a comparison or anything else, or a file. It must exist.
        name: The tag, by default the name of the folder.
        move: Whether a tag that stands for another place may be taken from there.

    Raises:
        ValueError: If there is no such place, the name cannot be that of a tag, or it is one already.
        OSError: If the tags cannot be written.
    """
    target = Path(os.path.abspath(require_path(place)))
    if not target.exists():
        raise ValueError(f"`RUN` must be a folder or a file that exists; got {str(place)!r}. Check the name.")
    name = require_name(target.name if name is None else name)
    with _changing() as tags:
        if name in tags and not move:
            raise ValueError(exists_already(tags[name]))
        date = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
        tags[name] = Tag(name, target, digest_of(target), _inode(target), date)
        return tags[name]


def remove(name: str) -> Tag:
    """Forget a tag. Its folder or file stays.

    Args:
        name: The name of the tag.

    Raises:
        ValueError: If there is no such tag. The nearest one is named.
    """
    with _changing() as tags:
        return tags.pop(_existing(name, tags))


def rename(old: str, new: str) -> Tag:
    """Give a tag another name.

    Args:
        old: The present name.
        new: The name that it gets.

    Raises:
        ValueError: If there is no tag `old`, or `new` is one already or cannot be one.
    """
    with _changing() as tags:
        old, new = _existing(old, tags), require_name(new)
        if new in tags:
            raise ValueError(exists_already(tags[new]))
        tags[new] = tags.pop(old)._replace(name=new)
        return tags[new]


def every() -> dict[str, Tag]:
    """Read all tags, by name, in alphabetical order.

    Raises:
        ValueError: If their file is damaged.
    """
    return dict(sorted(_read(file()).items()))


def get(name: str) -> Tag:
    """Return the tag of a name.

    Args:
        name: The name of the tag.

    Raises:
        ValueError: If there is no such tag. The nearest one is named.
    """
    tags = _read(file())
    return tags[_existing(name, tags)]


def place_of(name: str) -> Path:
    """Return the place that a tag stands for.

    Args:
        name: The name of the tag.

    Raises:
        ValueError: If there is no such tag (the nearest is named), or nothing is at its place any more.
    """
    tag = get(name)
    if tag.state == DANGLING:
        raise ValueError(lost(tag))
    return tag.place


def names_by_place() -> dict[str, list[str]]:
    """Return real path -> the names of its tags."""
    names: dict[str, list[str]] = {}
    for name, tag in every().items():
        names.setdefault(os.path.realpath(tag.place), []).append(name)
    return names


def file() -> Path:
    """Return the file of the tags: in the user's data folder, or where ASYNCSIM_TAGS says.

    A name in ASYNCSIM_TAGS without a suffix, or that of a folder, is that of a folder.
    """
    if value := os.environ.get(VARIABLE):
        chosen = Path(value).expanduser()
        is_folder = chosen.is_dir() or not (chosen.suffix or chosen.is_file())
        return chosen / FILE if is_folder else chosen
    from platformdirs import user_data_path

    return user_data_path("asyncsim", appauthor=False) / FILE


def require_name(name: object) -> str:
    """Return a name as tags have it: without blanks around it, its letters composed as Unicode's form C has them."""
    text = unicodedata.normalize("NFC", name.strip()) if isinstance(name, str) else ""
    remedy = "Use letters, digits, blanks and dashes."
    if not text or text in (".", ".."):
        raise ValueError(f"`NAME` of a tag must be a word; got {brief(name)}. {remedy}")
    if text.startswith("-"):
        raise ValueError(f"`NAME` of a tag must not begin with '-', as flags do; got {brief(name)}. {remedy}")
    if len(text) > MOST_LETTERS:
        length = f"{len(name):,}"  # type: ignore[arg-type]  # it is a text
        raise ValueError(
            f"`NAME` of a tag must have at most {MOST_LETTERS} letters; got {length}. Choose a shorter one."
        )
    strange = [letter for letter in text if letter in ("/", os.sep) or _is_invisible(letter)]
    if strange:
        raise ValueError(f"`NAME` of a tag must not hold {strange[0]!r}; got {brief(name)}. {remedy}")
    return text


def _is_invisible(letter: str) -> bool:
    """Tell whether nobody sees a letter, or it turns the direction of others, so that two names can look the same."""
    is_selector = 0xFE00 <= ord(letter) <= 0xFE0F or 0xE0100 <= ord(letter) <= 0xE01EF
    return letter != " " and (
        unicodedata.category(letter) in INVISIBLE_CATEGORIES or letter in INVISIBLE_LETTERS or is_selector
    )


def require_path(place: object) -> str:
    """Return the text of a path."""
    text = os.fspath(place) if isinstance(place, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ValueError(f"`RUN` must be the path of a folder or a file; got {place!r}.")
    return text


def exists_already(tag: Tag) -> str:
    """Say why a name cannot be given to another place."""
    gone = ", which is no longer there" if tag.state == DANGLING else ""
    remedy = "Choose another name, or move the tag (`--move`)."
    return f"The tag {tag.name!r} exists already: it stands for {str(tag.place)!r}{gone}. {remedy}"


def lost(tag: Tag) -> str:
    """Say why a dangling tag leads nowhere, and where to look."""
    place = moved_to(tag)
    message = f"The tag {tag.name!r} stands for {str(tag.place)!r}, which is no longer there."
    if place is None:
        return f"{message} Forget it: asyncsim untag {quote(tag.name)}"
    again = f"asyncsim tag {quote(str(place))} {quote(tag.name)} --move"
    return f"{message} It seems to have moved to {str(place)!r}: {again}"


def changed(tag: Tag) -> str:
    """Warn of a tag whose folder holds another study than when it was tagged."""
    return f"{str(tag.place)!r} holds another study than when it was tagged {tag.name!r} ({tag.date})."


def moved_to(tag: Tag) -> Path | None:
    """Find where a place that is no longer there seems to be now, as far as it is near, or None."""
    near = next((folder for folder in tag.place.parents if folder.is_dir()), None)
    for folder in () if near is None else islice(_folders_below(near), MOST_SEARCHED):
        if tag.digest is None and tag.inode is None:
            continue
        if digest_of(folder) == tag.digest if tag.digest is not None else _inode(folder) == tag.inode:
            return folder
    return None


def _folders_below(top: Path) -> Iterator[Path]:
    """Yield the folders below one, the nearest first."""
    waiting = deque([top])
    while waiting:
        try:
            entries = sorted(e.path for e in os.scandir(waiting.popleft()) if e.is_dir(follow_symlinks=False))
        except OSError:
            continue
        inside = [*map(Path, entries)]
        yield from inside
        waiting += inside


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _existing(name: str, tags: Mapping[str, Tag]) -> str:
    """Return the name of an existing tag."""
    name = require_name(name)
    if name in tags:
        return name
    hint = did_you_mean(name, tags, quote="'") or (" `asyncsim tags` lists them." if tags else " There are no tags.")
    raise ValueError(f"There is no tag {name!r}.{hint}")


@contextmanager
def _changing() -> Iterator[dict[str, Tag]]:
    """Hand out all tags, to be changed while nobody else does. They are written at the end, if there was no error."""
    path = file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold(path.with_name(f".{path.name}.lock"), TIMEOUT) as acquired:
            if not acquired:
                raise ValueError(f"{str(path)!r} has been locked by another process for {TIMEOUT:g} s. Try again.")
            tags = _read(path)
            yield tags
            entries = {
                name: {"place": str(tag.place), "digest": tag.digest, "inode": tag.inode, "date": tag.date}
                for name, tag in tags.items()
            }
            write_json(path, {"format": FORMAT_VERSION, "tags": entries})
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = f"Name another place in the environment variable {VARIABLE}."
        raise OSError(error.errno, f"The tags in {str(path)!r} cannot be written: {reason}. {remedy}") from error


def _read(path: Path) -> dict[str, Tag]:
    """Read the tags in a file, or none if there is no file."""
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, RecursionError) as error:
        raise ValueError(_damaged(path)) from error
    if isinstance(content, dict) and isinstance(content.get("format"), int):
        require_format(repr(str(path)), content["format"], FORMAT_VERSION, "Remove it and tag again.")
    try:
        return {name: _tag(name, entry) for name, entry in content["tags"].items()}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(_damaged(path)) from error


def _tag(name: str, entry: Mapping[str, Any]) -> Tag:
    device = entry.get("inode")
    inode = None if device is None else (int(device[0]), int(device[1]))
    return Tag(name, Path(entry["place"]), entry.get("digest"), inode, entry.get("date", ""))


def _damaged(place: Path) -> str:
    return f"The file of the tags, {str(place)!r}, is damaged. Repair it, or remove it and tag again."
