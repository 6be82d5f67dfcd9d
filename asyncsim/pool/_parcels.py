"""Objects on their way to other processes: one cloudpickle, in which an object that occurs twice is one object.

The user's own modules travel by value: a function computes with the globals that it has in this session, and no other
process needs to import it. Large arrays are files named by their contents, which all processes of a machine share.
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

from asyncsim.store._files import atomic_write, digest

LARGE = 16_384  # bytes from which an array is a file
MOST_LOADED = 64  # files that a process has at hand
COMPILED = "PjitFunction"  # the type of the functions that `jax.jit` returns
KEPT_OF_COMPILED = ("__wrapped__", "__name__", "__qualname__", "__module__", "__doc__")
NOT_CARRIED = ("__builtins__", "__loader__", "__spec__", "__cached__")  # names that Python sets in every module
CANNOT = (pickle.PicklingError, AttributeError, TypeError, RecursionError)  # errors of objects that cannot travel

Modules = Collection[types.ModuleType]


class Packer:
    """Writes objects to a folder that other processes see."""

    def __init__(self, folder: Path, modules: Modules = ()) -> None:
        self.folder, self.modules = folder, modules
        self._names: dict[int, tuple[Any, str]] = {}  # with the array, so that its place stays its own

    def pack(self, value: Any) -> str:
        """The name by which `unpack` finds the value."""
        names: list[str] = []

        def keep_inside(buffer: pickle.PickleBuffer) -> bool:
            array = buffer.raw()
            if array.nbytes >= LARGE:
                names.append(self._name(array))
            return array.nbytes < LARGE

        return self._keep(memoryview(pickle.dumps((dumps(value, self.modules, keep_inside), names))))

    def _name(self, array: memoryview) -> str:
        if id(array.obj) not in self._names:
            self._names[id(array.obj)] = array.obj, self._keep(array)
        return self._names[id(array.obj)][1]

    def _keep(self, content: memoryview) -> str:
        name = digest(content)
        path = self.folder / f"{name}.bin"
        if not path.is_file() or path.stat().st_size != content.nbytes or digest(np.fromfile(path, np.uint8)) != name:
            atomic_write(path, lambda file: file.write(content))
        return name


def unpack(folder: Path, name: str) -> Any:
    """The value that a `Packer` has written. Each file is read once."""
    content, names = pickle.loads(_read(folder / f"{name}.bin").data)
    return pickle.loads(content, buffers=[_read(folder / f"{one}.bin") for one in names])


def dumps(
    value: Any,
    modules: Modules = (),
    keep_inside: Callable[[pickle.PickleBuffer], bool] | None = None,
    *,
    name: str = "scenarios",
    remedy: str = "Make such things in the function that needs them",
) -> bytes:
    """The value as bytes, for `pickle.loads`."""
    with ExitStack() as stack:
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        file = io.BytesIO()
        try:
            _Pickler(file, {module.__name__ for module in modules}, keep_inside).dump(value)
        except CANNOT as error:
            raise ValueError(
                f"`{name}` cannot be sent to other processes: {error}. {remedy}, or give `jobs=0`."
            ) from error
        return file.getvalue()


class _Pickler(cloudpickle.Pickler):
    """Takes of a module that travels by value all that can travel."""

    def __init__(self, file: Any, modules: Collection[str], keep_inside: Any = None, parts: bool = True) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=keep_inside)
        self.modules, self.parts = modules, parts

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.ModuleType) and obj.__name__ in self.modules:
            state = {name: part for name, part in vars(obj).items() if self.parts and self._travels(name, part)}
            return types.ModuleType, (obj.__name__,), state, None, None, _fill
        if type(obj).__name__ == COMPILED and hasattr(obj, "__wrapped__"):
            function, arguments, state, *_ = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            about = {name: vars(obj)[name] for name in KEPT_OF_COMPILED if name in vars(obj)}
            return function, arguments, (state, about), None, None, _compiled
        if isinstance(obj, types.CodeType):  # cloudpickle 3.1.3 forgets its file, by which a digest knows it
            return marshal.loads, (marshal.dumps(obj),)
        return super().reducer_override(obj)

    def _travels(self, name: str, part: Any) -> bool:
        if name in NOT_CARRIED:
            return False
        try:
            _Pickler(io.BytesIO(), self.modules, lambda buffer: False, parts=False).dump(part)
        except Exception:  # any error of an object that cannot be pickled, which no digest covers either
            return False
        return True


def _fill(module: types.ModuleType, names: dict[str, Any]) -> None:
    vars(module).update(names)


def _compiled(function: Any, state: tuple[Any, dict[str, Any]]) -> None:
    """As JAX does, with the function inside, which it forgets and by which a digest knows it."""
    function.__setstate__(state[0])
    vars(function).update(state[1])


@lru_cache(maxsize=MOST_LOADED)
def _read(path: Path) -> np.ndarray:
    """The contents of a file, shared by all processes of a machine that read it."""
    try:
        content = np.memmap(path, np.uint8, mode="r")
    except (FileNotFoundError, ValueError):  # or an empty one
        raise ValueError(f"`store` lacks the file {os.fspath(path)!r}. Start the same sweep again.") from None
    if digest(content) != path.stem:
        raise ValueError(f"`store` holds a damaged file, {os.fspath(path)!r}. Delete it and start the sweep again.")
    return content
