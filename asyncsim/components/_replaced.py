"""Other values of settings, and the arguments with which one object takes the place of another."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from asyncsim import _checks as checks
from asyncsim.components._families import FAMILIES, ROOTS
from asyncsim.components._settings import (
    LAW,
    REQUIRED,
    Options,
    Values,
    arguments_of,
    carry,
    is_component,
    name_of,
)


def replaced(component: Any, changes: Values, show: Callable[[str], str] = str, prefix: str = "") -> Any:
    """Return the component with other values of its settings, or itself if there is no change.

    Args:
        component: A component.
        changes: Path -> value.
        show: Path -> name of a setting in error messages.
        prefix: Path of the component in that of which it is a part, with a dot.
    """
    values = {path: value for path, value in changes.items() if "." not in path}
    below: dict[str, dict[str, Any]] = {path.partition(".")[0]: {} for path in changes}
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        below[name] |= {rest: value} if rest else {}
    new = {}
    for name, settings in below.items():
        present, argument = getattr(component, name), arguments_of(type(component)).get(name)
        value, path = values.get(name, present), f"{prefix}{name}"
        if argument is not None and argument.options is not None:
            new[name] = _choose(path, argument.options, present, value, settings, show)
            continue
        if name in values and argument is not None and argument.field.kind == LAW:
            value = ROOTS["delays"].with_mean(name, present, value)
        new[name] = replaced(value, settings, show, f"{path}.") if settings else value
    new = {name: value for name, value in new.items() if value is not getattr(component, name)}
    if not new:
        return component  # itself, so that its cached values are not computed again
    if new.keys() & set(alternatives := getattr(component, "alternatives", ())):
        new = dict.fromkeys(alternatives) | new
    adapted = getattr(component, "adapted", None)
    return dataclasses.replace(component, **(new if adapted is None else adapted(new)))


def _choose(
    path: str, options: Options, present: Any, choice: Any, values: dict[str, Any], show: Callable[[str], str]
) -> Any:
    """Return the object of a choice, of which `values` are the settings that change."""
    is_named = isinstance(choice, str) and ":" not in choice
    if options is FAMILIES["delays"] and not (is_named or is_component(choice, laws=True)):
        choice = ROOTS["delays"].with_mean(show(path), present, choice)
    elif not (isinstance(choice, str) or choice is present or is_component(choice, laws=True)):
        checks.require_one_of(show(path), choice, choices=options)
    if not isinstance(choice, str) or choice == name_of(present, options):
        choice = present if isinstance(choice, str) else choice
        return replaced(choice, values, show, f"{path}.") if values else choice
    kind = options[checks.require_one_of(show(path), choice, choices=options)]
    if kind is None:
        return None
    carried, refused = carry(present, kind)
    direct = {name: value for name, value in values.items() if "." not in name}
    for name, argument in arguments_of(kind).items():
        if name in direct and argument.field.kind == LAW:
            direct[name] = ROOTS["delays"].with_mean(name, carried.get(name), direct[name])
    if direct.keys() & set(alternatives := getattr(kind, "alternatives", ())):
        carried = {name: value for name, value in carried.items() if name not in alternatives}
    for name, value in refused.items():
        if name not in direct:
            checks.warn(
                f"{show(path)} {choice!r} does not accept the `{show(f'{path}.{name}')}` {value!r} of "
                f"{name_of(present, options)!r}; its default is used."
            )
    arguments = {**carried, **direct}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is REQUIRED and name not in arguments:
            if name == "data":
                raise ValueError(f"`{show(path)}` {choice!r} needs a data set, and the present one has none.")
            raise ValueError(f"`{show(f'{path}.{name}')}` must be given as well with `{show(path)}` {choice!r}.")
    deeper = {name: value for name, value in values.items() if "." in name}
    return replaced(kind(**arguments), deeper, show, f"{path}.")
