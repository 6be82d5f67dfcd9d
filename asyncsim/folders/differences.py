"""In what two descriptions differ: plain data, as JSON holds it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

SHOWN = 60  # characters of a value in a message


class Difference(NamedTuple):
    """A field in which two descriptions differ.

    Attributes:
        name: Its path, as in "rule.kappa".
        one, other: The values; None where it is not given.
    """

    name: str
    one: Any
    other: Any


def differences(one: Any, other: Any, name: str = "") -> Iterator[Difference]:
    """The fields in which two descriptions differ, in the order of the second.

    Example:
        >>> list(differences({"rule": {"name": "gem", "kappa": 1.0}}, {"rule": {"name": "gem", "kappa": 2.0}}))
        [Difference(name='rule.kappa', one=1.0, other=2.0)]
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        before = f"{name}." if name else ""
        for key in {**other, **one}:
            yield from differences(one.get(key), other.get(key), f"{before}{key}")
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        for place, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{name}[{place}]")
    elif one != other:
        yield Difference(name, one, other)


def first_difference(found: Any, wanted: Any) -> str | None:
    """The first field in which two descriptions differ, with both values; None if they are equal.

    Example:
        >>> first_difference({"rule": {"name": "gem", "kappa": 1.0}}, {"rule": {"name": "gem", "kappa": 2.0}})
        '`rule.kappa` is 1.0 there and 2.0 here'
    """
    first = next(differences(found, wanted), None)
    return None if first is None else f"`{first.name}` is {shown(first.one)} there and {shown(first.other)} here"


def shown(value: Any) -> str:
    """A value in a message, in at most 60 characters.

    Example:
        >>> shown(None), shown([1, 2])
        ('not given', '[1, 2]')
    """
    text = "not given" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
