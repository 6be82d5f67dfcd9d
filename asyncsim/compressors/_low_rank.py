"""Low-rank approximation of each matrix: PowerSGD."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from asyncsim._checks import require_count
from asyncsim._trees import widen
from asyncsim.compressors._compressor import Compressor, Params, State

SEED = 0  # of the first Q, which is the same on every worker
ROUNDED = 10  # times the error that rounding makes: a column of Q no longer than this is nothing but rounding


class LowRank(Compressor):
    """Approximate every matrix by one of rank r, with one step of power iteration from the last Q (PowerSGD).

    P ← orthonormalised M·Q, Q ← Mᵀ·P, C(M) = P·Qᵀ: the projection of M on the span of P, so ‖C(M) - M‖ ≤ ‖M‖. Q starts
    with independent normal numbers, the same on every worker, and stays with the worker from commit to commit (the warm
    start): where M does not change, C(M) comes to its best approximation of rank r. A tensor of more than two axes is a
    matrix with its last axis as columns. Vectors, and matrices for which P and Q together are no smaller, are sent as
    they are. A message carries P and Q, r·(m + n) numbers.

    Biased. With a fresh Q, δ = r/min(m, n) in the mean over Q, for the least favourable matrix among those that are
    compressed. With a warm one there is no bound above 0, but in practice far more is kept.

    Args:
        rank: r ≥ 1.

    Example:
        A matrix of rank 1 is sent exactly:

        >>> import asyncsim as asim
        >>> compressor, matrix = asim.compressors.LowRank(rank=1), jnp.outer(jnp.arange(8.0), jnp.ones(8))
        >>> compressed, _ = compressor.compress((), matrix, compressor.start(matrix))
        >>> bool(jnp.allclose(compressed, matrix, atol=1e-5))
        True
        >>> compressor.bytes({"w": jnp.zeros((100, 50)), "b": jnp.zeros(50)})
        800

    References:
        Vogels, Karimireddy and Jaggi 2019, "PowerSGD: Practical low-rank gradient compression for distributed
        optimization".
    """

    rank: Annotated[int, require_count, "1 sends one column and one row of each matrix."] = 1

    publication = "vogels2019powersgd"
    whole = False

    def start(self, params: Params) -> State:
        leaves = jax.tree.leaves(params)
        return tuple(self._first(place, leaf) if self._applies(leaf) else () for place, leaf in enumerate(leaves))

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        leaves, tree = jax.tree.flatten(update)
        done = [
            self._approximated(leaf, q) if self._applies(leaf) else (leaf, ())
            for leaf, q in zip(leaves, state, strict=True)
        ]
        return jax.tree.unflatten(tree, [leaf for leaf, _ in done]), tuple(q for _, q in done)

    def bytes(self, params: Params) -> int:
        leaves = jax.tree.leaves(params)
        return sum(
            leaf.dtype.itemsize * (self.rank * sum(as_matrix(leaf)) if self._applies(leaf) else leaf.size)
            for leaf in leaves
        )

    def delta(self, params: Params) -> float:
        return min(
            (self.rank / min(as_matrix(leaf)) for leaf in jax.tree.leaves(params) if self._applies(leaf)), default=1.0
        )

    def _applies(self, leaf: Any) -> bool:
        """Return whether a tensor is sent as P and Q."""
        rows, columns = as_matrix(leaf)
        return self.rank * (rows + columns) < rows * columns

    def _first(self, place: int, leaf: Any) -> jax.Array:
        """Return the first Q of the tensor at this place, (columns, r)."""
        shape = (as_matrix(leaf)[1], self.rank)
        return jax.random.normal(jax.random.fold_in(jax.random.key(SEED), place), shape, widen(leaf).dtype)

    def _approximated(self, leaf: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """P·Qᵀ, and Q. A column of Q that holds nothing but rounding stays unchanged, or the search would end."""
        matrix = widen(leaf).reshape(as_matrix(leaf))
        p, _ = jnp.linalg.qr(matrix @ q)
        after = matrix.T @ p
        rounding = ROUNDED * jnp.finfo(matrix.dtype).eps * jnp.linalg.norm(matrix)
        empty = jnp.linalg.norm(after, axis=0, keepdims=True) <= rounding
        compressed = (p @ after.T).reshape(leaf.shape).astype(leaf.dtype)
        return compressed, jnp.where(jnp.broadcast_to(empty, after.shape), q, after)


def as_matrix(leaf: Any) -> tuple[int, int]:
    """Return rows and columns of a tensor as a matrix, last axis as columns, or (size, 1) for a vector or number."""
    columns = leaf.shape[-1] if len(leaf.shape) > 1 else 1
    return (leaf.size // columns if columns else 0), columns
