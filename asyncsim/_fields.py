"""Fields of components: typed arguments with help from docstrings, which flags and grids set by name."""

import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from asyncsim import _checks as checks
from asyncsim._families import by_name
from asyncsim.delays import Constant, Delay, scaled

SECTION = re.compile(r"^ *(Args|Attributes):\s*$")
LONGEST = 40  # characters of a value in a line that lists several
UNSET = ("data", "groups", "counts")  # arguments that no field sets
BY_MEAN = "Changes the mean and keeps the coefficient of variation."
ENTRY = re.compile(r"^( +)(\w+(?:, \w+)*): (.*)$")


@dataclass(frozen=True)
class Field:
    """Something that can be overridden by name.

    Attributes:
        name: The name under which it is set.
        kind: "integer", "number", "law", "switch", "integers", "numbers", "text" or "names".
        help: What it means.
        group: Heading under which it is listed: "Cluster", "Rule", "Workload" or "Study".
        value: Present value; None if it has no value.
        choices: Known values, for a field that chooses by name.
        default: Value that it has where none is given; None if it must be given.
    """

    name: str
    kind: str
    help: str
    group: str = "Study"
    value: Any = None
    choices: tuple[str, ...] = ()
    default: Any = None

    def parse(self, text: str) -> Any:
        """The value that a text on the command line stands for; lists are separated by commas.

        A law is a number, its mean, or its name and arguments, as in "gamma:mean=1:cv=0.3".
        Each of several names may carry a number, as in "name=number"; it is None for a name without one.

        Raises:
            ValueError: If the text is not of this kind.

        Example:
            >>> Field("hidden", "integers", "Sizes.").parse("64,32"), Field("cv", "number", "").parse("2")
            ([64, 32], 2.0)
            >>> Field("latency", "law", "").parse("0.5"), Field("latency", "law", "").parse("gamma:mean=1:cv=0.3")
            (0.5, 'gamma:mean=1:cv=0.3')
            >>> Field("record", "names", "").parse("pi_mean,pi_median=5")
            {'pi_mean': None, 'pi_median': 5}
        """
        if self.choices:
            return checks.one_of(self.name, text, self.choices)
        try:
            return _PARSERS[self.kind](text)
        except ValueError:
            raise ValueError(f"{text!r} is {_WRONG[self.kind]}.") from None

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.show() == _text(self.default)

    def show(self) -> str:
        """The present value as it would be written on the command line."""
        return _text(self.value)


def arguments(constructor: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Arguments that a field can set: all except the data."""
    try:
        return _arguments(constructor)
    except TypeError:  # not hashable, such as a partial of a list
        return _arguments.__wrapped__(constructor)


@lru_cache(maxsize=256)
def _arguments(constructor: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(constructor).parameters
    return types.MappingProxyType({name: parameter for name, parameter in parameters.items() if name not in UNSET})


def fields_of(constructor: Callable[..., Any], group: str, values: Mapping[str, Any] | None = None) -> list[Field]:
    """One field per argument of a constructor, except for an optimiser that is an object, which no text stands for."""
    helps = described_arguments(inspect.getdoc(constructor) or "")
    found = []
    for name, parameter in arguments(constructor).items():
        default = None if parameter.default is parameter.empty else parameter.default
        value, help = default if values is None else values.get(name, default), helps.get(name, "")
        annotation = _annotations(constructor).get(name, parameter.annotation)
        if _is_law(annotation):
            value, default = _mean(value), _mean(default)
            found.append(Field(name, "law", f"{help} {BY_MEAN}".strip(), group, value, default=default))
        elif not hasattr(value, "update"):  # an optimiser, which no text stands for
            annotated = parameter.annotation is not parameter.empty
            kind = kind_of(annotation, value) if annotated else kind_of(type(default), default)
            found.append(Field(name, kind, help, group, value, default=default))
    return found


def fields(component: Any) -> tuple[Field, ...]:
    """The fields of a component, with their present values; those of the components that it contains included.

    A law of delays is shown by its mean. A class has the fields of its arguments, with their defaults. A component with
    a method `fields` answers itself.

    Example:
        >>> import asyncsim as asim
        >>> network = asim.Network(latency=asim.delays.Gamma(mean=0.1, cv=0.5))
        >>> [(field.name, field.kind, field.value) for field in fields(network)][:2]
        [('latency', 'law', 0.1), ('bandwidth', 'number', inf)]
        >>> [field.name for field in fields(asim.rules.WithProxy(asim.rules.Downpour(0.1)))]
        ['learning_rate', 'window', 'proxy_learning_rate', 'proxy_momentum']
    """
    if isinstance(component, type):
        return tuple(fields_of(component, ""))
    if hasattr(component, "fields"):
        return tuple(component.fields())
    values = {name: getattr(component, name) for name in arguments(type(component))}
    found: list[Field] = []
    for field in fields_of(type(component), "", values):
        inner = values[field.name]
        found += fields(inner) if _is_component(inner) else (field,)
    return tuple(found)


def override(component: Any, **changes: Any) -> Any:
    """The component with other arguments; a name that is not its own belongs to a component that it contains.

    A law of delays is given as a law, as a text such as "gamma:mean=1:cv=0.3", or as a number, its new mean. A
    component with a method `override` answers itself.

    Raises:
        ValueError: If nothing has an argument of a name (the nearest is named), or a value does not fit.

    Example:
        >>> import asyncsim as asim
        >>> override(asim.rules.WithProxy(asim.rules.Downpour(0.1)), learning_rate=0.2, proxy_momentum=0.5).numbers
        {'learning_rate': 0.2, 'proxy_momentum': 0.5}
        >>> override(asim.Server(service=asim.delays.Gamma(0.1, 0.5)), service=0.2).service
        Gamma(mean=0.2, cv=0.5)
    """
    if hasattr(component, "override"):
        return component.override(**changes)
    kind, own = type(component), arguments(type(component))
    known = {*own, *(field.name for field in fields(component))}
    for name in changes:
        if name not in known:
            raise ValueError(f"`{name}` is not an argument of {kind.__name__}.{checks.did_you_mean(name, known)}")
    given = {}
    for name in own:
        value = getattr(component, name)
        if name in changes:
            law = _is_law(_annotations(kind).get(name))
            given[name] = _with_mean(name, value, changes[name]) if law else changes[name]
        elif _is_component(value):
            within = {field.name for field in fields(value)}
            inner = {key: changes[key] for key in changes if key not in own and key in within}
            given |= {name: override(value, **inner)} if inner else {}
    return dataclasses.replace(component, **given) if given else component


def settings(fields: Iterable[Field]) -> str:
    """The fields whose values differ from their defaults, as one line of text; values of many numbers are left out."""
    shown = {field.name: field.show() for field in fields if field.value is not None and not field.is_default}
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in shown.items() if len(text) <= LONGEST)


@lru_cache(maxsize=512)
def described_arguments(docstring: str) -> dict[str, str]:
    """Argument name -> its description, taken from the docstring's `Args:` or `Attributes:` section."""
    lines = inspect.cleandoc(docstring).splitlines()
    starts = [number for number, line in enumerate(lines) if SECTION.match(line)]
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines[starts[0] + 1 :] if starts else []:
        entry = ENTRY.match(line)
        if line.strip() and not line.startswith(" "):
            break
        if entry and len(entry[1]) == 4:
            names = entry[2].split(", ")
            found |= {name: [entry[3]] for name in names}
        else:
            for name in names:
                found[name].append(line.strip())
    return {name: " ".join(part for part in text if part).replace("`", "") for name, text in found.items()}


def kind_of(annotation: Any, value: Any = None) -> str:
    """What kind of text sets an argument, from its annotation or else from its present value."""
    options = [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(annotation) if option is not type(None)]
    kinds = {bool: "switch", int: "integer", float: "number", str: "text"}
    for option in options:
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
    return "text" if isinstance(value, str) else "number"


@cache
def _annotations(constructor: Any) -> dict[str, Any]:
    """Name -> annotation; also of a module whose annotations are text, unless only a type checker knows a name."""
    try:
        return typing.get_type_hints(constructor, include_extras=True)
    except (NameError, TypeError):
        return {}


def _is_law(annotation: Any) -> bool:
    """Whether a field holds a law of delays, or one for each worker, stage or slot."""
    return annotation is Delay or any(map(_is_law, typing.get_args(annotation)))


def _is_component(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type | Delay)


def _mean(law: Any) -> float | None:
    """Mean of a law, or of one for each worker."""
    if law is None or not isinstance(law, Delay | tuple | list):
        return None
    laws = [law] if isinstance(law, Delay) else law
    return sum(one.mean for one in laws) / len(laws)


def _with_mean(name: str, law: Any, mean: Any) -> Any:
    """The law with another mean; no law, or one that is always 0, becomes a constant one."""
    if isinstance(mean, str):
        return law_of(mean)
    if mean is None or isinstance(mean, Delay) or (isinstance(mean, list | tuple) and isinstance(mean[0], Delay)):
        return mean
    mean, present = checks.require_not_negative(name, mean, remedy="Give a mean in seconds."), _mean(law)
    if not present or not mean:
        return Constant(mean)
    factor = mean / present
    return tuple(scaled(one, factor) for one in law) if isinstance(law, tuple) else scaled(law, factor)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={every}" for name, every in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "none"
    return str(value)


def _listed(parse: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse_list(text: str) -> list[Any]:
        items = [item.strip() for item in text.strip("[]() ").split(",")]
        return [] if text.strip() == "none" else [parse(item) for item in items if item]

    return parse_list


def _parse_switch(text: str) -> bool:
    switches = {"true": True, "false": False}
    if text.strip().lower() not in switches:
        raise ValueError
    return switches[text.strip().lower()]


def law_of(text: str) -> Any:
    """The law of delays of a text."""
    name, *given = text.strip().split(":")
    arguments = (part.partition("=") for part in given)
    try:
        return by_name("delays", name)(**{key.strip(): float(value) for key, _, value in arguments})
    except TypeError as error:
        raise ValueError(f"{text!r} is no law: {error}") from None


def _parse_law(text: str) -> float | str:
    with suppress(ValueError):
        return float(text)
    law_of(text)
    return text


def _parse_names(text: str) -> dict[str, int | None]:
    items = [item.partition("=") for item in _listed(str)(text)]
    return {name.strip(): int(number) if equals else None for name, equals, number in items}


_WRONG = {
    "integer": "not a whole number",
    "number": "not a number",
    "law": "neither a mean nor a law with its arguments, such as gamma:mean=1:cv=0.3",
    "switch": "neither true nor false",
    "integers": "not a list of whole numbers separated by commas",
    "numbers": "not a list of numbers separated by commas",
    "names": "not a list of name or name=number separated by commas",
}
_PARSERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "number": float,
    "law": _parse_law,
    "switch": _parse_switch,
    "integers": _listed(int),
    "numbers": _listed(float),
    "text": str,
    "names": _parse_names,
}
