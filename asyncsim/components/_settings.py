"""Settings: the arguments of a component and of the components that it contains, each with its path as its address.

The path of a setting names the fields that lead to it, as in `cluster.compute.mean`. `settings` lists them, `resolve`
finds the path that a shorter name means, and `replaced` gives the component with other values. There is no case for any
kind of component.

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

import collections.abc
import dataclasses
import inspect
import sys
import types
import typing
import warnings
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from asyncsim import _checks as checks
from asyncsim._component import BASES, FAMILIES, LIBRARY, checks_of
from asyncsim._remember import cached_per_object
from asyncsim.components._help import described_arguments
from asyncsim.components._texts import Field, law_of
from asyncsim.delays import Constant, Delay, scaled
from asyncsim.delays._law import Law

CUSTOM = "custom"  # name of a choice that is an object of none of the classes with names
NONE = "none"  # name of a choice that is no object
LAW = "law"  # kind of a setting that is a law of delays, and is set by its mean
PART = "part"  # kind of a field that is no setting, because it holds components or functions
BY_MEAN = "Changes the mean and keeps the coefficient of variation."
KEPT = "Another one keeps the arguments that both have."
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


# What a class of components has.


@lru_cache(maxsize=256)
def parameters_of(constructor: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a class or a function that settings can have."""
    hidden = getattr(constructor, "not_settings", ())
    parameters = inspect.signature(constructor).parameters
    return types.MappingProxyType({name: one for name, one in parameters.items() if name not in hidden})


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
            text = about.get("choice") or f"{help} {KEPT}".strip()
            usual = NONE if NONE in options else getattr(fields[name].default_factory, "name", None)
            field = Field(name, "text", text, default=usual, least=about.get("least", 1))
        elif is_law(annotation):
            field = Field(name, LAW, f"{help} {BY_MEAN}".strip(), default=mean_of(default))
        elif is_class and (_holds_components(annotation) or _takes_functions(annotation)):
            field = Field(name, PART, help)
        else:
            field = Field(name, kind_of(annotation, default), help, default=default)
        arguments[name] = Argument(field, annotation, parameter.default, options)
    return types.MappingProxyType(arguments)


def _options_of(annotation: Any, metadata: Mapping[str, Any]) -> Options | None:
    """Return the classes among which a field chooses by name, or None for another field."""
    if "options" in metadata:
        return metadata["options"]
    family = next((BASES[one] for one in options_of(annotation) if isinstance(one, type) and one in BASES), None)
    if family is None or (family == "delays" and "choice" not in metadata):
        return None
    return ChainMap(FAMILIES[family], {NONE: None}) if type(None) in typing.get_args(annotation) else FAMILIES[family]


def every_setting(kind: type, prefix: str = "") -> dict[str, Field]:
    """Return all settings, without values, that components of a class can have: those of every choice."""
    preferred = _is_preferred(kind) and bool(prefix)
    own: dict[str, Field] = {}
    of_parts: dict[str, Field] = {}
    for name, argument in arguments_of(kind).items():
        path = f"{prefix}{name}"
        classes = [one for one in options_of(argument.annotation) if dataclasses.is_dataclass(one)]
        if argument.options is not None:
            own |= _every_option(path, argument)
        elif argument.field.kind == PART and classes and not hasattr(classes[0], "cdf"):
            of_parts |= every_setting(typing.cast(type, classes[0]), f"{path}.")
        elif argument.field.kind != PART:
            own[path] = _field_of(argument, path, None)
    every = own | of_parts
    return {path: dataclasses.replace(one, preferred=True) for path, one in every.items()} if preferred else every


def _every_option(path: str, argument: Argument) -> dict[str, Field]:
    """Return a choice and all arguments of its classes, whose help names the classes unless all have it."""
    assert argument.options is not None
    owned: dict[str, list[tuple[str, Field]]] = {}
    with_arguments = 0
    for owner, kind in sorted(argument.options.items()):
        one = {} if kind is None else {name: a for name, a in arguments_of(kind).items() if a.field.kind != PART}
        with_arguments += bool(one)
        for name, inner in one.items():
            owned.setdefault(name, []).append((owner, inner.field))
    every = {path: _field_of(argument, path, None)}
    for name, fields in owned.items():
        help = Counter(field.help for _, field in fields).most_common(1)[0][0]
        if len(fields) < with_arguments:
            help = f"{help} ({', '.join(owner for owner, _ in fields)})"
        below = Field(f"{path}.{name}", fields[0][1].kind, help, least=argument.field.least)
        every[below.name] = below
    return every


# What a component has.


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
            value = chosen.get(name, value)
            yield name, _field_of(argument, name, mean_of(value))
            if is_component(value, laws=True):
                yield from _cached_below(value, name, False, 2, False)
        elif is_component(value):
            parts.append((name, value))
        elif argument.field.kind != PART and _is_plain(value):
            yield name, _field_of(argument, name, value)
    for name, value in parts:
        inside, preferred = _inside(name, chosen), _is_preferred(type(value))
        if inside:
            yield from _below(name, _walk(value, inside), preferred=preferred)
        else:
            yield from _cached_below(value, name, True, 1, preferred)


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
    value = chosen.get(name, present)
    if isinstance(value, str) and value == name_of(present, argument.options):
        value = present
    if isinstance(value, str):
        kind = argument.options[checks.one_of(name, value, argument.options)]
        yield name, _field_of(argument, name, value)
        if kind is not None:
            below = settings_of_class(kind, carry(present, kind).kept).items()
            yield from _below(name, below, least=argument.field.least)
        return
    shown = name_of(value, argument.options)
    yield name, _field_of(argument, name, shown)
    if is_component(value, laws=True):
        yield from _of_choice(value, name, shown == CUSTOM, argument.field.least)


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
    name: str,
    fields: Iterable[tuple[str, Field]],
    *,
    listed: bool = True,
    least: int = 1,
    preferred: bool = False,
) -> Iterator[tuple[str, Field]]:
    """Yield the settings of a component that a field holds."""
    for path, field in fields:
        changes = {"listed": field.listed and listed, "least": max(least, field.least)}
        path = f"{name}.{path}"
        yield path, dataclasses.replace(field, name=path, preferred=field.preferred or preferred, **changes)


def _inside(name: str, values: Values) -> dict[str, Any]:
    """Return the values below a field, with the paths that they have there."""
    start = f"{name}."
    return {path.removeprefix(start): value for path, value in values.items() if path.startswith(start)}


def _field_of(argument: Argument, path: str, value: Any) -> Field:
    """Return the field of an argument with its path and a value."""
    field, kind = argument.field, argument.field.kind
    if argument.options is None and kind != LAW and argument.annotation is not REQUIRED:
        kind = kind_of(argument.annotation, value)
    choices = () if argument.options is None else tuple(argument.options)
    return Field(path, kind, field.help, field.group, value, choices, field.default, least=field.least)


def name_of(value: Any, options: Options) -> str:
    """Return the name of a choice."""
    if value is None and NONE in options:
        return NONE
    return next((name for name, kind in options.items() if kind is type(value)), CUSTOM)


# The path that a name means.


def resolve(names: Iterable[str], paths: Mapping[str, Field]) -> dict[str, str]:
    """Return name -> path, of the names that mean a setting.

    A name means the setting with that path, else the component's own field, else the path that ends in it, in whole
    names joined by "." or "_". A setting that is not listed needs at least two names of its path. Of several paths,
    those that another name means alone are left out: with `rule_limit` given, `limit` is that of the protocol.

    Raises:
        ValueError: If a name fits several settings, or two names mean the same one.

    Example:
        >>> paths = {path: Field(path, "number", "") for path in ("seed", "cluster.protocol.k", "compressor.k")}
        >>> resolve(["seed", "compressor_k", "k"], paths)
        {'seed': 'seed', 'compressor_k': 'compressor.k', 'k': 'cluster.protocol.k'}
        >>> resolve(["k"], paths)
        Traceback (most recent call last):
        ValueError: `k` fits `cluster.protocol.k` and `compressor.k`. Write `protocol_k` or `compressor_k`.
    """
    fits = {name: paths_named(name, paths) for name in names}
    meant = {name: found[0] for name, found in fits.items() if len(found) == 1}
    unclear = {name: found for name, found in fits.items() if len(found) > 1}
    while unclear:
        free = {name: [path for path in found if path not in meant.values()] for name, found in unclear.items()}
        clear = {name: found[0] for name, found in free.items() if len(found) == 1}
        if not clear:
            name, found = next(iter(unclear.items()))
            short = shorten(paths)
            listed = " and ".join(f"`{path}`" for path in found)
            raise ValueError(f"`{name}` fits {listed}. Write {' or '.join(f'`{short[path]}`' for path in found)}.")
        meant |= clear
        unclear = {name: found for name, found in unclear.items() if name not in clear}
    twice = Counter(meant.values())
    for name, path in meant.items():
        if twice[path] > 1:
            both = " and ".join(f"`{one}`" for one in meant if meant[one] == path)
            raise ValueError(f"{both} are the same setting, `{path}`. Give one of them, not `{name}` as well.")
    return meant


def shorten(paths: Mapping[str, Field]) -> dict[str, str]:
    """Return path -> the shortest name that means it among these settings."""
    ending_in: dict[str, list[str]] = {}
    for path, field in paths.items():
        for ending in _endings(path, field):
            ending_in.setdefault(ending, []).append(path)

    def means(name: str, path: str) -> bool:
        return name == path if name in paths else _preferred(ending_in[name], paths) == [path]

    return {
        path: next((name for name in _endings(path, field) if means(name, path)), path) for path, field in paths.items()
    }


def paths_named(name: str, paths: Mapping[str, Field]) -> list[str]:
    """Return the paths that a name may mean."""
    if name in paths:
        return [name]
    flat = name.replace(".", "_")
    fits = [path for path in paths if path.replace(".", "_").endswith(flat) and flat in _endings(path, paths[path])]
    return _preferred(fits, paths)


def _preferred(fits: list[str], paths: Mapping[str, Field]) -> list[str]:
    """Return the one path among several that is preferred, or else all of them."""
    preferred = [path for path in fits if paths[path].preferred] if len(fits) > 1 else []
    return preferred if len(preferred) == 1 else fits


def _endings(path: str, field: Field) -> list[str]:
    """Return the names by which a setting may be meant, the shortest first."""
    names = path.split(".")
    return ["_".join(names[-count:]) for count in range(min(field.least, len(names)), len(names) + 1)]


# Other values.


def address(component: Any, changes: Values, what: str) -> tuple[dict[str, Any], dict[str, Field]]:
    """Return changes by path, and the settings that the component has with its new choices.

    Args:
        component: A component.
        changes: Name or path -> value.
        what: What a name should be, to follow "is not".

    Raises:
        ValueError: If a name means nothing (the nearest is named), or several settings.
    """
    chosen: dict[str, Any] = {}
    while True:
        fields = settings(component, chosen)
        found = {name: paths_named(name, fields) for name in changes}
        new = {
            paths[0]: _chosen(changes[name])
            for name, paths in found.items()
            if len(paths) == 1 and _chooses(changes[name], fields[paths[0]])
        }
        if new == chosen:
            break
        chosen = new
    meant = resolve(changes, fields)
    for name in changes:
        if name not in meant:
            refuse_unknown(name, component, fields, what)
    return {path: changes[name] for name, path in meant.items()}, fields


def _chooses(value: Any, field: Field) -> bool:
    """Return whether a value decides which settings there are below a field."""
    return (field.kind == LAW or bool(field.choices)) and (isinstance(value, str) or is_component(value, laws=True))


def _chosen(value: Any) -> Any:
    """Return the name or the object that a value chooses. A text with a colon stands for a law."""
    return law_of(value) if isinstance(value, str) and ":" in value else value


def replaced(component: Any, changes: Values, show: Callable[[str], str] = str, prefix: str = "") -> Any:
    """Return the component with other values of its settings, or itself if there is no change.

    Args:
        component: A component.
        changes: Path -> value.
        show: Path -> name of a setting in error messages.
        prefix: Path of the component in that of which it is a part, with a dot.
    """
    inner: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        head, _, rest = path.partition(".")
        inner.setdefault(head, {})[rest] = value
    new = {}
    for name, values in inner.items():
        present, argument = getattr(component, name), arguments_of(type(component)).get(name)
        path = f"{prefix}{name}"
        if argument is not None and argument.options is not None:
            new[name] = _choose(path, argument.options, present, values, show)
            continue
        if "" in values:
            value = values.pop("")
            present = with_mean(name, present, value) if argument and argument.field.kind == LAW else value
        new[name] = replaced(present, values, show, f"{path}.") if values else present
    new = {name: value for name, value in new.items() if value is not getattr(component, name)}
    if not new:
        return component  # itself, so that its cached values are not computed again
    if new.keys() & set(alternatives := getattr(component, "alternatives", ())):
        new = dict.fromkeys(alternatives) | new
    adapted = getattr(component, "adapted", None)
    return dataclasses.replace(component, **(new if adapted is None else adapted(new)))


def _choose(path: str, options: Options, present: Any, values: dict[str, Any], show: Callable[[str], str]) -> Any:
    """Return the object of a choice after changes of the choice, the value of "", and of settings below it."""
    choice = values.pop("", present)
    is_named = isinstance(choice, str) and ":" not in choice
    if options is FAMILIES["delays"] and not (is_named or is_component(choice, laws=True)):
        choice = with_mean(show(path), present, choice)
    elif not (isinstance(choice, str) or choice is present or is_component(choice, laws=True)):
        checks.one_of(show(path), choice, options)
    if not isinstance(choice, str) or choice == name_of(present, options):
        choice = present if isinstance(choice, str) else choice
        return replaced(choice, values, show, f"{path}.") if values else choice
    kind = options[checks.one_of(show(path), choice, options)]
    if kind is None:
        return None
    kept, refused = carry(present, kind)
    direct = {name: value for name, value in values.items() if "." not in name}
    for name, argument in arguments_of(kind).items():
        if name in direct and argument.field.kind == LAW:
            direct[name] = with_mean(name, kept.get(name), direct[name])
    if direct.keys() & set(alternatives := getattr(kind, "alternatives", ())):
        kept = {name: value for name, value in kept.items() if name not in alternatives}
    for name, value in refused.items():
        if name not in direct:
            warn(
                f"{show(path)} {choice!r} does not accept the `{show(f'{path}.{name}')}` {value!r} of "
                f"{name_of(present, options)!r}; its default is used."
            )
    arguments = {**kept, **direct}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is REQUIRED and name not in arguments:
            if name == "data":
                raise ValueError(f"`{show(path)}` {choice!r} needs a data set, and the present one has none.")
            raise ValueError(f"`{show(f'{path}.{name}')}` must be given as well with `{show(path)}` {choice!r}.")
    deeper = {name: value for name, value in values.items() if "." in name}
    return replaced(kind(**arguments), deeper, show, f"{path}.")


def changed(component: Any, changes: Values, what: str) -> Any:
    """Return the component with other values of settings, which are given by name. See `address`."""
    values, paths = address(component, changes, what)
    return replaced(component, values, lambda path: shorten(paths)[path])


class Carried(NamedTuple):
    """Arguments of one object for another class: those that the class accepts, and those that it does not."""

    kept: dict[str, Any]
    refused: dict[str, Any]


def carry(old: Any, kind: type) -> Carried:
    """Return the arguments with which an object of a class takes the place of another one."""
    hook = getattr(kind, "carried", None)
    values = shared_arguments(old, kind) if hook is None else hook(old)
    own_checks, kept, refused = checks_of(kind), dict[str, Any](), dict[str, Any]()
    for name, value in values.items():
        try:
            own_checks.get(name, lambda name, value: value)(name, value)
        except ValueError:
            refused[name] = value
        else:
            kept[name] = value
    return Carried(kept, refused)


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


def with_mean(name: str, law: Any, mean: Any) -> Any:
    """Return the law with another mean, or a constant law if there is none or it is always 0."""
    if isinstance(mean, str):
        return law_of(mean)
    if mean is None or isinstance(mean, Delay) or (isinstance(mean, list | tuple) and isinstance(mean[0], Delay)):
        return mean
    mean, present = checks.require_not_negative(name, mean, remedy="Give a mean in seconds."), mean_of(law)
    if not present or not mean:
        return Constant(mean)
    factor = mean / present
    return tuple(scaled(one, factor) for one in law) if isinstance(law, tuple) else scaled(law, factor)


def refuse_unknown(name: str, component: Any, fields: Mapping[str, Field], what: str) -> None:
    """Say why a name cannot be changed: it belongs to another rule, law or workload, or is misspelt."""
    flat, short = name.replace(".", "_"), shorten(fields)
    for path, field in fields.items():
        if not field.choices:
            continue
        below = [short[one] for one in fields if one.startswith(f"{path}.") and fields[one].listed]
        owners = [
            owner
            for owner, kind in (_options_at(component, path) or {}).items()
            if kind is not None and any(flat in _endings(f"{path}.{one}", field) for one in parameters_of(kind))
        ]
        if owners:
            listed = ", ".join(f"`{one}`" for one in below) or "no fields"
            raise ValueError(
                f"`{name}` is not a field of {short[path]} {field.value!r}, only of {', '.join(owners)}; "
                f"{field.value!r} has {listed}.{checks.did_you_mean(name, below)}"
            )
    known = [short[path] for path, field in fields.items() if field.listed]
    known += [ending for path, field in fields.items() if field.listed for ending in _endings(path, field)]
    raise ValueError(f"`{name}` is not {what}.{checks.did_you_mean(name, known)}")


def _options_at(component: Any, path: str) -> Options | None:
    """Return the classes of a choice by its path."""
    *way, last = path.split(".")
    for name in way:
        component = getattr(component, name, None)
    argument = arguments_of(type(component)).get(last) if is_component(component, laws=True) else None
    return argument and argument.options


# What users call.


def fields(component: Any, **chosen: str) -> tuple[Field, ...]:
    """The settings of a component and of the components that it contains, with short names and their present values.

    A law of delays is shown by its mean. A class has the fields of its arguments, with their defaults. A component with
    a method `fields` answers itself.

    Args:
        component: A component, or a class of components.
        **chosen: Names of other choices, as in `protocol="k_async"`, whose fields are wanted.

    Example:
        >>> import asyncsim as asim
        >>> network = asim.Network(latency=asim.delays.Gamma(mean=0.1, cv=0.5))
        >>> [(field.name, field.kind, field.value) for field in fields(network)][:2]
        [('latency', 'law', 0.1), ('bandwidth', 'number', inf)]
        >>> [(field.name, field.value) for field in fields(asim.rules.WithProxy(asim.rules.Downpour(0.1)))][:3]
        [('rule', 'downpour'), ('learning_rate', 0.1), ('window', 1)]
    """
    if isinstance(component, type):
        return tuple(settings_of_class(component).values())
    if hasattr(component, "fields"):
        return tuple(component.fields(**chosen))
    return tuple(listed(address(component, chosen, f"an argument of {type(component).__name__}")[1]).values())


def listed(paths: Mapping[str, Field]) -> dict[str, Field]:
    """Return the settings that help and tables list, each with its short name."""
    short = shorten(paths)
    return {path: dataclasses.replace(field, name=short[path]) for path, field in paths.items() if field.listed}


def override(component: Any, **changes: Any) -> Any:
    """The component with other arguments, by their names or paths, also of the components that it contains.

    A rule, a protocol or a compute law is given by its name, and keeps the arguments that both have, or as an object.
    Any other law of delays is given as a law, as a text such as "gamma:mean=1:cv=0.3", or as a number, its new mean. A
    component with a method `override` answers itself.

    Args:
        component: A component, or another frozen dataclass.
        **changes: Name of an argument -> its new value. Where several have the name, write more of the path:
            `protocol_k`, or `**{"protocol.k": 4}`.

    Raises:
        ValueError: If nothing has an argument of a name (the nearest is named), several have it, or a value does not
            fit.

    Example:
        >>> import asyncsim as asim
        >>> override(asim.rules.WithProxy(asim.rules.Downpour(0.1)), learning_rate=0.2, proxy_momentum=0.5).rule
        Downpour(learning_rate=0.2, window=1)
        >>> override(asim.Server(service=asim.delays.Gamma(0.1, 0.5)), service=0.2).service
        Gamma(mean=0.2, cv=0.5)
        >>> override(asim.Cluster(workers=4, compute=asim.delays.Gamma(1.0, 0.3)), compute="lognormal").compute
        LogNormal(mean=1.0, cv=0.3)
    """
    if hasattr(component, "override"):
        return component.override(**changes)
    return changed(component, changes, f"an argument of {type(component).__name__}")


# Annotations and values.


def kind_of(annotation: Any, value: Any = None) -> str:
    """Return the kind of text that sets an argument, by its annotation or else by its present value."""
    kinds = {bool: "switch", int: "integer", float: "number", str: "text"}
    for option in options_of(annotation):
        origin, items = typing.get_origin(option), typing.get_args(option)
        if origin is typing.Annotated:
            return kind_of(items[0], value)
        if origin is typing.Literal:
            return "text"
        if option in kinds and not isinstance(value, (list, tuple)):
            return kinds[option]
        if isinstance(origin, type) and issubclass(origin, collections.abc.Sequence):
            return "integers" if items and items[0] is int else "numbers"
    if isinstance(value, (list, tuple)):
        return "integers" if value and all(isinstance(item, int) for item in value) else "numbers"
    if annotation is REQUIRED and type(value) in kinds:
        return kinds[type(value)]
    return "text" if isinstance(value, str) else "number"


def options_of(annotation: Any) -> list[Any]:
    """Return the members of a union without None, or the annotation itself."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return [one for one in (typing.get_args(annotation) if union else (annotation,)) if one is not type(None)]


@cache
def annotations_of(constructor: Any) -> dict[str, Any]:
    """Return name -> annotation, also where annotations are text, unless only a type checker knows a name."""
    try:
        return typing.get_type_hints(constructor, include_extras=True)
    except (NameError, TypeError):
        return {}


def is_law(annotation: Any) -> bool:
    """Return whether a field holds a law of delays, or one for each worker, stage or slot."""
    return annotation is Delay or any(map(is_law, typing.get_args(annotation)))


def _holds_components(annotation: Any) -> bool:
    return dataclasses.is_dataclass(annotation) or any(map(_holds_components, typing.get_args(annotation)))


def _takes_functions(annotation: Any) -> bool:
    """Return whether an argument takes a function and nothing else, None apart."""
    kinds = [typing.get_args(one)[0] if hasattr(one, "__metadata__") else one for one in options_of(annotation)]
    return bool(kinds) and all(typing.get_origin(one) is collections.abc.Callable for one in kinds)


def _is_plain(value: Any) -> bool:
    """Return whether a text can stand for a value."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value[:1]))
    return value is None or isinstance(value, (bool, int, float, str, np.ndarray, np.generic))


def _is_single(field: Field, annotation: Any) -> bool:
    """Return whether a field has, or could have, a number (also one per seed), a switch or a text."""
    if field.value is None:
        return annotation is None or any(
            one in (bool, int, float, str) or typing.get_origin(one) in (typing.Annotated, typing.Literal)
            for one in options_of(annotation)
        )
    if isinstance(field.value, np.ndarray):
        return field.kind in ("number", "integer")
    return isinstance(field.value, (bool, int, float, str))


def is_component(value: Any, laws: bool = False) -> bool:
    """Return whether a value has settings of its own. (A law of delays is one setting, unless `laws`.)"""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return False
    return laws or not isinstance(value, (Law, Delay))  # `Law` first: whether an object is a `Delay` takes its moments


def mean_of(law: Any) -> float | None:
    """Return the mean of a law, or of one for each worker, or None without one."""
    laws = law if isinstance(law, tuple | list) else (law,)
    means = [one.mean for one in laws if hasattr(one, "mean")]
    return sum(means) / len(means) if means else None


def warn(message: str) -> None:
    """Warn where the library was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(f"{LIBRARY}."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
