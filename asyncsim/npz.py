"""Files of named arrays: a `.npz` with a format version, written and read whole or not at all.

A file is read by this module and not by `numpy.load`, which stops before a member's end and so never compares its
checksum, allocates whatever a header claims, and does not miss an array that the directory has lost.
"""

import io
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from asyncsim.files import atomic_write

# What NumPy, zipfile and the parser of a header raise for a file that is truncated, altered, or not a .npz file at all.
_DAMAGE = (
    ValueError,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    OverflowError,
    MemoryError,
    SyntaxError,
    TypeError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_VERSION, _NOTE = "format_version", "note/"
_SUFFIX = ".npy"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1  # bit of a member's flags
_DEFLATED_AT_MOST = 1032  # bytes that one compressed byte can stand for
_BLOCK = 1 << 20  # bytes read at once
_END = struct.Struct("<4s4H2LH")  # the record that ends an archive, if there is no comment behind it
_LOCAL, _LISTED = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L")  # before a member, and in the directory
_NEEDED, _UTF8 = 20, 0x800  # version of the format; flag of a name that is not ASCII
_FIRST_DAY = 0, 0x21  # no time, 1 January 1980: equal contents make equal files
MOST_AT_ONCE = 1 << 30  # bytes up to which all sizes and places fit 32 bits with room to spare
_END_SIGNATURE = b"PK\x05\x06"
_MOST_COUNTED = 0xFFFF  # members that the record can count

_ROOM, _GROWTH = 1 << 26, 16  # bytes that compressed arrays may take together, and how many more for each of the file's

Arrays = dict[str, NDArray[Any]]


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
    """Write arrays under their names, with the format version; uncompressed, because random bits do not compress.

    Args:
        path: The file; the name is used as it is, without a suffix being added.
        arrays: Name to array.
        version: Format version, at least 1.
        notes: Name to number, string or array: what else is to be known of the file, for `read_notes`.
        sync: Whether to wait for the disk, as in `atomic_write`; `read` compares checksums.
        new: Write the file in place and do not wait for the disk: for one in a folder that nobody reads yet.

    Raises:
        OSError: If the file cannot be written; an existing file stays whole.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.npz")
        ...     write(path, {"x": [1, 2]}, version=1, notes={"seconds": 0.5})
        ...     read(path, kind="example", version=1)["x"].tolist(), read_notes(path, kind="example", version=1)
        ([1, 2], {'seconds': 0.5})
    """
    named = {_VERSION: version, **arrays, **{f"{_NOTE}{name}": value for name, value in (notes or {}).items()}}
    arrays = {name: np.asanyarray(array) for name, array in named.items()}
    large = sum(array.nbytes for array in arrays.values()) > MOST_AT_ONCE
    if new and not large:
        with open(path, "xb") as file:
            file.writelines(_archive(arrays))
    elif large:
        atomic_write(path, lambda file: np.savez(file, **arrays), sync=sync)
    else:
        atomic_write(path, lambda file: file.writelines(_archive(arrays)), sync=sync)


def _archive(arrays: Mapping[str, NDArray[Any]]) -> list[bytes | memoryview]:
    """The pieces of the file that `numpy.savez` would write, in a quarter of the time: a sweep writes many small ones.

    References:
        PKWARE, ".ZIP File Format Specification", 4.3.
    """
    pieces: list[bytes | memoryview] = []
    directory: list[bytes] = []
    place = 0
    for name, array in arrays.items():
        head, body = _npy(array)
        called = f"{name}{_SUFFIX}".encode()
        size, flags = len(head) + body.nbytes, 0 if called.isascii() else _UTF8
        checksum = zlib.crc32(body, zlib.crc32(head))
        common = (_NEEDED, flags, zipfile.ZIP_STORED, *_FIRST_DAY, checksum, size, size, len(called), 0)
        pieces += [_LOCAL.pack(b"PK\3\4", *common), called, head, body]
        directory += [_LISTED.pack(b"PK\1\2", _NEEDED, *common, 0, 0, 0, 0o600 << 16, place), called]
        place += _LOCAL.size + len(called) + size
    length = sum(map(len, directory))
    end = _END.pack(_END_SIGNATURE, 0, 0, len(arrays), len(arrays), length, place, 0)
    return [*pieces, *directory, end]


def _npy(array: NDArray[Any]) -> tuple[bytes, memoryview]:
    """Header and contents of a .npy file; see `numpy.lib.format`."""
    by_columns = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    descr = np.lib.format.dtype_to_descr(array.dtype)
    told = f"{{'descr': {descr!r}, 'fortran_order': {by_columns}, 'shape': {array.shape!r}, }}".encode("latin1")
    padded = told + b" " * (-(len(told) + 11) % 64) + b"\n"  # magic, version and length take 10 bytes
    contents = np.ascontiguousarray(array.T if by_columns else array)
    body = contents.reshape(-1).view(np.uint8).data if contents.nbytes else memoryview(b"")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded, body


def read(
    path: str | os.PathLike[str],
    names: Iterable[str] | None = None,
    *,
    kind: str,
    version: int,
) -> Arrays:
    """Read the named arrays of a file, each to its end, and compare the checksum of each.

    Other arrays are not read. No more memory is taken than the file has room for, whatever it claims to hold.

    Args:
        path: A file that `write` wrote.
        names: The arrays that must be in the file; others are not returned. None for all that are in it, notes aside.
        kind: What the file should hold, for messages: "trace" or "run".
        version: The format that the caller understands.

    Returns:
        Name to array, in the order of `names`.

    Raises:
        FileNotFoundError: If there is no such file.
        PermissionError: If reading it is not permitted.
        Damaged: If the file is damaged.
        ValueError: If it is of another kind or format, or lacks an array.
    """
    if names is None:
        return _read(path, lambda name: not name.startswith(_NOTE), kind, version)
    wanted = list(names)
    return _select(path, _read(path, lambda name: name in wanted, kind, version), wanted, kind)


def read_if_whole(path: str | os.PathLike[str], *, kind: str, version: int) -> Arrays | None:
    """All arrays of a file; None if it is missing or damaged, so that what was kept there is made again.

    Example:
        >>> read_if_whole("/nowhere/a.npz", kind="example", version=1) is None
        True
    """
    try:
        return read(path, kind=kind, version=version)
    except (FileNotFoundError, ValueError):
        return None


def read_notes(path: str | os.PathLike[str], *, kind: str, version: int | None) -> dict[str, Any]:
    """The notes in a file, name -> plain value, without the arrays; arguments and errors are those of `read`.

    With `version=None`, those of a file of any format.
    """
    notes = _read(path, lambda name: name.startswith(_NOTE), kind, version)
    return {name.removeprefix(_NOTE): note.tolist() for name, note in notes.items()}


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Whether a file that `write` wrote is there with its end: neither emptied nor truncated. Its arrays are not read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.npz")
        ...     write(path, {"x": [1, 2]}, version=1)
        ...     whole = is_whole(path)
        ...     os.truncate(path, 100)
        ...     whole, is_whole(path)
        (True, False)
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END.size))
            end = file.read()
    except OSError:
        return False
    return len(end) == _END.size and end.startswith(_END_SIGNATURE)


def is_sound(path: str | os.PathLike[str]) -> bool:
    """Whether all arrays of a file that `write` wrote can be read, and agree with their checksums."""
    try:
        with open(path, "rb") as file:
            _read_members(file, lambda name: True)
    except _DAMAGE:
        return False
    return True


def _read(path: str | os.PathLike[str], is_wanted: Callable[[str], bool], kind: str, version: int | None) -> Arrays:
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
    if version is None:
        arrays.pop(_VERSION, None)
    else:
        _require_known_format(path, arrays, kind, version)
    return arrays


def _read_members(file: BinaryIO, is_wanted: Callable[[str], bool]) -> Arrays:
    """The format version and the wanted arrays of an archive."""
    size = file.seek(0, os.SEEK_END)
    if not zipfile.is_zipfile(file):
        raise ValueError("not a .npz archive, or its end is missing")
    arrays: Arrays = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _require_all_listed(file, size, members)
        wanted = [member for member in members if is_wanted(member.filename.removesuffix(_SUFFIX))]
        _require_room(wanted, size)
        for member in members:
            name = member.filename.removesuffix(_SUFFIX)
            if name == _VERSION or member in wanted:
                arrays[name] = _read_array(archive, member, size)
            else:
                archive.open(member).close()  # checks that it bears this name: a wanted one may have been altered
    return arrays


def _require_all_listed(file: BinaryIO, size: int, members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive whose directory has been altered so that it skips a member."""
    file.seek(max(0, size - _END.size))
    end = file.read()
    signature, _, _, _, count, _, _, comment = _END.unpack(end) if len(end) == _END.size else (b"", *[0] * 7)
    if signature != _END_SIGNATURE or comment:
        raise ValueError("something follows the end of the archive")
    if count not in (len(members), _MOST_COUNTED):
        raise ValueError(f"its directory lists {len(members)} arrays of {count}")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("its directory lists an array twice")


def _require_room(wanted: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse arrays that lie over each other, or are compressed to much less than measured numbers ever are."""
    stored, compressed = (
        sum(member.file_size for member in wanted if (member.compress_type == zipfile.ZIP_STORED) is is_stored)
        for is_stored in (True, False)
    )
    if stored > size or compressed > _ROOM + _GROWTH * size:
        raise ValueError(f"its arrays claim {stored + compressed} bytes, more than the file can hold")


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> NDArray[Any]:
    """One array; `size` is that of the file, which bounds what can truly be in it."""
    if not member.filename.endswith(_SUFFIX):
        raise ValueError(f"{member.filename!r} in it is not an array")
    if member.flag_bits & _ENCRYPTED:
        raise ValueError(f"{member.filename!r} in it is encrypted")
    if member.compress_type not in _METHODS:
        raise ValueError(f"{member.filename!r} in it is compressed by an unknown method")
    growth = 1 if member.compress_type == zipfile.ZIP_STORED else _DEFLATED_AT_MOST
    if member.compress_size > size or member.file_size > growth * member.compress_size:
        raise ValueError(f"{member.filename!r} in it claims {member.file_size} bytes, more than the file can hold")
    return _as_array(_read_whole(archive, member), member.filename)


def _read_whole(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytearray:
    """All bytes of a member; at its end, zipfile compares the checksum."""
    content = bytearray(member.file_size)
    place, view = 0, memoryview(content)
    with archive.open(member) as stream:
        while block := stream.read(_BLOCK):
            view[place : place + len(block)] = block
            place += len(block)
    if place < len(content):
        raise EOFError(f"{member.filename!r} in it ends early")
    return content


def _as_array(content: bytearray, name: str) -> NDArray[Any]:
    """The array in the bytes of a .npy file, without a copy."""
    stream = io.BytesIO(content[: 1 << 16])  # a header is shorter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy's parser, on its way to refusing the header
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


def _require_known_format(path: str | os.PathLike[str], arrays: Arrays, kind: str, version: int) -> None:
    found = arrays.pop(_VERSION, None)
    if found is None or found.shape != () or found.dtype.kind not in "iu" or found < 1:
        raise ValueError(
            f"`path` {str(path)!r} is not a {kind} file (it has no format version). Give a file made by `save`."
        )
    if found != version:
        age, remedy = ("a newer", "Update asyncsim.") if found > version else ("an older", f"Make the {kind} again.")
        raise ValueError(
            f"`path` {str(path)!r} was written by {age} asyncsim, or holds no {kind} (format {found}; this one reads "
            f"{version}). {remedy}"
        )


def _select(path: str | os.PathLike[str], arrays: Arrays, names: list[str], kind: str) -> Arrays:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"`path` {str(path)!r} lacks the column `{missing[0]}`. {_remedy(kind)}")
    return {name: arrays[name] for name in names}


def _remedy(kind: str) -> str:
    return f"Restore it from a copy or make the {kind} again."
