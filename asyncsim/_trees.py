"""Choosing between pytrees by a traced condition, and the precision of sums."""

from typing import Any

import jax
import jax.numpy as jnp


def tree_where(condition: Any, yes: Any, no: Any = None) -> Any:
    """One of two pytrees, leaf by leaf; without `no` it is zeros, even where `yes` is not finite."""
    if no is None:
        return jax.tree.map(lambda leaf: jnp.where(condition, leaf, 0), yes)
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def widen(tree: Any) -> Any:
    """The pytree in single precision at least: what is summed over many commits."""

    def wide(leaf: Any) -> jax.Array:
        array = jnp.asarray(leaf)
        return array.astype(jnp.promote_types(array.dtype, jnp.float32))

    return jax.tree.map(wide, tree)


def as_precise(tree: Any, other: Any) -> Any:
    """The pytree with the dtypes of another one of its structure: how a sum becomes parameters again."""
    return jax.tree.map(lambda leaf, like: leaf.astype(jnp.result_type(like)), tree, other)
