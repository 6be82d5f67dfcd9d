"""Annotations as checks: of the fields of components, and of the arguments of functions that are `checked`.

A value that does not fit an annotation is refused in one line, which says what to call instead where that is known. A
function checks in its first lines what no annotation says, such as that two arguments fit together.
"""

import collections.abc
import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks
from asyncsim.components._families import BASES, EXAMPLES, FAMILIES, LIBRARY, ROOTS, is_ours
from asyncsim.components._frozen import Frozen, frozen

MOST_ITEMS = 1000  # of a long list, those that are looked at
Function = TypeVar("Function", bound=Callable[..., Any])
Check = Callable[[str, Any], Any]  # (name, value) -> the value as it is kept


def checked(function: Function) -> Function:
    """Check the arguments of a function, or of a class when it is created, by their annotations.

    A value that does not fit its annotation, and an argument of an unknown name, are refused before the function is
    called. It receives the values that the checks return.

    Example:
        >>> @checked
        ... def double(number: Annotated[int, checks.require_count, "Give more."]) -> int:
        ...     return 2 * number
        >>> double(0)
        Traceback (most recent call last):
        ValueError: `number` must be an integer of at least 1; got 0. Give more.
        >>> double(numbre=1)
        Traceback (most recent call last):
        TypeError: `double` has no argument `numbre`, only `number`. Did you mean `number`?
    """
    if isinstance(function, type):
        function.__init__ = checked(function.__init__)  # type: ignore[misc]
        return cast(Function, function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse_unknown_arguments(function, kwargs)
        parameters, checks_of_arguments = _parameters(function), _checks_of(function)

        def keep(name: str, value: Any) -> Any:
            passes = name not in checks_of_arguments or value is parameters[name].default
            return value if passes else checks_of_arguments[name](name, value)

        placed = list(map(keep, parameters, args))
        return function(*placed, *args[len(placed) :], **{name: keep(name, kwargs[name]) for name in kwargs})

    return cast(Function, call)


class Checked(Frozen):
    """Base class of frozen dataclasses whose annotations check their arguments, as `Component` says.

    A subclass needs the decorator `@dataclass(frozen=True)`, which one of `Component` has already. Arrays, lists and
    dictionaries are copied, and the copies of arrays are read-only.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse arguments of unknown names. `__init__` takes the others."""
        del args
        if "__dataclass_fields__" not in vars(cls):
            require_decorated(cls)
        refuse_unknown_arguments(cls.__init__, kwargs)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        checks = _field_checks(type(self))
        for name in arguments(type(self)):
            value = getattr(self, name)
            object.__setattr__(self, name, frozen(name, checks[name](name, value) if name in checks else value))
        self.check()
        for name in vars(self):  # `check` may have made others
            if isinstance(vars(self)[name], np.ndarray):
                object.__setattr__(self, name, frozen(name, vars(self)[name]))

    def check(self) -> None:
        """Refuse arguments that do not fit together. It is called once a person has created the object."""

    @classmethod
    def _obstacle(cls, arguments: Mapping[str, Any]) -> str | None:
        """Return why no object is made of arguments from a description, which may come from somebody else, or None."""


@functools.cache
def require_decorated(cls: type) -> None:
    """Refuse a class with annotations that are no arguments, because it lacks the decorator of a dataclass."""
    decorated = {base for base in cls.__mro__ if "__dataclass_fields__" in vars(base)}
    constructor = next(base for base in cls.__mro__ if "__init__" in vars(base))
    if constructor is not object and constructor not in decorated:
        return  # A constructor of its own may do anything with them.
    annotations = [kind for base in cls.__mro__ if base not in decorated for kind in own_annotations(base).values()]
    if any("ClassVar" not in str(kind) for kind in annotations):
        raise TypeError(
            f"{cls.__name__} must be a dataclass, so that its annotations are its arguments. Write "
            f"`@dataclass(frozen=True)` in the line above `class {cls.__name__}`."
        )


def arguments(kind: type[Checked]) -> tuple[str, ...]:
    """Return the names of the fields of a component that are arguments, in their order."""
    return tuple(field.name for field in dataclasses.fields(kind) if field.init)  # type: ignore[arg-type]


def checks_of(cls: type) -> Mapping[str, Check]:
    """Return name -> check, of the arguments that an object of this class checks itself when somebody creates it."""
    return _field_checks(cls) if getattr(cls, "__post_init__", None) is Checked.__post_init__ else {}


@functools.cache
def _field_checks(cls: type) -> dict[str, Check]:
    """Return name -> check, of each field that has one. Numbers are a scalar or one value per seed."""
    annotations = typing.get_type_hints(cls, include_extras=True)
    find = check_of if is_ours(cls) else explicit_check  # classes of the user are as strict as their annotations say
    # A method `check` says more of an integer or a text than its type.
    names = [name for name in arguments(cls) if union_members(annotations[name]) not in ([int], [str])]
    return {name: check for name in names if (check := find(annotations[name], checks.require_all_finite))}


def refuse_unknown_arguments(function: Callable[..., Any], names: Iterable[str]) -> None:
    """Refuse names that no argument of a function has, or of a class if it is the `__init__` of one."""
    parameters = _parameters(function)
    for name in names:
        if name not in parameters and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
            accepted = [f"`{other}`" for other in parameters if other not in ("self", "cls")]
            listed = " and ".join(filter(None, [", ".join(accepted[:-1]), *accepted[-1:]]))
            raise TypeError(
                f"`{function.__qualname__.removesuffix('.__init__').rpartition('.')[2]}` has no argument `{name}`, "
                f"{f'only {listed}' if listed else 'and takes none'}.{checks.did_you_mean(name, parameters)}"
            )


@functools.cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


@functools.cache
def _checks_of(function: Callable[..., Any]) -> dict[str, Check]:
    """Return name -> check, of each argument that has one. Annotations are read at the first call."""
    parameters = [p for p in _parameters(function).values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {parameter.name: check for parameter in parameters if (check := check_of(parameter.annotation))}


def check_of(annotation: Any, number: Check | None = None) -> Check | None:
    """Return the check that an annotation stands for, explicit or by its type, or None if it admits any value."""
    check = explicit_check(annotation, number)
    return check or (partial(require_kind, annotation=annotation) if admitted_values(annotation).words else None)


def explicit_check(annotation: Any, number: Check | None = None) -> Check | None:
    """Return the check of `Annotated[kind, check, remedy]`, `Literal` or `bool`, or else `number` of `float`.

    Where an annotation allows None, None passes.
    """
    options = union_members(annotation)
    if len(options) > 1:
        return None
    if options != [annotation]:
        check = None if options == [bool] else explicit_check(options[0], number)
        return check and partial(unless_none, check)
    if typing.get_origin(annotation) is Annotated:
        check, *remedy = annotation.__metadata__
        return partial(check, remedy=remedy[0]) if remedy else check
    if typing.get_origin(annotation) is Literal:
        return partial(checks.require_one_of, choices=typing.get_args(annotation))
    return checks.require_switch if annotation is bool else number if annotation is float else None


def union_members(annotation: Any) -> list[Any]:
    """Return the members of a union without None, or the annotation itself."""
    union = typing.get_origin(annotation) in UNIONS
    members = typing.get_args(annotation) if union else (annotation,)
    return [member for member in members if member is not types.NoneType]


def unless_none(check: Check, name: str, value: Any) -> Any:
    """Return the value as a check returns it, or None."""
    return None if value is None else check(name, value)


class Kind(NamedTuple):
    """The values that an annotation admits."""

    admits: Callable[[Any], bool]
    words: str = ""  # to follow "must be", or empty for any value
    cls: type = object  # the class of the values or of their items, where it has constructors to suggest


def require_kind(name: str, value: Any, annotation: Any) -> Any:
    """Return a value that an annotation admits. The error says what to call instead where that is known."""
    kind = admitted_values(annotation)
    if kind.admits(value):
        return value
    sort = "class" if isinstance(value, type) else "function" if inspect.isfunction(value) else ""
    received = f"the {sort} {value.__name__}" if sort else checks.brief(value)
    raise ValueError(f"`{name}` must be {kind.words}; got {received}.{_remedy(value, kind)}")


def _remedy(value: Any, kind: Kind) -> str:
    """Return a sentence with the call that makes an object of a kind instead of a wrong value, or an empty text."""
    cls = kind.cls
    if cls is not object and _is_instance(value, cls):
        return " Give a list of them."
    family = BASES.get(cls, "")
    constructors = FAMILIES.get(family, {})
    result = value if isinstance(value, type) else getattr(value, "__annotations__", {}).get("return")
    if result in constructors.values() or (cls is not object and cls in getattr(result, "__mro__", ())):
        return f" Call it: {_describe_call(value)}."
    if family:
        # Weights, for one, have no module of their own.
        home = family if hasattr(sys.modules[LIBRARY], family) else ROOTS[family].__module__.split(".")[1]
        if near := checks.nearest(value, constructors) if isinstance(value, str) else None:
            return f" Give {LIBRARY}.{home}.{_describe_call(constructors[near])}."
        example = f", for example `{EXAMPLES[family]}`" if EXAMPLES[family] else ""
        return f" Use one of `{LIBRARY}.{home}`{example}."
    methods = sorted(name for name in vars(cls) if name.startswith("from_"))
    if methods:
        return f" Make one with {cls.__name__}.{' or '.join(methods)}."
    if not issubclass(cls, Checked):
        return ""
    call = _describe_call(cls, least=1)
    return f" Give a list, as in [{call}]." if kind.words.startswith("a sequence") else f" Give {call}."


def _describe_call(constructor: Callable[..., Any], least: int = 0) -> str:
    """Return a call of a constructor with the arguments that it needs, or with the first `least` if they are more."""
    parameters = [p for p in inspect.signature(constructor).parameters.values() if p.kind is not p.VAR_KEYWORD]
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty] or parameters[:least]
    return f"{constructor.__name__}({', '.join(f'{parameter.name}=…' for parameter in needed)})"


@functools.cache
def admitted_values(annotation: Any) -> Kind:
    """Return the values that an annotation admits, which are all where the annotation cannot be checked."""
    origin, items = typing.get_origin(annotation), typing.get_args(annotation)
    cls = origin or annotation
    if annotation is ArrayLike or origin in (NDArray, np.ndarray) or "_SupportsArray" in map(_name_of, items):
        optional = types.NoneType in items  # until numpy 2.5, `ArrayLike` is a union itself
        return _any_of([NUMBERS, PLAIN[types.NoneType]]) if optional else NUMBERS
    if origin in UNIONS:
        return _any_of([admitted_values(item) for item in items])
    if origin is Literal:
        return Kind(lambda value: value in items, f"one of {', '.join(map(repr, items))}")
    if isinstance(annotation, str) and annotation.isidentifier():  # a class that only type checkers import
        return Kind(lambda value: annotation in map(_name_of, type(value).__mro__), f"a matplotlib {annotation}")
    if not isinstance(cls, type) or cls in (Any, object, inspect.Parameter.empty):
        return ANYTHING
    if cls in PLAIN:
        return PLAIN[cls]
    if issubclass(cls, collections.abc.Mapping) or typing.is_typeddict(cls):
        return MAPPING
    if cls is np.ndarray or cls.__module__.startswith("jax"):
        return NUMBERS
    if cls is collections.abc.Callable:
        return Kind(callable, "a function")
    if items and hasattr(cls, "__iter__"):
        return _sequence_of(items, cls in (collections.abc.Iterable, collections.abc.Iterator))
    words = WORDS.get(cls.__name__, f"an asyncsim {cls.__name__}" if is_ours(cls) else f"a {cls.__name__}")
    return Kind(partial(_is_instance, cls=cls), words, cls)


def own_annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of a class without those of its bases: from Python 3.14 on, no class stores them."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(cls)


def _is_instance(value: Any, cls: type) -> bool:
    if getattr(cls, "_is_protocol", False):  # Faster than `isinstance`, which looks for the members anew each time.
        return not isinstance(value, type) and all(hasattr(value, name) for name in _members(cls))
    return isinstance(value, cls) and (cls is type or not isinstance(value, type))


@functools.cache
def _members(protocol: type) -> list[str]:
    return [name for name in (*vars(protocol), *own_annotations(protocol)) if not name.startswith("_")]


def _name_of(annotation: Any) -> str:
    return getattr(typing.get_origin(annotation) or annotation, "__name__", "")


def _any_of(kinds: list[Kind]) -> Kind:
    words = list(dict.fromkeys(kind.words for kind in kinds))
    cls = next((kind.cls for kind in kinds if kind.cls is not object), object)
    return Kind(lambda value: any(kind.admits(value) for kind in kinds), "" if "" in words else " or ".join(words), cls)


def _sequence_of(items: tuple[Any, ...], iterable: bool) -> Kind:
    """Return the sequences whose first items are numbers or texts. Other items are checked where they are used."""
    alike = len(items) == 1 or items[-1] is ... or len(set(items)) == 1
    each = admitted_values(items[0]) if alike and not typing.get_origin(items[0]) else ANYTHING
    plural = {"a number": " of numbers", "an integer": " of integers", "a string": " of strings"}.get(each.words, "")

    def admits(value: Any) -> bool:
        if isinstance(value, (str, bytes)) or not isinstance(value, collections.abc.Iterable):
            return False
        array: Any = value if hasattr(value, "dtype") and hasattr(value, "ndim") else None
        if array is not None:
            return plural in ("", " of strings") or (array.ndim > 0 and array.dtype.kind != "b" and _are_numbers(array))
        first = value[:MOST_ITEMS] if plural and isinstance(value, (list, tuple)) else ()
        return (iterable or isinstance(value, collections.abc.Sized)) and all(map(each.admits, first))

    return Kind(admits, f"a sequence{plural}", each.cls)


def _are_numbers(value: Any) -> bool:
    """Return whether a value is an array of numbers, or NumPy can make one of it."""
    if isinstance(value, (str, bytes, bool)) or value is None:
        return False
    try:
        array = value if hasattr(value, "dtype") and hasattr(value, "ndim") else np.asarray(value)
        kinds = "" if np.ma.is_masked(array) else "iufb" if array.ndim else "iuf"
        return array.dtype.kind in [*kinds] and bool(array.ndim > 0 or array == array)
    except (TypeError, ValueError):
        return False


UNIONS = (typing.Union, types.UnionType)
WORDS = {"Delay": "a law of delays", "OwnSchedule": "another object with a method `simulate`", "PathLike": "a path"}
ANYTHING = Kind(lambda value: True)
NUMBERS = Kind(_are_numbers, "a number or an array of numbers")
PLAIN = {
    int: Kind(checks.is_integer, "an integer"),
    float: Kind(checks.is_number, "a number"),
    str: Kind(lambda value: isinstance(value, str), "a string"),
    bool: Kind(lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    types.NoneType: Kind(lambda value: value is None, "None"),
}
MAPPING = Kind(lambda value: isinstance(value, collections.abc.Mapping), "a mapping")
