"""Many scenarios from one (every combination of some fields' values, or random values), and lists of scenarios."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from asyncsim import _checks as checks
from asyncsim._priors import Prior
from asyncsim.scenario._scenario import Scenario, all_fields


def grid(base: Scenario, **fields: Iterable[Any]) -> tuple[Scenario, ...]:
    """Every combination of some fields' values, the last field changing fastest.

    Args:
        base: The scenario that is changed.
        **fields: Name of a field, as `Scenario.override` takes it -> its values: a list, a range, an array.

    Raises:
        ValueError: If a field is unknown (the nearest is named), has no values, or one of them does not fit (named by
            its place).

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> [(s.workers, s.seed) for s in grid(base, workers=[2, 4], seed=range(3))]
        [(2, 0), (2, 1), (2, 2), (4, 0), (4, 1), (4, 2)]
        >>> grid(base, workers=[2, 0])
        Traceback (most recent call last):
        ValueError: `workers` does not take its value number 2, 0: `workers` must be an integer of at least 1; got 0. \
Use one worker or more.
    """
    axes = {name: axis_of(name, values) for name, values in fields.items()}
    for name, values in axes.items():
        _require_fitting(base, name, values, axes)
    return tuple(base.override(**dict(zip(axes, values, strict=True))) for values in product(*axes.values()))


def sample(
    base: Scenario,
    *,
    count: int,
    seed: int = 0,
    seeds: Iterable[int] | None = None,
    **fields: Prior | Iterable[Any],
) -> tuple[Scenario, ...]:
    """Random values of some fields, each draw with the same seeds, so that draws are compared in pairs.

    The draws of a field depend on `seed` and its name alone: more of them begin with the same ones, and an additional
    field changes none.

    Args:
        base: The scenario that is changed.
        count: Number of draws.
        seed: Seed of the draws.
        seeds: Seeds of the scenarios made of each draw, by default the base's alone.
        **fields: Name of a field -> a distribution such as `asim.calibration.LogUniform(1e-3, 1)`, or a list from which
            one is chosen. Whole numbers are rounded.

    Returns:
        `count` times as many scenarios as there are seeds, where the seeds change fastest.

    Raises:
        ValueError: As `grid` does.

    Example:
        >>> import asyncsim as asim
        >>> from asyncsim.calibration import LogUniform
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> drawn = sample(base, count=3, learning_rate=LogUniform(1e-3, 1), workers=[2, 4], seeds=[0, 1])
        >>> [(s.workers, s.seed) for s in drawn]
        [(2, 0), (2, 1), (4, 0), (4, 1), (4, 0), (4, 1)]
        >>> drawn[:2] == sample(base, count=1, learning_rate=LogUniform(1e-3, 1), workers=[2, 4], seeds=[0, 1])
        True
    """
    count = checks.require_integer("count", count, least=1, remedy="Draw once or more.")
    seed = checks.require_integer("seed", seed, least=0, remedy="Give a whole number.")
    chosen = [base.seed] if seeds is None else axis_of("seeds", seeds)
    _require_known(base, fields)
    columns = {name: _draw(base, name, source, count, seed) for name, source in fields.items()}
    for name, values in columns.items():
        _require_fitting(base, name, values, columns)
    _require_fitting(base, "seed", chosen, {})
    draws = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return tuple(base.override(**{**drawn, "seed": own}) for drawn in draws or [{}] * count for own in chosen)


def axis_of(name: str, values: Any) -> list[Any]:
    """The values of a field as a list of plain Python's."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"`{name}` must be given as a list of values; got {values!r}. Write [{values!r}] for one.")
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not listed:
        raise ValueError(f"`{name}` must have at least one value; got an empty {type(values).__name__}.")
    return listed


def _draw(base: Scenario, name: str, source: Any, count: int, seed: int) -> list[Any]:
    stream = [seed, *name.encode()]
    rng = np.random.default_rng(stream)
    if not isinstance(source, Prior):
        choices = axis_of(name, source)
        return [choices[place] for place in rng.integers(len(choices), size=count)]
    kinds = {field.name: field.kind for field in base.fields()}
    drawn = source.sample(rng, count).tolist()
    return [round(value) for value in drawn] if kinds.get(name) == "integer" else drawn


def _require_known(base: Scenario, fields: Iterable[str]) -> None:
    """Refuse a field that neither this scenario nor one with other components has."""
    known = {field.name for field in (*base.fields(), *all_fields())}
    for name in fields:
        if name not in known:
            base.override(**{name: None})  # whose message names the nearest


def _require_fitting(base: Scenario, name: str, values: list[Any], others: Mapping[str, list[Any]]) -> None:
    """Refuse a value that does not fit, with the other fields at their first values."""
    _require_known(base, [name])
    beside = {other: given[0] for other, given in others.items() if other != name}
    for place, value in enumerate(values):
        if place == 0 or value not in values[:place]:
            try:
                base.override(**{**beside, name: value})
            except (ValueError, TypeError) as error:
                if beside and not _fits(base, beside):
                    return  # another field's value is at fault, and is named when its turn comes
                raise ValueError(f"`{name}` does not take its value number {place + 1}, {value!r}: {error}") from error


def _fits(base: Scenario, changes: Mapping[str, Any]) -> bool:
    try:
        base.override(**changes)
    except (ValueError, TypeError):
        return False
    return True


def with_shared_schedules(scenarios: Iterable[Scenario]) -> tuple[Scenario, ...]:
    """The scenarios, of which those that differ only in their seed have the compute times of the first of them."""
    first: dict[str, int] = {}
    changed = []
    for scenario in scenarios:
        if scenario.trace is not None:  # a recorded one, which all seeds have anyway
            changed.append(scenario)
            continue
        of_all = replace(scenario, seed=0, schedule_seed=None).schedule_digest
        seed = first.setdefault(of_all, scenario.seed)
        changed.append(replace(scenario, schedule_seed=seed))
    return tuple(changed)


def require_scenarios(scenarios: Iterable[Scenario]) -> tuple[Scenario, ...]:
    """The scenarios of a list that is not empty."""
    asked = tuple(scenarios)
    if not asked:
        raise ValueError("`scenarios` must hold at least one scenario; got none.")
    for place, scenario in enumerate(asked):
        if not isinstance(scenario, Scenario):
            raise ValueError(f"`scenarios` must be scenarios; number {place + 1} is a {type(scenario).__name__}.")
    return asked
