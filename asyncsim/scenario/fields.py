"""Fields of a study: the arguments of its constructors, with help taken from the constructors' docstrings."""

import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from asyncsim import checks
from asyncsim.rules.optimisers import Transformation

SECTION = re.compile(r"^ *(Args|Attributes):\s*$")
LONGEST = 40  # characters of a value in a line that lists several
ENTRY = re.compile(r"^( +)(\w+(?:, \w+)*): (.*)$")


@dataclass(frozen=True)
class Field:
    """Something that can be overridden by name.

    Attributes:
        name: The name under which it is set.
        kind: "integer", "number", "switch", "integers", "numbers", "text" or "names".
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

        Each of several names may carry a number, as in "name=number"; it is None for a name without one.

        Raises:
            ValueError: If the text is not of this kind.

        Example:
            >>> Field("hidden", "integers", "Sizes.").parse("64,32"), Field("cv", "number", "").parse("2")
            ([64, 32], 2.0)
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
    return types.MappingProxyType({name: parameter for name, parameter in parameters.items() if name != "data"})


def fields_of(constructor: Callable[..., Any], group: str, values: Mapping[str, Any] | None = None) -> list[Field]:
    """One field per argument of a constructor, except for an optimiser that is an object, which no text stands for.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> for field in fields_of(Gamma, "Cluster", {"mean": 1.0, "cv": 0.3}):
        ...     print(field.name, field.kind, field.value, "-", field.help)
        mean number 1.0 - Mean delay, in seconds.
        cv number 0.3 - Coefficient of variation, standard deviation over mean.

        An argument without an annotation is of the kind of its default:

        >>> [field.kind for field in fields_of(lambda workers=8, shares=(0.5, 1), log="": None, "Study")]
        ['integer', 'numbers', 'text']
    """
    helps = described_arguments(inspect.getdoc(constructor) or "")
    fields = []
    for name, parameter in arguments(constructor).items():
        default = None if parameter.default is parameter.empty else parameter.default
        value = default if values is None else values.get(name, default)
        if isinstance(value, Transformation):
            continue
        annotated = parameter.annotation is not parameter.empty
        kind = kind_of(parameter.annotation, value) if annotated else kind_of(type(default), default)
        fields.append(Field(name, kind, helps.get(name, ""), group, value, default=default))
    return fields


def settings(fields: Iterable[Field]) -> str:
    """The fields whose values differ from their defaults, as one line of text; values of many numbers are left out.

    Example:
        >>> settings([Field("momentum", "number", "", value=0.9, default=0.9), Field("kappa", "number", "", value=2.0)])
        'kappa 2'
    """
    shown = {field.name: field.show() for field in fields if field.value is not None and not field.is_default}
    return ", ".join(f"{name} {text}" for name, text in shown.items() if len(text) <= LONGEST)


@lru_cache(maxsize=512)
def described_arguments(docstring: str) -> dict[str, str]:
    """Argument name -> its description, taken from the docstring's `Args:` or `Attributes:` section.

    Example:
        >>> described_arguments("What.\\n\\nArgs:\\n    a, b: Two\\n        numbers.\\n\\nReturns:\\n    c")
        {'a': 'Two numbers.', 'b': 'Two numbers.'}
    """
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
    """What kind of text sets an argument, from its annotation or else from its present value.

    Example:
        >>> from collections.abc import Sequence
        >>> kind_of(int), kind_of(Sequence[float]), kind_of(int | None), kind_of(typing.Any, 0.5)
        ('integer', 'numbers', 'integer', 'number')
    """
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


def _parse_names(text: str) -> dict[str, int | None]:
    items = [item.partition("=") for item in _listed(str)(text)]
    return {name.strip(): int(number) if equals else None for name, equals, number in items}


_WRONG = {
    "integer": "not a whole number",
    "number": "not a number",
    "switch": "neither true nor false",
    "integers": "not a list of whole numbers separated by commas",
    "numbers": "not a list of numbers separated by commas",
    "names": "not a list of name or name=number separated by commas",
}
_PARSERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "number": float,
    "switch": _parse_switch,
    "integers": _listed(int),
    "numbers": _listed(float),
    "text": str,
    "names": _parse_names,
}
