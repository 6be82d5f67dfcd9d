"""Parsers: the text of a flag or of a grid becomes a value here, by one parser for each kind of field."""

from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from typing import Any

from asyncsim._checks import require_one_of
from asyncsim.components._families import FAMILIES

WHOLE = ("integer", "integer by worker")  # kinds of which a value can be one whole number


def parse_kind(text: str, kind: str) -> Any:
    """Return the value of a kind that a text stands for, and refuse another text."""
    parse, refusal = _KINDS[kind]
    try:
        return parse(text)
    except (ValueError, KeyError):  # The parsers are the definition of the texts that they take.
        raise ValueError(f"{text!r} is {refusal}.") from None


def _many(parse: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse_list(text: str) -> list[Any]:
        items = [item.strip() for item in text.strip("[]() ").split(",")]
        return [] if text.strip() == "none" else [parse(item) for item in items if item]

    return parse_list


def _one_or_many(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: _many(parse)(text) if "," in text else parse(text)


def parse_law(text: str, setting: str = "law") -> Any:
    """Return the law of delays of a text. Errors are about a setting of this name."""
    name, *parts = text.strip().split(":")
    law = FAMILIES["delays"][require_one_of(setting, name, choices=FAMILIES["delays"])]
    arguments = {key.strip(): value for key, _, value in (part.partition("=") for part in parts)}
    parameters = signature(law).parameters
    required = [each.name for each in parameters.values() if each.default is each.empty]
    missing = [each for each in required if each not in arguments]
    if missing and arguments.keys() <= parameters.keys():
        raise ValueError(
            f"`{setting}` must have {' and '.join(map('`{}`'.format, missing))} for {name!r}; got {text!r}. Write "
            f"{':'.join([name, *map('{}=…'.format, required)])}."
        )
    try:
        return law(**{key: float(value) for key, value in arguments.items()})
    except (TypeError, ValueError) as error:  # Only the law knows which arguments it takes.
        raise ValueError(f"{text!r} is no law: {error}") from None


def _parse_mean_or_law(text: str) -> float | str:
    """Return a mean, or the text of a law that is one: labels and names of folders show it as it was written."""
    if text.partition(":")[0].strip() not in FAMILIES["delays"]:
        return float(text)
    parse_law(text)
    return text


def parse_whole(text: str) -> int:
    """Return the whole number that a text is, which may be written as 1e7 or 100.0."""
    with suppress(ValueError):  # A float would keep sixteen digits, and only `int` knows its texts.
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
