"""Components that compiled programs receive: JAX pytrees whose numbers are traced.

They stand apart from other components because laws of delays and data sets do without JAX.
"""

import dataclasses
import typing
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Literal, Self

import jax
import numpy as np

from asyncsim import _checks as checks
from asyncsim.components._checked import union_members
from asyncsim.components._component import Component
from asyncsim.components._frozen import frozen


class Traced(Component):
    """Base class of components that compiled programs receive: pytrees whose numbers are traced.

    Example:
        >>> class Mass(Traced):
        ...     kilograms: float
        ...     falls: bool = True
        >>> jax.tree.leaves(Mass(3)), jax.tree.structure(Mass(3)) == jax.tree.structure(Mass(4))
        ([3.0], True)
    """

    _traced: ClassVar[tuple[str, ...]] = ()
    _static: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        kinds: dict[str, Any] = {}
        if any(isinstance(field.type, str) for field in fields):  # `from __future__ import annotations`
            with suppress(NameError):  # An annotation may name the class itself, or a name for type checkers only.
                kinds = typing.get_type_hints(cls, include_extras=True)
        static = {field.name: _is_static(field, kinds.get(field.name, field.type)) for field in fields}
        cls._traced = tuple(name for name in static if not static[name])
        cls._static = tuple(name for name in static if static[name])
        jax.tree_util.register_pytree_with_keys(cls, _flatten_with_keys, partial(_unflatten, cls), _flatten)

    @property
    def numbers(self) -> dict[str, Any]:
        """Path -> value of every traced number, as in "rule.learning_rate" of a rule that contains another."""
        return {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(self)}

    def with_numbers(self, numbers: Mapping[str, Any]) -> Self:
        """Return the component with some of its `numbers` replaced, as they are: tracers are accepted.

        Raises:
            ValueError: If it has no number with this path.

        Example:
            >>> import asyncsim as asim
            >>> asim.rules.Downpour(0.1).with_numbers({"learning_rate": 0.2})
            Downpour(learning_rate=0.2, window=1)
        """
        paths = self.numbers
        if unknown := numbers.keys() - paths.keys():
            raise ValueError(
                f"`numbers` must be among {', '.join(map(repr, paths))}; got {checks.brief(min(unknown))}."
                f"{checks.did_you_mean(min(unknown), paths, quote=chr(39))}"
            )
        return jax.tree_util.tree_map_with_path(lambda path, leaf: numbers.get(_name(path), leaf), self)


class Structure:
    """A component as a key that equals those of all components that differ from it in numbers only."""

    def __init__(self, component: Any) -> None:
        self.component, self.structure = component, jax.tree.structure(component)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.structure == other.structure

    def __hash__(self) -> int:
        return hash(self.structure)


def _flatten(component: Traced) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    traced = tuple(getattr(component, name) for name in component._traced)
    return traced, tuple(getattr(component, name) for name in component._static)


def _flatten_with_keys(component: Traced) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    traced, static = _flatten(component)
    return tuple(zip(map(jax.tree_util.GetAttrKey, component._traced), traced, strict=True)), static


def _unflatten(cls: type[Traced], static: tuple[Any, ...], traced: Iterable[Any]) -> Traced:
    component = object.__new__(cls)  # JAX rebuilds components around tracers, which no check of arguments accepts.
    for name, value in (*zip(cls._traced, traced, strict=True), *zip(cls._static, static, strict=True)):
        object.__setattr__(component, name, frozen(name, value) if isinstance(value, np.ndarray) else value)
    return component


def _name(path: tuple[Any, ...]) -> str:
    """Return the fields that lead to a number, and its place in a list or a dictionary."""
    return jax.tree_util.keystr(path).removeprefix(".")


def _is_static(field: dataclasses.Field[Any], annotation: Any) -> bool:
    """Return whether a field is marked, or can only choose code: no program traces a text or a switch."""
    kinds = {typing.get_origin(kind) or kind for kind in union_members(annotation)}
    return field.metadata.get("static", False) or bool(kinds & {bool, str, Literal})
