"""Files of named arrays: a `.npz` with a format version, written and read whole or not at all."""

import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from asyncsim.files import atomic_write

# What NumPy and zipfile raise for a file that is truncated, altered, or not a .npz file at all.
_DAMAGE = (ValueError, EOFError, KeyError, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error)

Arrays = dict[str, NDArray[Any]]


def write(path: str | os.PathLike[str], arrays: Mapping[str, Any], *, version: int) -> None:
    """Write arrays under their names, with the format version; uncompressed, because random bits do not compress.

    Args:
        path: The file; the name is used as it is, without a suffix being added.
        arrays: Name to array.
        version: Format version, at least 1.

    Raises:
        OSError: If the file cannot be written; an existing file stays whole.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(Path(folder, "a.npz"), {"x": [1, 2]}, version=1)
        ...     read(Path(folder, "a.npz"), kind="example", version=1)["x"].tolist()
        [1, 2]
    """
    atomic_write(path, lambda file: np.savez(file, format_version=version, **arrays))


def read(path: str | os.PathLike[str], names: Iterable[str] | None = None, *, kind: str, version: int) -> Arrays:
    """Read the named arrays of a file.

    Args:
        path: A file that `write` wrote.
        names: The arrays that must be in the file; others are not returned. None for all that are in it.
        kind: What the file should hold, for messages: "trace" or "run".
        version: The newest format that the caller understands.

    Returns:
        Name to array, in the order of `names`.

    Raises:
        FileNotFoundError: If there is no such file.
        PermissionError: If reading it is not permitted.
        ValueError: If the file is damaged, of another kind, of a newer format, or lacks an array.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"`path` {str(path)!r} is not a file. Check the name, or save a {kind} there first.")
    with open(path, "rb") as file:
        try:
            arrays = _read_all(file)
        except _DAMAGE as error:
            reason = str(error) or type(error).__name__
            raise ValueError(
                f"`path` {str(path)!r} is damaged or not a {kind} file ({reason}). {_remedy(kind)}"
            ) from error
    _require_known_format(path, arrays, kind, version)
    return arrays if names is None else _select(path, arrays, list(names), kind)


def _read_all(file: BinaryIO) -> Arrays:
    if not zipfile.is_zipfile(file):
        raise ValueError("not a .npz archive, or its end is missing")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _require_known_format(path: str | os.PathLike[str], arrays: Arrays, kind: str, version: int) -> None:
    found = arrays.pop("format_version", None)
    if found is None or found.shape != () or found.dtype.kind not in "iu" or found < 1:
        raise ValueError(
            f"`path` {str(path)!r} is not a {kind} file (it has no format version). Give a file made by `save`."
        )
    if found > version:
        raise ValueError(
            f"`path` {str(path)!r} was written by a newer asyncsim (format {found}; this one reads up to "
            f"{version}). Update asyncsim."
        )


def _select(path: str | os.PathLike[str], arrays: Arrays, names: list[str], kind: str) -> Arrays:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"`path` {str(path)!r} lacks the column `{missing[0]}`. {_remedy(kind)}")
    return {name: arrays[name] for name in names}


def _remedy(kind: str) -> str:
    return f"Restore it from a copy or make the {kind} again."
