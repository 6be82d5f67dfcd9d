"""Settings, which are the arguments of a component's class and of the components in it: each has its path as address.

The path of a setting names the fields that lead to it, as in `cluster.compute.mean`. `settings` lists them. `resolve`
in `_address` finds the path that a shorter name means, and `replaced` in `_replaced` gives the component with other
values. Only laws of delays are special: they are set by their mean.

A field whose annotation is the base class of a family, such as a rule or a protocol, is chosen by name, and the
arguments of its present choice are settings below it. Another choice keeps the arguments that both have. Two hooks say
otherwise:

- `Class.carried(old)`, a class method, returns the arguments with which an object of the class takes the place of
  another one. A law of delays keeps mean and coefficient of variation.
- `component.adapted(changes)` returns changes of fields together with those that follow from them. With another number
  of workers a fleet keeps the shares of its classes.

Three class variables belong to settings as well: `not_settings` names arguments that are data or are bound later,
`alternatives` names arguments of which one replaces the others, and `preferred` says that a name that fits settings of
several parts means that of this one.
"""

import dataclasses
import inspect
import types
import typing
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from asyncsim import _checks as checks
from asyncsim.components._annotations import annotations_of, holds_components, is_law, takes_functions, text_kind_of
from asyncsim.components._checked import checks_of, union_members
from asyncsim.components._families import BASES, FAMILIES, is_member
from asyncsim.components._field import Field
from asyncsim.components._help import described_arguments
from asyncsim.components._remember import cached_per_object

CUSTOM = "custom"  # name of a choice that is an object of none of the classes with names
NONE = "none"  # name of a choice that is no object
LAW = "law"  # kind of a setting that is a law of delays, and is set by its mean
PART = "part"  # kind of a field that is no setting, because it holds components or functions
LAW_HELP = "Changes the mean and keeps the coefficient of variation."
CHOICE_HELP = "Another one keeps the arguments that both have."
REQUIRED = inspect.Parameter.empty

Values = Mapping[str, Any]  # path -> value
Options = Mapping[str, Any]  # command-line name -> class, or None for no object
EMPTY: Values = types.MappingProxyType({})


class Argument(NamedTuple):
    """An argument of a class."""

    field: Field  # name, kind, help and default
    annotation: Any
    default: Any  # `REQUIRED` if it must be given
    options: Options | None = None  # of a choice by name


@lru_cache(maxsize=256)
def parameters_of(constructor: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a class or a function that settings can have."""
    hidden = getattr(constructor, "not_settings", ())
    parameters = inspect.signature(constructor).parameters
    return types.MappingProxyType({name: parameter for name, parameter in parameters.items() if name not in hidden})


@cache
def arguments_of(constructor: Callable[..., Any]) -> Mapping[str, Argument]:
    """Return the arguments of a class or a function by name."""
    annotations, helps = annotations_of(constructor), described_arguments(constructor)
    is_class = dataclasses.is_dataclass(constructor)
    fields = {field.name: field for field in dataclasses.fields(constructor)} if is_class else {}
    arguments = {}
    for name, parameter in parameters_of(constructor).items():
        annotation, help = annotations.get(name, parameter.annotation), helps.get(name, "")
        default = None if parameter.default is REQUIRED else parameter.default
        about = fields[name].metadata if name in fields else {}
        options = _options_of(annotation, about) if is_class else None
        if options is not None:
            text = about.get("choice") or f"{help} {CHOICE_HELP}".strip()
            usual = NONE if NONE in options else getattr(fields[name].default_factory, "name", None)
            field = Field(name, "text", text, default=usual, least=about.get("least", 1))
        elif is_law(annotation):
            field = Field(name, LAW, f"{help} {LAW_HELP}".strip(), default=mean_of(default))
        elif is_class and (holds_components(annotation) or takes_functions(annotation)):
            field = Field(name, PART, help)
        else:
            least = about.get("least", 1)
            field = Field(name, text_kind_of(annotation, default), help, default=default, least=least)
        arguments[name] = Argument(field, annotation, parameter.default, options)
    return types.MappingProxyType(arguments)


def _options_of(annotation: Any, metadata: Mapping[str, Any]) -> Options | None:
    """Return the classes among which a field chooses by name, or None for another field."""
    if "options" in metadata:
        return metadata["options"]
    family = next((BASES[kind] for kind in union_members(annotation) if isinstance(kind, type) and kind in BASES), None)
    if family is None or (family == "delays" and "choice" not in metadata):
        return None
    return ChainMap(FAMILIES[family], {NONE: None}) if type(None) in typing.get_args(annotation) else FAMILIES[family]


def every_setting(kind: type, prefix: str = "") -> dict[str, Field]:
    """Return all settings, without values, that components of a class can have: those of every choice."""
    arguments = {f"{prefix}{name}": argument for name, argument in arguments_of(kind).items()}
    direct = chain.from_iterable(_every_own(path, argument).items() for path, argument in arguments.items())
    parts = {path: part for path, argument in arguments.items() if (part := _part_of(argument)) is not None}
    of_parts = chain.from_iterable(every_setting(part, f"{path}.").items() for path, part in parts.items())
    every = {**dict(direct), **dict(of_parts)}
    if not (_is_preferred(kind) and prefix):
        return every
    return {path: dataclasses.replace(field, preferred=True) for path, field in every.items()}


def _part_of(argument: Argument) -> type | None:
    """Return the class of the component that an argument holds, if its settings are those of a part."""
    classes = [kind for kind in union_members(argument.annotation) if dataclasses.is_dataclass(kind)]
    is_part = argument.options is None and argument.field.kind == PART and classes and not hasattr(classes[0], "cdf")
    return typing.cast(type, classes[0]) if is_part else None


def _every_own(path: str, argument: Argument) -> dict[str, Field]:
    """Return the setting of an argument, or a choice and all arguments of its classes."""
    if argument.options is None:
        return {} if argument.field.kind == PART else {path: _field_of(argument, path, None)}
    fields_of = {
        owner: {} if kind is None else {name: a.field for name, a in arguments_of(kind).items() if a.field.kind != PART}
        for owner, kind in sorted(argument.options.items())
    }
    owners = sum(map(bool, fields_of.values()))
    below = {
        f"{path}.{name}": {owner: fields[name] for owner, fields in fields_of.items() if name in fields}
        for name in dict.fromkeys(chain.from_iterable(fields_of.values()))
    }
    shared = {place: _share_field(place, fields, owners, argument.field.least) for place, fields in below.items()}
    return {path: _field_of(argument, path, None), **shared}


def _share_field(path: str, fields: Mapping[str, Field], owners: int, least: int) -> Field:
    """Return the field of an argument that several classes have, whose help names them unless all have it."""
    help = Counter(field.help for field in fields.values()).most_common(1)[0][0]
    names = f" ({', '.join(fields)})" if len(fields) < owners else ""
    return Field(path, next(iter(fields.values())).kind, f"{help}{names}", least=least)


def settings(component: Any, chosen: Values = EMPTY) -> dict[str, Field]:
    """Return the settings of a component: path -> field with its present value.

    Args:
        component: A component, or another frozen dataclass.
        chosen: Path of a choice -> the name of another one, or an object, whose settings are wanted instead.
    """
    return dict(_walk(component, chosen))


def settings_of_class(constructor: Callable[..., Any], values: Values = EMPTY) -> dict[str, Field]:
    """Return the settings of a class or a function, with these values or else the defaults."""
    fields = {}
    for name, argument in arguments_of(constructor).items():
        value = values.get(name, None if argument.default is REQUIRED else argument.default)
        if argument.field.kind == LAW:
            fields[name] = _field_of(argument, name, mean_of(value))
        elif argument.options is not None:
            fields[name] = _field_of(argument, name, argument.field.default)
        elif argument.field.kind != PART and (_is_plain(value) or not isinstance(constructor, type)):
            fields[name] = _field_of(argument, name, value)
    return fields


def _walk(component: Any, chosen: Values = EMPTY) -> Iterator[tuple[str, Field]]:
    """Yield the settings of a component: its own and those of its choices, then those of its parts."""
    parts = []
    for name, argument in arguments_of(type(component)).items() if is_component(component, laws=True) else ():
        value = getattr(component, name)
        if argument.options is not None:
            yield from _walk_choice(name, argument, value, chosen)
        elif argument.field.kind == LAW:
            law = chosen.get(name, value)
            yield name, _field_of(argument, name, mean_of(law))
            if is_component(law, laws=True):
                yield from _cached_below(law, name, False, 2, False)
        elif is_component(value):
            parts.append((name, value))
        elif are_entries(value):
            yield from _walk_entries(name, value, chosen)
        elif argument.field.kind != PART and _is_plain(value):
            yield name, _field_of(argument, name, value)
    for name, value in parts:
        choices, preferred = values_below(name, chosen), _is_preferred(type(value))
        if choices:
            yield from _below(name, _walk(value, choices), preferred=preferred)
        else:
            yield from _cached_below(value, name, True, 1, preferred)


def _walk_entries(name: str, entries: tuple[Any, ...], chosen: Values) -> Iterator[tuple[str, Field]]:
    """Yield the settings of components in a tuple. Each needs all names from the tuple's on, and help lists none."""
    for number, entry in enumerate(entries):
        start = f"{name}.{number}"
        for path, field in _below(start, _walk(entry, values_below(start, chosen)), listed=False):
            yield path, dataclasses.replace(field, least=path.count(".") + 1, preferred=False)


@cached_per_object
def _cached_below(
    component: Any, name: str, listed: bool, least: int, preferred: bool
) -> tuple[tuple[str, Field], ...]:
    return tuple(_below(name, _walk(component), listed=listed, least=least, preferred=preferred))


def _is_preferred(kind: type) -> bool:
    """Return whether a bare name means a setting of this class rather than of another part."""
    return getattr(kind, "preferred", False)


def _walk_choice(name: str, argument: Argument, present: Any, chosen: Values) -> Iterator[tuple[str, Field]]:
    """Yield a choice, and the settings of its object or of another choice."""
    assert argument.options is not None
    choice = chosen.get(name, present)
    value = present if isinstance(choice, str) and choice == name_of(present, argument.options) else choice
    if isinstance(value, str):
        kind = argument.options[checks.require_one_of(name, value, choices=argument.options)]
        yield name, _field_of(argument, name, value)
        if kind is not None:
            below = settings_of_class(kind, carry(present, kind).accepted).items()
            yield from _below(name, below, least=argument.field.least)
        return
    name_of_choice = name_of(value, argument.options)
    yield name, _field_of(argument, name, name_of_choice)
    if is_component(value, laws=True):
        yield from _of_choice(value, name, name_of_choice == CUSTOM, argument.field.least)


@cached_per_object
def _of_choice(value: Any, name: str, is_custom: bool, least: int) -> tuple[tuple[str, Field], ...]:
    """Return the settings of the object of a choice, collected once for each object."""
    below = _walk(value)
    return tuple(_below(name, _singles(value, name, below) if is_custom else map(_with_list, below), least=least))


def _with_list(setting: tuple[str, Field]) -> tuple[str, Field]:
    """Return a setting with a list in place of an array or a tuple."""
    path, field = setting
    if not isinstance(field.value, (np.ndarray, tuple)):
        return setting
    value = np.asarray(field.value).tolist() if isinstance(field.value, np.ndarray) else list(field.value)
    kind = "numbers" if isinstance(value, list) and field.kind == "number" else field.kind
    return path, dataclasses.replace(field, value=value, kind=kind)


def _singles(value: Any, choice: str, below: Iterable[tuple[str, Field]]) -> Iterator[tuple[str, Field]]:
    """Yield the numbers, switches and texts of an object of no class with a name."""
    annotations = annotations_of(type(value))
    for path, field in below:
        if field.kind != LAW and not field.choices and _is_single(field, annotations.get(path)):
            yield path, dataclasses.replace(field, help=field.help or f"Of the script's own {choice}.")


def _below(
    name: str, fields: Iterable[tuple[str, Field]], *, listed: bool = True, least: int = 1, preferred: bool = False
) -> Iterator[tuple[str, Field]]:
    """Yield the settings of a component that a field holds."""
    for path_below, field in fields:
        path, changes = f"{name}.{path_below}", {"listed": field.listed and listed, "least": max(least, field.least)}
        yield path, dataclasses.replace(field, name=path, preferred=field.preferred or preferred, **changes)


def values_below(name: str, values: Values) -> dict[str, Any]:
    """Return the values below a field, with the paths that they have there."""
    start = f"{name}."
    return {path.removeprefix(start): value for path, value in values.items() if path.startswith(start)}


def _field_of(argument: Argument, path: str, value: Any) -> Field:
    """Return the field of an argument with its path and a value."""
    field, kind = argument.field, argument.field.kind
    if argument.options is None and kind != LAW and argument.annotation is not REQUIRED:
        kind = text_kind_of(argument.annotation, value)
    choices = () if argument.options is None else tuple(argument.options)
    return Field(path, kind, field.help, field.group, value, choices, field.default, least=field.least)


def name_of(value: Any, options: Options) -> str:
    """Return the name of a choice."""
    if value is None and NONE in options:
        return NONE
    return next((name for name, kind in options.items() if kind is type(value)), CUSTOM)


class Carried(NamedTuple):
    """Arguments of one object for another class: those that the class accepts, and those that it does not."""

    accepted: dict[str, Any]
    refused: dict[str, Any]


def carry(old: Any, kind: type) -> Carried:
    """Return the arguments with which an object of a class takes the place of another one."""
    hook = getattr(kind, "carried", None)
    values = shared_arguments(old, kind) if hook is None else hook(old)
    refused = {name: value for name, value in values.items() if not _accepts(kind, name, value)}
    return Carried({name: value for name, value in values.items() if name not in refused}, refused)


def _accepts(kind: type, name: str, value: Any) -> bool:
    """Return whether a class accepts a value of an argument. The check of an argument answers by an error."""
    with suppress(ValueError):
        checks_of(kind).get(name, lambda name, value: value)(name, value)
        return True
    return False


def shared_arguments(old: Any, kind: type) -> dict[str, Any]:
    """Return the values that an object has of arguments of a class, except those that mean "not given"."""
    if not dataclasses.is_dataclass(old):
        return {}
    takes, defaults = (
        inspect.signature(kind).parameters,
        {field.name: field.default for field in dataclasses.fields(old)},
    )
    values = {name: getattr(old, name) for name in takes if name in defaults}
    return {name: value for name, value in values.items() if not value is defaults[name] is None}


def _is_plain(value: Any) -> bool:
    """Return whether a text can stand for a value."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value[:1]))
    return value is None or isinstance(value, (bool, int, float, str, np.ndarray, np.generic))


def _is_single(field: Field, annotation: Any) -> bool:
    """Return whether a field has, or could have, a number (also one per seed or worker), a switch or a text."""
    if field.value is None:
        return annotation is None or any(
            option in (bool, int, float, str) or typing.get_origin(option) in (typing.Annotated, typing.Literal)
            for option in union_members(annotation)
        )
    if isinstance(field.value, np.ndarray):
        return field.kind in ("number", "integer")
    return isinstance(field.value, (bool, int, float, str)) or field.kind.endswith("by worker")


def is_component(value: Any, laws: bool = False) -> bool:
    """Return whether a value has settings of its own. (A law of delays is one setting, unless `laws`.)"""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return False
    return laws or not is_member(value, "delays")


def are_entries(value: Any) -> bool:
    """Return whether a value is a tuple of components, such as the regions of a hierarchy."""
    return isinstance(value, tuple) and bool(value) and all(map(is_component, value))


def mean_of(law: Any) -> float | None:
    """Return the mean of a law, or of one for each worker, or None without one."""
    laws = law if isinstance(law, tuple | list) else (law,)
    means = [each.mean for each in laws if hasattr(each, "mean")]
    return sum(means) / len(means) if means else None
