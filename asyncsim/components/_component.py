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
from collections.abc import Mapping
from typing import Any, dataclass_transform

import numpy as np

from asyncsim.components._checked import Checked, arguments, own_annotations

MOST_HASHED = 1000  # numbers of an array
LONGEST = 40  # characters of a value in a `repr`, where longer values are named by their type


def static(*, default: Any = dataclasses.MISSING, init: bool = True) -> Any:
    """Return a field that chooses code: it is hashable, and another value compiles another program.

    Args:
        default: Value of the argument where it is not given. Without a default the argument is required.
        init: Whether the field is an argument. Otherwise `check` derives it from the arguments.
    """
    return dataclasses.field(default=default, init=init, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
class Component(Checked):
    """Base class of configured objects: a subclass becomes a frozen dataclass when it is defined.

    Leave out the decorator `@dataclass`, for which Python says "Cannot overwrite attribute __setattr__".

    Annotations validate arguments: `Annotated[float, check]` calls `check(name, value)` and keeps its result, and with
    a text after the check `check(name, value, remedy=text)`. A `Literal` accepts its values only, `bool` accepts True
    and False, and `float` any finite number or one per seed. An argument of an unknown name is refused.
    Arrays, lists and dictionaries are copied, and the copies of arrays are read-only.

    Example:
        >>> from typing import Literal
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
        for name, kind in own_annotations(cls).items():
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


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or ("jax" in sys.modules and isinstance(value, sys.modules["jax"].Array))


def is_same(a: Any, b: Any) -> bool:
    """Return whether two values of arguments are equal, also if they are arrays or contain some."""
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
    """Return the value (an array as a list) if it is short, else its type."""
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    if isinstance(value, Component) or (len(text) <= LONGEST and "\n" not in text):
        return text
    return f"<{type(value).__name__}{f' {value.shape}' if isinstance(value, np.ndarray) else ''}>"
