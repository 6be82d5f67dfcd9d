"""Lists of scenarios: made from one (every combination of some fields' values, or random values), and put into batches.

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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import jax
import numpy as np

from asyncsim import _checks as checks
from asyncsim._priors import Prior
from asyncsim.components._checked import checked
from asyncsim.components._description import hash_of
from asyncsim.scenario._rebuild import in_lane
from asyncsim.scenario._scenario import Scenario, field_named
from asyncsim.study._cases import Alternative, alternatives, axis_of, labelled, require_different, require_separate

MOST_IN_TURN = 16
MOST_IN_BLOCK = 1000  # scenarios that travel together
TURN_WORK = 1e9  # numbers in all gradients of a batch, times the mini-batch: some tenths of a second may be lost


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
    base: Scenario,
    *,
    count: int,
    seed: int = 0,
    seeds: Iterable[int] | None = None,
    **fields: Prior | Iterable[Any],
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
    rng = np.random.default_rng([seed, *name.encode()])  # Another field changes no draw of this one.
    if not isinstance(source, Prior):
        choices = axis_of(name, source)
        return [choices[place] for place in rng.integers(len(choices), size=count)]
    field = field_named(base, name)
    drawn = source.sample(rng, count).tolist()
    return [round(value) for value in drawn] if field is not None and field.kind == "integer" else drawn


def _require_fitting(base: Scenario, name: str, values: list[Any], others: Mapping[str, list[Any]]) -> None:
    """Refuse an unknown field, or a value that does not fit, with the other fields at their first values."""
    if field_named(base, name) is None:
        base.override(**{name: None})  # Its error names the nearest field.
    # The other fields have their first values, whatever these are.
    first = {other: column[0] for other, column in others.items() if other != name}
    for place, value in enumerate(values):
        if place == 0 or value not in values[:place]:
            try:
                base.override(**{**first, name: value})
            except (ValueError, TypeError) as error:
                if first and not _fits(base, first):
                    return  # The value of another field is at fault, which is named when that field is checked.
                raise ValueError(f"`{name}` does not take its value number {place + 1}, {value!r}: {error}") from error


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
    for place, scenario in enumerate(listed):
        if not isinstance(scenario, Scenario):
            raise ValueError(f"`scenarios` must be scenarios; number {place + 1} is a {type(scenario).__name__}.")
    return listed


@dataclass(frozen=True)
class Batch:
    """Scenarios that are computed together."""

    scenarios: tuple[Scenario, ...]  # one per lane, or one after another
    program: str  # key of the compiled program: batches that share it are best computed by one process
    in_turn: bool = False  # whether the scenarios are replayed one after another

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Those of the scenarios."""
        return tuple(scenario.digest for scenario in self.scenarios)

    @property
    def schedule(self) -> str:
        """The digest of the schedule of all of them."""
        return self.scenarios[0].schedule_digest

    @cached_property
    def name(self) -> str:
        """Hash of the digests."""
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
            for part in batched(group, lanes):  # The number of lanes and the place enter the digest.
                placed = tuple(in_lane(scenario, lanes, len(part), place) for place, scenario in enumerate(part))
                batches.append(Batch(placed, f"{program} {len(part)}"))
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
    traced = {name for name, value in rule.numbers.items() if not np.ndim(value)}  # arguments of the program
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
    work = scenario.packing.size * scenario.workload.batch_size * scenario.rule.window * scenario.expected_commits
    return int(max(1, TURN_WORK // max(work, TURN_WORK / MOST_IN_TURN)))


def _without(rule: Mapping[str, Any], paths: Collection[str], prefix: str = "") -> dict[str, Any]:
    """Return the description of a rule without its entries of these paths, also in a rule that it contains."""
    return {
        name: _without(value, paths, f"{prefix}{name}.") if name == "rule" else value
        for name, value in rule.items()
        if f"{prefix}{name}" not in paths
    }
