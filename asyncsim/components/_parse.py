"""Parsers: the text of a flag or of a grid becomes a value here, by one parser for each kind of field."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from asyncsim.components._families import by_name

WHOLE = ("integer", "integer by worker")  # kinds of which a value can be one whole number


def parse_kind(text: str, kind: str) -> Any:
    """Return the value of a kind that a text stands for, and refuse another text."""
    parse, refusal = _KINDS[kind]
    try:
        return parse(text)
    except (ValueError, KeyError):
        raise ValueError(f"{text!r} is {refusal}.") from None


def _many(parse: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse_list(text: str) -> list[Any]:
        items = [item.strip() for item in text.strip("[]() ").split(",")]
        return [] if text.strip() == "none" else [parse(item) for item in items if item]

    return parse_list


def _one_or_many(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: _many(parse)(text) if "," in text else parse(text)


def parse_law(text: str) -> Any:
    """Return the law of delays of a text."""
    name, *parts = text.strip().split(":")
    arguments = (part.partition("=") for part in parts)
    try:
        return by_name("delays", name)(**{key.strip(): float(value) for key, _, value in arguments})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text!r} is no law: {error}") from None


def _parse_mean_or_law(text: str) -> float | str:
    with suppress(ValueError):
        return float(text)
    parse_law(text)
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
    items = [item.partition("=") for item in _many(str)(text)]
    return {name.strip(): parse_whole(number) if equals else None for name, equals, number in items}


_SWITCHES = {"true": True, "false": False}
# Kind -> the function that reads a text, and the words for a text that it refuses.
_KINDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "integer": (parse_whole, "not a whole number"),
    "number": (float, "not a number"),
    "law": (_parse_mean_or_law, "neither a mean nor a law with its arguments, such as gamma:mean=1:cv=0.3"),
    "switch": (lambda text: _SWITCHES[text.strip().lower()], "neither true nor false"),
    "integers": (_many(parse_whole), "not a list of whole numbers separated by commas"),
    "numbers": (_many(float), "not a list of numbers separated by commas"),
    "integer by worker": (_one_or_many(parse_whole), "neither a whole number nor one per worker separated by commas"),
    "number by worker": (_one_or_many(float), "neither a number nor one per worker separated by commas"),
    "text": (str, "no text"),
    "names": (_parse_names, "not a list of name or name=number separated by commas"),
}
