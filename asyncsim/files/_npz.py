"""Files of named arrays: a `.npz` with a format version, written and read whole or not at all.

A file is read by this module and not by `numpy.load`, which stops before a member's end and so never compares its
checksum, allocates whatever a header claims, and does not miss an array that the directory has lost.
"""

import io
import lzma
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from asyncsim.files._atomic import atomic_write, require_format, require_own

# Errors of NumPy, zipfile and the parser of a header for a file that is truncated, altered, or no .npz file at all.
_DAMAGE = (
    *(ValueError, EOFError, KeyError, OSError, RuntimeError, OverflowError, MemoryError, SyntaxError, TypeError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
OWNER = "owner"  # note: the digest of the study, or of whatever the arrays belong to
_VERSION, _NOTE, _SUFFIX = "format_version", "note/", ".npy"
_END = struct.Struct("<4s4H2LH")  # the record that ends an archive, if there is no comment behind it
_END_SIGNATURE = b"PK\x05\x06"
_MOST_COUNTED = 0xFFFF  # members that the record can count
_ROOM, _GROWTH = 1 << 26, 16  # bytes that arrays may take together, and how many more for each of the file's

REMEDY = "Delete it to have it computed again, or replace all results (`--force`)."

Arrays = dict[str, NDArray[Any]]
Loaded = TypeVar("Loaded")


class Damaged(ValueError):
    """A file that is emptied, truncated or altered, or no archive of arrays at all."""


def write(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    *,
    version: int,
    notes: Mapping[str, Any] | None = None,
    sync: bool = True,
    new: bool = False,
) -> None:
    """Write arrays under their names, with the format version, uncompressed because random bits do not compress."""
    noted = {f"{_NOTE}{name}": value for name, value in (notes or {}).items()}
    named = {_VERSION: version, **arrays, **noted}
    arrays = {name: np.asanyarray(array) for name, array in named.items()}

    def fill(file: BinaryIO) -> None:
        # Unlike `np.savez`, this takes arrays of any name, such as "file". Members have the date of `ZipInfo`, 1980, so
        # that equal contents make equal files.
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}{_SUFFIX}"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    if new:
        with open(path, "xb") as file:
            fill(file)
    else:
        # Files with an owner lie in folders of results. Any other name is the user's choice.
        if OWNER in (notes or {}):
            require_own(Path(path))
        atomic_write(path, fill, sync=sync)


def read(
    path: str | os.PathLike[str],
    names: Iterable[str] | None = None,
    *,
    optional: Collection[str] | None = None,
    kind: str,
    version: int,
    oldest: int | None = None,
) -> Arrays:
    """Read the named arrays of a file, or all but the notes, each to its end, and compare the checksum of each.

    With `optional`, arrays of these names are read too if there are any, and the file may hold no others. Files of the
    formats from `oldest` to `version` are read, by default of `version` alone.
    """
    names = None if names is None else [*names]
    is_wanted = _is_array if names is None or optional is not None else names.__contains__
    arrays = _read(path, is_wanted, kind, version, oldest)
    if names is None:
        return arrays
    for name in names:
        if name not in arrays:
            raise ValueError(f"`path` {str(path)!r} lacks the column `{name}`. {_remedy(kind)}")
    for name in arrays:
        if name not in names and name not in (optional or ()):
            remedy = f"A newer asyncsim may have written it: update, or make the {kind} again."
            raise ValueError(f"`path` {str(path)!r} has the column `{name}`, which no {kind} has here. {remedy}")
    return arrays


def _is_array(name: str) -> bool:
    return not name.startswith(_NOTE)


def read_if_whole(path: str | os.PathLike[str], *, kind: str, version: int, owner: str | None = None) -> Arrays | None:
    """Read all arrays of a file, or None if it is missing, damaged or another owner's: they are computed again."""
    try:
        arrays = _read(path, lambda name: True, kind, version)
    except (FileNotFoundError, ValueError):
        return None
    if owner is not None and owner != str(arrays.get(f"{_NOTE}{OWNER}")):
        return None
    return {name: array for name, array in arrays.items() if not name.startswith(_NOTE)}


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the notes in a file of any format, name -> plain value, without the arrays. Errors are those of `read`."""
    notes = _read(path, lambda name: name.startswith(_NOTE), "results", None)
    return {name.removeprefix(_NOTE): note.tolist() for name, note in notes.items()}


def read_own_notes(path: str | os.PathLike[str], *owners: str, kind: str) -> dict[str, Any]:
    """Read the notes in a file of one of these owners. Those of another owner are refused."""
    notes = read_notes(path)
    if notes.get(OWNER) not in owners:
        raise ValueError(explain_foreign(path, kind))
    return notes


def explain_foreign(path: str | os.PathLike[str], kind: str) -> str:
    """Explain why a file is refused that belongs to another study."""
    return f"`path` {str(path)!r} is not the {kind}, or not that of the files beside it."


def unless_damaged(load: Callable[[Path], Loaded], path: Path) -> Loaded | None:
    """Read a file, or None, so that it is computed again, if it is missing or (with a warning) damaged."""
    if not path.is_file():
        return None
    try:
        return load(path)
    except Damaged:
        warnings.warn(f"{str(path)!r} is damaged. It is computed again.", stacklevel=4)
        return None
    except ValueError as error:
        raise ValueError(f"{error} {REMEDY}") from error


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file that `write` wrote is there, neither emptied nor truncated. No array is read."""
    try:
        with open(path, "rb") as file:
            end = _end_of(file)
    except OSError:
        return False
    return len(end) == _END.size and end.startswith(_END_SIGNATURE)


def is_sound(path: str | os.PathLike[str]) -> bool:
    """Tell whether all arrays of a file that `write` wrote can be read, and agree with their checksums."""
    try:
        with open(path, "rb") as file:
            _read_members(file, lambda name: True)
    except _DAMAGE:
        return False
    return True


def _read(
    path: str | os.PathLike[str],
    is_wanted: Callable[[str], bool],
    kind: str,
    version: int | None,
    oldest: int | None = None,
) -> Arrays:
    if not Path(path).is_file():
        raise FileNotFoundError(f"`path` {str(path)!r} is not a file. Check the name, or save a {kind} there first.")
    with open(path, "rb") as file:
        try:
            arrays = _read_members(file, is_wanted)
        except _DAMAGE as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise Damaged(
                f"`path` {str(path)!r} is damaged or not a {kind} file ({reason}). {_remedy(kind)}"
            ) from error
    written = arrays.pop(_VERSION, None)
    if version is not None:
        if written is None or written.shape != () or written.dtype.kind not in "iu" or written < 1:
            raise ValueError(
                f"`path` {str(path)!r} is not a {kind} file (it has no format version). Give a file made by `save`."
            )
        what, remedy = f"`path` {str(path)!r} holds no {kind}, or", f"Make the {kind} again."
        require_format(what, int(written), version, remedy, oldest)
    return arrays


def _end_of(file: BinaryIO) -> bytes:
    """Read the last bytes of a file, where an archive has its last record."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _END.size))
    return file.read()


def _read_members(file: BinaryIO, is_wanted: Callable[[str], bool]) -> Arrays:
    """Read the format version and the wanted arrays of an archive, where zipfile compares the checksum of each."""
    end, size = _end_of(file), file.tell()
    arrays: Arrays = {}
    with zipfile.ZipFile(file) as archive:
        members = {member.filename.removesuffix(_SUFFIX): member for member in archive.infolist()}
        _require_all_listed(end, [member.filename for member in archive.infolist()])
        chosen = {name: member for name, member in members.items() if name == _VERSION or is_wanted(name)}
        claimed = sum(max(member.file_size, member.compress_size) for member in chosen.values())
        # Members may lie over each other, or be compressed as no measured numbers are.
        if claimed > _ROOM + _GROWTH * size:
            raise ValueError(f"its arrays claim {claimed} bytes, more than the file can hold")
        for name, member in members.items():
            if name in chosen:
                arrays[name] = _as_array(bytearray(archive.read(member.filename)), member.filename)
            else:
                # This checks the member's own name: the name of a chosen one may have been altered.
                archive.open(member).close()
    return arrays


def _require_all_listed(end: bytes, names: list[str]) -> None:
    """Refuse an archive whose directory has been altered so that it skips a member."""
    signature, _, _, _, count, _, _, comment = _END.unpack(end) if len(end) == _END.size else (b"", *[0] * 7)
    if signature != _END_SIGNATURE or comment:
        raise ValueError("something follows the end of the archive")
    if count not in (len(names), _MOST_COUNTED):
        raise ValueError(f"its directory lists {len(names)} arrays of {count}")
    if len({*names}) < len(names):
        raise ValueError("its directory lists an array twice")


def _as_array(content: bytearray, name: str) -> NDArray[Any]:
    """Return the array in the bytes of a .npy file, without a copy."""
    stream = io.BytesIO(content[: 1 << 16])  # A header is shorter than that.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's parser warns before it refuses a header.
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{name!r} in it has a header of unknown format {version}")
        parse = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = parse(stream)
    if dtype.hasobject:
        raise ValueError(f"{name!r} in it holds Python objects")
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != len(content) - stream.tell():
        claimed = f"shape {shape} and type {dtype}"
        raise ValueError(f"{name!r} in it claims {claimed}, which are not the {len(content) - stream.tell()} bytes")
    return np.ndarray(shape, dtype, content, stream.tell(), order="F" if by_columns else "C")


def _remedy(kind: str) -> str:
    return f"Restore it from a copy or make the {kind} again."
