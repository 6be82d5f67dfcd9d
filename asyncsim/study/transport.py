"""Scenarios on their way to other processes: as bytes, in which large arrays are named by their contents.

An array of some size is written once, to a folder that all processes share, and each process reads it once: tasks carry
its hash. Parts that scenarios have in common, their workload and their cluster, are turned into bytes once, and back
into one object in each process, so that what is computed once for such an object (its data on the device, its compiled
functions) is computed once for a process and not for each task. So are the user's own functions, which another process
could not import: they travel by value. That takes cloudpickle. Without it, functions must stand in a module that the
other process can import.
"""

import importlib
import importlib.util
import io
import os
import pickle
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from asyncsim.cluster import Cluster
from asyncsim.files import atomic_write, digest
from asyncsim.workloads import Workload

LARGE = 16_384  # bytes of an array from which it is named
MOST_LOADED = 64  # arrays, and parts of scenarios, that a process keeps
IN_COMMON = (Workload, Cluster)  # what many scenarios share
COMPILED = type(jax.jit(abs))  # which pickle, left to itself, takes apart into the inside of JAX


class Packer:
    """Turns objects into bytes.

    Args:
        data: Folder for large arrays; it must exist.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self._arrays: dict[int, tuple[Any, tuple[str, ...]]] = {}  # with the array, so that its place stays its own
        self._parts: dict[int, tuple[Any, tuple[str, bytes]]] = {}

    def pack(self, value: Any) -> bytes:
        """The value as bytes, for `unpack`.

        Raises:
            ValueError: If part of it cannot travel.
            OSError: If an array cannot be written.
        """
        try:
            return self._dump(value, ())
        except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
            remedy = "Define it at module level, in a module that can be imported"
            remedy += "." if _cloudpickle() else ", or install cloudpickle: pip install 'asyncsim[cluster]'."
            raise ValueError(f"`scenarios` cannot be sent to other processes: {error}. {remedy}") from error

    def _dump(self, value: Any, within: tuple[int, ...]) -> bytes:
        """`within` are the parts that are being packed, which may name themselves."""
        file = io.BytesIO()
        packer = self
        base: type[pickle.Pickler] = pickle.Pickler if _cloudpickle() is None else _cloudpickle().Pickler

        class Pickler(base):  # type: ignore[misc, valid-type]
            def persistent_id(self, obj: Any) -> Any:
                if isinstance(obj, np.ndarray) and obj.nbytes >= LARGE and not obj.dtype.hasobject:
                    return packer._name_array(obj, obj)
                if isinstance(obj, jax.Array) and not jax.numpy.issubdtype(obj.dtype, jax.dtypes.prng_key):
                    return ("jax", *packer._name_array(obj, np.asarray(obj))) if obj.nbytes >= LARGE else None
                if isinstance(obj, COMPILED) and (place := _place_of(obj)):
                    return "named", *place
                if (isinstance(obj, IN_COMMON) or _travels_by_value(obj)) and id(obj) not in within:
                    return packer._name_part(obj, (*within, id(obj)))
                return None

        Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return file.getvalue()

    def _name_array(self, owner: Any, array: np.ndarray) -> tuple[str, ...]:
        if id(owner) not in self._arrays:
            contiguous = np.ascontiguousarray(array)
            name = digest(contiguous)  # of the bytes: an array and its reshaped views are one file
            self._keep(name, contiguous)
            self._arrays[id(owner)] = owner, ("array", name, contiguous.dtype.str, repr(array.shape))
        return self._arrays[id(owner)][1]

    def _keep(self, name: str, array: np.ndarray) -> None:
        path = self.data / f"{name}.bin"
        if not path.is_file() or path.stat().st_size != array.nbytes or digest(np.fromfile(path, np.uint8)) != name:
            atomic_write(path, lambda file: file.write(array.reshape(-1).view(np.uint8).data))

    def _name_part(self, part: Any, within: tuple[int, ...]) -> tuple[str, bytes]:
        if id(part) not in self._parts:
            self._parts[id(part)] = part, ("part", self._dump(_Whole(part), within))
        return self._parts[id(part)][1]


class _Whole:
    """A part that is not replaced by its name, because it is the one that is packed."""

    def __init__(self, part: Any) -> None:
        self.part = part


def unpack(content: bytes, data: Path) -> Any:
    """The value in some bytes.

    Args:
        content: What `Packer.pack` gave.
        data: The folder of large arrays.

    Raises:
        ValueError: If an array is missing or damaged.
    """

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            if pid[0] == "part":
                return _part(pid[1], data)
            if pid[0] == "named":
                return getattr(importlib.import_module(pid[1]), pid[2])
            if pid[0] == "jax":
                return jax.numpy.asarray(_array(data, *pid[2:]))
            return _array(data, *pid[1:])

    return Unpickler(io.BytesIO(content)).load()


@lru_cache(maxsize=MOST_LOADED)
def _part(content: bytes, data: Path) -> Any:
    return unpack(content, data).part


@lru_cache(maxsize=MOST_LOADED)
def _array(data: Path, name: str, dtype: str, shape: str) -> np.ndarray:
    path = data / f"{name}.bin"
    try:
        content = _bytes(path)
    except FileNotFoundError:
        raise ValueError(f"`store` lacks the array {os.fspath(path)!r}. Start the same sweep again.") from None
    if digest(content) != name:
        raise ValueError(f"`store` holds a damaged array, {os.fspath(path)!r}. Delete it and start the sweep again.")
    sizes = tuple(int(size) for size in shape.strip("()").split(",") if size.strip())
    return content.view(np.dtype(dtype)).reshape(sizes)


@lru_cache(maxsize=MOST_LOADED)
def _bytes(path: Path) -> np.ndarray:
    """The contents of a file, shared by all processes of a machine that read it."""
    return np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.zeros(0, np.uint8)


def _travels_by_value(obj: Any) -> bool:
    """Whether cloudpickle would write a function's code, because no other process could import it."""
    if _cloudpickle() is None or not callable(obj):
        return False
    if isinstance(obj, COMPILED):
        return True
    if not hasattr(obj, "__code__") or not hasattr(obj, "__globals__"):
        return False
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", "")
    return module == "__main__" or module not in sys.modules or "<" in name


def _place_of(function: Any) -> tuple[str, str] | None:
    """Module and name by which another process finds this very function, if it does."""
    module, name = str(getattr(function, "__module__", None)), str(getattr(function, "__qualname__", ""))
    found = getattr(sys.modules.get(module), name, None)
    return (module, name) if module != "__main__" and found is function else None


@lru_cache(maxsize=1)
def _cloudpickle() -> Any:
    if importlib.util.find_spec("cloudpickle") is None:
        return None
    import cloudpickle

    return cloudpickle
