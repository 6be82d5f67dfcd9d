"""JSON files that a failure never leaves half written, and that say whose they are.

`write_owned` and `read_owned` are the one writer and the one reader of the JSON files in folders of results: each names
its owner (the digest of the study, or of whatever it belongs to) and carries a checksum that is compared when it is
read. A file that is emptied, truncated, altered or another owner's reads as if it were missing.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.files._atomic import ABOUT, atomic_write, require_own
from asyncsim.files._hash import hash_parts

OWNER, CHECKSUM = "owner", "checksum"  # parts of the entry `ABOUT`


def write_owned(path: str | os.PathLike[str], value: Mapping[str, Any], owner: str, *, new: bool = False) -> None:
    """Write plain data as JSON that says whose it is, with a checksum, for `read_owned`."""
    if ABOUT in value:
        raise ValueError(
            f"{ABOUT!r} is kept for the checksum of {Path(path).name!r}. Choose another name for the entry."
        )
    text = _compact(value)
    about = {OWNER: owner, CHECKSUM: hash_parts(owner, "\n", text)}
    if new:
        joint = "," if len(value) else ""
        Path(path).write_bytes(f'{text[:-1]}{joint}"{ABOUT}":{_compact(about)}}}\n'.encode())
        return
    require_own(Path(path))
    write_json(path, {**value, ABOUT: about})


def keep_owned(path: str | os.PathLike[str], value: Mapping[str, Any], owner: str) -> None:
    """Write as `write_owned` does, unless the file holds just that."""
    if read_owned(path, owner) != value:
        write_owned(path, value, owner)


def read_owned(path: str | os.PathLike[str], owner: str | None = None) -> dict[str, Any] | None:
    """Read the content that `write_owned` wrote, or None if the file is missing, damaged or another owner's."""
    content = read_json(path)
    about = content.pop(ABOUT, None) if isinstance(content, dict) else None
    if not isinstance(about, dict) or not isinstance(about.get(OWNER), str):
        return None
    if owner not in (None, about[OWNER]) or about.get(CHECKSUM) != hash_parts(about[OWNER], "\n", _compact(content)):
        return None
    return content


def _compact(value: Mapping[str, Any]) -> str:
    """Write a value as JSON in one line, of which checksums are taken."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=to_plain)
    except ValueError:  # JSON has no numbers that are not finite.
        return json.dumps(to_plain(value), separators=(",", ":"))


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as JSON atomically, where numbers that are not finite become null."""
    text = json.dumps(to_plain(value), indent=2, allow_nan=False) + "\n"
    atomic_write(path, lambda file: file.write(text.encode()))


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file, or None if the file is missing or damaged."""
    try:
        if Path(path).exists() and not Path(path).is_file():  # Reading a pipe would wait for its writer.
            return None
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError, RecursionError):
        return None


def to_plain(value: Any) -> Any:
    """Convert a value to what JSON can hold: NumPy's scalars and arrays as plain Python, non-finite numbers as None."""
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return to_plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
