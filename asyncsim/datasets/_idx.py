"""IDX, the file format of MNIST and its relatives: a magic number, the sizes of the axes, then the bytes."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTES = 0x0800  # third byte of the magic number: kind of element; fourth: number of axes


def read_idx(path: Path, axes: int) -> np.ndarray:
    """The unsigned bytes in an IDX file, gzipped or not, as a read-only array."""
    content = _uncompressed(path)
    magic, start = int.from_bytes(content[:4], "big"), 4 + 4 * axes
    if len(content) >= 4 and magic != UNSIGNED_BYTES + axes:
        raise _damaged(path, f"its magic number is {magic:#010x}, not {UNSIGNED_BYTES + axes:#010x}")
    if len(content) < start:
        raise _damaged(path, f"it ends in its header, after {len(content)} bytes")
    shape = struct.unpack(f">{axes}I", content[4:start])
    expected, found = math.prod(shape), len(content) - start
    if found != expected:
        what = "is truncated" if found < expected else "has trailing bytes"
        raise _damaged(path, f"it {what}: {found} bytes of data instead of the {expected} in its header")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _uncompressed(path: Path) -> bytes:
    content = path.read_bytes()
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, struct.error, zlib.error) as error:
        raise _damaged(path, f"its gzip compression is damaged ({error})") from None


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(f"{str(path)!r} is not a whole IDX file: {reason}. Fetch it again.")
