"""Parsers of --grid, --case and --sample: the text of such a flag is split into values, which `_parse` reads."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from asyncsim._checks import did_you_mean
from asyncsim.calibration._priors import LogUniform, Prior, Uniform
from asyncsim.components._field import Field
from asyncsim.components._parse import WHOLE
from asyncsim.scenario import Scenario
from asyncsim.scenario._scenario import all_fields, field_named

MOST_VALUES = 10_000_000  # values in a range, which is listed in memory
DRAWS = {"uniform": Uniform, "loguniform": LogUniform}
CASE = "case"  # axis of the cases that --case names


def parse_axes(flag: str, base: Scenario, texts: Iterable[str], parse: Callable[[Field, str], Any]) -> dict[str, Any]:
    """Return field -> its values, of texts such as "learning_rate=.01,.1", "seed=0:10" or "cv=uniform:0:1"."""
    axes: dict[str, Any] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        field = field_named(base, name)
        if field is None:
            names = [each.name for each in (*base.fields(), *all_fields())]
            raise ValueError(f"`{flag}` names {name!r}, which is not a field.{did_you_mean(name, names)}")
        if not equals:
            raise ValueError(f"`{flag} {text}` must be FIELD=VALUES in one word, such as {name}=…; it has no `=`.")
        if name in axes:
            raise ValueError(f"`{flag}` names {name!r} twice. Give all its values at once, separated by commas.")
        axes[name] = parse(field, values)
    return axes


def parse_cases(base: Scenario, texts: Iterable[str]) -> dict[str, Any]:
    """Return the axis `case` of texts such as "4-async:protocol=k_async,k=4" or "GEM:rule=gem,learning_rate=.1,.2"."""
    cases: dict[str, Any] = {}
    for text in texts:
        name, colon, rest = text.partition(":")
        if not colon or not name.strip() or "=" in name:
            raise ValueError(
                f"`--case {text}` must be NAME:FIELD=VALUES in one word, such as sync:protocol=synchronous."
            )
        if name in cases:
            raise ValueError(f"`--case` names {name!r} twice. Give each case another name.")
        parts: list[str] = []
        for part in rest.split(","):
            if "=" in part or not parts:
                parts.append(part)
            else:
                parts[-1] += f",{part}"  # It is another value of the same field.
        cases[name] = parse_axes("--case", base, parts if rest.strip() else [], parse_values)
    return {CASE: cases} if cases else {}


def parse_draw(field: Field, text: str) -> Prior | list[Any]:
    """Return the distribution of a text such as "loguniform:1e-3:1", or the values that it lists."""
    kind, *numbers = text.split(":")
    if kind.lower() not in DRAWS:
        return parse_values(field, text)
    try:
        low, high = map(float, numbers)
    except ValueError:
        raise ValueError(f"`--sample {field.name}={text}` must end in {kind}:LOW:HIGH, two numbers.") from None
    return DRAWS[kind.lower()](low, high)


def parse_values(field: Field, text: str) -> list[Any]:
    """Return the values that a text lists for a field."""
    # A value that is a list has commas of its own. One that may be a list stands in brackets then.
    lists = field.kind in ("integers", "numbers", "names")
    if not text.strip():
        raise ValueError(f"`{field.name}` has no values. Give some, such as {field.name}=a,b,c.")
    values: list[Any] = []
    parts = text.split(";") if lists else re.split(r",(?![^\[]*\])", text)
    for place, part in enumerate(part.strip() for part in parts):
        if not part:
            raise ValueError(f"`{field.name}` has an empty value number {place + 1} in {text!r}.")
        try:
            values += _range(field, part) if field.kind in WHOLE and ":" in part else [field.parse(part)]
        except ValueError as error:
            hint = _hint_of(field, part)
            raise ValueError(f"`{field.name}` does not take its value number {place + 1}: {error}{hint}") from None
    return values


def _hint_of(field: Field, text: str) -> str:
    """Say how lists and ranges are written, for somebody who writes them in another way."""
    if ".." in text or (":" in text and field.kind in WHOLE):
        return " A range is first:end or first:end:step."
    if ":" in text and field.kind in ("number", "number by worker", "law"):
        return " A range first:end is for whole numbers, and a draw LOW:HIGH for --sample: uniform or loguniform."
    return " A list is a,b,c." if " " in text else ""


def _range(field: Field, text: str) -> list[int]:
    ends = [field.parse(part) for part in text.split(":")]
    if len(ends) > 3 or (len(ends) == 3 and ends[2] == 0):
        raise ValueError(f"{text!r} is not a range first:end or first:end:step.")
    values = range(*ends)
    if not values:
        raise ValueError(f"{text!r} is an empty range; its end is left out.")
    if values[MOST_VALUES:]:
        raise ValueError(f"{text!r} are more than {MOST_VALUES:,} values.")
    return list(values)


def number_of_draws(count: int | None, axes: Mapping[str, Any], draws: Mapping[str, Any]) -> int:
    """Return the number of draws, 1 without any."""
    if not draws:
        if count is not None:
            raise ValueError(f"`--count {count}` needs `--sample FIELD=DRAW`: it is the number of draws.")
        return 1
    if count is None:
        raise ValueError(f"`--count` must be given with `--sample {next(iter(draws))}=…`: the number of draws.")
    # A field has its values from one of them.
    both = next((name for name in draws if name in axes), None)
    if both is not None:
        raise ValueError(f"`--sample` and `--grid` both name {both!r}. Leave one of them out.")
    return count
