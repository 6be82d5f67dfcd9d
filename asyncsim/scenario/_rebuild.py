"""A scenario rebuilt from its description, also where it was computed in a lane.

The description defines a scenario. `hints` says how it was written, on which no digest depends. For example, with 20
workers, 8000 commits may have been 400 per worker, and then twice as many workers make twice as many commits.

In *lanes*, one compiled program computes several scenarios. A program of another shape rounds differently, and training
amplifies that. So the number of lanes and the place among them are an entry of the description, and of the digest.
"""

import dataclasses
from collections.abc import Mapping
from copy import copy
from typing import Any

from asyncsim._version import REVISION
from asyncsim.components._description import (
    NotRebuilt,
    describe,
    from_description,
    hash_of,
    with_defaults,
    without_imports,
)
from asyncsim.components._environment import difference
from asyncsim.components._remember import cached_per_object
from asyncsim.scenario._scenario import Scenario
from asyncsim.scenario._tree import described_wrappers
from asyncsim.store._labels import SETTINGS, first_difference
from asyncsim.trace import Trace

FIELDS = tuple(field.name for field in dataclasses.fields(Scenario))


def hints(scenario: Scenario) -> dict[str, Any]:
    """Plain data that `rebuild` needs in addition to the description: fields that were written otherwise."""
    written = {name: getattr(scenario, name) for name in FIELDS}
    if scenario.record is not None:
        written["record"] = scenario.strides
    described = {name: describe(value, name) for name, value in written.items()}
    return {name: value for name, value in described.items() if value not in (scenario.description.get(name), {})}


def label_notes(scenario: Scenario) -> dict[str, Any]:
    """Entries of a label next to the description: `hints`, and all settings, with those that have their defaults."""
    settings = {
        name: _shared_settings(part, hash_of(scenario.description[name]))
        for name, part in (("cluster", scenario.cluster), ("workload", scenario.workload))
    }
    return {"rebuild": hints(scenario), SETTINGS: {**settings, **described_wrappers(scenario.rule, scenario.workload)}}


@cached_per_object
def _shared_settings(part: Any, described: str) -> Any:
    """As `with_defaults`, of a part that many scenarios share. It counts as another one if its code has changed."""
    return with_defaults(part)


def rebuild(
    description: Mapping[str, Any],
    hints: Mapping[str, Any] | None = None,
    *,
    wanted: str | None = None,
    trace: Trace | None = None,
) -> Scenario:
    """The scenario of a description."""
    require_same_numbers(description)
    if "record_code" in description:
        raise NotRebuilt("`record` names a function of your own")
    known = {**description, **(hints if isinstance(hints, Mapping) else {})}
    given = {name: known[name] for name in FIELDS if name in known}
    objects = () if trace is None else (trace,)
    values = {name: from_description(value, name=name, given=objects) for name, value in given.items()}
    try:
        made = as_described(Scenario(**values), description)
        different = first_difference(without_imports(description), without_imports(made.describe()))
    except Exception as error:  # whatever values lead to that no scenario was described with
        raise NotRebuilt(f"the scenario cannot be made from its description: {str(error).rstrip('.')}") from error
    if different is None and wanted in (None, made.digest):
        return made
    raise NotRebuilt(f"this asyncsim makes another scenario of it: {different or 'its digest differs'}")


def require_same_numbers(description: Mapping[str, Any]) -> None:
    """Refuse a study whose numbers are others in this process."""
    if (revision := description.get("revision")) != REVISION:
        raise ValueError(
            f"It was computed by revision {revision} of the library, and this is revision {REVISION}. Run it again, or "
            "use the asyncsim that computed it."
        )
    if (different := difference(description)) is not None:
        raise ValueError(f"It was computed {different}")


LANES = "lanes"  # entry of a description, and a column of a sweep's table


def in_lane(scenario: Scenario, most: int, of: int, place: int) -> Scenario:
    """The scenario as it is kept when it is computed in one of several lanes."""
    return _described(scenario, {**scenario.description, LANES: {"most": most, "of": of, "place": place}})


def outside_lanes(scenario: Scenario) -> Scenario:
    """The scenario as `asyncsim.run` keeps it."""
    if LANES not in scenario.description:
        return scenario
    return _described(scenario, {name: value for name, value in scenario.description.items() if name != LANES})


def as_described(scenario: Scenario, description: Mapping[str, Any]) -> Scenario:
    """The scenario in the lane that a description names, if it names one."""
    lane = description.get(LANES)
    return in_lane(scenario, **lane) if isinstance(lane, Mapping) else scenario


def lanes_of(scenario: Scenario) -> int | None:
    """The number of lanes that were asked for, or None outside of lanes."""
    return scenario.description.get(LANES, {}).get("most")


def _described(scenario: Scenario, description: dict[str, Any]) -> Scenario:
    changed = copy(scenario)
    vars(changed).update(description=description, digest=hash_of(description))
    return changed
