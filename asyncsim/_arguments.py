"""Arguments of public names, checked against their annotations where they are called.

One call at the end of a package, `check_arguments`, does this for all public names of the package: a value of another
type and an unknown argument name are refused in one line, before anything is computed. Further conditions are checked
by the function itself, or by the check in `Annotated[kind, check]`, whose result the function gets.
"""

import collections.abc
import functools
import inspect
import os
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import did_you_mean, nearest
from asyncsim.components._component import check_in, checks_of
from asyncsim.components._families import FAMILIES

MOST_ITEMS = 1000  # of a long list, those that are looked at
SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = 60


class Kind(NamedTuple):
    """The values that an annotation admits."""

    admits: Callable[[Any], bool]  # whether a value is of this kind
    words: str = ""  # the kind in words, to follow "must be", or empty for any value
    wanted: type | None = None  # the class, where the annotation is one


def check_arguments(module: str, names: Iterable[str] | None = None, *, acts: bool = False) -> None:
    """Check the arguments of a module's public names wherever they are called."""
    space = vars(sys.modules[module])
    own = [name for name, value in space.items() if getattr(value, "__module__", None) == module and name[0] != "_"]
    for name in space.get("__all__", own) if names is None else names:
        value = space[name]
        if isinstance(value, type) and not getattr(value, "_is_protocol", False):
            init = vars(value).get("__init__")
            if inspect.isfunction(init) and not hasattr(init, "__wrapped__"):
                value.__init__ = checked(init, kind=value)  # type: ignore[misc]
            for method, way in list(vars(value).items()):
                if isinstance(way, classmethod) and method[0] != "_" and not hasattr(way.__func__, "__wrapped__"):
                    setattr(value, method, classmethod(checked(way.__func__, acts=acts)))
        elif inspect.isfunction(value) and value.__name__ == name and not hasattr(value, "__wrapped__"):
            space[name] = checked(value, acts=acts)
            setattr(sys.modules[value.__module__], name, space[name])


def checked(function: Callable[..., Any], *, acts: bool = False, kind: type | None = None) -> Callable[..., Any]:
    """The function (for a class, its `__init__`), which refuses arguments that do not fit its annotations."""
    find, called = _Finder(function, kind), (kind or function).__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        refusal = find(called, args, kwargs)
        if refusal is None:
            return function(*args, **kwargs) if not find.checks else function(**find.keep(args, kwargs))
        if not acts and not refusal.remedied:
            try:
                function(*args, **kwargs)
            except ValueError as error:
                if f"`{refusal.argument}" in str(error):
                    raise
            except Exception:  # whatever it is, the refusal says more
                pass
        raise refusal.error

    # As if it stood in the function's module, where doctest looks for it.
    wrapper = types.FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    return functools.wraps(function)(wrapper)


class Refusal(NamedTuple):
    """Why a call is refused."""

    argument: str  # its name
    error: Exception  # the error
    remedied: bool = False  # whether the error says what to call instead


class _Finder:
    """Finds the first argument of a call that does not fit. The annotations are read at the first call."""

    def __init__(self, function: Callable[..., Any], kind: type | None = None) -> None:
        self.function, self.kind = function, kind

    @functools.cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(self.function).parameters)

    @functools.cached_property
    def known(self) -> dict[str, tuple[Callable[[Any], bool], Any]]:
        """Name -> whether a value fits, and the default."""
        own = self.checks if self.kind is None else checks_of(self.kind)
        return {
            name: (_ANYTHING.admits if name in own else kind_of(one.annotation).admits, one.default)
            for name, one in self.parameters.items()
            if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }

    @functools.cached_property
    def placed(self) -> tuple[str, ...]:
        """Names of the arguments that may be given by position."""
        return tuple(name for name in self.known if self.parameters[name].kind != inspect.Parameter.KEYWORD_ONLY)

    @functools.cached_property
    def checks(self) -> dict[str, Callable[[str, Any], Any]]:
        """Name -> check in the annotation of a function's argument, because a component checks its own arguments."""
        if self.kind is not None:
            return {}
        return {name: check for name, one in self.parameters.items() if (check := check_in(one.annotation))}

    def keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, as the checks in the annotations return them."""
        given = dict(zip(self.placed, args, strict=False)) | kwargs
        return given | {name: check(name, given[name]) for name, check in self.checks.items() if name in given}

    @functools.cached_property
    def open(self) -> bool:
        """Whether it takes names of any kind."""
        return any(one.kind is one.VAR_KEYWORD for one in self.parameters.values())

    def __call__(self, called: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Refusal | None:
        known = self.known
        for name, value in (*zip(self.placed, args, strict=False), *kwargs.items()):
            if name not in known:
                if self.open:
                    continue
                others = [f"`{one}`" for one in known if one not in ("self", "cls")]
                listed = " and ".join(filter(None, [", ".join(others[:-1]), *others[-1:]]))
                has = f"only {listed}" if listed else "and takes none"
                error = TypeError(f"`{called}` has no argument `{name}`, {has}.{did_you_mean(name, known)}")
                return Refusal(name, error, True)
            admits, default = known[name]
            if value is not default and not admits(value):
                return self._refusal(name, value)
        return None

    def _refusal(self, name: str, value: Any) -> Refusal:
        """Why a value is refused, with the remedy where it is known: a constructor that should have been called."""
        _, words, wanted = kind_of(self.parameters[name].annotation)
        found = f"the {_sort(value)} {value.__name__}" if _sort(value) else SHOWN.repr(value).replace("\n", " ")
        remedy, ways = _remedy(value, wanted), [way for way in dir(wanted) if way.startswith("from_")]
        if wanted is not None and ways and not remedy:
            found = f"{found}. Make one with {wanted.__name__}.{' or '.join(ways)}"
        return Refusal(name, ValueError(f"`{name}` must be {words}; got {found}.{remedy}"), bool(remedy))


def _sort(value: Any) -> str:
    return "class" if isinstance(value, type) else "function" if inspect.isfunction(value) else ""


def _remedy(value: Any, wanted: type | None) -> str:
    """The call to suggest instead of a constructor or its name."""
    if wanted is None:
        return ""
    if not getattr(wanted, "_is_protocol", False) and isinstance(value, wanted):  # where several are wanted
        return " Give a list of them."
    made = value if isinstance(value, type) else getattr(value, "__annotations__", {}).get("return")
    if _sort(value) and isinstance(made, type) and _is_one(made, wanted):
        return f" Call it: {_as_called(value)}."
    library, *parts = wanted.__module__.split(".")
    family = next((part for part in reversed(parts) if part in FAMILIES), "")
    constructors = FAMILIES.get(family, {})
    near = nearest(value, constructors) if isinstance(value, str) else None
    return f" Give {library}.{family}.{_as_called(constructors[near])}." if near else ""


def _is_one(made: type, wanted: type) -> bool:
    """Whether instances of a class are wanted. A class meets a protocol if it has all its members."""
    if getattr(wanted, "_is_protocol", False):
        annotated = {name for kind in made.__mro__ for name in vars(kind).get("__annotations__", ())}
        return all(hasattr(made, name) or name in annotated for name in _members(wanted))
    return issubclass(made, wanted)


def _as_called(constructor: Callable[..., Any]) -> str:
    """How a constructor is called, with the arguments that it needs."""
    needed = [
        f"{name}=…"
        for name, one in inspect.signature(constructor).parameters.items()
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    return f"{constructor.__name__}({', '.join(needed)})"


@functools.lru_cache(maxsize=1024)
def _kind_of(annotation: Any) -> Kind:
    if isinstance(annotation, str):  # imported for type checkers only, so any class of that name will do
        classes = Kind(
            lambda value: annotation in [one.__name__ for one in type(value).__mro__], f"a matplotlib {annotation}"
        )
        return classes if annotation.isidentifier() else _ANYTHING
    if annotation in (inspect.Parameter.empty, Any):
        return _ANYTHING
    if isinstance(annotation, type) and annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and annotation is not object and not typing.get_origin(annotation):
        return _instance(annotation)
    origin, items = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is ArrayLike or origin is NDArray:  # aliases of their own since numpy 2.5
        return _NUMBERS
    if origin in (typing.Union, types.UnionType):
        return _either(items)
    if origin is typing.Annotated:  # the component that gets the value checks it by the function there
        return _ANYTHING
    if origin is typing.Literal:
        return Kind(lambda value: value in items, f"one of {', '.join(map(repr, items))}")
    if origin is collections.abc.Callable:
        return Kind(callable, "a function")
    if origin is np.ndarray:
        return _NUMBERS
    if not isinstance(origin, type):
        return _ANYTHING
    if issubclass(origin, collections.abc.Mapping):
        return _PLAIN[dict]
    if origin is os.PathLike:
        return Kind(lambda value: isinstance(value, os.PathLike), "a path")
    if "__iter__" not in dir(origin):
        return Kind(lambda value: isinstance(value, origin), f"a {origin.__name__}")
    return _sequence(items, iterable=origin in (collections.abc.Iterable, collections.abc.Iterator))


def kind_of(annotation: Any) -> Kind:
    """The values that an annotation admits, or any value where the annotation cannot be checked."""
    try:
        return _kind_of(annotation)
    except TypeError:  # not hashable
        return _kind_of.__wrapped__(annotation)


def _either(options: tuple[Any, ...]) -> Kind:
    if any(getattr(typing.get_origin(one) or one, "__name__", "") == "_SupportsArray" for one in options):
        rest = [kind_of(option) for option in options if option is types.NoneType]
        kinds = [_NUMBERS, *rest]  # numpy's ArrayLike, a union of much
    else:
        kinds = [kind_of(option) for option in options]
    words = list(dict.fromkeys(kind.words for kind in kinds))
    wanted = next((kind.wanted for kind in kinds if kind.wanted is not None), None)
    every = tuple(kind.admits for kind in kinds)
    return Kind(lambda value: any(admits(value) for admits in every), "" if "" in words else " or ".join(words), wanted)


def _instance(kind: type) -> Kind:
    if kind is np.ndarray or kind.__module__.startswith("jax"):
        return _NUMBERS
    if getattr(kind, "_is_protocol", False):
        if "__call__" in vars(kind):
            return Kind(callable, "a function", kind)
        known = {"Delay": "a law of delays", "OwnSchedule": "another object with a method `simulate`"}
        members = _members(kind)
        return Kind(
            lambda value: not isinstance(value, type) and all(hasattr(value, member) for member in members),
            known.get(kind.__name__, f"an asyncsim {kind.__name__}"),
            kind,
        )
    own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return Kind(
        lambda value: isinstance(value, kind), f"an asyncsim {kind.__name__}" if own else f"a {kind.__name__}", kind
    )


def _members(kind: type) -> list[str]:
    return [name for name in (*vars(kind), *getattr(kind, "__annotations__", ())) if not name.startswith("_")]


def _sequence(items: tuple[Any, ...], *, iterable: bool) -> Kind:
    alike = len(items) == 1 or items[-1:] == (...,) or len(set(items)) == 1
    each = kind_of(items[0]) if alike and not typing.get_origin(items[0]) else None  # of lists in lists, nothing
    plain = each if each in (_PLAIN[int], _PLAIN[float], _PLAIN[str]) else None  # who refuses others says which it is
    numbers = plain is not None and plain is not _PLAIN[str]

    def admits(value: Any) -> bool:
        if isinstance(value, (str, bytes)) or not isinstance(value, collections.abc.Iterable):
            return False
        if isinstance(value, np.ndarray) or hasattr(value, "dtype"):
            column: Any = value  # of NumPy or JAX
            return not numbers or (column.ndim > 0 and column.dtype.kind in "iuf" and not np.ma.is_masked(column))
        if not iterable and not isinstance(value, collections.abc.Sized):
            return False
        few = value[:MOST_ITEMS] if isinstance(value, (list, tuple)) else ()
        return plain is None or all(map(plain.admits, few))

    plural = {"a number": "numbers", "an integer": "integers", "a string": "strings"}
    words = plural.get(each.words, "") if each is not None else ""
    return Kind(admits, f"a sequence of {words}" if words else "a sequence", each.wanted if each is not None else None)


def _is_integer(value: Any) -> bool:
    if type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool)):
        return True
    return getattr(value, "ndim", None) == 0 and value.dtype.kind in "iu"


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return value == value
    if isinstance(value, Real):
        too_large = isinstance(value, Integral) and abs(int(value)) > sys.float_info.max
        return not (isinstance(value, bool) or too_large) and bool(value == value)
    return getattr(value, "ndim", None) == 0 and value.dtype.kind in "iuf" and bool(value == value)


def _are_numbers(value: Any) -> bool:
    """Whether a value is an array of numbers, or NumPy can make one of it."""
    if isinstance(value, (str, bytes, bool)) or value is None:
        return False
    try:
        found = value if hasattr(value, "dtype") and hasattr(value, "ndim") else np.asarray(value)
        kind = "" if np.ma.is_masked(found) else found.dtype.kind
        return kind in [*"iufb"] and (found.ndim > 0 or (kind != "b" and bool(found == found)))
    except (TypeError, ValueError):
        return False


_PLAIN = {
    bool: Kind(lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    int: Kind(_is_integer, "an integer"),
    float: Kind(_is_number, "a number"),
    str: Kind(lambda value: isinstance(value, str), "a string"),
    types.NoneType: Kind(lambda value: value is None, "None"),
    dict: Kind(lambda value: isinstance(value, collections.abc.Mapping), "a mapping"),
}
_ANYTHING = Kind(lambda value: True)
_NUMBERS = Kind(_are_numbers, "a number or an array of numbers")
