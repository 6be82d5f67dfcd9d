"""Batches of work: scenarios that one process computes, over one schedule and by one program.

Each scenario is replayed as by `asyncsim.run`, so that its result is the same to the last bit. Short runs of one
structure and schedule are replayed in turn, because the work around a replay of some milliseconds (a task, a lease, the
same mini-batches drawn again) costs as much as the replay. Every other scenario is a batch of its own.

If you ask for lanes, scenarios that differ only in numbers that a program takes as arguments (hyper-parameters and,
over one schedule, the seed) share one replay. It pays if a gradient is much cheaper than the work around it: ten lanes
of a quadratic take the time of one, ten of a small network the time of ten. Which scenarios share a program depends on
the sweep and never on existing results, so that an interrupted sweep ends with the very numbers of one that was not.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from asyncsim._description import hash_of
from asyncsim._remember import cached_per_object
from asyncsim.engine import Progress, Replayer, Run, replay
from asyncsim.engine._arguments import first_shapes
from asyncsim.engine._chunks import chunk_length
from asyncsim.engine._layout import Carry, Packing
from asyncsim.engine._plan import plan_for
from asyncsim.engine._quantities import QUANTITIES
from asyncsim.rules import Rule
from asyncsim.scenario._rebuild import in_lane
from asyncsim.scenario._scenario import Scenario
from asyncsim.store import _npz as npz
from asyncsim.study._run import SECONDS, Result, Seconds, Stopwatch, load_run, replay_to_end, replayer_of, summarise
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

MOST_IN_TURN = 16
MOST_IN_BLOCK = 1000  # scenarios that travel together
TURN_WORK = 1e9  # numbers in all gradients of a batch, times the mini-batch: some tenths of a second may be lost
_fitting: set[tuple[str, int | None]] = set()  # programs and lengths for which this machine has the memory


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

    def without(self, there: Collection[str]) -> "Batch":
        """The batch without existing results. Lanes stay, so that the others are computed as the first time."""
        left = tuple(scenario for scenario in self.scenarios if scenario.digest not in there)
        return Batch(left, self.program, self.in_turn) if self.in_turn and len(left) < len(self.scenarios) else self

    def alone(self) -> "list[Batch]":
        """Each scenario of a batch in turn as a batch of its own."""
        return [Batch((scenario,), f"{self.program} alone") for scenario in self.scenarios]


def batches_of(scenarios: Iterable[Scenario], lanes: int | None = None) -> list[Batch]:
    """Scenarios put into batches, in the order in which they are given."""
    groups: dict[str, list[Scenario]] = {}
    for scenario in dict.fromkeys(scenarios):
        groups.setdefault(lane_key(scenario), []).append(scenario)
    batches = []
    for group in groups.values():
        program = program_of(group[0])
        if lanes is not None and lanes > 1:
            for part in batched(group, lanes):
                placed = tuple(in_lane(one, lanes, len(part), place) for place, one in enumerate(part))
                batches.append(Batch(placed, f"{program} {len(part)}"))
            continue
        group = sorted(group, key=lambda scenario: scenario.seed)  # which have the same mini-batches
        batches += [Batch(part, f"{program} 1", len(part) > 1) for part in batched(group, runs_in_turn(group[0]))]
    return batches


def blocks_of(batches: Iterable[Batch]) -> list[list[Batch]]:
    """The batches in blocks of at most `MOST_IN_BLOCK` scenarios (a larger batch is one by itself)."""
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
    """Hash of all that the scenarios of a batch have in common."""
    rule = scenario.rule.for_workers(scenario.workers)
    traced = {name for name, value in rule.numbers.items() if not np.ndim(value)}
    described = {name: value for name, value in scenario.description.items() if name not in ("seed", "schedule_seed")}
    structures = [str(jax.tree.structure(one)) for one in (rule, scenario.rule)]  # a number not given is no lane's
    described["rule"] = [_without(described["rule"], traced), *structures]
    return hash_of([described, sorted(traced), scenario.schedule_digest])


def program_of(scenario: Scenario) -> str:
    """Key of the program that is compiled for a scenario."""
    described = scenario.description
    rule = [_without(described["rule"], scenario.rule.numbers), str(jax.tree.structure(scenario.rule))]
    return hash_of([rule, described["workload"], described["record"], scenario.workers])


def batched(scenarios: Sequence[Scenario], most: int) -> Iterator[tuple[Scenario, ...]]:
    """The scenarios in batches of one size, of which the last one may be smaller."""
    return (tuple(scenarios[start : start + most]) for start in range(0, len(scenarios), most))


def runs_in_turn(scenario: Scenario) -> int:
    """How many runs like this one are a batch, if they are replayed one after another."""
    work = _parameters(scenario.workload) * scenario.workload.batch_size * scenario.rule.window
    return int(max(1, min(TURN_WORK // (work * scenario.expected_commits), MOST_IN_TURN)))


@cached_per_object
def _parameters(workload: Workload) -> int:
    return Packing.of(first_shapes(workload, jax.random.key(0))).size


class Preparation:
    """Prepares the replays of a batch. Those that differ in the rule's numbers alone share what one has prepared."""

    def __init__(self) -> None:
        self._last: Replayer | None = None

    def __call__(self, scenario: Scenario, trace: Trace, resume: Run | None) -> Replayer:
        if resume is None and self._last is not None and self._last.seed == scenario.seed:
            return self._last.again(scenario.rule)
        self._last = replayer_of(scenario, trace, resume)
        return self._last


def compute(
    batch: Batch,
    trace: Trace,
    unfinished: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    prepare: Preparation | None = None,
) -> Iterator[tuple[Result, Seconds]]:
    """Replay a batch over its schedule: for each scenario its result, and its share of the time, as they come."""
    first, prepare = batch.scenarios[0], prepare or Preparation()
    if (batch.program, first.total) not in _fitting:
        first.require_memory()
        _fitting.add((batch.program, first.total))
    if batch.in_turn or len(batch.scenarios) == 1:
        for scenario in batch.scenarios:
            run, seconds = _alone(scenario, trace, unfinished if len(batch.scenarios) == 1 else None, progress, prepare)
            yield Result(scenario, trace, run, summarise(trace, run, **seconds, scenario=scenario)), seconds
        return
    rule = stacked([scenario.rule for scenario in batch.scenarios])
    seeds = [scenario.seed for scenario in batch.scenarios]
    with Stopwatch() as watch:
        run = replay(trace, rule, first.workload, seeds, record=first.recorded, commits=first.replayed)
    metrics = run.evaluate()
    runs = split(run, trace, batch.scenarios)
    share = {"wall_seconds": watch.seconds / len(runs), "compile_seconds": watch.compiling / len(runs)}
    for place, (scenario, one) in enumerate(zip(batch.scenarios, runs, strict=True)):
        test = {name: values[place].item() for name, values in metrics.items()}
        yield Result(scenario, trace, one, summarise(trace, one, **share, test=test, scenario=scenario)), share


def _alone(
    scenario: Scenario,
    trace: Trace,
    unfinished: Path | None,
    progress: Callable[[Progress], None] | None,
    prepare: Preparation,
) -> tuple[Run, Seconds]:
    """The run of one scenario, from its last checkpoint if there is one."""
    before, seconds = None, {}
    if unfinished is not None and unfinished.is_file():
        with suppress(ValueError):  # a damaged one, or another scenario's: from the start
            before, notes = load_run(scenario, unfinished)
            seconds = {name: float(notes[name]) for name in SECONDS}

    def keep(run: Run, seconds: Seconds) -> None:
        if unfinished is not None:
            run.save(unfinished, notes={npz.OWNER: scenario.digest, **seconds})

    return replay_to_end(scenario, trace, before, seconds, progress, keep, prepare)


def stacked(rules: Sequence[Rule]) -> Rule:
    """One rule with the numbers of several of one structure: a value per lane where they differ."""
    found = [rule.numbers for rule in rules]
    differing = {name for numbers in found for name in numbers if numbers[name] != found[0][name]}
    return rules[0].with_numbers({name: np.asarray([numbers[name] for numbers in found]) for name in differing})


def _without(rule: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The description of a rule without its entries of these names, and so of a rule that it contains."""
    return {
        name: _without(value, names) if name == "rule" else value for name, value in rule.items() if name not in names
    }


def split(run: Run, trace: Trace, scenarios: Sequence[Scenario]) -> list[Run]:
    """The run of each lane, as far as a run of its own would have gone: one that diverges stops soon after."""
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
    """Where a replay of one lane stops that diverges at a commit: with the chunk after it, unless that one waits."""
    workload, rule = scenario.workload, run.rule
    length = chunk_length(_parameters(workload), workload.batch_size, 1, rule.window)
    measured = [every for name, every in run.strides.items() if name not in (*QUANTITIES, *run.own)]
    stop = seen = 0  # chunks handed over, and looked at
    while seen <= diverged and stop < total:
        before, stop = stop, min([stop + length, total, *(stop - stop % every + every for every in measured)])
        seen = stop if any(stop % every == 0 for every in measured) else before
    return stop
