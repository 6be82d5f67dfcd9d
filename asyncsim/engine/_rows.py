"""Rows of the arrays of a compiled replay: how one is read, and how one is put back, at a traced index."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def take_row(rows: jax.Array, worker: jax.Array, opaque_true: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return row `worker`, read exactly once, and the slot of its successor, which is the same index."""
    # XLA cannot tell that the condition always holds, so it does not fuse the reading into each use of the row.
    return lax.cond(
        opaque_true,
        lambda: (at(rows, worker), worker),
        lambda: (jnp.zeros(rows.shape[1:], rows.dtype), jnp.zeros_like(worker)),
    )


def put_row(rows: jax.Array, parts: Any, slot: jax.Array, offsets: Sequence[int]) -> jax.Array:
    """Put `parts`, leaves of the worker's new row of shape (seeds, …), in the row at `offsets`, and return the rows."""
    for part, offset in zip(jax.tree.leaves(parts), offsets, strict=True):
        flat = part.reshape(1, rows.shape[1], -1).astype(rows.dtype)
        start = (slot, jnp.int32(0), jnp.int32(offset))
        rows = lax.dynamic_update_slice(rows, flat, start, allow_negative_indices=False)
    return rows


def at(array: jax.Array, index: jax.Array) -> jax.Array:
    # The promise that indices are not negative saves a comparison and a select in each use.
    return lax.dynamic_index_in_dim(array, index, keepdims=False, allow_negative_indices=False)


def version_at(columns: Any, index: jax.Array) -> Any:
    """Return the version at an index of a trace's columns, or () where they have none because nothing is scheduled."""
    return columns.version if isinstance(columns.version, tuple) else at(columns.version, index)


def put_at(array: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
    """Return `array` with `array[index] = value`, for a traced index that is never negative."""
    return lax.dynamic_update_index_in_dim(array, value, index, 0, allow_negative_indices=False)
