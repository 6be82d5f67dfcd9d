"""Annotations of arguments: which kind of text stands for a value, and whether a field holds laws or components."""

import collections.abc
import dataclasses
import inspect
import typing
from functools import cache
from typing import Any

from asyncsim.components._checked import union_members
from asyncsim.components._families import BASES


def text_kind_of(annotation: Any, value: Any = None) -> str:
    """Return the kind of text that sets an argument, by its annotation or else by its present value."""
    kinds = {bool: "switch", int: "integer", float: "number", str: "text"}
    options = union_members(annotation)
    for option in options:
        origin, items = typing.get_origin(option), typing.get_args(option)
        if option in (int, float) and any(map(_is_sequence, options)):
            return f"{kinds[option]} by worker"
        if origin is typing.Annotated:
            return text_kind_of(items[0], value)
        if origin is typing.Literal:
            return "text"
        if option in kinds and not isinstance(value, (list, tuple)):
            return kinds[option]
        if _is_sequence(option):
            return "integers" if items and items[0] is int else "numbers"
    if isinstance(value, (list, tuple)):
        return "integers" if value and all(isinstance(item, int) for item in value) else "numbers"
    if annotation is inspect.Parameter.empty and type(value) in kinds:
        return kinds[type(value)]
    return "text" if isinstance(value, str) else "number"


def _is_sequence(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, collections.abc.Sequence)


@cache
def annotations_of(constructor: Any) -> dict[str, Any]:
    """Return name -> annotation, also where annotations are text, unless only a type checker knows a name."""
    try:
        return typing.get_type_hints(constructor, include_extras=True)
    except (NameError, TypeError):  # Python evaluates annotations as a whole, and says in no other way that it cannot.
        return {}


def is_law(annotation: Any) -> bool:
    """Return whether a field holds a law of delays, or one for each worker, stage or slot."""
    is_law_class = isinstance(annotation, type) and BASES.get(annotation) == "delays"
    return is_law_class or any(map(is_law, typing.get_args(annotation)))


def holds_components(annotation: Any) -> bool:
    return dataclasses.is_dataclass(annotation) or any(map(holds_components, typing.get_args(annotation)))


def takes_functions(annotation: Any) -> bool:
    """Return whether an argument takes a function and nothing else, None apart."""
    kinds = [
        typing.get_args(option)[0] if hasattr(option, "__metadata__") else option
        for option in union_members(annotation)
    ]
    return bool(kinds) and all(typing.get_origin(kind) is collections.abc.Callable for kind in kinds)
