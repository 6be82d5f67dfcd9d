"""Units of work: scenarios that one process computes, over one schedule and by one program.

Each scenario is replayed as by `asyncsim.run`, so that its result is the same to the last bit. Short runs of one
structure and schedule make a unit, in which they are replayed in turn: what surrounds a replay of some milliseconds (a
task, a claim, the same mini-batches drawn again) costs as much as the replay. Every other scenario is a unit of its
own.

Scenarios that differ in nothing but numbers that a compiled program takes as arguments (hyper-parameters of the rule
and, over one schedule, the seed) can be *lanes* of one replay instead, where that is asked for. It pays where a
gradient is much cheaper than what surrounds it: ten lanes of a quadratic take the time of one, ten of a small network
the time of ten. A lane is computed by the same operations in a program of another shape, which rounds differently, and
training lets that grow: a network with batch 1 ends somewhere else. So such results have digests of their own
(`asyncsim.scenario.lanes`). Which scenarios share a program depends on what is asked for, and never on what is there
already, so that an interrupted sweep ends with the very numbers of one that was not.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from asyncsim.engine import Progress, Run, replay, run_file
from asyncsim.engine.arguments import first_shapes
from asyncsim.engine.chunks import chunk_length
from asyncsim.engine.layout import Packing
from asyncsim.engine.plan import plan_for
from asyncsim.engine.quantities import QUANTITIES
from asyncsim.engine.state import Carry
from asyncsim.remember import once_for_each
from asyncsim.rules import Rule
from asyncsim.scenario.fingerprint import digest, plain
from asyncsim.scenario.lanes import LANES, in_lane
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.run import OWNER, SECONDS, Result, Seconds, replay_to_end
from asyncsim.study.stopwatch import Stopwatch
from asyncsim.study.summary import summarise
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

MOST_IN_TURN = 16
TURN_WORK = 1e9  # numbers in all gradients of a unit, times the batch: some tenths of a second, at most so much is lost
_fitting: set[tuple[str, int | None]] = set()  # programs and lengths for which this machine has the memory


@dataclass(frozen=True)
class Unit:
    """Scenarios that are computed together.

    Attributes:
        scenarios: One per lane, or one after another.
        program: What decides the compiled program: units that share it are best computed by one process.
        in_turn: Whether the scenarios are replayed one after another.
    """

    scenarios: tuple[Scenario, ...]
    program: str
    in_turn: bool = False

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Those of the scenarios."""
        return tuple(scenario.digest for scenario in self.scenarios)

    @cached_property
    def name(self) -> str:
        """Hash of the digests."""
        return digest(self.digests)

    def __reduce__(self) -> Any:
        """On its way to another process: the first scenario whole, and in what the others differ from it."""
        first, *others = self.scenarios
        lanes = [
            (other.rule.numbers, other.seed, other.schedule_seed, other.description.get(LANES), other.digest)
            for other in others
        ]
        if any(
            lane_of(first, *lane).description != other.description for lane, other in zip(lanes, others, strict=True)
        ):
            return Unit, (self.scenarios, self.program, self.in_turn)
        return _unit_of_lanes, (first, self.program, self.in_turn, lanes)

    def without(self, there: Collection[str]) -> "Unit":
        """The unit without what is there already; lanes stay, so that the others are computed as the first time."""
        left = tuple(scenario for scenario in self.scenarios if scenario.digest not in there)
        return Unit(left, self.program, self.in_turn) if self.in_turn and len(left) < len(self.scenarios) else self

    def alone(self) -> "list[Unit]":
        """Each scenario of a unit in turn as a unit of its own."""
        return [Unit((scenario,), f"{self.program} alone") for scenario in self.scenarios]


def lane_of(
    first: Scenario,
    numbers: Mapping[str, Any],
    seed: int,
    schedule_seed: int | None,
    place: Mapping[str, int] | None,
    digest: str,
) -> Scenario:
    """A scenario that differs from another one as lanes do, without all that is checked when one is made."""
    lane = copy(first)
    described = {**first.description, "rule": _described(first.description["rule"], numbers), "seed": seed}
    described.pop("schedule_seed", None)
    if schedule_seed not in (None, seed):
        described["schedule_seed"] = schedule_seed
    if place is not None:
        described[LANES] = place
    changed = {
        "rule": first.rule.with_numbers(numbers),
        "seed": seed,
        "schedule_seed": schedule_seed,
        "description": described,
        "digest": digest,
    }
    vars(lane).update(changed)
    return lane


def _unit_of_lanes(first: Scenario, program: str, in_turn: bool, lanes: Sequence[tuple[Any, ...]]) -> Unit:
    return Unit((first, *(lane_of(first, *lane) for lane in lanes)), program, in_turn)


def units_of(scenarios: Iterable[Scenario], lanes: int | None = None) -> list[Unit]:
    """Scenarios put into units, in the order in which they are given.

    Args:
        scenarios: All that is asked for, in any order. One that occurs twice counts once.
        lanes: The most scenarios in one program; by default each has a replay of its own.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> [len(unit.scenarios) for unit in units_of(asim.grid(base, learning_rate=[0.1, 0.2], seed=range(3)))]
        [2, 2, 2]
    """
    groups: dict[str, list[Scenario]] = {}
    for scenario in dict.fromkeys(scenarios):
        groups.setdefault(lane_key(scenario), []).append(scenario)
    units = []
    for group in groups.values():
        program = program_of(group[0])
        if lanes is not None and lanes > 1:
            for part in batched(group, lanes):
                placed = tuple(in_lane(one, lanes, len(part), place) for place, one in enumerate(part))
                units.append(Unit(placed, f"{program} {len(part)}"))
            continue
        group = sorted(group, key=lambda scenario: scenario.seed)  # which have the same mini-batches
        units += [Unit(part, f"{program} 1", len(part) > 1) for part in batched(group, runs_in_turn(group[0]))]
    return units


def lane_key(scenario: Scenario) -> str:
    """Hash of all that the scenarios of a unit have in common."""
    rule = scenario.rule.for_workers(scenario.cluster.workers)
    traced = {name for name, value in rule.numbers.items() if not np.ndim(value)}
    described = {name: value for name, value in scenario.description.items() if name not in ("seed", "schedule_seed")}
    structures = [str(jax.tree.structure(one)) for one in (rule, scenario.rule)]  # a number not given is no lane's
    described["rule"] = [_without(described["rule"], traced), *structures]
    return digest([described, sorted(traced), scenario.schedule_digest])


def program_of(scenario: Scenario) -> str:
    """Hash of what decides which program is compiled for a scenario."""
    described = scenario.description
    rule = [_without(described["rule"], scenario.rule.numbers), str(jax.tree.structure(scenario.rule))]
    return digest([rule, described["workload"], described["record"], scenario.cluster.workers])


def batched(scenarios: Sequence[Scenario], most: int) -> Iterator[tuple[Scenario, ...]]:
    """The scenarios in batches of so many; the last one may be smaller."""
    return (tuple(scenarios[start : start + most]) for start in range(0, len(scenarios), most))


def runs_in_turn(scenario: Scenario) -> int:
    """How many runs like this one are a unit, if they are replayed one after another."""
    work = _parameters(scenario.workload) * scenario.workload.batch_size * scenario.rule.window
    return int(max(1, min(TURN_WORK // (work * scenario.expected_commits), MOST_IN_TURN)))


@once_for_each
def _parameters(workload: Workload) -> int:
    return Packing.of(first_shapes(workload, jax.random.key(0))).size


def compute(
    unit: Unit,
    trace: Trace,
    unfinished: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Iterator[tuple[Result, Seconds]]:
    """Replay a unit over its schedule: for each scenario its result, and its share of the time, as they come.

    Args:
        unit: The unit.
        trace: The schedule of its scenarios.
        unfinished: File for checkpoints of a scenario that is alone: the next call goes on from there.
        progress: Called after every chunk of a scenario that is alone.

    Raises:
        ReplayInterrupted: On Ctrl-C or SIGTERM.
        ValueError: If this machine does not have the memory, or whatever the replay refuses.
    """
    first = unit.scenarios[0]
    if (unit.program, first.total) not in _fitting:
        first.require_memory()
        _fitting.add((unit.program, first.total))
    if unit.in_turn or len(unit.scenarios) == 1:
        for scenario in unit.scenarios:
            run, seconds = _alone(scenario, trace, unfinished if len(unit.scenarios) == 1 else None, progress)
            yield Result(scenario, trace, run, summarise(trace, run, **seconds)), seconds
        return
    rule = stacked([scenario.rule for scenario in unit.scenarios])
    seeds = [scenario.seed for scenario in unit.scenarios]
    with Stopwatch() as watch:
        run = replay(trace, rule, first.workload, seeds, record=first.recorded, commits=first.replayed)
    metrics = run.evaluate()
    runs = split(run, trace, unit.scenarios)
    share = {"wall_seconds": watch.seconds / len(runs), "compile_seconds": watch.compiling / len(runs)}
    for place, (scenario, one) in enumerate(zip(unit.scenarios, runs, strict=True)):
        test = {name: values[place].item() for name, values in metrics.items()}
        yield Result(scenario, trace, one, summarise(trace, one, **share, test=test)), share


def _alone(
    scenario: Scenario, trace: Trace, unfinished: Path | None, progress: Callable[[Progress], None] | None
) -> tuple[Run, Seconds]:
    """The run of one scenario, from its last checkpoint if there is one."""
    before, seconds = None, {}
    if unfinished is not None and unfinished.is_file():
        with suppress(ValueError):  # a damaged one, or another scenario's: from the start
            notes = run_file.read_notes(unfinished)
            if notes.get(OWNER) == scenario.digest:
                before = Run.load(unfinished, scenario.rule, scenario.workload)
                seconds = {name: float(notes[name]) for name in SECONDS}

    def keep(run: Run, seconds: Seconds) -> None:
        if unfinished is not None:
            run.save(unfinished, notes={OWNER: scenario.digest, **seconds})

    return replay_to_end(scenario, trace, before, seconds, progress, keep)


def stacked(rules: Sequence[Rule]) -> Rule:
    """One rule with the numbers of several of one structure: a value per lane where they differ.

    Example:
        >>> from asyncsim import rules
        >>> stacked([rules.Downpour(0.1), rules.Downpour(0.2)])
        Downpour(learning_rate=[0.1, 0.2], window=1)
    """
    found = [rule.numbers for rule in rules]
    differing = {name for numbers in found for name in numbers if numbers[name] != found[0][name]}
    return rules[0].with_numbers({name: np.asarray([numbers[name] for numbers in found]) for name in differing})


def _described(rule: Mapping[str, Any], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a rule with other numbers, those of a rule that it contains included."""
    return {
        name: _described(value, numbers) if name == "rule" else plain(numbers[name]) if name in numbers else value
        for name, value in rule.items()
    }


def _without(rule: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The description of a rule without its entries of these names, and so of a rule that it contains."""
    return {
        name: _without(value, names) if name == "rule" else value for name, value in rule.items() if name not in names
    }


def split(run: Run, trace: Trace, scenarios: Sequence[Scenario]) -> list[Run]:
    """The run of each lane, as far as a run of its own would have gone: one that diverges stops soon after.

    They cannot be resumed.
    """
    run = dataclasses.replace(
        run,
        central=jax.tree.map(np.asarray, run.central),  # whose parts cost nothing
        state=jax.tree.map(np.asarray, run.state._replace(rows=None)),
    )
    return [_lane(run, trace, place, scenario) for place, scenario in enumerate(scenarios)]


def _lane(run: Run, trace: Trace, place: int, scenario: Scenario) -> Run:
    def own(array: Any) -> Any:
        return array[place]

    diverged = run.divergences[place]
    commits = run.commits if diverged is None else min(run.commits, _stop(run, scenario, diverged, len(trace)))
    kept = {name: at < commits for name, at in run.recorded_at.items()}
    return dataclasses.replace(
        run,
        loss=np.ascontiguousarray(run.loss[place, :commits]),
        central=jax.tree.map(own, run.central),
        diverged_at=diverged,
        records={name: np.asarray(values[place])[kept[name]] for name, values in run.records.items()},
        recorded_at={name: at[kept[name]] for name, at in run.recorded_at.items()},
        worker=run.worker[:commits],
        digest=run.digest if commits == run.commits else plan_for(trace, run.rule, run.workload.counts).digest(commits),
        commits=commits,
        seed=scenario.seed,
        state=Carry(
            central=run.state.central[place : place + 1],
            server=jax.tree.map(lambda leaf: leaf[place : place + 1], run.state.server),
            rows=None,  # type: ignore[arg-type]  # a lane is not resumed
            buffer=jax.tree.map(lambda leaf: leaf[place : place + 1], run.state.buffer),
        ),
        rule=scenario.rule.for_workers(run.workers),
    )


def _stop(run: Run, scenario: Scenario, diverged: int, total: int) -> int:
    """Where a replay of one lane stops that diverges at a commit: with the chunk after it, unless that one waits.

    As `Replayer.advance` has it: a chunk is on its way before the results of the last are looked at, except where
    something is evaluated.
    """
    workload, rule = scenario.workload, run.rule
    length = chunk_length(_parameters(workload), workload.batch_size, 1, rule.window)
    measured = [every for name, every in run.strides.items() if name not in (*QUANTITIES, *run.own)]
    stop = seen = 0  # chunks handed over, and looked at
    while seen <= diverged and stop < total:
        before, stop = stop, min([stop + length, total, *(stop - stop % every + every for every in measured)])
        seen = stop if any(stop % every == 0 for every in measured) else before
    return stop


def untimed(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary without what depends on the machine."""
    return {name: value for name, value in summary.items() if name not in ("wall_seconds", "commits_per_second")}
