"""Make scenarios from saved descriptions (`rebuild`) and their hints, also those that are computed together (lanes).

The description defines a scenario. `hints` says how it was written, on which no digest depends. For example, with 20
workers, 8000 commits may have been 400 per worker, and then twice as many workers make twice as many commits.

In *lanes*, one compiled program computes several scenarios. A program of another shape rounds differently, and training
amplifies that. So the number of lanes and the position among them are an entry of the description, and of the digest.
"""

import dataclasses
from collections.abc import Mapping
from copy import copy
from typing import Any

from asyncsim._version import REVISION
from asyncsim.components._description import NotRebuilt, describe, from_description, with_defaults, without_imports
from asyncsim.components._digest import hash_of
from asyncsim.components._environment import difference
from asyncsim.components._remember import cached_per_object
from asyncsim.scenario._scenario import Scenario
from asyncsim.scenario._tree import described_wrappers
from asyncsim.store._labels import SETTINGS, first_difference
from asyncsim.trace import Trace

FIELDS = tuple(field.name for field in dataclasses.fields(Scenario))


def hints(scenario: Scenario) -> dict[str, Any]:
    """Return the plain data that `rebuild` needs in addition to the description: fields as they were written."""
    written = {name: getattr(scenario, name) for name in FIELDS}
    if scenario.record is not None:
        written["record"] = scenario.strides
    described = {name: describe(value, name) for name, value in written.items()}
    return {name: value for name, value in described.items() if value not in (scenario.description.get(name), {})}


def label_notes(scenario: Scenario) -> dict[str, Any]:
    """Return entries of a label next to the description: `hints`, and all settings, those with their defaults, too."""
    settings = {
        name: _shared_settings(part, hash_of(scenario.description[name]))
        for name, part in (("cluster", scenario.cluster), ("workload", scenario.workload))
    }
    return {"rebuild": hints(scenario), SETTINGS: {**settings, **described_wrappers(scenario.rule, scenario.workload)}}


@cached_per_object
def _shared_settings(part: Any, digest: str) -> Any:
    """Return `with_defaults` of a part that many scenarios share."""
    del digest  # Only part of the cache's key: it changes with the part's code.
    return with_defaults(part)


def rebuild(
    description: Mapping[str, Any],
    hints: Mapping[str, Any] | None = None,
    *,
    digest: str | None = None,
    trace: Trace | None = None,
) -> Scenario:
    """Make the scenario of a description, and refuse one with another description or digest."""
    require_same_numbers(description)
    if "record_code" in description:
        raise NotRebuilt("`record` names a function of your own")
    entries = {**description, **(hints if isinstance(hints, Mapping) else {})}
    objects = () if trace is None else (trace,)
    values = {name: from_description(entries[name], name=name, given=objects) for name in FIELDS if name in entries}
    try:
        scenario = as_described(Scenario(**values), description)
        mismatch = first_difference(without_imports(description), without_imports(scenario.describe()))
    except Exception as error:  # A damaged file may hold values with which any line of a constructor fails.
        raise NotRebuilt(f"the scenario cannot be made from its description: {str(error).rstrip('.')}") from error
    if mismatch is None and digest in (None, scenario.digest):
        return scenario
    raise NotRebuilt(f"this asyncsim makes another scenario of it: {mismatch or 'its digest differs'}")


def require_same_numbers(description: Mapping[str, Any]) -> None:
    """Refuse a study whose numbers would differ in this process."""
    if (revision := description.get("revision")) != REVISION:
        raise ValueError(
            f"It was computed by revision {revision} of the library, and this is revision {REVISION}. Run it again, or "
            "use the asyncsim that computed it."
        )
    if (setting := difference(description)) is not None:
        raise ValueError(f"It was computed {setting}")


LANES = "lanes"  # entry of a description, and a column of a sweep's table


def in_lane(scenario: Scenario, most: int, of: int, place: int) -> Scenario:
    """Return the scenario as one that is computed in lane `place` of `of`, where the user chose `most` at a time."""
    # The names of the arguments are those of the saved entry, which `as_described` passes back.
    return _with_description(scenario, {**scenario.description, LANES: {"most": most, "of": of, "place": place}})


def outside_lanes(scenario: Scenario) -> Scenario:
    """Return the scenario as one that `asyncsim.run` computes."""
    if LANES not in scenario.description:
        return scenario
    return _with_description(scenario, {name: value for name, value in scenario.description.items() if name != LANES})


def as_described(scenario: Scenario, description: Mapping[str, Any]) -> Scenario:
    """Return the scenario in the lane that a description names, if it names one."""
    lane = description.get(LANES)
    return in_lane(scenario, **lane) if isinstance(lane, Mapping) else scenario


def lanes_of(scenario: Scenario) -> int | None:
    """Return the number of lanes that the user chose, or None outside of lanes."""
    return scenario.description.get(LANES, {}).get("most")


def _with_description(scenario: Scenario, description: dict[str, Any]) -> Scenario:
    # Both are cached properties, whose values a copy of a frozen dataclass can hold in advance.
    changed = copy(scenario)
    vars(changed).update(description=description, digest=hash_of(description))
    return changed
