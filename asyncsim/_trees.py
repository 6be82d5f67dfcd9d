"""Numerics that rules and the engine share: choices between pytrees, precise sums, and the median."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from asyncsim._checks import brief


def tree_where(condition: Any, yes: Any, no: Any = None) -> Any:
    """Choose one of two pytrees, leaf by leaf. By default `no` is zeros, even where `yes` is not finite."""
    if no is None:
        return jax.tree.map(lambda leaf: jnp.where(condition, leaf, 0), yes)
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def tree_zeros_like(tree: Any) -> Any:
    """Return a pytree of zeros with the shapes and dtypes of another one."""
    return jax.tree.map(jnp.zeros_like, tree)


def widen(tree: Any) -> Any:
    """Convert a pytree to single precision at least, for sums over many commits."""

    def wide(leaf: Any) -> jax.Array:
        array = jnp.asarray(leaf)
        return array.astype(jnp.promote_types(array.dtype, jnp.float32))

    return jax.tree.map(wide, tree)


def as_precise(tree: Any, other: Any) -> Any:
    """Convert a pytree to the dtypes of another one of its structure, by which a sum becomes parameters again."""
    return jax.tree.map(lambda leaf, like: leaf.astype(jnp.result_type(like)), tree, other)


def weakly_typed(value: Any) -> jax.Array:
    """Return numbers as an array of JAX's weak type, which a product with parameters does not promote."""
    zeros = lax.full(jnp.shape(value), 0.0)
    return zeros.at[...].set(jnp.asarray(value, zeros.dtype))


def median(values: jax.Array) -> jax.Array:
    """Return the exact median of all numbers of an array, or NaN if any of them is NaN.

    Nothing is sorted: the bits of the median are decided one by one, by counting smaller numbers.
    """
    codes = _encode(jnp.ravel(values))
    below = (codes.size - 1) // 2
    lower = _order_statistic(codes, below)
    above = jnp.where(codes > lower, codes, ~jnp.zeros((), codes.dtype)).min()
    upper = jnp.where((codes <= lower).sum() > codes.size // 2, lower, above)
    middle = _decode(lower, values.dtype) / 2 + _decode(upper, values.dtype) / 2
    return jnp.where(jnp.isnan(values).any(), jnp.nan, middle).astype(values.dtype)


# Without `jit`, every call outside of a program would compile the loop again.
@partial(jax.jit, static_argnames="rank", inline=True)
def _order_statistic(codes: jax.Array, rank: int) -> jax.Array:
    bits = jnp.iinfo(codes.dtype).bits

    def decide(i: jax.Array, prefix: jax.Array) -> jax.Array:
        candidate = prefix | (jnp.ones((), codes.dtype) << (bits - 1 - i).astype(codes.dtype))
        return jnp.where((codes < candidate).sum() <= rank, candidate, prefix)

    return lax.fori_loop(0, bits, decide, jnp.zeros((), codes.dtype))


def _encode(values: jax.Array) -> jax.Array:
    """Convert floating-point numbers to unsigned integers in the same order."""
    bits = lax.bitcast_convert_type(values, jnp.dtype(f"uint{8 * values.dtype.itemsize}"))
    return jnp.where(bits & _sign(bits.dtype) != 0, ~bits, bits | _sign(bits.dtype))


def _decode(code: jax.Array, dtype: jnp.dtype) -> jax.Array:
    return lax.bitcast_convert_type(jnp.where(code & _sign(code.dtype) != 0, code ^ _sign(code.dtype), ~code), dtype)


def _sign(dtype: jnp.dtype) -> jax.Array:
    return jnp.ones((), dtype) << (jnp.iinfo(dtype).bits - 1)


def bytes_of(params: Any) -> int:
    """Count the bytes of all parameters, each number in full.

    Args:
        params: A pytree of arrays.

    Example:
        >>> bytes_of({"w": jnp.zeros((2, 3), "float32"), "b": jnp.zeros(3, "bfloat16")})
        30
    """
    leaves = jax.tree.leaves(params)
    if not leaves or not all(hasattr(leaf, "size") and hasattr(leaf, "dtype") for leaf in leaves):
        raise ValueError(f"`params` must be a pytree of arrays, at least one; got {brief(params)}.")
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
