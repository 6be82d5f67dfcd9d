"""Reads of different versions by parameter group: their columns in a trace, and their names in a flat table.

A trace without groups is hashed and replayed without any of this.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim.trace._error import TraceError

GROUP_READS = "group_read_version"
_COLUMN = re.compile(r"read_version\[(.+)\]")
_SHOWN = "read_version[{}]"
_REMEDY = "Give each group a name of its own, without brackets or commas."


def column_of(group: str) -> str:
    """Name of a group's column in a flat table."""
    return _SHOWN.format(group)


def group_of(column: str) -> str | None:
    """The group of a column of a flat table; None for any other column."""
    found = _COLUMN.fullmatch(column)
    return found[1] if found else None


def checked_names(groups: Any) -> tuple[str, ...]:
    """Names of groups, each once."""
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise TraceError("groups", "must be a sequence of names", _REMEDY, found=f"got {type(groups).__name__}")
    names = tuple(np.atleast_1d(groups).tolist() if isinstance(groups, np.ndarray) else groups)
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or set(name) & set('[],"'):
            raise TraceError("groups", "must be names", _REMEDY, found=f"got {name!r:.60}")
        if names.count(name) > 1:
            raise TraceError("groups", "must not name a group twice", _REMEDY, found=f"got {name!r} twice")
    return names


def checked_reads(groups: tuple[str, ...], values: ArrayLike | None, rows: int) -> NDArray[np.int32]:
    """The versions that groups were read at, a read-only (rows, groups) int32 array."""
    given = np.zeros((rows, 0), np.int32) if values is None else np.asarray(values)
    if not groups and given.size == 0:
        given = np.zeros((rows, 0), np.int32)  # also where rows of a trace without groups were left out
    if given.shape != (rows, len(groups)):
        rule = f"must have one row per commit and one column per group, shape {(rows, len(groups))}"
        remedy = "Name every group in `groups`." if groups else "Name the groups in `groups`."
        raise TraceError(GROUP_READS, rule, remedy, found=f"got shape {given.shape}")
    if given.size == 0:
        given = given.astype(np.int32)
    if not np.can_cast(given.dtype, np.int32, casting="same_kind"):
        raise TraceError(GROUP_READS, "must be whole numbers", "Convert it first.", found=f"got {given.dtype}")
    reads = given.astype(np.int32).view()
    reads.flags.writeable = False
    return reads


def reads_of(groups: Mapping[str, ArrayLike], rows: int) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Names and versions read, (rows, groups) int32, from a mapping of names to columns."""
    if not isinstance(groups, Mapping):
        remedy = 'Give {"stage0": versions, …}.'
        found = f"got {type(groups).__name__}"
        raise TraceError("groups", "must be a mapping from names to columns", remedy, found=found)
    names = checked_names(list(groups))
    columns = []
    for name in names:
        given = np.asarray(groups[name])
        whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given == np.trunc(given)).all()))
        if given.shape != (rows,) or not (whole or given.size == 0):
            found = f"got shape {given.shape} of {given.dtype}"
            remedy = "Give the server's version at which each commit's gradient was taken."
            raise TraceError(
                column_of(name), f"must be whole numbers, one for each of {rows} commits", remedy, found=found
            )
        columns.append(given.astype(np.int32))
    return names, np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int32)
