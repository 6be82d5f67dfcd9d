"""Fields: typed arguments that flags and grids set by name, and the texts that stand for their values."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from asyncsim import _checks as checks
from asyncsim.components._families import by_name

WHOLE = ("integer", "integer by worker")  # kinds of which a value can be one whole number
LONGEST = 40  # characters of a value in a line that lists several


@dataclass(frozen=True)
class Field:
    """Something that can be overridden by name.

    Attributes:
        name: The name under which it is set.
        kind: "integer", "number", "law", "switch", "integers", "numbers", "text" or "names", or "integer by worker" or
            "number by worker" for one number or one per worker.
        help: Its meaning.
        group: Heading under which it is listed: "Cluster", "Rule", "Workload" or "Study".
        value: Present value; None if it has no value.
        choices: Known values, for a field that chooses by name.
        default: Value that it has where none is given; None if it must be given.
        listed: Whether help and tables show it.
        least: Number of names of its path that mean it at least: 2 for `service_cv`, since `cv` is that of the compute
            law.
        preferred: Whether a name that fits others as well means this one.
    """

    name: str
    kind: str
    help: str
    group: str = "Study"
    value: Any = None
    choices: tuple[str, ...] = ()
    default: Any = None
    listed: bool = True
    least: int = 1
    preferred: bool = False

    def parse(self, text: str) -> Any:
        """Return the value that a text on the command line stands for, where commas separate the items of a list.

        A law is a number, its mean, or its name and arguments, as in "gamma:mean=1:cv=0.3".
        Each of several names may carry a number, as in "name=number", and a name without one gets None.

        Raises:
            ValueError: If the text is not of this kind.

        Example:
            >>> Field("hidden", "integers", "Sizes.").parse("64,32"), Field("cv", "number", "").parse("2")
            ([64, 32], 2.0)
            >>> window = Field("window", "integer by worker", "")
            >>> window.parse("10"), window.parse("10,20")
            (10, [10, 20])
            >>> Field("latency", "law", "").parse("0.5"), Field("latency", "law", "").parse("gamma:mean=1:cv=0.3")
            (0.5, 'gamma:mean=1:cv=0.3')
            >>> Field("record", "names", "").parse("pi_mean,pi_median=5")
            {'pi_mean': None, 'pi_median': 5}
        """
        if self.choices:
            return checks.require_one_of(self.name, text, choices=self.choices)
        parse, wrong = _KINDS[self.kind]
        try:
            return parse(text)
        except (ValueError, KeyError):
            raise ValueError(f"{text!r} is {wrong}.") from None

    def show(self) -> str:
        """Return the present value as it would be written on the command line."""
        return _text(self.value)


def describe_changes(fields: Iterable[Field]) -> str:
    """Return the fields whose values differ from their defaults, as one line of text without values of many numbers."""
    changed = [field for field in fields if field.value is not None and field.show() != _text(field.default)]
    return ", ".join(
        f"{field.name.replace('_', ' ')} {field.show()}" for field in changed if len(field.show()) <= LONGEST
    )


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


def _one_or_listed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: _listed(parse)(text) if "," in text else parse(text)


def law_of(text: str) -> Any:
    """Return the law of delays of a text."""
    name, *parts = text.strip().split(":")
    arguments = (part.partition("=") for part in parts)
    try:
        return by_name("delays", name)(**{key.strip(): float(value) for key, _, value in arguments})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text!r} is no law: {error}") from None


def _parse_law(text: str) -> float | str:
    with suppress(ValueError):
        return float(text)
    law_of(text)
    return text


def parse_whole(text: str) -> int:
    """Return the whole number that a text is, which may be written as 1e7 or 100.0."""
    with suppress(ValueError):
        return int(text)
    value = float(text)
    if not value.is_integer():
        raise ValueError(f"{text!r} is not a whole number.")
    return int(value)


def _parse_names(text: str) -> dict[str, int | None]:
    items = [item.partition("=") for item in _listed(str)(text)]
    return {name.strip(): parse_whole(number) if equals else None for name, equals, number in items}


_SWITCHES = {"true": True, "false": False}
# Kind -> the function that reads a text, and the words for a text that it refuses.
_KINDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "integer": (parse_whole, "not a whole number"),
    "number": (float, "not a number"),
    "law": (_parse_law, "neither a mean nor a law with its arguments, such as gamma:mean=1:cv=0.3"),
    "switch": (lambda text: _SWITCHES[text.strip().lower()], "neither true nor false"),
    "integers": (_listed(parse_whole), "not a list of whole numbers separated by commas"),
    "numbers": (_listed(float), "not a list of numbers separated by commas"),
    "integer by worker": (_one_or_listed(parse_whole), "neither a whole number nor one per worker separated by commas"),
    "number by worker": (_one_or_listed(float), "neither a number nor one per worker separated by commas"),
    "text": (str, "no text"),
    "names": (_parse_names, "not a list of name or name=number separated by commas"),
}
