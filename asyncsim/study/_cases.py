"""Axes of a grid: the values of a field, or named cases that each set some fields.

The name of a case is a label of its scenarios. Labels stand in tables next to the fields. No digest depends on them.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from asyncsim._metrics import METRICS, SPENT
from asyncsim.scenario._rebuild import LANES
from asyncsim.scenario._scenario import Scenario
from asyncsim.scenario._tree import STUDY_FIELDS

TAKEN = frozenset({*STUDY_FIELDS, *METRICS, *SPENT, LANES, "status", "digest", "reason", "runs"})  # other columns
SEVERAL = (list, range, np.ndarray)  # types whose items are several values of a field. A tuple is one value.


class Alternative(NamedTuple):
    """One point on an axis of a grid."""

    changes: dict[str, Any]  # field -> value
    labels: dict[str, str]  # name of the axis -> name of the case, for a named one


def axis_of(name: str, values: Any) -> list[Any]:
    """Convert the values of a field to a list of plain Python's."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"`{name}` must be given as a list of values; got {values!r}. Write [{values!r}] for one.")
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
    if name in TAKEN:
        raise ValueError(f"`{name}` is another column of the table. Name the cases otherwise, as in case={{…}}.")
    return [point for case, settings in values.items() for point in _points(name, case, settings)]


def _points(axis: str, case: Any, settings: Any) -> list[Alternative]:
    """List the combinations of the settings of a case."""
    if not isinstance(case, str) or not case.strip():
        raise ValueError(f"`{axis}` must have names as keys; got {case!r}. Write {axis}={{'name': dict(…)}}.")
    if not isinstance(settings, Mapping):
        raise ValueError(
            f"`{axis}` {case!r} must be fields and their values, such as dict(learning_rate=0.1); got {settings!r}."
        )
    if axis in settings:
        raise ValueError(
            f"`{axis}` is a field that its case {case!r} sets. Name the cases otherwise, as in case={{…}}."
        )
    listed = {name: axis_of(name, value) if isinstance(value, SEVERAL) else [value] for name, value in settings.items()}
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
    changed = copy(scenario)  # Labels are no field, so `dataclasses.replace` would lose them.
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
