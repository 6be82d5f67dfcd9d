"""A worker's local steps between its read and its commit, inside the compiled loop."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from asyncsim.engine.commit import Layout, Row, as_seen, first_row, sees_vector
from asyncsim.engine.layout import Packing
from asyncsim.rules import Rule


def work_packing(rule: Rule, params: Packing) -> Packing | None:
    """How `(displacement, state)` lie in a vector; None for a rule without local steps."""
    if rule.local_step is None:
        return None

    def made(vector: jax.Array) -> tuple[Any, Any]:
        row = first_row(rule, params, (), vector)
        return row.read, row.state

    return Packing.of(jax.eval_shape(made, jax.ShapeDtypeStruct((params.size,), params.dtype)))


def take_steps(
    layout: Layout, gradient: Callable[..., Any], rule: Rule, row: jax.Array, batches: Any, keys: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Mean loss over the window, and the packed displacement and state that its steps leave, for one seed.

    Args:
        layout: The compile-time side.
        gradient: `(params, batch, key) -> (loss, gradient)`.
        rule: A rule with a local step.
        row: The worker's packed `Row`.
        batches: Mini-batches, leading axis `window`; or None.
        keys: (window,) random keys.
    """
    assert rule.local_step is not None
    assert layout.work is not None
    params, step = layout.params, rule.local_step
    kept: Row = layout.row.unpack(row)
    vector = sees_vector(rule, params)

    def one(carry: tuple[Any, Any], own: tuple[Any, jax.Array]) -> tuple[tuple[Any, Any], jax.Array]:
        x, state = carry
        loss, slope = gradient(params.unpack(x) if vector else x, *own)
        new = step(rule.hyper, x, as_seen(rule, params, params.pack(slope)), state)
        return jax.tree.map(lambda value, before: jnp.asarray(value, before.dtype), new, carry), loss

    (x, state), losses = lax.scan(one, (kept.read, kept.state), (batches, keys))
    displacement = jax.tree.map(jnp.subtract, x, kept.read)
    return losses.mean(), layout.work.pack((displacement, state))
