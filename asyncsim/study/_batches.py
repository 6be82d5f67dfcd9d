"""Batches of scenarios, in which a sweep hands them to processes.

A batch is computed by one process, over one schedule and by one program. Each of its scenarios is replayed as by
`asyncsim.run`, so that its result is the same to the last bit. Short runs of one structure and schedule are replayed in
turn, because the work around a replay of some milliseconds (a task, a lease, the same mini-batches drawn again) costs
as much as the replay. Every other scenario is a batch of its own.

If you ask for lanes, scenarios that differ only in numbers that a program takes as arguments (hyper-parameters and,
over one schedule, the seed) share one replay. It pays if a gradient is much cheaper than the work around it: ten lanes
of a quadratic take the time of one, ten of a small network the time of ten. Which scenarios share a program depends on
the sweep and never on existing results, so that an interrupted sweep ends with the very numbers of one that was not.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from asyncsim.components._digest import hash_of
from asyncsim.scenario._rebuild import in_lane
from asyncsim.scenario._scenario import Scenario

MOST_IN_TURN = 16
MOST_IN_BLOCK = 1000  # scenarios that are sent to a process in one file
TURN_WORK = 1e9  # numbers in all gradients of a batch, times the mini-batch: some tenths of a second may be lost


@dataclass(frozen=True)
class Batch:
    """Scenarios that are computed together."""

    scenarios: tuple[Scenario, ...]  # one per lane, or one after another
    program: str  # key of the compiled program: batches that share it are best computed by one process
    in_turn: bool = False  # whether the scenarios are replayed one after another

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Digests of the scenarios."""
        return tuple(scenario.digest for scenario in self.scenarios)

    @property
    def schedule(self) -> str:
        """Digest of the schedule, which all scenarios of the batch share."""
        return self.scenarios[0].schedule_digest

    @cached_property
    def name(self) -> str:
        """Name of the batch among tasks: a hash of its scenarios' digests."""
        return hash_of(self.digests)

    def without(self, digests: Collection[str]) -> "list[Batch]":
        """Leave out scenarios that have results, and return the others one by one. Lanes stay together, as at first."""
        if not self.in_turn:
            return [self]
        missing = (scenario for scenario in self.scenarios if scenario.digest not in digests)
        return [Batch((scenario,), f"{self.program} alone") for scenario in missing]


def batches_of(scenarios: Iterable[Scenario], lanes: int | None = None) -> list[Batch]:
    """Put scenarios into batches, in the order in which they are given."""
    groups: dict[str, list[Scenario]] = {}
    for scenario in dict.fromkeys(scenarios):
        groups.setdefault(lane_key(scenario), []).append(scenario)  # These could share a program and a schedule.
    batches = []
    for group in groups.values():
        program = program_of(group[0])
        if lanes is not None and lanes > 1:
            # The number of lanes and the lane of each scenario enter its digest.
            for part in batched(group, lanes):
                in_lanes = tuple(in_lane(scenario, lanes, len(part), lane) for lane, scenario in enumerate(part))
                batches.append(Batch(in_lanes, f"{program} {len(part)}"))
            continue
        group = sorted(group, key=lambda scenario: scenario.seed)  # Runs of one seed have the same mini-batches.
        batches += [Batch(part, f"{program} 1", len(part) > 1) for part in batched(group, runs_in_turn(group[0]))]
    return batches


def blocks_of(batches: Iterable[Batch]) -> list[list[Batch]]:
    """Put batches into blocks of at most `MOST_IN_BLOCK` scenarios (a larger batch is one by itself)."""
    blocks: list[list[Batch]] = []
    size = MOST_IN_BLOCK
    for batch in batches:
        size += len(batch.scenarios)
        if size > MOST_IN_BLOCK:
            blocks.append([])
            size = len(batch.scenarios)
        blocks[-1].append(batch)
    return blocks


def lane_key(scenario: Scenario) -> str:
    """Hash everything that the scenarios of a batch have in common."""
    rule = scenario.rule.for_workers(scenario.workers)
    # Arrays, such as a step size per worker, are compared with the description.
    traced = {name for name, value in rule.numbers.items() if not np.ndim(value)}
    described = {name: value for name, value in scenario.description.items() if name not in ("seed", "schedule_seed")}
    # A number that is None, such as a momentum, is a part of the structure and cannot differ between lanes.
    structures = [str(jax.tree.structure(stage)) for stage in (rule, scenario.rule)]
    described["rule"] = [_without(described["rule"], traced), *structures]
    return hash_of([described, sorted(traced), scenario.schedule_digest])


def program_of(scenario: Scenario) -> str:
    """Return the key of the program that is compiled for a scenario."""
    described = scenario.description
    rule = [_without(described["rule"], scenario.rule.numbers), str(jax.tree.structure(scenario.rule))]
    return hash_of([rule, described["workload"], described["record"], scenario.workers])


def batched(scenarios: Sequence[Scenario], most: int) -> Iterator[tuple[Scenario, ...]]:
    """Cut a list of scenarios into pieces of one size, of which the last one may be smaller."""
    return (tuple(scenarios[start : start + most]) for start in range(0, len(scenarios), most))


def runs_in_turn(scenario: Scenario) -> int:
    """Say how many runs like this one make a batch, if they are replayed one after another."""
    if scenario.expected_commits is None:  # A run of unknown length may be long.
        return 1
    gradients = float(np.mean(scenario.rule.window)) * scenario.expected_commits
    work = scenario.packing.size * scenario.workload.batch_size * gradients
    return int(max(1, TURN_WORK // max(work, TURN_WORK / MOST_IN_TURN)))


def _without(rule: Mapping[str, Any], paths: Collection[str], prefix: str = "") -> dict[str, Any]:
    """Return the description of a rule without its entries of these paths, also in a rule that it contains."""
    return {
        name: _without(value, paths, f"{prefix}{name}.") if name == "rule" else value
        for name, value in rule.items()
        if f"{prefix}{name}" not in paths
    }
