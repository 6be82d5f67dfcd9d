"""Classes and functions that other processes import from the user's files, because they cannot travel by value.

A class is more than its attributes where its making has other effects: a metaclass that forbids later changes, as
Equinox's does, or an entry in JAX's registry of pytrees. Such a class is made by running its file. The file must be
there and be the same on the machine that computes, and what the class reaches must have the values that it has in the
process that asks: a global that this session has changed has its first value where the file is run anew.
"""

import copyreg
import importlib
import importlib.util
import os
import runpy
import sys
import types
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import EnumMeta
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from asyncsim.components._user_files import LIBRARY, hash_files, home_of_file, home_of_name

MAIN = "__main__"
ALIAS = "__mp_main__"  # the name of the main program where another process imports it, as in Python's multiprocessing
# Metaclasses of which cloudpickle makes classes.
PLAIN_METACLASSES = (type, ABCMeta, EnumMeta, type(type("Protocol", (), {})))
HEAP = getattr(copyreg, "_HEAPTYPE", 1 << 9)  # flag of classes that Python code defines

Reach = Callable[[str, dict[str, Any]], bytes]

_scripts: dict[tuple[str, str], dict[str, Any]] = {}  # name and file of a script that this process has run -> its names
_running: list[str] = []  # scripts that this process is importing


class Address(NamedTuple):
    """Where a class or a function of the user's is defined."""

    module: str  # the name under which its file was run
    path: str  # the file
    files: bytes  # hash of the file and of those that it imports
    name: str  # its name in the file, with dots

    def __str__(self) -> str:
        return f"{self.name!r} of {self.path!r}"


def needs_import(kind: type) -> bool:
    """Return whether a class of the user's would be another one if it were made from its attributes."""
    if any(base.__module__.partition(".")[0] == LIBRARY for base in kind.__mro__):
        return False  # The library's own classes register their subclasses.
    has_hook = any("__init_subclass__" in vars(base) and home_of_name(base.__module__).own for base in kind.__mro__)
    return type(kind) not in PLAIN_METACLASSES or has_hook or is_registered(kind)


def is_registered(kind: type) -> bool:
    """Return whether a class is in JAX's registry of pytrees."""
    jax = sys.modules.get("jax")
    if jax is None or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return False  # JAX knows named tuples without the registry.
    # The registry answers for objects only, so an empty one is made, without the class's own constructor.
    builtin: Any = next(base for base in kind.__mro__ if not base.__flags__ & HEAP)
    try:
        empty = builtin.__new__(kind)
    except TypeError:
        return False  # An abstract class has no instances.
    try:
        return jax.tree_util.default_registry.flatten_one_level(empty) is not None
    except Exception:
        return True  # The class's own function misses the attributes, so there is one.


def address_of(thing: Any) -> Address | None:
    """Return where a class or a function is found again, or None if its file does not define it under a name."""
    scope = _scope_of(thing)
    path = None if scope is None else scope.get("__file__")
    if scope is None or not isinstance(path, str) or not os.path.isfile(path):
        return None
    home = home_of_file(path)
    if not home.own or home.path is None:
        return None
    name = getattr(thing, "__qualname__", "")
    if _part(scope, name) is not thing:
        # A decorator may have put another object under the name, and the file may use a second name.
        name = next((name for name, part in scope.items() if part is thing), None)
    return None if name is None else Address(scope["__name__"], home.path, hash_files(home.path), name)


def _scope_of(thing: Any) -> Mapping[str, Any] | None:
    """Return the names of the file that defines something."""
    module = getattr(thing, "__module__", None)
    if not isinstance(module, str):
        return None
    if module in sys.modules:
        return vars(sys.modules[module])
    # A script that `asyncsim` has run is no module, but its functions know its names.
    parts = vars(thing).values() if isinstance(thing, type) else (thing,)
    scopes = (part.__globals__ for part in parts if isinstance(part, types.FunctionType))
    return next((scope for scope in scopes if scope.get("__name__") == module), None)


def _part(scope: Mapping[str, Any], name: str) -> Any:
    first, *rest = name.split(".")
    return reduce(lambda part, step: getattr(part, step, None), rest, scope.get(first))


def import_from(address: Address, reached: bytes, reach: Reach) -> Any:
    """Return the class or function at an address, from which the code reaches what it reached in the other process."""
    if not os.path.isfile(address.path):
        raise ValueError(f"{address} must be imported here, and the file is not there. Copy it to the same path.")
    if hash_files(address.path) != address.files:
        raise ValueError(f"{address} must be imported here, and the file differs from that of the sweep. Copy it.")
    thing = _part(_names_of(address.module, address.path), address.name)
    if thing is None or reach(address.name, {address.name: thing}) != reached:
        raise ValueError(
            f"{address} is another where it is imported: it reaches a global or an attribute that the session has "
            "changed. Pass such a value as an argument, or give `jobs=0`."
        )
    return thing


def _names_of(module: str, path: str) -> Mapping[str, Any]:
    """Return the names of a file, which is run under its name unless this process has run it."""
    loaded = sys.modules.get(module)
    if module != MAIN and loaded is not None and _is_file(loaded, path):
        return vars(loaded)
    if (module, path) in _scripts:
        return _scripts[module, path]
    with _importing(module, path):
        if module == MAIN:
            spec = importlib.util.spec_from_file_location(ALIAS, path)
            assert spec is not None
            assert spec.loader is not None
            # Under the name of Python's multiprocessing, the part of a script below its guard does not run.
            main = sys.modules[ALIAS] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(main)
            names = vars(main)
        elif importlib.util.find_spec(module.partition(".")[0]) is not None:
            names = vars(importlib.import_module(module))
        else:  # It is a script that `asyncsim` has run.
            names = runpy.run_path(path, run_name=module)
    return _scripts.setdefault((module, path), names)


def _is_file(module: types.ModuleType, path: str) -> bool:
    return os.path.realpath(getattr(module, "__file__", None) or "") == path


@contextmanager
def _importing(module: str, path: str) -> Iterator[None]:
    """Let this process import a module, and those beside it or its package, now and later."""
    package = module.count(".") + (os.path.basename(path) == "__init__.py")  # folders between the file and a root
    folder = str(Path(path).parents[package])
    if folder not in sys.path:
        sys.path.append(folder)
    _running.append(path)
    try:
        yield
    finally:
        _running.remove(path)


def require_not_importing() -> None:
    """Refuse to begin a sweep while the file of one is imported to compute it."""
    if _running:
        raise RuntimeError(
            f"{_running[-1]!r} begins a sweep when it is imported, by a process that computes for it. Write "
            '`if __name__ == "__main__":` before the sweep.'
        )
