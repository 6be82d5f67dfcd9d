"""Families of configured objects, whose classes are found by name: on the command line, in grids, in descriptions.

Importing this module does not import JAX, because delay laws and clusters do without it.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from asyncsim import _checks as checks

LIBRARY = __name__.partition(".")[0]
FAMILIES: dict[str, dict[str, type]] = {}  # family -> command-line name -> class, of the library and of the user
BASES: dict[type, str] = {}  # annotation of a field that holds an object of a family -> the family


class Named:
    """Base class of a family: defining a subclass registers it under its command-line name.

    The name is that of the class in lower case, as in `top_k` for `TopK`, unless the class sets `name`. A subclass
    with `abstract=True` has no name. `members` is a protocol that objects of the family meet, where not all derive from
    the base class.

    Example:
        >>> class Spring(Named, family="springs"):
        ...     pass
        >>> class CoilSpring(Spring):
        ...     pass
        >>> by_name("springs", "coil_spring")
        <class 'asyncsim._families.CoilSpring'>
        >>> by_name("springs", "coil")
        Traceback (most recent call last):
        ValueError: `name` must be one of 'coil_spring'; got 'coil'. Did you mean 'coil_spring'?
        >>> del FAMILIES["springs"], BASES[Spring]
    """

    family: ClassVar[str] = ""
    name: ClassVar[str]

    def __init_subclass__(
        cls, *, family: str | None = None, members: type | None = None, abstract: bool = False, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        if family is not None:
            cls.family = family
            FAMILIES[family] = {}
            BASES[members or cls] = family
        elif not abstract:
            register(cls, FAMILIES[cls.family])


def register(cls: type, classes: dict[str, type]) -> None:
    """Name a class, in lower case unless it says otherwise, and list it, unless the name is one of the library's."""
    if "name" not in vars(cls):
        cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()  # type: ignore[attr-defined]
    name = cls.name  # type: ignore[attr-defined]
    if is_ours(classes.get(name, cls)) and not is_ours(cls):
        raise ValueError(f"`name` {name!r} of {cls.__name__} is that of a {_kind(cls)} of asyncsim. Give another.")
    classes[name] = cls


def by_name(family: str, name: str) -> Any:
    """The class of a family with this command-line name, of the library or of the user."""
    return FAMILIES[family][checks.one_of("name", name, FAMILIES[family])]


def ours(family: str) -> Mapping[str, Any]:
    """Command-line name -> class, of the library's classes of a family."""
    return {name: cls for name, cls in sorted(FAMILIES[family].items()) if is_ours(cls)}


def is_ours(cls: type) -> bool:
    """Whether a class is the library's."""
    return cls.__module__.partition(".")[0] == LIBRARY


def _kind(cls: type) -> str:
    """The base class of the library's from which a user's class derives, in lower case."""
    return next(base for base in cls.__mro__ if is_ours(base)).__name__.lower()
