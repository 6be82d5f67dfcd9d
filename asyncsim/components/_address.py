"""Names of nested settings, such as `cluster.compute.mean`: find the one that is meant, shorten it, and set it."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from asyncsim import _checks as checks
from asyncsim.components._families import FAMILIES
from asyncsim.components._field import Field
from asyncsim.components._parse import parse_law
from asyncsim.components._replaced import replaced
from asyncsim.components._settings import (
    EMPTY,
    LAW,
    Options,
    Values,
    arguments_of,
    is_component,
    parameters_of,
    settings,
    settings_of_class,
)


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
    meant = _match({name: candidates for name, candidates in fits.items() if candidates}, paths)
    twice = Counter(meant.values())
    for name, path in meant.items():
        if twice[path] > 1:
            both = " and ".join(f"`{other}`" for other in meant if meant[other] == path)
            raise ValueError(f"{both} are the same setting, `{path}`. Give one of them, not `{name}` as well.")
    return meant


def _match(
    fits: Mapping[str, list[str]], paths: Mapping[str, Field], decided: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Return name -> path, where a path that one name means alone is none of the candidates of the others."""
    if not fits:
        return {}
    free = {name: [path for path in candidates if path not in decided] for name, candidates in fits.items()}
    clear = {name: candidates[0] for name, candidates in free.items() if len(candidates) == 1}
    if not clear:
        name, candidates = next(iter(fits.items()))
        short = shorten(paths)
        listed = " and ".join(f"`{path}`" for path in candidates)
        remedy = " or ".join(f"`{short[path]}`" for path in candidates)
        raise ValueError(f"`{name}` fits {listed}. Write {remedy}.")
    unclear = {name: candidates for name, candidates in fits.items() if name not in clear}
    return clear | _match(unclear, paths, decided.union(clear.values()))


def shorten(paths: Mapping[str, Field]) -> dict[str, str]:
    """Return path -> the shortest name that means it among these settings."""
    pairs = sorted(
        ((ending, path) for path, field in paths.items() for ending in _endings(path, field)), key=itemgetter(0)
    )
    ending_in = {ending: [path for _, path in same] for ending, same in groupby(pairs, itemgetter(0))}

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
    parts = path.split(".")
    return ["_".join(parts[-count:]) for count in range(min(field.least, len(parts)), len(parts) + 1)]


def address(component: Any, changes: Values, what: str) -> tuple[dict[str, Any], dict[str, Field]]:
    """Return changes by path, and the settings that the component has with its new choices.

    Args:
        component: A component.
        changes: Name or path -> value.
        what: What a name should be, to follow "is not".

    Raises:
        ValueError: If a name means nothing (the nearest is named), or several settings.
    """
    fields = _settings_after(component, changes)
    meant = resolve(changes, fields)
    for name in changes:
        if name not in meant:
            refuse_unknown_setting(name, component, fields, what)
    return {path: changes[name] for name, path in meant.items()}, fields


def _settings_after(component: Any, changes: Values, choices: Values = EMPTY) -> dict[str, Field]:
    """Return the settings with the choices among the changes: each may add settings, which other changes choose."""
    fields = settings(component, choices)
    candidates = {name: paths_named(name, fields) for name in changes}
    new = {
        paths[0]: _chosen(name, changes[name], fields[paths[0]])
        for name, paths in candidates.items()
        if len(paths) == 1 and _chooses(changes[name], fields[paths[0]])
    }
    return fields if new == choices else _settings_after(component, changes, new)


def _chooses(value: Any, field: Field) -> bool:
    """Return whether a value decides which settings there are below a field."""
    return (field.kind == LAW or bool(field.choices)) and (isinstance(value, str) or is_component(value, laws=True))


def _chosen(name: str, value: Any, field: Field) -> Any:
    """Return the name or the object that a value chooses. The text of a law may have its arguments, after colons."""
    takes_laws = field.kind == LAW or set(field.choices) <= set(FAMILIES["delays"])
    if takes_laws and isinstance(value, str) and ":" in value:
        return parse_law(value, name)
    if isinstance(value, str) and field.choices and value != field.value:
        checks.require_one_of(name, value, choices=field.choices)
    return value


def refuse_unknown_setting(name: str, component: Any, fields: Mapping[str, Field], what: str) -> None:
    """Say why a name cannot be changed: it belongs to another rule, law or workload, or is misspelt."""
    flat, short = name.replace(".", "_"), shorten(fields)
    for path, field in fields.items():
        if not field.choices:
            continue
        below = [short[inner] for inner in fields if inner.startswith(f"{path}.") and fields[inner].listed]
        owners = [
            owner
            for owner, kind in (_options_at(component, path) or {}).items()
            if kind is not None
            and any(flat in _endings(f"{path}.{argument}", field) for argument in parameters_of(kind))
        ]
        if owners:
            listed = ", ".join(f"`{short_name}`" for short_name in below) or "no fields"
            raise ValueError(
                f"`{name}` is not a field of {short[path]} {field.value!r}, only of {', '.join(owners)}; "
                f"{field.value!r} has {listed}.{checks.did_you_mean(name, below)}"
            )
    _refuse_entry(name, flat, fields)
    # The shortest names come first, because of names that are equally near the first one is suggested.
    shortest = [short[path] for path, field in fields.items() if field.listed]
    longer = [ending for path, field in fields.items() if field.listed for ending in _endings(path, field)]
    raise ValueError(f"`{name}` is not {what}.{checks.did_you_mean(name, shortest + longer)}")


def _refuse_entry(name: str, flat: str, fields: Mapping[str, Field]) -> None:
    """Say which entries a tuple of components has, or what is below one, where a name looks like such a setting."""
    counts: dict[str, int] = {}  # of the tuples of components, by the name of the field
    short = shorten(fields)
    below: dict[str, list[str]] = {}
    for path in fields:
        for owner, number in pairwise(path.split(".")):
            if number.isdigit():
                counts[owner] = max(counts.get(owner, 0), int(number) + 1)
                below.setdefault(f"{owner}_{number}", []).append(short[path])
    for owner, count in counts.items():
        if entry := re.search(rf"(?:^|_){owner}_(-?\d+|[^_]*)", flat):
            if entry[1] not in map(str, range(count)):
                raise ValueError(
                    f"`{name}` must have the number of an entry of `{owner}`, 0 to {count - 1}. Write "
                    f"`{below[f'{owner}_0'][0]}`, for one."
                )
            settings_of_entry = below[f"{owner}_{entry[1]}"]
            raise ValueError(
                f"`{name}` is no setting of entry {entry[1]} of `{owner}`."
                f"{checks.did_you_mean(name, settings_of_entry)}"
            )
        inner = [each for each in below[f"{owner}_0"] if each.endswith(f"_{flat}")]
        if inner:
            raise ValueError(f"`{name}` is one of each entry of `{owner}`. Write `{inner[0]}`, for one.")


def _options_at(component: Any, path: str) -> Options | None:
    """Return the classes of a choice by its path."""
    *way, last = path.split(".")
    owner = reduce(lambda part, name: getattr(part, name, None), way, component)
    argument = arguments_of(type(owner)).get(last) if is_component(owner, laws=True) else None
    return argument and argument.options


def changed(component: Any, changes: Values, what: str) -> Any:
    """Return the component with other values of settings, which are given by name. See `address`."""
    values, paths = address(component, changes, what)
    return replaced(component, values, lambda path: name_of_setting(path, changes, paths))


def name_of_setting(path: str, changes: Values, paths: Mapping[str, Field]) -> str:
    """Return the name of a setting in messages: that of the changes, or the shortest that means it."""
    name_of_path = {meant: name for name, meant in resolve(changes, paths).items()}
    return {path: path, **shorten(paths), **name_of_path}[path]


def fields(component: Any, **chosen: str) -> tuple[Field, ...]:
    """Return the settings of a component and of those that it contains, with short names and present values.

    A law of delays is shown by its mean. A class has the fields of its arguments, with their defaults. A component with
    a method `fields` answers itself.

    Args:
        component: A component, or a class of components.
        **chosen: Names of other choices, as in `protocol="k_async"`, whose fields are wanted.

    Example:
        >>> import asyncsim as asim
        >>> network = asim.Network(latency=asim.delays.Gamma(mean=0.1, cv=0.5))
        >>> [(field.name, field.kind, field.value) for field in fields(network)][:2]
        [('latency', 'law', 0.1), ('bandwidth', 'number by worker', inf)]
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
    """Return the component with other arguments, by their names or paths, also of the components that it contains.

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
