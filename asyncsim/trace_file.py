"""The trace file: a `.npz` of named columns with a format version."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from asyncsim import npz

FORMAT_VERSION = 1


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Write columns under their names, whole or not at all; errors as in `asyncsim.npz.write`."""
    npz.write(path, columns, version=FORMAT_VERSION)


def read_columns(path: str | os.PathLike[str], names: Iterable[str]) -> npz.Arrays:
    """Read the named columns of a trace file; errors as in `asyncsim.npz.read`."""
    return npz.read(path, names, kind="trace", version=FORMAT_VERSION)
