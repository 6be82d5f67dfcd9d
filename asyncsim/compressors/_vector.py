"""Compressors of all parameters as one vector: some of the numbers, or every number in fewer bits."""

from math import ceil, sqrt
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from asyncsim._checks import brief, require_count
from asyncsim._trees import bytes_of, widen
from asyncsim.compressors._compressor import Compressor, Params, State, checked_fraction, packed, size_of, widest

INDEX_BYTES = 4  # an int32, as implementations send it
SEED_BYTES = 8  # from which the server draws the places again
EXACT = 9  # digits: 0.07·100 is 7, although it is 7.000000000000001 in floating point


class _Sparse(Compressor, named=False):
    fraction: Annotated[float, checked_fraction] | None = None
    k: Annotated[int, require_count, "Keep one number or more."] | None = None
    alternatives: ClassVar[tuple[str, ...]] = ("fraction", "k")  # of which one that is given replaces the other

    def check(self) -> None:
        if (self.fraction is None) == (self.k is None):
            received = "both" if self.k is not None else "neither"
            raise ValueError(
                f"Exactly one of `fraction` and `k` must be given; got {received}. Give `fraction=0.01`, say."
            )

    def kept(self, params: Params) -> int:
        """k, the numbers that are kept of an update of parameters like these, at least 1."""
        size = size_of(params)
        if self.k is None:
            assert self.fraction is not None, "One of the two is given."
            return max(1, ceil(round(self.fraction * size, EXACT)))
        if self.k > size:
            raise ValueError(
                f"`k` must be at most the number of parameters, {size}; got {brief(self.k)}. Give `fraction=` for a "
                "share."
            )
        return self.k


class TopK(_Sparse):
    """Keep the k numbers of largest magnitude, of all tensors together, and set the others to 0.

    Biased, with δ = k/d for d parameters, because the numbers that are dropped are the smallest. A message carries k
    numbers and their places, 4 bytes each, or all d numbers, if that is less.

    Args:
        fraction: k/d, in (0, 1], rounded up to a whole k.
        k: The number itself, in place of `fraction`.

    Example:
        >>> import asyncsim as asim
        >>> compressor = asim.compressors.TopK(fraction=0.5)
        >>> compressor.compress((), jnp.array([3.0, -1.0, -4.0, 2.0]), ())[0].tolist()
        [3.0, 0.0, -4.0, 0.0]
        >>> params = jax.ShapeDtypeStruct((1000,), "float32")
        >>> asim.compressors.TopK(0.01).bytes(params), asim.compressors.TopK(0.01).delta(params)
        (80, 0.01)

    References:
        Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with memory". Aji and Heafield 2017.
    """

    publication = "stich2018sparsified"

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        vector, tree = ravel_pytree(update)
        return tree(only(vector, lax.top_k(jnp.abs(vector), self.kept(update))[1])), state

    def bytes(self, params: Params) -> int:
        return min(self.kept(params) * (widest(params).itemsize + INDEX_BYTES), bytes_of(params))

    def delta(self, params: Params) -> float:
        return self.kept(params) / size_of(params)


class RandK(_Sparse):
    """Keep k numbers at random, times d/k, and set the others to 0.

    Every set of k of the d parameters is as likely. Unbiased, with ω = d/k - 1, and δ = k/d without the factor d/k, as
    error feedback uses it. A message carries k numbers and the 8 bytes of a seed, from which the server draws the same
    places: they need not be sent.

    Args:
        fraction, k: As in `TopK`.

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

    publication = "stich2018sparsified"
    draws = True
    unbiased = True

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        vector, tree = ravel_pytree(update)
        k = self.kept(update)
        places = lax.top_k(jax.random.uniform(key, vector.shape, jnp.float32), k)[1]
        return tree(only(vector * (vector.size / k), places)), state

    def bytes(self, params: Params) -> int:
        return min(self.kept(params) * widest(params).itemsize + SEED_BYTES, bytes_of(params))

    def omega(self, params: Params) -> float:
        return size_of(params) / self.kept(params) - 1


def only(vector: jax.Array, places: jax.Array) -> jax.Array:
    """Return the vector's numbers at these places, 0 elsewhere."""
    return jnp.zeros_like(vector).at[places].set(vector[places], unique_indices=True)


UNSIGNED = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}  # bytes -> integers of as many


class QSGD(Compressor):
    """Round every |x_i|/‖x‖ at random to one of the levels 0, 1/s, 2/s, …, 1, so that its mean is right.

    C(x)_i = ‖x‖₂·sign(x_i)·ξ_i with ξ_i = (l + 1)/s with probability s·|x_i|/‖x‖₂ - l, else l/s, where l is the level
    below. ‖x‖ is the norm of all tensors together. Unbiased, with ω = min(d/s², √d/s), lemma 3.1. A message carries the
    norm and ⌈log₂(2s + 1)⌉ bits for each sign and level. The publication's variable-length (Elias) code takes fewer
    where most levels are 0, but it is not counted here.

    Args:
        levels: s ≥ 1, where 1 is ternary.

    Example:
        >>> import asyncsim as asim
        >>> compressor = asim.compressors.QSGD(levels=1)
        >>> compressor.compress(jax.random.key(0), jnp.array([0.0, -4.0]), ())[0].tolist()
        [0.0, -4.0]
        >>> params = jax.ShapeDtypeStruct((10_000,), "float32")
        >>> asim.compressors.QSGD(7).bytes(params), round(asim.compressors.QSGD(7).omega(params), 2)
        (5004, 14.29)

    References:
        Alistarh, Grubic, Li, Tomioka and Vojnovic 2017, "QSGD: Communication-efficient SGD via gradient quantization
        and encoding".
    """

    publication = "alistarh2017qsgd"
    draws = True
    unbiased = True

    levels: Annotated[int, require_count, "1 sends a sign or nothing of each number."] = 1

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        narrow, tree = ravel_pytree(update)
        vector = widen(narrow)
        norm = jnp.linalg.norm(vector)
        scaled = self.levels * jnp.abs(vector) / jnp.where(norm == 0, 1, norm)
        below = jnp.floor(scaled)
        level = below + (jax.random.uniform(key, vector.shape, jnp.float32) < scaled - below)
        return tree((norm / self.levels * jnp.sign(vector) * level).astype(narrow.dtype)), state

    def bytes(self, params: Params) -> int:
        return widest(params).itemsize + packed(size_of(params) * (2 * self.levels).bit_length())

    def omega(self, params: Params) -> float:
        size = size_of(params)
        return min(size / self.levels**2, sqrt(size) / self.levels)


class ScaledSign(Compressor):
    """Send the signs, and the mean magnitude: C(x) = (‖x‖₁/d)·sign(x), over all tensors together.

    Biased, with ‖C(x) - x‖² = (1 - ‖x‖₁²/(d·‖x‖₂²))·‖x‖², so δ = 1/d at worst, where a single number is not 0. It is
    2/π in the mean for many independent normal numbers. The sign of 0 is +1. A message carries one bit for each number
    and the mean magnitude.

    Example:
        >>> import asyncsim as asim
        >>> asim.compressors.ScaledSign().compress((), jnp.array([3.0, -1.0]), ())[0].tolist()
        [2.0, -2.0]
        >>> asim.compressors.ScaledSign().bytes(jax.ShapeDtypeStruct((1000,), "float32"))
        129

    References:
        Karimireddy, Rebjock, Stich and Jaggi 2019, "Error feedback fixes SignSGD and other gradient compression
        schemes". Seide et al. 2014, with a mean for each sign.
    """

    publication = "karimireddy2019feedback"

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        vector, tree = ravel_pytree(update)
        scale = widen(jnp.abs(vector)).mean().astype(vector.dtype)
        return tree(jnp.where(vector < 0, -scale, scale)), state

    def bytes(self, params: Params) -> int:
        return widest(params).itemsize + packed(size_of(params))

    def delta(self, params: Params) -> float:
        return 1 / size_of(params)


class Natural(Compressor):
    """Round every number at random to one of the two nearest powers of 2, so that its mean is right.

    With 2^a ≤ |x_i| ≤ 2^(a+1), C(x)_i = sign(x_i)·2^(a+1) with probability |x_i|/2^a - 1, else sign(x_i)·2^a. Unbiased,
    with ω = 1/8 for any d. A message carries a sign and an exponent of each number: 9 bits of a float32 or bfloat16, 12
    of a float64, 6 of a float16. Numbers below the smallest normal one become 0.

    Example:
        >>> import asyncsim as asim
        >>> asim.compressors.Natural().compress(jax.random.key(0), jnp.array([4.0, -0.75]), ())[0].tolist()
        [4.0, -0.5]
        >>> asim.compressors.Natural().bytes(jax.ShapeDtypeStruct((1000,), "float32"))
        1125

    References:
        Horváth, Ho, Horváth, Sahu, Canini and Richtárik 2022, "Natural compression for distributed deep learning".
    """

    publication = "horvath2022natural"
    draws = True
    unbiased = True

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        vector, tree = ravel_pytree(update)
        mantissa = jnp.finfo(vector.dtype).nmant
        bits = lax.bitcast_convert_type(vector, UNSIGNED[vector.dtype.itemsize])
        below = lax.bitcast_convert_type(bits >> mantissa << mantissa, vector.dtype)
        rest = (bits & ((1 << mantissa) - 1)).astype(vector.dtype) / 2**mantissa
        up = jax.random.uniform(key, vector.shape, jnp.float32) < rest
        return tree(jnp.where(up, 2 * below, below)), state

    def bytes(self, params: Params) -> int:
        return sum(packed(leaf.size * (1 + jnp.finfo(leaf.dtype).nexp)) for leaf in jax.tree.leaves(params))

    def omega(self, params: Params) -> float:
        return 1 / 8
