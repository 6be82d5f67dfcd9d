"""Arrays that nobody can change: those of the user are copied once, those that the library makes are marked.

An object, its digest and its results must not change when the user changes an array afterwards. A view would, and so
would a memory-mapped file or an array that JAX was given, because `jax.device_put` uses aligned memory as it is.
"""

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from asyncsim._checks import refuse_mask
from asyncsim.components._remember import PerObject

ALIGNMENT = 64  # bytes of which an address is a multiple where JAX needs no copy of its own on a CPU
SIMPLE = {bool, int, float, str, type(None)}  # types of most values, which hold no array
LEAST_ALIGNED = 65_536  # bytes of an array whose copy is aligned

_owners = PerObject()  # arrays that own frozen memory, and JAX arrays that were copied -> results about their views


def frozen(name: str, value: Any) -> Any:
    """Copy the arrays of a value, also those in lists, tuples and dictionaries, unless nobody can change them."""
    if type(value) in SIMPLE:
        return value
    return _map_arrays(partial(_frozen_array, name), value)


def owned(value: Any) -> Any:
    """Mark arrays that the library has just made, also those in lists, tuples and dictionaries, without a copy."""
    return _map_arrays(_owned_array, value)


def empty_aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array without values yet, whose memory JAX will use as it is on a CPU once the array is frozen."""
    memory = np.empty(math.prod(shape) * np.dtype(dtype).itemsize + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, memory, offset=-memory.ctypes.data % ALIGNMENT)


def cache_of(array: np.ndarray) -> dict[Any, Any] | None:
    """Return the dictionary for results about the memory of a frozen array, or None for another array."""
    return None if array.flags.writeable else _owners.get(id(_owner(array)))


class Frozen:
    """Base class of objects that hold frozen arrays: those of a copy or a pickle are frozen as well."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: owned(value) for name, value in state.items()})


def _map_arrays(change: Callable[[Any], Any], value: Any) -> Any:
    """Replace the arrays of a value. Lists and dictionaries are new ones, so that those of the user may change."""
    if isinstance(value, np.ndarray) or ("jax" in sys.modules and isinstance(value, sys.modules["jax"].Array)):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(_map_arrays(change, item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)(*(_map_arrays(change, item) for item in value))
    return {key: _map_arrays(change, item) for key, item in value.items()} if type(value) is dict else value


def _frozen_array(name: str, array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return array if cache_of(array) is not None else _owned_array(_copy(refuse_mask(name, array)))
    return array if id(array) in _owners else _copy_on_cpu(array)


def _owned_array(array: Any) -> Any:
    if not isinstance(array, np.ndarray) or cache_of(array) is not None:
        return array
    owner = _owner(array)
    owner.flags.writeable = False
    if id(owner) not in _owners:
        _owners.keep(owner, {})
    view = array.view(np.ndarray)  # Unlike its owner, a view of frozen memory cannot be made writeable again.
    view.flags.writeable = False
    return view


def _owner(array: np.ndarray) -> np.ndarray:
    """Return the array whose memory an array shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _copy(array: np.ndarray) -> np.ndarray:
    """Copy an array to memory, aligned if it is large."""
    if array.nbytes < LEAST_ALIGNED or array.dtype.hasobject:
        return np.array(array, subok=False)
    copy = empty_aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def _copy_on_cpu(array: Any) -> Any:
    """Return a JAX array that shares no memory with a NumPy array, as only those on a CPU can."""
    import jax
    from jax.core import Tracer

    if isinstance(array, Tracer) or any(device.platform != "cpu" for device in array.devices()):
        return array
    copy = jax.device_put(array, array.sharding, may_alias=False)
    _owners.keep(copy, {})
    return copy
