"""Adam in the eigenbasis of each matrix's gradients: the optimiser "soap", which optax does not have."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

INTERVAL = 10  # steps from one basis to the next: eigenvectors cost more than all else
DECAY = 0.95  # share of the averages that is kept from step to step: they look back over some 20 gradients
ROUNDING = 10  # times the size of a matrix and the precision: the relative error of Uᵀ·G·V, with room


class Sides(NamedTuple):
    """Two matrices that belong to a parameter of m rows and n columns."""

    left: jax.Array  # (m, m)
    right: jax.Array  # (n, n)


class EigenbasisState(NamedTuple):
    """The state of the optimiser: pytrees like the parameters, with None in place of all that is no matrix."""

    averages: Any  # `Sides` of G·Gᵀ and Gᵀ·G
    basis: Any  # `Sides` of their eigenvectors U and V, in columns
    adam: Any  # optax's state, whose moments are those of Uᵀ·G·V


@cache
def eigenbasis_adam(interval: int = INTERVAL, decay: float = DECAY) -> Any:
    """Return Adam in the eigenbasis with a step size of 1, always the same object for the same numbers.

    A ← β·A + (1 - β)·G·Gᵀ and B ← β·B + (1 - β)·Gᵀ·G for each matrix, and at the first step and every `interval` steps
    U and V become their eigenvectors. The step is U·Adam(Uᵀ·G·V)·Vᵀ. The first moment is carried over to a new basis,
    and the second one belongs to the first, second, … eigenvector. All else takes Adam's step.
    """
    import optax

    adam = optax.scale_by_adam()

    def init(params: Any) -> EigenbasisState:
        averages = jax.tree.map(lambda leaf: _squares(jnp.zeros_like(leaf)), params)
        basis = jax.tree.map(lambda average: jnp.eye(len(average), dtype=average.dtype), averages)
        return EigenbasisState(averages, basis, adam.init(params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, EigenbasisState]:
        del params  # Adam does not depend on them.
        squares = jax.tree.map(_squares, updates)
        averages = jax.tree.map(lambda a, new: decay * a + (1 - decay) * new, state.averages, squares)

        def renew() -> tuple[Any, Any]:
            basis = jax.tree.map(lambda average: jnp.linalg.eigh(average)[1], averages)
            return basis, jax.tree.map(_enter, jax.tree.map(_leave, state.adam.mu, state.basis), basis)

        is_renewal = state.adam.count % interval == 0
        basis, moment = lax.cond(is_renewal, renew, lambda: (state.basis, state.adam.mu))
        rotated = jax.tree.map(_enter, updates, basis)
        step, inner = adam.update(rotated, state.adam._replace(mu=moment))
        return jax.tree.map(lambda u, sides: -_leave(u, sides), step, basis), EigenbasisState(averages, basis, inner)

    return optax.GradientTransformation(init, update)


def _squares(leaf: jax.Array) -> Sides | None:
    return Sides(leaf @ leaf.T, leaf.T @ leaf) if leaf.ndim == 2 else None


def _enter(leaf: jax.Array, basis: Sides | None) -> jax.Array:
    """Return Uᵀ·X·V, with zeros in place of rounding errors, of which Adam would make whole steps."""
    if basis is None:
        return leaf
    rotated = basis.left.T @ leaf @ basis.right
    rounding = ROUNDING * max(leaf.shape) * jnp.finfo(leaf.dtype).eps * jnp.linalg.norm(leaf)
    return jnp.where(abs(rotated) <= rounding, 0, rotated)


def _leave(leaf: jax.Array, basis: Sides | None) -> jax.Array:
    return leaf if basis is None else basis.left @ leaf @ basis.right.T
