"""Files that a failure never leaves half written, JSON that says whose it is, and digests.

`write_owned` and `read_owned` are the one writer and the one reader of the JSON files in folders of results: each names
its owner (the digest of the study, or of whatever it belongs to) and carries a checksum that is compared when it is
read. A file that is emptied, truncated, altered or another owner's reads as if it were missing.
"""

import errno
import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

DIGEST_DIGITS = 16  # hexadecimal: 64 bits tell any number of studies apart, and a name stays readable

ABOUT = "@asyncsim"  # entry of a JSON file: its owner and the checksum of its other entries
OWNER, CHECKSUM = "owner", "checksum"

_REMEDIES = {
    errno.ENOENT: "The folder does not exist: create it first, or choose an existing folder",
    errno.ENOTDIR: "A folder is needed where a file is: choose an existing folder",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Choose an existing folder that can be written to"),
}
_OTHERWISE = "Free some space, or choose an existing folder that can be written to"

TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp")  # name of the file that `atomic_write` writes first


def atomic_write(path: str | os.PathLike[str], write: Callable[[BinaryIO], object], *, sync: bool = True) -> None:
    """Write a file whole or not at all.

    `write` fills a temporary file in the same folder, which is flushed to the disk and then renamed to `path`; then the
    folder is flushed. Whatever goes wrong before the rename (a full disk, an error in `write`, Ctrl-C), an existing
    file stays whole and the temporary file is removed.

    Args:
        path: The file to write. A symbolic link is followed; the folder must exist.
        write: Called once with the binary file, open for writing.
        sync: Whether to wait for the disk. Without, a power cut can leave a file with other contents, which must then
            be noticed where it is read.

    Raises:
        OSError: If the file cannot be written; the message names `path` and a remedy; `errno` is kept.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     atomic_write(Path(folder, "a.txt"), lambda file: file.write(b"whole"))
        ...     Path(folder, "a.txt").read_bytes()
        b'whole'
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write(temporary, write, sync)
        os.replace(temporary, target)
        if sync:
            flush(target.parent)
    except OSError as error:
        raise _explained(error, target) from error
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed, and that is not the news
            temporary.unlink(missing_ok=True)


def remove_temporary_files(folder: Path, names: Collection[str] | None = None) -> None:
    """Remove what killed calls of `atomic_write` left of files of these names or of all; nobody may be writing them."""
    for path in folder.iterdir():
        found = TEMPORARY.fullmatch(path.name)
        if found and (names is None or found["name"] in names):
            with suppress(OSError):
                path.unlink()


def require_folder(name: str, value: object) -> Path:
    """The path of a folder, which need not exist.

    Raises:
        ValueError: If it is not a path, or an empty one (which would be the present folder).

    Example:
        >>> require_folder("out", "")
        Traceback (most recent call last):
        ValueError: `out` must be the path of a folder; got ''. Give "." for the present one, or None to keep nothing.
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        remedy = 'Give "." for the present one, or None to keep nothing.'
        raise ValueError(f"`{name}` must be the path of a folder; got {value!r}. {remedy}")
    return Path(text)


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file's contents, or a folder's entries, are on the disk; nothing where the platform cannot."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder, on Windows
        return
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # a file system that flushes no folders
            raise
    finally:
        os.close(opened)


def write_owned(path: str | os.PathLike[str], value: Mapping[str, Any], owner: str, *, new: bool = False) -> None:
    """Write plain data as JSON that says whose it is, with a checksum, for `read_owned`.

    Args:
        path: The file to write, whole or not at all.
        value: The data, as in `write_json`.
        owner: What the file belongs to: a digest.
        new: Write the file in place and do not wait for the disk: for one in a folder that nobody reads yet.

    Raises:
        OSError: If the file cannot be written; an existing file stays whole.
        TypeError: If the value contains something that JSON cannot represent.
        ValueError: If it has an entry of the name that is kept for owner and checksum.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "summary.json")
        ...     write_owned(path, {"loss": 0.5}, owner="ab12")
        ...     found, of_another = read_owned(path, "ab12"), read_owned(path, "cd34")
        ...     _ = path.write_text(path.read_text().replace("0.5", "0.4"))
        ...     found, of_another, read_owned(path)
        ({'loss': 0.5}, None, None)
    """
    if ABOUT in value:
        raise ValueError(
            f"{ABOUT!r} is kept for the checksum of {Path(path).name!r}. Choose another name for the entry."
        )
    content = to_plain(value)
    about = {OWNER: owner, CHECKSUM: _checksum(content, owner)}
    text = json.dumps({**content, ABOUT: about}, indent=None if new else 2, allow_nan=False) + "\n"
    if new:
        Path(path).write_bytes(text.encode())
    else:
        atomic_write(path, lambda file: file.write(text.encode()))


def read_owned(path: str | os.PathLike[str], owner: str | None = None) -> dict[str, Any] | None:
    """What `write_owned` wrote; None if the file is missing, damaged or another owner's.

    Args:
        path: The file.
        owner: Whose it must be; by default anybody's.
    """
    content = read_json(path)
    about = content.pop(ABOUT, None) if isinstance(content, dict) else None
    if not isinstance(about, dict) or not isinstance(about.get(OWNER), str):
        return None
    if owner not in (None, about[OWNER]) or about.get(CHECKSUM) != _checksum(content, about[OWNER]):
        return None
    return content


def _checksum(content: Mapping[str, Any], owner: str) -> str:
    return digest(owner, "\n", json.dumps(content, separators=(",", ":"), allow_nan=False))


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as JSON, whole or not at all; numbers that are not finite become null.

    Args:
        path: The file to write, as in `atomic_write`.
        value: Anything that `to_plain` makes plain.

    Raises:
        OSError: If the file cannot be written; an existing file stays whole.
        TypeError: If the value contains something that JSON cannot represent.
    """
    text = json.dumps(to_plain(value), indent=2, allow_nan=False) + "\n"
    atomic_write(path, lambda file: file.write(text.encode()))


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file; None if the file is missing or damaged."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None


def to_plain(value: Any) -> Any:
    """A value as JSON can hold it: NumPy's scalars and arrays as plain Python, non-finite numbers as None.

    Mappings, lists and tuples are converted recursively, tuples to lists; anything else is returned as it is.

    Example:
        >>> to_plain({"loss": np.array([0.5, np.inf]), "commits": np.int64(3), "shape": (2,)})
        {'loss': [0.5, None], 'commits': 3, 'shape': [2]}
    """
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return to_plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def digest(*parts: bytes | str | np.ndarray) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of all parts, one after another.

    Args:
        parts: Bytes; text, which is encoded as UTF-8; arrays, of which the contents count and not the shape or type.

    Example:
        >>> digest("ab", b"c") == digest("abc"), digest("abc")
        (True, 'ba7816bf8f01cfea')
    """
    total = hashlib.sha256()
    for part in parts:
        total.update(_bytes(part))
    return total.hexdigest()[:DIGEST_DIGITS]


def _bytes(part: bytes | str | np.ndarray) -> bytes | memoryview:
    if isinstance(part, np.ndarray):
        return np.ascontiguousarray(part).view(np.uint8).data  # no copy of a contiguous array
    return part.encode() if isinstance(part, str) else part


def _write(path: Path, write: Callable[[BinaryIO], object], sync: bool) -> None:
    with open(path, "xb") as file:
        write(file)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def _explained(error: OSError, target: Path) -> OSError:
    reason = error.strerror or str(error)
    remedy = f"{_REMEDIES.get(error.errno or 0, _OTHERWISE)}; nothing there was changed."
    return OSError(error.errno, f"`path` {str(target)!r} could not be written: {reason}. {remedy}")
