"""Choosing between pytrees by a traced condition."""

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
