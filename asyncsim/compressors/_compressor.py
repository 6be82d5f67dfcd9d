"""The base of all compressors, which replace an update by one that takes fewer bytes to send."""

from abc import ABC, abstractmethod
from math import ceil
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from asyncsim._checks import brief, require_positive
from asyncsim._trees import bytes_of
from asyncsim.components._component import Component
from asyncsim.components._families import Named

Params = Any  # any pytree of floating-point arrays, or of their shapes and dtypes (`jax.ShapeDtypeStruct`)
State = Any  # any pytree

BITS = 8  # in a byte


class Compressor(Component, Named, ABC, family="compressors", example="TopK(0.01)"):
    """A map C from an update to its approximation, which the server makes of a message of fewer bytes.

    A compressor is *unbiased* with variance ω if E[C(x)] = x and E‖C(x) - x‖² ≤ ω·‖x‖², and a *contraction* with δ in
    (0, 1] if E‖C(x) - x‖² ≤ (1 - δ)·‖x‖², for every x. An unbiased one becomes a contraction with δ = 1/(1 + ω) when it
    is divided by 1 + ω. Error feedback needs a contraction.

    A compressor of your own derives from this class and annotates its arguments. Its code stands in a module, not in a
    closure, so that equal compressors share a compiled program. Values out of range are
    refused with a ValueError.

    Attributes:
        publication: Key of its publication in `citations.bib`, or None.
        draws: Whether `compress` draws from its key.
        unbiased: Whether E[C(x)] = x.
        whole: Whether C treats all parameters as one vector, not looking at each tensor's shape.
    """

    publication: ClassVar[str | None] = None
    draws = False
    unbiased = False
    whole = True

    def start(self, params: Params) -> State:
        """Return the worker's first state for its compressor, by default nothing."""
        return ()

    @abstractmethod
    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        """C(update), of the same structure and dtypes, and the worker's next state. `key` is () without `draws`."""

    @abstractmethod
    def bytes(self, params: Params) -> int:
        """Count the bytes of the message that stands for an update of parameters like these."""

    def omega(self, params: Params) -> float | None:
        """ω for updates of parameters like these. None for a compressor that is not unbiased."""
        return None

    def delta(self, params: Params) -> float:
        """δ for updates of parameters like these: of C itself, or of C/(1 + ω) if it is unbiased."""
        omega = self.omega(params)
        if omega is None:
            raise ValueError(
                f"`delta` of {type(self).__name__} must be defined, because a compressor without an `omega` is biased. "
                "Return δ in (0, 1] with E‖C(x) - x‖² ≤ (1 - δ)·‖x‖² for every x."
            )
        return 1 / (1 + omega)


class Identity(Compressor):
    """C(x) = x: no compression, bit for bit, for comparison.

    ω = 0, δ = 1, and as many bytes as the update.

    Example:
        >>> import asyncsim as asim
        >>> params = {"w": jax.ShapeDtypeStruct((10, 5), "float32")}
        >>> asim.compressors.Identity().bytes(params), asim.compressors.Identity().delta(params)
        (200, 1.0)
    """

    publication = "karimireddy2019feedback"
    unbiased = True

    def compress(self, key: Any, update: Params, state: State) -> tuple[Params, State]:
        return update, state

    def bytes(self, params: Params) -> int:
        return bytes_of(params)

    def omega(self, params: Params) -> float:
        return 0.0


def size_of(params: Params) -> int:
    """Count the parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def widest(params: Params) -> Any:
    """Return the dtype in which single numbers, such as a norm, are sent: the widest of the parameters'."""
    return jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(params)))


def packed(bits: float) -> int:
    """Whole bytes that hold a number of bits."""
    return ceil(bits / BITS)


def checked_fraction(name: str, value: Any) -> float:
    """Return a share of the parameters, in (0, 1]."""
    share = require_positive(name, value, remedy="Give a share of the parameters, such as 0.01.")
    if share > 1:
        raise ValueError(
            f"`{name}` must be at most 1, all parameters; got {brief(value)}. Give 0.01 for one in a hundred."
        )
    return share
