"""What is swept: values of fields, from the texts of `--grid` and `--sample`, and the scenarios made of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from asyncsim._checks import did_you_mean
from asyncsim._fields import Field
from asyncsim._priors import LogUniform, Prior, Uniform
from asyncsim.scenario import Scenario
from asyncsim.scenario._scenario import all_fields
from asyncsim.study._lists import grid, sample

MOST_VALUES = 10_000_000  # of a range, which is listed
DRAWS = {"uniform": Uniform, "loguniform": LogUniform}


def made(
    base: Scenario, axes: Mapping[str, Sequence[Any]], draws: Mapping[str, Any], count: int, seed: int
) -> tuple[Scenario, ...]:
    """The scenarios of a grid, of random draws, or of each draw with a grid."""
    if not draws:
        return grid(base, **axes)
    drawn = sample(base, count=count, seed=seed, seeds=axes.get("seed"), **draws)
    rest = {name: values for name, values in axes.items() if name != "seed"}
    return tuple(one for each in drawn for one in grid(each, **rest)) if rest else drawn


def without_varied(base: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """The scenario whose fields may be varied: the changed one, unless it lacks a varied field."""
    with suppress(ValueError):
        return base.override(**changes)
    return base


def changed_scenario(
    base: Scenario, changes: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], draws: Mapping[str, Any]
) -> Scenario:
    """The scenario with the settings that all runs have in common."""
    try:
        return base.override(**changes)
    except ValueError:
        varied: dict[str, Any] = {}  # some value of each varied field, which the scenario may need
        for name, source in (*axes.items(), *draws.items()):
            some = source.sample(np.random.default_rng(0), 1).item() if isinstance(source, Prior) else source[0]
            varied |= {} if name in changes else {name: some}
        if not varied or not changes:
            raise
        return base.override(**changes, **varied)


def axes_of(base: Scenario, texts: Iterable[str]) -> dict[str, list[Any]]:
    """Field -> values, of texts such as "learning_rate=.01,.1" and "seed=0:10"."""
    return _varied("--grid", base, texts, parse_values)


def draws_of(base: Scenario, texts: Iterable[str]) -> dict[str, Prior | list[Any]]:
    """Field -> distribution or choices, of texts such as "learning_rate=loguniform:1e-3:1"."""
    return _varied("--sample", base, texts, _parse_draw)


def _varied(flag: str, base: Scenario, texts: Iterable[str], parse: Callable[[Field, str], Any]) -> dict[str, Any]:
    """Field -> what `parse` makes of the part after the sign of equality."""
    known = {field.name: field for field in (*all_fields(), *base.fields())}
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if name not in known:
            raise ValueError(f"`{flag}` names {name!r}, which is not a field.{did_you_mean(name, known)}")
        if not equals:
            raise ValueError(f"`{flag} {text}` must be FIELD=VALUES in one word, such as {name}=…; it has no `=`.")
        if name in found:
            raise ValueError(f"`{flag}` names {name!r} twice. Give all its values at once, separated by commas.")
        found[name] = parse(known[name], values)
    return found


def _parse_draw(field: Field, text: str) -> Prior | list[Any]:
    kind, *numbers = text.split(":")
    if kind.lower() not in DRAWS:
        return parse_values(field, text)
    try:
        low, high = map(float, numbers)
    except ValueError:
        raise ValueError(f"`--sample {field.name}={text}` must end in {kind}:LOW:HIGH, two numbers.") from None
    return DRAWS[kind.lower()](low, high)


def parse_values(field: Field, text: str) -> list[Any]:
    """The values that a text lists for a field."""
    lists = field.kind in ("integers", "numbers", "names")
    if not text.strip():
        raise ValueError(f"`{field.name}` has no values. Give some, such as {field.name}=a,b,c.")
    values: list[Any] = []
    for place, part in enumerate(part.strip() for part in text.split(";" if lists else ",")):
        if not part:
            raise ValueError(f"`{field.name}` has an empty value number {place + 1} in {text!r}.")
        try:
            values += _range(field, part) if field.kind == "integer" and ":" in part else [field.parse(part)]
        except ValueError as error:
            hint = _hint(field, part)
            raise ValueError(f"`{field.name}` does not take its value number {place + 1}: {error}{hint}") from None
    return values


def _hint(field: Field, text: str) -> str:
    """How lists and ranges are written, for somebody who writes them in another way."""
    if ".." in text or (":" in text and field.kind == "integer"):
        return " A range is first:end or first:end:step."
    if ":" in text and field.kind in ("number", "law"):
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
    """How many draws there are, 1 without any."""
    if not draws:
        if count is not None:
            raise ValueError(f"`--count {count}` needs `--sample FIELD=DRAW`: it is the number of draws.")
        return 1
    if count is None:
        raise ValueError(f"`--count` must be given with `--sample {next(iter(draws))}=…`: the number of draws.")
    if count < 1:
        raise ValueError(f"`--count` must be at least 1; got {count}.")
    both = next((name for name in draws if name in axes), None)
    if both is not None:
        raise ValueError(f"`--sample` and `--grid` both name {both!r}. Leave one of them out.")
    return count
