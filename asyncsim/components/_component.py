"""Components: the objects that a person configures, as frozen dataclasses whose fields are their arguments.

Equality, `repr`, hashing, pickling and `dataclasses.replace` therefore need nothing else. A `Traced` component is a JAX
pytree as well. Its numbers are traced: two components that differ in numbers only share a compiled program, and a
number may be an array with one value per seed. Fields marked `static`, texts and switches choose code.


Equinox's `Module` would serve as well. It is not used because its import takes longer than that of asyncsim, and
because asyncsim validates arguments: here they are checked when a person creates an object, and never while JAX
rebuilds one around traced values.
"""

import dataclasses
import sys
import typing
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, dataclass_transform

import numpy as np

from asyncsim import _checks as checks
from asyncsim.components._frozen import Frozen, frozen

Check = Callable[[str, Any], Any]  # (name, value) -> the value as it is kept
Kind = typing.TypeVar("Kind")

MOST_HASHED = 1000  # numbers of an array
LONGEST = 40  # characters of a value in a `repr`, where longer values are named by their type


def static(*, default: Any = dataclasses.MISSING, init: bool = True) -> Any:
    """A field that chooses code: it is hashable, and another value compiles another program.

    Args:
        default: Value of the argument where it is not given. Without a default the argument is required.
        init: Whether the field is an argument. Otherwise `check` derives it from the arguments.
    """
    return dataclasses.field(default=default, init=init, metadata={"static": True})


def positive(remedy: str) -> Check:
    """A check that an argument is positive, which keeps it as a float, so that 1 and 1.0 are one component."""
    return partial(checks.require_positive, remedy=remedy)


def not_negative(remedy: str) -> Check:
    """As `positive`, with 0 allowed."""
    return partial(checks.require_not_negative, remedy=remedy)


def whole(least: int, remedy: str) -> Check:
    """A check that an argument is an integer of at least `least`."""
    return partial(checks.require_integer, least=least, remedy=remedy)


class Checked(Frozen):
    """Base class of frozen dataclasses whose annotations check their arguments, as `Component` says.

    Arrays, lists and dictionaries are copied, and the copies of arrays are read-only.
    """

    def __post_init__(self) -> None:
        checks, usual = _checks(type(self)), lambda name, value: value
        for name in arguments(type(self)):
            object.__setattr__(self, name, frozen(name, checks.get(name, usual)(name, getattr(self, name))))
        self.check()
        for name in vars(self):  # `check` may have made others
            if isinstance(vars(self)[name], np.ndarray):
                object.__setattr__(self, name, frozen(name, vars(self)[name]))

    def check(self) -> None:
        """Refuse arguments that do not fit together. It is called once a person has created the object."""

    @classmethod
    def _obstacle(cls, arguments: Mapping[str, Any]) -> str | None:
        """Why no object is made of arguments from a description, which may come from somebody else, or None."""


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
class Component(Checked):
    """Base class of configured objects: a subclass becomes a frozen dataclass when it is defined.

    Annotations validate arguments: `Annotated[float, check]` calls `check(name, value)` and keeps its result, a
    `Literal` accepts its values only, `bool` accepts True and False, and `float` any finite number or one per seed.
    Arrays, lists and dictionaries are copied, and the copies of arrays are read-only.

    Example:
        >>> class Spring(Component):
        ...     stiffness: float
        ...     kind: Literal["steel", "rubber"] = "steel"
        >>> Spring(2), Spring(2.0) == Spring(2)
        (Spring(stiffness=2.0, kind='steel'), True)
        >>> Spring(2.0, kind="rubbber")
        Traceback (most recent call last):
        ValueError: `kind` must be one of 'steel', 'rubber'; got 'rubbber'. Did you mean 'rubber'?
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields = {name for base in cls.__mro__ for name in vars(base).get("__dataclass_fields__", ())}
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if name not in vars(cls) and name not in fields and hasattr(cls, name) and "ClassVar" not in str(kind):
                setattr(cls, name, dataclasses.field())  # no default, though a base class has an attribute of the name
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in arguments(type(self))}
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in values.items())})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(is_same(getattr(self, name), getattr(other, name)) for name in arguments(type(self)))

    def __hash__(self) -> int:
        return hash((type(self), *(_hashable(getattr(self, name)) for name in arguments(type(self)))))


def arguments(kind: type[Checked]) -> tuple[str, ...]:
    """Names of the fields of a component that are arguments, in their order."""
    return tuple(field.name for field in dataclasses.fields(kind) if field.init)  # type: ignore[arg-type]


def options_of(annotation: Any) -> list[Any]:
    """Return the members of a union without None, or the annotation itself."""
    union = typing.get_origin(annotation) in (Union, UnionType)
    return [one for one in (typing.get_args(annotation) if union else (annotation,)) if one is not type(None)]


def checks_of(cls: type) -> Mapping[str, Check]:
    """Name -> check, of the arguments that an object of this class checks itself when somebody creates it."""
    return _checks(cls) if getattr(cls, "__post_init__", None) is Checked.__post_init__ else {}


@cache
def _checks(cls: type) -> dict[str, Check]:
    """Name -> check of each field that has one."""
    annotations = typing.get_type_hints(cls, include_extras=True)
    found = {name: check_in(annotations[name], _usual_check) for name in arguments(cls)}
    return {name: check for name, check in found.items() if check is not None}


def check_in(annotation: Any, usual: Callable[[Any], Check | None] = lambda kind: None) -> Check | None:
    """The check of `Annotated[kind, check]` or, for another kind, the usual one. Where None is allowed, it passes."""
    if typing.get_origin(annotation) is Annotated:
        return typing.get_args(annotation)[1]
    options = options_of(annotation)
    if len(options) != 1 or options[0] is annotation:
        return usual(annotation)
    check = check_in(options[0], usual)
    return check and partial(unless_none, check)


def _usual_check(kind: Any) -> Check | None:
    if typing.get_origin(kind) is Literal:
        return partial(checks.one_of, known=typing.get_args(kind))
    return {float: checks.finite, bool: checks.switch}.get(kind)


def unless_none(check: Check, name: str, value: Any) -> Any:
    """The value as a check returns it, or None."""
    return None if value is None else check(name, value)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or ("jax" in sys.modules and isinstance(value, sys.modules["jax"].Array))


def is_same(a: Any, b: Any) -> bool:
    """Whether two values of arguments are equal, also if they are arrays or contain some."""
    if a is b:
        return True
    if _is_array(a) or _is_array(b):
        return np.array_equal(a, b)
    if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
        return all(map(is_same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        return all(is_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _hashable(value: Any) -> Any:
    if _is_array(value):
        return np.shape(value), tuple(np.ravel(value)[:MOST_HASHED].tolist())
    if isinstance(value, (tuple, list)):
        return tuple(map(_hashable, value))
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    return value


def _short(value: Any) -> str:
    """The value (an array as a list) if it is short, else its type."""
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    if isinstance(value, Component) or (len(text) <= LONGEST and "\n" not in text):
        return text
    return f"<{type(value).__name__}{f' {value.shape}' if isinstance(value, np.ndarray) else ''}>"
