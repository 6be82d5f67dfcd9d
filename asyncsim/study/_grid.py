"""Lists of scenarios, made from one: every combination of some fields' values, or random values.

An axis of a grid has the values of a field, or named cases that each set some fields. The name of a case is a label of
its scenarios. Labels stand in tables next to the fields. No digest depends on them.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from asyncsim import _checks as checks
from asyncsim._metrics import COST_METRICS, METRICS
from asyncsim.calibration._priors import Prior
from asyncsim.components._checked import checked
from asyncsim.components._parse import WHOLE
from asyncsim.scenario._rebuild import LANES
from asyncsim.scenario._scenario import Scenario, field_named
from asyncsim.scenario._tree import STUDY_FIELDS

# Names of columns that a table has anyway.
RESERVED_COLUMNS = frozenset({*STUDY_FIELDS, *METRICS, *COST_METRICS, LANES, "status", "digest", "reason", "runs"})
SEQUENCE_TYPES = (list, range, np.ndarray)  # types whose items are several values of a field. A tuple is one value.


class Alternative(NamedTuple):
    """One point on an axis of a grid."""

    changes: dict[str, Any]  # field -> value
    labels: dict[str, str]  # name of the axis -> name of the case, for a named one


@checked
def grid(base: Scenario, **fields: Iterable[Any]) -> tuple[Scenario, ...]:
    """Make every combination of some fields' values, the last field changing fastest.

    Args:
        base: The scenario that is changed.
        **fields: Name of a field, as `Scenario.override` takes it -> its values: a list, a range, an array. Or a name
            of your own, such as `case` -> named cases, each of which sets some fields: name -> field -> a value, or
            a list, a range or an array of several (a tuple is one value). The names are in `Scenario.labels`, and a
            column of tables. No digest depends on them.

    Raises:
        ValueError: If a field is unknown (the nearest is named), has no values, or one of them does not fit (named by
            its place). Also if two axes set one field, or two cases are the same scenario.

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

        Cases may have other fields than each other:

        >>> protocols = {"async": {"protocol": "asynchronous"}, "1-async": {"protocol": "k_async", "k": 1}}
        >>> [(s.labels["case"], s.seed) for s in grid(base, case=protocols, seed=[0, 1])]
        [('async', 0), ('async', 1), ('1-async', 0), ('1-async', 1)]
        >>> rules = {"slow": {"learning_rate": 0.01}, "GEM": {"rule": "gem", "learning_rate": [0.1, 0.2]}}
        >>> [(s.labels["case"], s.rule.learning_rate) for s in grid(base, case=rules)]
        [('slow', 0.01), ('GEM', 0.1), ('GEM', 0.2)]
    """
    axes = {name: alternatives(name, values) for name, values in fields.items()}
    require_separate(axes)
    # Each value is checked alone first, so that an error names one value and not a combination.
    for name, points in axes.items():
        first = {field: [value] for axis in axes if axis != name for field, value in axes[axis][0].changes.items()}
        if points[0].labels:
            _require_cases(base, name, points, first)
        else:
            _require_fitting(base, name, [point.changes[name] for point in points], first)

    def make(points: Sequence[Alternative]) -> Scenario:
        changes = {name: value for point in points for name, value in point.changes.items()}
        return labelled(
            base.override(**changes), {axis: name for point in points for axis, name in point.labels.items()}
        )

    scenarios = tuple(make(points) for points in product(*axes.values()))
    require_different(scenarios)
    return scenarios


@checked
def sample(
    base: Scenario, *, count: int, seed: int = 0, seeds: Iterable[int] | None = None, **fields: Prior | Iterable[Any]
) -> tuple[Scenario, ...]:
    """Draw random values of some fields, each draw with the same seeds, so that draws are compared in pairs.

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
    count = checks.require_count("count", count, remedy="Draw once or more.")
    seed = checks.require_integer("seed", seed, remedy="Give a whole number.")
    chosen = [base.seed] if seeds is None else axis_of("seeds", seeds)
    columns = {name: _draw(base, name, source, count, seed) for name, source in fields.items()}
    for name, values in columns.items():
        _require_fitting(base, name, values, columns)
    _require_fitting(base, "seed", chosen, {})
    draws = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return tuple(base.override(**{**drawn, "seed": run_seed}) for drawn in draws or [{}] * count for run_seed in chosen)


def _draw(base: Scenario, name: str, source: Any, count: int, seed: int) -> list[Any]:
    rng = np.random.default_rng([seed, *name.encode()])  # With a stream for each field, another field changes no draw.
    if not isinstance(source, Prior):
        choices = axis_of(name, source)
        return [choices[index] for index in rng.integers(len(choices), size=count)]
    field = field_named(base, name)
    drawn = source.sample(rng, count).tolist()
    return [round(value) for value in drawn] if field is not None and field.kind in WHOLE else drawn


def _require_fitting(base: Scenario, name: str, values: list[Any], others: Mapping[str, list[Any]]) -> None:
    """Refuse an unknown field, or a value that does not fit, with the other fields at their first values."""
    if field_named(base, name) is None:
        base.override(**{name: None})  # Its error names the nearest field.
    # The other fields have their first values, whatever these are.
    first = {other: column[0] for other, column in others.items() if other != name}
    for index, value in enumerate(values):
        if index == 0 or value not in values[:index]:
            try:
                base.override(**{**first, name: value})
            except (ValueError, TypeError) as error:
                if first and not _fits(base, first):
                    return  # The value of another field is at fault, which is named when that field is checked.
                raise ValueError(f"`{name}` does not take its value number {index + 1}, {value!r}: {error}") from error


def _require_cases(base: Scenario, axis: str, points: Sequence[Alternative], others: Mapping[str, list[Any]]) -> None:
    """Refuse a case whose settings do not fit, with the other fields at their first values."""
    first = {other: column[0] for other, column in others.items()}
    for point in points:
        try:
            base.override(**{**first, **point.changes})
        except (ValueError, TypeError) as error:
            raise ValueError(f"`{axis}` {point.labels[axis]!r} does not fit: {error}") from error


def _fits(base: Scenario, changes: Mapping[str, Any]) -> bool:
    try:
        base.override(**changes)
    except (ValueError, TypeError):
        return False
    return True


def with_shared_schedules(scenarios: Iterable[Scenario]) -> tuple[Scenario, ...]:
    """Give scenarios that differ only in their seed the compute times of the first of them."""
    first: dict[str, int] = {}

    def share(scenario: Scenario) -> Scenario:
        # Scenarios of one digest differ only in their seed, as far as the schedule goes.
        of_all = replace(scenario, seed=0, schedule_seed=None).schedule_digest
        return replace(scenario, schedule_seed=first.setdefault(of_all, scenario.seed))

    # A recorded schedule is that of all seeds anyway.
    return tuple(share(scenario) if scenario.trace is None else scenario for scenario in scenarios)


def require_scenarios(scenarios: Iterable[Scenario]) -> tuple[Scenario, ...]:
    """Return the scenarios of a list, which must not be empty."""
    listed = tuple(scenarios)
    if not listed:
        raise ValueError("`scenarios` must hold at least one scenario; got none.")
    for index, scenario in enumerate(listed):
        if not isinstance(scenario, Scenario):
            raise ValueError(f"`scenarios` must be scenarios; number {index + 1} is a {type(scenario).__name__}.")
    return listed


def axis_of(name: str, values: Any) -> list[Any]:
    """Convert the values of a field to a list of plain Python's."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(
            f"`{name}` must be given as a list of values; got {checks.brief(values)}. Write [{checks.brief(values)}] "
            "for one."
        )
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not listed:
        raise ValueError(f"`{name}` must have at least one value; got an empty {type(values).__name__}.")
    return listed


def alternatives(name: str, values: Any) -> list[Alternative]:
    """List the points on an axis: one for each value of a field, or those of named cases."""
    if not isinstance(values, Mapping):
        return [Alternative({name: value}, {}) for value in axis_of(name, values)]
    if not values:
        raise ValueError(f"`{name}` must have at least one case; got an empty mapping.")
    if name in RESERVED_COLUMNS:
        raise ValueError(f"`{name}` is another column of the table. Name the cases otherwise, as in case={{…}}.")
    return [point for case, settings in values.items() for point in _points(name, case, settings)]


def _points(axis: str, case: Any, settings: Any) -> list[Alternative]:
    """List the combinations of the settings of a case."""
    if not isinstance(case, str) or not case.strip():
        raise ValueError(
            f"`{axis}` must have names as keys; got {checks.brief(case)}. Write {axis}={{'name': dict(…)}}."
        )
    if not isinstance(settings, Mapping):
        raise ValueError(
            f"`{axis}` {case!r} must be fields and their values, such as dict(learning_rate=0.1); got "
            f"{checks.brief(settings)}."
        )
    if axis in settings:
        raise ValueError(
            f"`{axis}` is a field that its case {case!r} sets. Name the cases otherwise, as in case={{…}}."
        )
    listed = {
        name: axis_of(name, value) if isinstance(value, SEQUENCE_TYPES) else [value] for name, value in settings.items()
    }
    return [Alternative(dict(zip(listed, values, strict=True)), {axis: case}) for values in product(*listed.values())]


def require_separate(axes: Mapping[str, Iterable[Alternative]]) -> None:
    """Refuse a field that two axes set."""
    owners: dict[str, str] = {}
    for axis, points in axes.items():
        for field in dict.fromkeys(name for point in points for name in point.changes):
            if (other := owners.setdefault(field, axis)) != axis:
                raise ValueError(f"`{field}` is set by {other!r} and by {axis!r}. Leave one of them out.")


def labelled(scenario: Scenario, labels: Mapping[str, str]) -> Scenario:
    """Return the scenario with more labels."""
    if not labels:
        return scenario
    changed = copy(scenario)  # A copy keeps the cached digest, which labels do not change.
    vars(changed)["labels"] = {**scenario.labels, **labels}
    return changed


def require_different(scenarios: Iterable[Scenario]) -> None:
    """Refuse two cases of which the scenarios are the same, because they would share a result and a row."""
    first: dict[str, Mapping[str, str]] = {}
    for scenario in scenarios:
        if scenario.labels and (other := first.setdefault(scenario.digest, scenario.labels)) != scenario.labels:
            axis, name = next((axis, name) for axis, name in scenario.labels.items() if other.get(axis) != name)
            raise ValueError(
                f"`{axis}` {other.get(axis)!r} and {name!r} are the same scenario. Leave one of them out, or let them "
                "differ."
            )
