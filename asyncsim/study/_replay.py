"""From a scenario and its schedule to its results: replays with checkpoints, alone or several in lanes.

In lanes, one compiled program replays several scenarios at once. What each lane gives is cut to the length at which a
replay of its own would have stopped.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import jax
import jax.monitoring
import numpy as np

from asyncsim.engine import Progress, Replayer, ReplayInterrupted, Run
from asyncsim.engine._layout import state_of_seed
from asyncsim.engine._plan import plan_for
from asyncsim.engine._replay import finish
from asyncsim.rules import Rule
from asyncsim.rules._hierarchy import for_regions
from asyncsim.scenario._scenario import Scenario
from asyncsim.study._batches import Batch
from asyncsim.study._result_files import Replayed, Result, Seconds, read_run, write_run
from asyncsim.study._summary import summarise
from asyncsim.trace import Trace

CHECKPOINT_EVERY = 60.0  # seconds: at most this much is lost when the machine goes down
COMPILING = "/jax/core/compile/"  # tracing, lowering and compiling report under this name, each when it ends
_fitting: set[tuple[str, int | None]] = set()  # programs and lengths for which this machine has the memory


def replayer_of(scenario: Scenario, trace: Trace, resume: Run | None) -> Replayer:
    """Prepare the replay of a scenario."""
    record, commits = scenario.recorded, scenario.replayed
    return Replayer(
        trace, scenario.rule, scenario.workload, scenario.seed, record=record, commits=commits, resume=resume
    )


def replay_to_end(
    scenario: Scenario,
    trace: Trace,
    earlier: Replayed | None = None,
    progress: Callable[[Progress], None] | None = None,
    path: Path | None = None,
    prepare: Callable[[Scenario, Trace, Run | None], Replayer] = replayer_of,
) -> Replayed:
    """Replay to the end, with a checkpoint in a file, if there is one, now and then and on Ctrl-C."""
    run, before = (None, {}) if earlier is None else earlier[:2]  # An interrupted process may have left a checkpoint.

    def seconds() -> Seconds:
        spent = {"wall_seconds": watch.seconds, "compile_seconds": watch.compiling}
        return {name: before.get(name, 0.0) + value for name, value in spent.items()}

    def checkpoint(run: Run) -> None:
        if path is not None:
            write_run(scenario, Replayed(run, seconds()), path)

    with Stopwatch() as watch:
        try:
            if run is None or not is_finished(run, trace, scenario):
                run = finish(prepare(scenario, trace, run), progress, checkpoint, CHECKPOINT_EVERY)
        except ReplayInterrupted as interrupted:  # Ctrl-C stops a replay between two chunks.
            checkpoint(interrupted.run)
            raise
    return Replayed(run, seconds())


def is_finished(run: Run, trace: Trace, scenario: Scenario) -> bool:
    """Tell whether a replay has reached its end. Where one stops that has diverged, the replay itself knows."""
    return run.commits >= (len(trace) if scenario.replayed is None else scenario.replayed)


class Preparation:
    """Prepares the replays of a batch. Those that differ in the rule's numbers alone share what one has prepared."""

    def __init__(self) -> None:
        self._last: Replayer | None = None

    def __call__(self, scenario: Scenario, trace: Trace, resume: Run | None) -> Replayer:
        if resume is None and self._last is not None and self._last.seed == scenario.seed:
            return self._last.restarted_with(scenario.rule)
        self._last = replayer_of(scenario, trace, resume)
        return self._last


def compute(
    batch: Batch,
    trace: Trace,
    unfinished: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    prepare: Preparation | None = None,
) -> Iterator[tuple[Result, Seconds]]:
    """Replay one scenario, or lanes together, over their schedule: for each its result, and its share of the time."""
    first = batch.scenarios[0]
    if (batch.program, first.total) not in _fitting:  # The estimate is the same for all of these, and takes time.
        first.require_memory()
        _fitting.add((batch.program, first.total))
    if len(batch.scenarios) == 1:
        earlier = None
        if unfinished is not None and unfinished.is_file():
            with suppress(ValueError):  # A damaged checkpoint, or that of another scenario, is begun anew.
                earlier = read_run(first, unfinished)
        run, seconds, _ = replay_to_end(first, trace, earlier, progress, unfinished, prepare or replayer_of)
        yield Result(first, trace, run, summarise(trace, run, **seconds, scenario=first)), seconds
        return
    rule = stacked([scenario.rule for scenario in batch.scenarios])
    seeds = [scenario.seed for scenario in batch.scenarios]
    with Stopwatch() as watch:
        record, commits = first.recorded, first.replayed
        replayer = Replayer(trace, rule, first.workload, seeds, record=record, commits=commits)
        run = finish(replayer, progress)
        ends = [run.commits if at is None else replayer.end_alone(at) for at in run.divergences]
        if run.commits < max(ends):  # All have diverged, and one of them would have gone on for longer alone.
            replayer.until = max(ends)
            run = finish(replayer, progress)
    metrics = run.evaluate()  # The lanes are evaluated together, by one program.
    runs = split(run, trace, batch.scenarios, ends)
    share = {"wall_seconds": watch.seconds / len(runs), "compile_seconds": watch.compiling / len(runs)}
    for lane_index, (scenario, lane) in enumerate(zip(batch.scenarios, runs, strict=True)):
        test = {name: values[lane_index].item() for name, values in metrics.items()}
        yield Result(scenario, trace, lane, summarise(trace, lane, **share, test=test, scenario=scenario)), share


def stacked(rules: Sequence[Rule]) -> Rule:
    """Return one rule with the numbers of several of one structure: a value per lane where they differ."""
    numbers = [rule.numbers for rule in rules]
    differing = {path for lane in numbers for path in lane if lane[path] != numbers[0][path]}
    return rules[0].with_numbers({path: np.asarray([lane[path] for lane in numbers]) for path in differing})


def split(run: Run, trace: Trace, scenarios: Sequence[Scenario], ends: Sequence[int]) -> list[Run]:
    """Return the run of each lane, up to the commit at which a run of its own would have ended."""
    on_host = replace(
        run,
        central=jax.tree.map(np.asarray, run.central),  # On the host, a lane is a view of it and costs nothing.
        # Rows only resume a run, and no lane is resumed.
        state=jax.tree.map(np.asarray, run.state._replace(rows=None)),
    )
    lanes = zip(scenarios, ends, strict=True)
    return [_lane(on_host, trace, lane_index, *lane) for lane_index, lane in enumerate(lanes)]


def _lane(run: Run, trace: Trace, lane_index: int, scenario: Scenario, commits: int) -> Run:
    in_time = {name: at < commits for name, at in run.recorded_at.items()}
    return replace(
        run,
        loss=np.ascontiguousarray(run.loss[lane_index, :commits]),
        central=jax.tree.map(lambda leaf: leaf[lane_index], run.central),
        diverged_at=run.divergences[lane_index],
        records={name: np.asarray(values[lane_index])[in_time[name]] for name, values in run.records.items()},
        recorded_at={name: at[in_time[name]] for name, at in run.recorded_at.items()},
        worker=run.worker[:commits],
        digest=run.digest if commits == run.commits else plan_for(trace, run.rule, run.workload.counts).digest(commits),
        commits=commits,
        seed=scenario.seed,
        state=state_of_seed(run.state, lane_index),
        rule=for_regions(scenario.rule.for_workers(run.workers - run.servers), run.servers),
    )


class Stopwatch:
    """Measures a block of code."""

    def __enter__(self) -> "Stopwatch":
        self._start = time.perf_counter()
        self._end: float | None = None
        self._spans: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, *error: object) -> None:
        self._end = time.perf_counter()
        jax.monitoring.unregister_event_duration_listener(self._listen)

    @property
    def seconds(self) -> float:
        """Wall time since the block began, up to its end."""
        return (self._end or time.perf_counter()) - self._start

    @property
    def compiling(self) -> float:
        """Length of the union of all reported spans: one function may be traced while another is."""
        total, last = 0.0, self._start  # Spans overlap: time before `last` has been counted.
        for start, end in sorted(self._spans):
            total += max(0.0, end - max(start, last))
            last = max(last, end)
        return total

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs  # Which function it was does not matter.
        if event.startswith(COMPILING):
            now = time.perf_counter()  # An event is reported when it ends.
            self._spans.append((now - duration_secs, now))
