"""Hashes of contents."""

import hashlib

import numpy as np
import pytest

from asyncsim.files._hash import digest


@pytest.mark.quick
def test_digest_is_that_of_the_bytes() -> None:
    column = np.arange(6, dtype=np.int32)
    expected = hashlib.sha256(b"x" + column.tobytes()).hexdigest()[:16]
    assert digest("x", column) == digest(b"x", column.tobytes()) == expected
    assert digest(np.arange(12, dtype=np.int32)[::2]) == digest(2 * column)
    assert digest(np.zeros((0, 2))) == digest()
