"""Families: components that are chosen by name, such as rules and laws of delays.

`FAMILIES` lists the classes of each family for the command line, grids and descriptions.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from asyncsim import _checks as checks

LIBRARY = __name__.partition(".")[0]
HOMES = ("cluster", "compressors", "datasets", "delays", "rules", "workloads")  # packages that define families
FAMILIES: dict[str, dict[str, type]] = {}  # family -> command-line name -> class, of the library and of the user
BASES: dict[type, str] = {}  # annotation of a field that holds an object of a family -> the family
ROOTS: dict[str, Any] = {}  # family -> its base class
EXAMPLES: dict[str, str] = {}  # family -> a call that makes one of it, for messages


class Named:
    """Base class of a family: defining a subclass registers it under its command-line name.

    The name is that of the class in lower case, as in `top_k` for `TopK`, unless the class sets `name`. A subclass
    with `named=False` has no name. `members` is a protocol that objects of the family meet, where not all derive from
    the base class, and `example` is a call that makes one of them.

    Example:
        >>> class Spring(Named, family="springs"):
        ...     pass
        >>> class CoilSpring(Spring):
        ...     pass
        >>> by_name("springs", "coil_spring")
        <class 'asyncsim.components._families.CoilSpring'>
        >>> by_name("springs", "coil")
        Traceback (most recent call last):
        ValueError: `name` must be one of 'coil_spring'; got 'coil'. Did you mean 'coil_spring'?
        >>> del FAMILIES["springs"], BASES[Spring], ROOTS["springs"], EXAMPLES["springs"]
    """

    family: ClassVar[str] = ""
    name: ClassVar[str]

    def __init_subclass__(
        cls,
        *,
        family: str | None = None,
        members: type | None = None,
        example: str = "",
        named: bool = True,
        **options: Any,
    ) -> None:
        super().__init_subclass__(**options)
        if family is not None:
            cls.family = family
            FAMILIES[family] = {}
            BASES[members or cls] = family
            ROOTS[family] = cls
            EXAMPLES[family] = example
        elif named:
            if "name" not in vars(cls):
                cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
            if is_ours(FAMILIES[cls.family].get(cls.name, cls)) and not is_ours(cls):
                kind = next(base for base in cls.__mro__ if is_ours(base)).__name__.lower()
                message = f"`name` {cls.name!r} of {cls.__name__} is that of a {kind} of asyncsim"
                raise ValueError(f"{message}. Give another.")
            FAMILIES[cls.family][cls.name] = cls


def by_name(family: str, name: str) -> Any:
    """Return the class of a family with this command-line name, of the library or of the user."""
    return FAMILIES[family][checks.require_one_of("name", name, choices=FAMILIES[family])]


def built_in_classes(family: str) -> Mapping[str, Any]:
    """Return the library's classes of a family under their command-line names, without those of your own.

    Args:
        family: "rules", "weights", "compressors", "workloads", "datasets", "delays" or "protocols".

    Returns:
        Name -> class, in alphabetical order.

    Raises:
        ValueError: If there is no such family. The nearest name is suggested.

    Example:
        >>> import asyncsim as asim
        >>> asim.components.built_in_classes("compressors")["top_k"] is asim.compressors.TopK
        True
    """
    if family not in FAMILIES:
        import_families()
    classes = FAMILIES[checks.require_one_of("family", family, choices=FAMILIES)]
    return {name: cls for name, cls in sorted(classes.items()) if is_ours(cls)}


def import_families() -> None:
    """Import the packages whose families `FAMILIES` lists once they are imported, which `import asyncsim` defers."""
    for package in HOMES:
        import_module(f"{LIBRARY}.{package}")


def is_ours(cls: type) -> bool:
    """Return whether a class is the library's."""
    return cls.__module__.partition(".")[0] == LIBRARY


def is_member(value: Any, family: str) -> bool:
    """Return whether an object belongs to a family: to a class of it, or to the protocol that its members meet."""
    if family not in ROOTS or isinstance(value, ROOTS[family]):
        return family in ROOTS
    # A protocol comes last, since a check against one computes the properties of the object.
    return any(BASES[base] == family and isinstance(value, base) for base in BASES)
