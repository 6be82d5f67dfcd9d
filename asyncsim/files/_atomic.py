"""Files that a failure never leaves half written, and that never replace a file of somebody else."""

import errno
import json
import os
import re
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from asyncsim.files._hash import is_digest

ABOUT = "@asyncsim"  # entry of a JSON file: its owner and the checksum of its other entries

_REMEDIES = {
    errno.ENOENT: "The folder does not exist: create it first, or choose an existing folder",
    errno.ENOTDIR: "A folder is needed where a file is: choose an existing folder",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Choose an existing folder that can be written to"),
}
_DEFAULT_REMEDY = "Free some space, or choose an existing folder that can be written to"

# A text near the beginning of each file of asyncsim's, by which it is told from one of the user's, and the first bytes,
# which a file has that was truncated before the text. JSON has its text at the end.
_MARKS = {
    ".npz": (b"format_version.npy", b"PK"),
    ".png": (b"Study\0", b"\x89PNG"),
    ".html": (b"default-src 'none'; script-src 'sha256-", b"<!doctype html>"),
    ".gif": (b"asyncsim", b"GIF8"),
}
_JSON_MARKS = (f'"{ABOUT}"'.encode(), b'"asyncsim store"')
_HEAD = 1 << 12  # bytes in which the text stands
_MOST_TRUNCATED = 64  # bytes that a truncated file may have at most if its text is missing
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOSYS)  # errors of file systems that cannot flush

_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tmp")


def atomic_write(path: str | os.PathLike[str], write: Callable[[BinaryIO], object], *, sync: bool = True) -> None:
    """Write a file whole or not at all."""
    target = Path(os.path.realpath(path))
    temporary = temporary_path(target)
    try:
        _write(temporary, write, sync)
        os.replace(temporary, target)
        if sync:
            flush(target.parent)
    except OSError as error:
        remedy = f"{_REMEDIES.get(error.errno or 0, _DEFAULT_REMEDY)}; nothing there was changed."
        reason = f"could not be written: {error.strerror or error}"
        raise OSError(error.errno, f"`path` {str(target)!r} {reason}. {remedy}") from error
    finally:
        with suppress(OSError):  # On a read-only file system, this fails, too, and would hide the first error.
            temporary.unlink(missing_ok=True)


def require_no_link(folder: Path) -> None:
    """Refuse a folder of asyncsim's own that is a symbolic link, through which others' files would be changed."""
    if folder.is_symlink():
        raise ValueError(f"{str(folder)!r} is a symbolic link, through which no results are written. Remove the link.")


def temporary_path(path: Path) -> Path:
    """Return a new name next to a file, for its content on the way there or back."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def final_name(name: str) -> str:
    """Return the name that a file was to get, which a killed process left under a temporary one."""
    match = _TEMPORARY.fullmatch(name)
    return match[1] if match else name


def remove_temporary_files(folder: Path, names: Collection[str] | None = None) -> None:
    """Remove temporary files of killed processes, of these names or of all. Nobody may be writing them."""
    for path in folder.iterdir():
        name = final_name(path.name)
        if name != path.name and (names is None or name in names):
            with suppress(OSError):
                path.unlink()


class Foreign(OSError):
    """A file of somebody else has the name of one that asyncsim would write or remove."""


def is_foreign(path: Path) -> bool:
    """Tell whether something is there that asyncsim did not write. A damaged file of its own is not foreign."""
    if path.is_symlink() or not path.is_file():  # Through a link, a file elsewhere would be changed.
        return os.path.lexists(path)
    if is_digest(path.stem):  # Nobody else gives such names.
        return False
    try:
        with open(path, "rb") as file:
            content = file.read() if path.suffix == ".json" else file.read(_HEAD)
    except PermissionError:
        return True
    if not content.strip(b"\0"):  # A power cut may empty a file, or fill it with zeros.
        return False
    if path.suffix == ".json":
        return not any(mark in content for mark in _JSON_MARKS) and _is_whole_or_no_json(content)
    mark, beginning = _MARKS.get(path.suffix, (b"", b""))
    return mark not in content and not (len(content) < _MOST_TRUNCATED and content.startswith(beginning))


def _is_whole_or_no_json(content: bytes) -> bool:
    """Tell whether the content is not what is left of a JSON object that was truncated or altered."""
    try:
        return bool(json.loads(content))
    except (ValueError, RecursionError):
        return not content.startswith(b"{")


def require_own(path: Path) -> None:
    """Refuse to replace a file that asyncsim did not write."""
    if is_foreign(path):
        raise Foreign(f"`path` {str(path)!r} exists already, and is not a file that asyncsim wrote. Move it elsewhere.")


def require_format(what: str, version: int, current: int, remedy: str, oldest: int | None = None) -> None:
    """Refuse a file or folder of another format, with `remedy` for one before `oldest`, by default the current one."""
    if not (current if oldest is None else oldest) <= version <= current:
        age, remedy = ("a newer", "Update asyncsim.") if version > current else ("an older", remedy)
        raise ValueError(f"{what} was written by {age} asyncsim (format {version}; this one reads {current}). {remedy}")


def require_folder(name: str, value: object) -> Path:
    """Return the path of a folder, which need not exist."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        remedy = 'Give "." for the present one, or None to keep nothing.'
        raise ValueError(f"`{name}` must be the path of a folder; got {value!r}. {remedy}")
    return Path(text)


def make_folder(path: Path, argument: str = "out") -> None:
    """Create the folder that an argument names, and those above it, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"`{argument}` {str(path)!r} cannot be created: {reason}. Choose another folder."
        raise OSError(error.errno, message) from error


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file's contents, or a folder's entries, are on the disk, unless the platform cannot tell."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders.
        return
    try:
        _sync(opened)
    finally:
        os.close(opened)


def _sync(opened: int) -> None:
    """Wait until a file is on the disk, if its file system can tell."""
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _write(path: Path, write: Callable[[BinaryIO], object], sync: bool) -> None:
    with open(path, "xb") as file:
        write(file)
        file.flush()
        if sync:
            _sync(file.fileno())
