"""Hashes of bytes, cut to the length of a digest."""

import hashlib
import re

import numpy as np

DIGEST_DIGITS = 16  # hexadecimal: 64 bits tell any number of studies apart, and a name stays readable
DIGEST = f"[0-9a-f]{{{DIGEST_DIGITS}}}"  # a regular expression


def hash_parts(*parts: bytes | memoryview | str | np.ndarray) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of all parts, one after another."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(np.ascontiguousarray(part).view(np.uint8).data)  # A contiguous array is not copied.
        else:
            total.update(part.encode() if isinstance(part, str) else part)
    return total.hexdigest()[:DIGEST_DIGITS]


def is_digest(name: object) -> bool:
    """Tell whether a name from a file can be that of an entry, and leads nowhere else, as "../.." would."""
    return isinstance(name, str) and re.fullmatch(DIGEST, name) is not None
