"""Choosing between pytrees by a traced condition, and the precision of sums."""

from typing import Any

import jax
import jax.numpy as jnp


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """One of two pytrees of the same structure and shapes, leaf by leaf.

    Args:
        condition: Boolean scalar, possibly traced.
        yes: Returned where the condition is true.
        no: Returned where it is false.

    Example:
        >>> choose(jnp.bool_(False), {"x": jnp.ones(2)}, {"x": jnp.zeros(2)})["x"].tolist()
        [0.0, 0.0]
    """
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def keep_if(condition: Any, tree: Any) -> Any:
    """The pytree where the condition is true, else zeros like it, even where the pytree is not finite.

    Example:
        >>> keep_if(jnp.bool_(False), {"x": jnp.array([1.0, jnp.nan])})["x"].tolist()
        [0.0, 0.0]
    """
    return jax.tree.map(lambda leaf: jnp.where(condition, leaf, 0), tree)


def widen(tree: Any) -> Any:
    """The pytree in single precision at least: what is summed over many commits.

    256 + 1 is 256 in bfloat16, and 2048 + 1 is 2048 in float16.

    Example:
        >>> widen({"x": jnp.zeros(2, jnp.bfloat16)})["x"].dtype
        dtype('float32')
    """

    def wide(leaf: Any) -> jax.Array:
        array = jnp.asarray(leaf)
        return array.astype(jnp.promote_types(array.dtype, jnp.float32))

    return jax.tree.map(wide, tree)


def as_precise(tree: Any, other: Any) -> Any:
    """The pytree with the dtypes of another one of its structure: how a sum becomes parameters again.

    Example:
        >>> as_precise({"x": jnp.zeros(2)}, {"x": jnp.zeros(2, jnp.bfloat16)})["x"].dtype
        dtype(bfloat16)
    """
    return jax.tree.map(lambda leaf, like: leaf.astype(jnp.result_type(like)), tree, other)
