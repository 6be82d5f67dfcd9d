"""Copies of components with other settings, as `dataclasses.replace` makes them, also of nested components."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from asyncsim import _checks as checks
from asyncsim.components._families import FAMILIES, ROOTS
from asyncsim.components._settings import (
    LAW,
    REQUIRED,
    Options,
    Values,
    are_entries,
    arguments_of,
    carry,
    is_component,
    name_of,
    values_below,
)


def replaced(component: Any, changes: Values, show: Callable[[str], str] = str, prefix: str = "") -> Any:
    """Return the component with other values of its settings, or itself if there is no change.

    Args:
        component: A component.
        changes: Path -> value.
        show: Path -> name of a setting in error messages.
        prefix: Path of the component in that of which it is a part, with a dot.
    """
    names = dict.fromkeys(path.partition(".")[0] for path in changes)
    values = {name: _value_of(component, name, changes, show, prefix) for name in names}
    new = {name: value for name, value in values.items() if value is not getattr(component, name)}
    if not new:
        return component  # itself, so that its cached values are not computed again
    adapt = getattr(component, "adapted", dict)
    arguments = adapt({**new, **dict.fromkeys(_replaced_alternatives(component, new))})
    return _create(partial(dataclasses.replace, component), arguments, show, prefix)


def _replaced_alternatives(component: Any, values: Values) -> set[str]:
    """Return the arguments of a component or a class whose place another one takes, of which a value is given."""
    alternatives: set[str] = set(getattr(component, "alternatives", ()))
    return alternatives - values.keys() if alternatives & values.keys() else set()


def _create(make: Callable[..., Any], arguments: Values, show: Callable[[str], str], prefix: str) -> Any:
    """Return the object that a call makes, whose errors call an argument by the name of its setting."""
    try:
        return make(**arguments)
    except ValueError as error:
        # Classes refuse their own arguments, also those of users, in messages that begin with the name of the argument.
        name, is_about_one, rule = str(error).removeprefix("`").partition("` must ")
        if type(error) is not ValueError or not is_about_one or name not in arguments:
            raise
        raise ValueError(f"`{show(f'{prefix}{name}')}` must {rule}") from error


def _value_of(component: Any, name: str, changes: Values, show: Callable[[str], str], prefix: str) -> Any:
    """Return the value that a field has after changes of it and of the settings below it."""
    present, argument = getattr(component, name), arguments_of(type(component)).get(name)
    value, below, path = changes.get(name, present), values_below(name, changes), f"{prefix}{name}"
    if argument is not None and argument.options is not None:
        return _choose(path, argument.options, present, value, below, show)
    if name in changes and argument is not None and argument.field.kind == LAW:
        return replaced(ROOTS["delays"].with_mean(show(path), present, value), below, show, f"{path}.")
    if are_entries(value):
        return _replaced_entries(value, below, show, path)
    return replaced(value, below, show, f"{path}.")


def _replaced_entries(entries: tuple[Any, ...], changes: Values, show: Callable[[str], str], path: str) -> Any:
    """Return a tuple of components with other values of their settings, or itself if there is no change."""
    new = tuple(
        replaced(entry, values_below(str(number), changes), show, f"{path}.{number}.")
        for number, entry in enumerate(entries)
    )
    return new if any(after is not before for after, before in zip(new, entries, strict=True)) else entries


def _choose(path: str, options: Options, present: Any, choice: Any, values: Values, show: Callable[[str], str]) -> Any:
    """Return the object of a choice, of which `values` are the settings that change."""
    chosen = _object_or_name(path, options, present, choice, show)
    if not isinstance(chosen, str):
        return replaced(chosen, values, show, f"{path}.")
    kind = options[checks.require_one_of(show(path), chosen, choices=options)]
    if kind is None:
        return None
    carried = _carry(path, options, present, chosen, values, show)
    arguments = {**carried, **_direct_arguments(kind, carried, values, lambda name: show(f"{path}.{name}"))}
    _require_arguments(path, kind, chosen, arguments, show)
    deeper = {name: value for name, value in values.items() if "." in name}
    return replaced(_create(kind, arguments, show, f"{path}."), deeper, show, f"{path}.")


def _object_or_name(path: str, options: Options, present: Any, choice: Any, show: Callable[[str], str]) -> Any:
    """Return the object that a choice means, or the name of another class than that of the present object."""
    is_component_of_choice = is_component(choice, laws=True)
    if options is FAMILIES["delays"] and not is_component_of_choice and (not isinstance(choice, str) or ":" in choice):
        return ROOTS["delays"].with_mean(show(path), present, choice)
    if isinstance(choice, str):
        return present if choice == name_of(present, options) else choice
    if not (choice is present or is_component_of_choice):
        checks.require_one_of(show(path), choice, choices=options)
    return choice


def _carry(
    path: str, options: Options, present: Any, name: str, values: Values, show: Callable[[str], str]
) -> dict[str, Any]:
    """Return the arguments that another class takes over, with a warning of those that it does not accept."""
    kind = options[name]
    carried, refused = carry(present, kind)
    for argument, value in refused.items():
        if argument not in values:
            checks.warn(
                f"{show(path)} {name!r} does not accept the `{show(f'{path}.{argument}')}` {value!r} of "
                f"{name_of(present, options)!r}; its default is used."
            )
    removed = _replaced_alternatives(kind, values)
    return {argument: value for argument, value in carried.items() if argument not in removed}


def _direct_arguments(kind: Any, carried: Values, values: Values, show: Callable[[str], str]) -> dict[str, Any]:
    """Return the arguments of a class that are given themselves. A law is given by its mean."""
    arguments, direct = arguments_of(kind), {name: value for name, value in values.items() if "." not in name}
    laws = {
        name: ROOTS["delays"].with_mean(show(name), carried.get(name), value)
        for name, value in direct.items()
        if name in arguments and arguments[name].field.kind == LAW
    }
    return {**direct, **laws}


def _require_arguments(path: str, kind: Any, choice: str, arguments: Values, show: Callable[[str], str]) -> None:
    """Refuse the choice of a class of which a required argument is missing."""
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is REQUIRED and name not in arguments:
            if name == "data":
                raise ValueError(f"`{show(path)}` {choice!r} needs a data set, and the present one has none.")
            raise ValueError(f"`{show(f'{path}.{name}')}` must be given as well with `{show(path)}` {choice!r}.")
