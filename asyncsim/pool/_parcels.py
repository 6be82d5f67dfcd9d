"""Serialise tasks for other processes: one cloudpickle, in which an object that occurs twice is one object.

The user's own modules travel by value: a function computes with the globals that it has in this session, and no other
process needs to import it. If they hold a class that cannot travel so, all that they define is imported
(`asyncsim.pool._imports`). Large arrays are files named by their contents, which all processes of a machine share.
"""

import io
import marshal
import os
import pickle
import types
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from asyncsim.components._user_files import home_of_name
from asyncsim.files._atomic import atomic_write, require_own
from asyncsim.files._hash import hash_parts
from asyncsim.pool._imports import Reach, address_of, import_from, is_registered, needs_import

LEAST_FILED = 16_384  # bytes from which an array is a file
MOST_LOADED = 64  # files that a process has at hand
COMPILED = "PjitFunction"  # the type of the functions that `jax.jit` returns
CUSTOM = "custom_vjp"  # the type of JAX's functions with a derivative of their own, which copy by a call of the type
COMPILED_ATTRIBUTES = ("__wrapped__", "__name__", "__qualname__", "__module__", "__doc__")
MODULE_ATTRIBUTES = ("__builtins__", "__loader__", "__spec__", "__cached__")  # names that Python sets in every module
# Errors of objects that cannot travel.
TRAVEL_ERRORS = (pickle.PicklingError, AttributeError, TypeError, RecursionError)

Modules = Collection[types.ModuleType]


class Packer:
    """Writes objects to a folder that other processes see."""

    def __init__(self, folder: Path, modules: Modules = (), reach: Reach | None = None) -> None:
        self.folder, self.modules, self.reach = folder, modules, reach
        # The array is kept beside its name, so that no other object gets its address.
        self._names: dict[int, tuple[Any, str]] = {}

    def pack(self, value: Any) -> str:
        """Write a value, and return the name by which `unpack` finds it."""
        names: list[str] = []

        def keep_inside(buffer: pickle.PickleBuffer) -> bool:
            array = buffer.raw()
            if array.nbytes >= LEAST_FILED:
                names.append(self._name(array))
            return array.nbytes < LEAST_FILED

        def begin() -> Callable[[pickle.PickleBuffer], bool]:
            # An attempt that failed may have collected names already.
            names.clear()
            return keep_inside

        content = dumps(value, self.modules, self.reach, begin)
        return self._keep(memoryview(pickle.dumps((content, names))))

    def _name(self, array: memoryview) -> str:
        if id(array.obj) not in self._names:
            self._names[id(array.obj)] = array.obj, self._keep(array)
        return self._names[id(array.obj)][1]

    def _keep(self, content: memoryview) -> str:
        name = hash_parts(content)
        path = self.folder / f"{name}.bin"
        require_own(path)
        # A file that a crash or a full disk damaged is written again.
        if not path.is_file() or not np.array_equal(np.fromfile(path, np.uint8), np.frombuffer(content, np.uint8)):
            atomic_write(path, lambda file: file.write(content))
        return name


def unpack(folder: Path, name: str) -> Any:
    """Return the value that a `Packer` has written. Each file is read once."""
    content, names = pickle.loads(_read(folder / f"{name}.bin").data)
    return pickle.loads(content, buffers=[_read(folder / f"{array}.bin") for array in names])


def dumps(
    value: Any,
    modules: Modules = (),
    reach: Reach | None = None,
    begin: Callable[[], Any] = lambda: None,
    *,
    name: str = "scenarios",
    remedy: str = "Make such things in the function that needs them",
) -> bytes:
    """Return the value as bytes, for `pickle.loads`: by value if possible, or else with classes to be imported.

    `reach` hashes all that a class reaches, to compare it with the imported one. `begin` makes the function that takes
    large arrays, for each attempt.
    """
    with ExitStack() as stack:
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        names, reason = {module.__name__ for module in modules}, None
        for way in (None, reach) if reach is not None else (None,):
            file = io.BytesIO()
            try:
                _Pickler(file, names, begin(), reach=way).dump(value)
            except TRAVEL_ERRORS as error:
                # The first error says what is wrong, unless a later one names the class.
                reason = error if reason is None or isinstance(error, CannotImport) else reason
            else:
                return file.getvalue()
        raise ValueError(
            f"`{name}` cannot be sent to other processes: {reason}. {remedy}, or give `jobs=0`."
        ) from reason


class CannotImport(pickle.PicklingError):
    """A class must be imported, and cannot be."""


class _Pickler(cloudpickle.Pickler):
    """Takes of a module that travels by value all that can travel.

    Without `reach`, everything of the user's travels by value, and a class that cannot is an error. With it, all that
    the user's files define is imported, so that each class is one and not two.
    """

    def __init__(
        self,
        file: Any,
        modules: Collection[str],
        keep_inside: Any = None,
        parts: bool = True,
        reach: Reach | None = None,
    ) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=keep_inside)
        self.modules, self.parts, self.reach = modules, parts, reach

    def reducer_override(self, obj: Any) -> Any:
        if _is_defined_by_user(obj):
            address = None if self.reach is None else address_of(obj)
            if address is not None and self.reach is not None:
                return import_from, (address, self.reach(address.name, {address.name: obj}), self.reach)
            if isinstance(obj, type) and needs_import(obj) and (self.reach is None or is_registered(obj)):
                raise CannotImport(
                    f"the class {obj.__qualname__!r} must be imported there, because its metaclass or JAX's registry "
                    "of pytrees knows it, and no file defines it at its top level"
                )
        if isinstance(obj, types.ModuleType) and obj.__name__ in self.modules:
            state = {name: part for name, part in vars(obj).items() if self.parts and self._travels(name, part)}
            return types.ModuleType, (obj.__name__,), state, None, None, _fill
        if type(obj).__name__ == COMPILED and hasattr(obj, "__wrapped__"):
            function, arguments, state, *_ = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            about = {name: vars(obj)[name] for name in COMPILED_ATTRIBUTES if name in vars(obj)}
            return function, arguments, (state, about), None, None, _compiled
        if type(obj).__name__ == CUSTOM and type(obj).__module__.startswith("jax"):
            return object.__new__, (type(obj),), vars(obj)
        # cloudpickle 3.1.3 forgets the file of a code object, by which a digest knows it.
        if isinstance(obj, types.CodeType):
            return marshal.loads, (marshal.dumps(obj),)
        return super().reducer_override(obj)

    def _travels(self, name: str, part: Any) -> bool:
        if name in MODULE_ATTRIBUTES:
            return False
        try:
            _Pickler(io.BytesIO(), self.modules, lambda buffer: False, parts=False, reach=self.reach).dump(part)
        except Exception:  # any error of an object that cannot be pickled, which no digest covers either
            return False
        return True


def _is_defined_by_user(thing: Any) -> bool:
    """Return whether something is a class or a function that the user's code has made."""
    if not (isinstance(thing, (type, types.FunctionType)) or "__wrapped__" in getattr(thing, "__dict__", ())):
        return False
    module = getattr(thing, "__module__", None)
    return isinstance(module, str) and home_of_name(module).own


def _fill(module: types.ModuleType, names: dict[str, Any]) -> None:
    vars(module).update(names)


def _compiled(function: Any, state: tuple[Any, dict[str, Any]]) -> None:
    """Make a compiled function as JAX does, with the function inside, which JAX forgets and a digest needs."""
    function.__setstate__(state[0])
    vars(function).update(state[1])


@lru_cache(maxsize=MOST_LOADED)
def _read(path: Path) -> np.ndarray:
    """Return the contents of a file, which all processes of a machine share that read it."""
    try:
        content = np.memmap(path, np.uint8, mode="r")
    except (FileNotFoundError, ValueError):  # or an empty one
        raise ValueError(f"`store` lacks the file {os.fspath(path)!r}. Start the same sweep again.") from None
    if hash_parts(content) != path.stem:
        raise ValueError(f"`store` holds a damaged file, {os.fspath(path)!r}. Delete it and start the sweep again.")
    return content
