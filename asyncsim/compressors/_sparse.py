"""Sparsification: only some of the numbers are sent, the largest or random ones."""

from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from asyncsim._checks import require_integer
from asyncsim.compressors._compressor import Compressor, Params, State, bytes_of, checked_fraction, size_of, widest

INDEX_BYTES = 4  # an int32, as implementations send it
SEED_BYTES = 8  # from which the server draws the places again
EXACT = 9  # digits: 0.07·100 is 7, although it is 7.000000000000001 in floating point


@dataclass(frozen=True)
class _Sparse(Compressor, abstract=True):
    fraction: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if (self.fraction is None) == (self.k is None):
            found = "both" if self.k is not None else "neither"
            raise ValueError(
                f"Exactly one of `fraction` and `k` must be given; got {found}. Give `fraction=0.01`, say."
            )
        if self.k is None:
            object.__setattr__(self, "fraction", checked_fraction("fraction", self.fraction))
        else:
            object.__setattr__(self, "k", require_integer("k", self.k, least=1, remedy="Keep one number or more."))

    def kept(self, params: Params) -> int:
        """k, the numbers that are kept of an update of parameters like these; at least 1."""
        size = size_of(params)
        if self.k is None:
            assert self.fraction is not None, "One of the two is given."
            return max(1, ceil(round(self.fraction * size, EXACT)))
        if self.k > size:
            raise ValueError(
                f"`k` must be at most the number of parameters, {size}; got {self.k}. Give `fraction=` for a share."
            )
        return self.k


@dataclass(frozen=True)
class TopK(_Sparse):
    """Keep the k numbers of largest magnitude, of all tensors together, and set the others to 0.

    Biased; δ = k/d for d parameters, because the numbers that are dropped are the smallest. A message carries k numbers
    and their places, 4 bytes each; or all d numbers, if that is less.

    Args:
        fraction: k/d, in (0, 1]; rounded up to a whole k.
        k: The number itself, in place of `fraction`.

    Raises:
        ValueError: If not exactly one of the two is given, or it is out of range.

    Example:
        >>> import asyncsim as asim
        >>> compressor = asim.compressors.TopK(fraction=0.5)
        >>> compressor.compress((), jnp.array([3.0, -1.0, -4.0, 2.0]), ())[0].tolist()
        [3.0, 0.0, -4.0, 0.0]
        >>> params = jax.ShapeDtypeStruct((1000,), "float32")
        >>> asim.compressors.TopK(0.01).bytes(params), asim.compressors.TopK(0.01).delta(params)
        (80, 0.01)

    References:
        Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with memory"; Aji and Heafield 2017.
    """

    publication: ClassVar[str] = "stich2018sparsified"

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        """The largest numbers; of equal ones, those that stand first."""
        del key  # Nothing is drawn.
        vector, tree = ravel_pytree(update)
        return tree(only(vector, lax.top_k(jnp.abs(vector), self.kept(update))[1])), state

    def bytes(self, params: Params) -> int:
        """k numbers and k places; all d numbers where these are fewer bytes."""
        return min(self.kept(params) * (widest(params).itemsize + INDEX_BYTES), bytes_of(params))

    def delta(self, params: Params) -> float:
        """k/d."""
        return self.kept(params) / size_of(params)


@dataclass(frozen=True)
class RandK(_Sparse):
    """Keep k numbers at random, times d/k, and set the others to 0.

    Every set of k of the d parameters is as likely. Unbiased; ω = d/k - 1, and δ = k/d without the factor d/k, as error
    feedback uses it. A message carries k numbers and the 8 bytes of a seed, from which the server draws the same
    places: they need not be sent.

    Args:
        fraction: k/d, in (0, 1]; rounded up to a whole k.
        k: The number itself, in place of `fraction`.

    Raises:
        ValueError: If not exactly one of the two is given, or it is out of range.

    Example:
        >>> import asyncsim as asim
        >>> compressor = asim.compressors.RandK(k=1)
        >>> sorted(compressor.compress(jax.random.key(0), jnp.ones(4), ())[0].tolist())
        [0.0, 0.0, 0.0, 4.0]
        >>> params = jax.ShapeDtypeStruct((1000,), "float32")
        >>> asim.compressors.RandK(0.01).bytes(params), asim.compressors.RandK(0.01).omega(params)
        (48, 99.0)

    References:
        Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with memory".
    """

    publication: ClassVar[str] = "stich2018sparsified"
    draws: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        """The numbers at random places, times d/k."""
        vector, tree = ravel_pytree(update)
        k = self.kept(update)
        places = lax.top_k(jax.random.uniform(key, vector.shape, jnp.float32), k)[1]
        return tree(only(vector * (vector.size / k), places)), state

    def bytes(self, params: Params) -> int:
        """k numbers and a seed; all d numbers where these are fewer bytes."""
        return min(self.kept(params) * widest(params).itemsize + SEED_BYTES, bytes_of(params))

    def omega(self, params: Params) -> float:
        """d/k - 1."""
        return size_of(params) / self.kept(params) - 1


def only(vector: jax.Array, places: jax.Array) -> jax.Array:
    """The vector's numbers at these places, 0 elsewhere."""
    return jnp.zeros_like(vector).at[places].set(vector[places], unique_indices=True)
