"""Lanes: results of several scenarios from one compiled program, kept apart from those that `asyncsim.run` gives.

A program of another shape rounds differently, and training lets that grow. So the number of lanes and the place among
them are part of the digest under which such a result is kept: an entry "lanes" in the description of its scenario.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any

from asyncsim._description import hash_of
from asyncsim.scenario._scenario import Scenario

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
    """The number of lanes that were asked for; None outside of lanes."""
    return scenario.description.get(LANES, {}).get("most")


def _described(scenario: Scenario, description: dict[str, Any]) -> Scenario:
    changed = copy(scenario)
    vars(changed).update(description=description, digest=hash_of(description))
    return changed
