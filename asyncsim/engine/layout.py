"""A pytree as one vector: one row a worker in one array is what lets the compiled loop update it in place."""

from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Packing:
    """How a pytree of arrays lies in a vector. Hashable, so that compiled functions can take it as a constant.

    Leaves of another dtype (a counter beside floats) are converted to the vector's and back; integers survive this
    up to 2²⁴ in float32.

    Example:
        >>> import jax.numpy as jnp
        >>> packing = Packing.of({"w": jnp.ones((2, 2)), "b": jnp.zeros(2)})
        >>> packing.size, packing.pack({"w": jnp.ones((2, 2)), "b": jnp.zeros(2)}).tolist()
        (6, [0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    """

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, tree: Any) -> "Packing":
        """The packing of trees like this one (arrays or `jax.ShapeDtypeStruct`)."""
        leaves, treedef = jax.tree.flatten(tree)
        return cls(treedef, tuple(leaf.shape for leaf in leaves), tuple(jnp.dtype(leaf.dtype) for leaf in leaves))

    @property
    def dtype(self) -> Any:
        """The vector's dtype: the widest of the leaves'."""
        return jnp.result_type(*self.dtypes) if self.dtypes else jnp.result_type(float)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers in each leaf."""
        return tuple(prod(shape) for shape in self.shapes)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each leaf begins in the vector."""
        return tuple(accumulate(self.sizes, initial=0))[:-1]

    @property
    def size(self) -> int:
        """Numbers in the vector."""
        return sum(self.sizes)

    def pack(self, tree: Any) -> jax.Array:
        """The tree's numbers in one vector of shape (size,)."""
        leaves = [jnp.ravel(leaf).astype(self.dtype) for leaf in jax.tree.leaves(tree)]
        return jnp.concatenate(leaves) if leaves else jnp.zeros(0, self.dtype)

    def unpack(self, vector: jax.Array) -> Any:
        """The tree whose numbers stand in a vector of shape (size,)."""
        leaves = [
            vector[offset : offset + size].reshape(shape).astype(dtype)
            for offset, size, shape, dtype in zip(self.offsets, self.sizes, self.shapes, self.dtypes, strict=True)
        ]
        return jax.tree.unflatten(self.treedef, leaves)
