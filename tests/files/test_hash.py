"""Hashes of contents."""

import hashlib

import numpy as np
import pytest

from asyncsim.files._hash import hash_parts


@pytest.mark.quick
def test_digest_is_that_of_the_bytes() -> None:
    column = np.arange(6, dtype=np.int32)
    expected = hashlib.sha256(b"x" + column.tobytes()).hexdigest()[:16]
    assert hash_parts("x", column) == hash_parts(b"x", column.tobytes()) == expected
    assert hash_parts(np.arange(12, dtype=np.int32)[::2]) == hash_parts(2 * column)
    assert hash_parts(np.zeros((0, 2))) == hash_parts()
