"""The store of sweeps, comparisons and figures, and the computation of missing results.

A process computes a batch under a lease. Results and failures are kept in the store. `obtain` does the same with
scenarios that somebody waits for, as comparisons and figures do.
"""

import errno
import json
import os
import shutil
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from asyncsim._version import __version__
from asyncsim.cluster._simulation import Simulated
from asyncsim.components._description import hash_of
from asyncsim.components._environment import difference
from asyncsim.engine import Progress, Replayer, Run, replay
from asyncsim.engine import _run_file as run_file
from asyncsim.engine._chunks import chunk_length
from asyncsim.engine._plan import plan_for
from asyncsim.engine._quantities import QUANTITIES
from asyncsim.files import _npz as npz
from asyncsim.files._json import write_owned
from asyncsim.pool._parcels import unpack
from asyncsim.pool._queue import PAUSE, Limit, Outcome, Patience, TooLong, holders_of
from asyncsim.pool._slots import WorkerTrouble
from asyncsim.rules import Rule
from asyncsim.scenario._rebuild import label_notes
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._entries import Entries, now, prepare_store
from asyncsim.store._labels import FAILED, LEASES, RUN, SUMMARY, TRACE, TRACES, is_store, write_label
from asyncsim.store._labels import SCENARIO as LABEL
from asyncsim.store._lease import this_process
from asyncsim.study._lists import Batch, program_of
from asyncsim.study._run import (
    Result,
    Seconds,
    Stopwatch,
    load_result,
    load_run,
    load_trace,
    replay_to_end,
    replayer_of,
    summarise,
)
from asyncsim.trace import Trace
from asyncsim.workloads import Workload


class Store(Entries):
    """The results of scenarios. See `open_store`."""

    def trace(self, scenario: Scenario, simulating: Callable[[Simulated], None] | None = None) -> Trace:
        """The schedule of a scenario: from the store, or else simulated (which calls `simulating`) and kept there."""
        path = self._trace_path(scenario)
        with suppress(FileNotFoundError, ValueError):  # a damaged one is made again
            return scenario.in_steps(load_trace(scenario, path))
        trace = scenario.schedule(simulating)
        trace.save(path, notes={npz.OWNER: scenario.schedule_digest}, sync=False)
        return scenario.in_steps(trace)

    def put(self, result: Result, seconds: Seconds, origin: Any = None) -> None:
        """Keep a result. If another process was faster, its result stays."""
        scenario = result.require_scenario()
        digest = scenario.digest

        def fill(folder: Path) -> None:
            notes = {npz.OWNER: digest, **seconds, SUMMARY: json.dumps(result.summary)}
            run_file.write(folder / RUN, vars(result.run), notes, resumable=False, new=True)
            self._link_trace(result, folder / TRACE)
            told = None if origin is None else {**origin, **label_notes(scenario)}
            write_label(folder / LABEL, digest, scenario.description, told, new=True)
            write_owned(folder / SUMMARY, result.summary, digest, new=True)

        self.publish(digest, fill)

    def get(self, scenario: Scenario) -> Result | None:
        """The result of a scenario, None if it is not there."""
        folder = self.folder(scenario.digest)
        if not self.has(scenario.digest):
            return None
        try:
            return load_result(scenario, folder)
        except ValueError as error:
            remedy = "The same sweep computes it again with `--retry-failed`; in Python, `retry_failed=True`."
            raise ValueError(f"{error} {remedy}") from error

    def fail(self, scenario: Scenario, reason: str, details: str = "") -> str:
        """Keep the reason why a scenario has no results, with `details`, a traceback, and say if it cannot be kept."""
        told = {"digest": scenario.digest, "reason": reason, "details": details, "when": now(), **this_process()}
        content = {**told, "scenario": scenario.describe()}
        try:
            write_owned(self.path / FAILED / f"{scenario.digest}.json", content, scenario.digest)
        except OSError as error:
            return f"{reason} (not kept: {error})"
        return reason

    def _trace_path(self, scenario: Scenario) -> Path:
        return self.path / TRACES / f"{scenario.schedule_digest}.npz"

    def _link_trace(self, result: Result, place: Path) -> None:
        """The schedule, which a folder shares with all others that have it."""
        scenario = result.require_scenario()
        shared = self._trace_path(scenario)
        try:
            os.link(shared, place)
        except FileNotFoundError:
            recorded = scenario.trace
            kept = result.trace if recorded is None else recorded
            kept.save(place, notes={npz.OWNER: scenario.schedule_digest})
        except OSError:  # a file system without hard links, each of which has an error of its own
            shutil.copyfile(shared, place)


def open_store(path: str | os.PathLike[str], *, create: bool = True) -> Store:
    """The store in a folder, made if need be and if `create`. Other folders and formats are refused."""
    return Store(prepare_store(path, create))


_fitting: set[tuple[str, int | None]] = set()  # programs and lengths for which this machine has the memory


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
    """Replay one scenario, or lanes together, over their schedule: for each its result, and its share of the time."""
    first, prepare = batch.scenarios[0], prepare or Preparation()
    if (batch.program, first.total) not in _fitting:
        first.require_memory()
        _fitting.add((batch.program, first.total))
    if len(batch.scenarios) == 1:
        before, seconds = None, {}
        if unfinished is not None and unfinished.is_file():
            with suppress(ValueError):  # a damaged one, or another scenario's: from the start
                before, seconds, _ = load_run(first, unfinished)
        run, seconds = replay_to_end(first, trace, before, seconds, progress, unfinished, prepare)
        yield Result(first, trace, run, summarise(trace, run, **seconds, scenario=first)), seconds
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


def stacked(rules: Sequence[Rule]) -> Rule:
    """One rule with the numbers of several of one structure: a value per lane where they differ."""
    found = [rule.numbers for rule in rules]
    differing = {name for numbers in found for name in numbers if numbers[name] != found[0][name]}
    return rules[0].with_numbers({name: np.asarray([numbers[name] for numbers in found]) for name in differing})


def split(run: Run, trace: Trace, scenarios: Sequence[Scenario]) -> list[Run]:
    """The run of each lane, as far as a run of its own would have gone: one that diverges stops soon after."""
    run = replace(
        run,
        central=jax.tree.map(np.asarray, run.central),  # whose parts cost nothing
        state=jax.tree.map(np.asarray, run.state._replace(rows=None)),  # a lane is not resumed
    )
    return [_lane(run, trace, place, scenario) for place, scenario in enumerate(scenarios)]


def _lane(run: Run, trace: Trace, place: int, scenario: Scenario) -> Run:
    diverged = run.divergences[place]
    commits = run.commits if diverged is None else min(run.commits, _stop(run, scenario, diverged, len(trace)))
    kept = {name: at < commits for name, at in run.recorded_at.items()}
    return replace(
        run,
        loss=np.ascontiguousarray(run.loss[place, :commits]),
        central=jax.tree.map(lambda leaf: leaf[place], run.central),
        diverged_at=diverged,
        records={name: np.asarray(values[place])[kept[name]] for name, values in run.records.items()},
        recorded_at={name: at[kept[name]] for name, at in run.recorded_at.items()},
        worker=run.worker[:commits],
        digest=run.digest if commits == run.commits else plan_for(trace, run.rule, run.workload.counts).digest(commits),
        commits=commits,
        seed=scenario.seed,
        state=jax.tree.map(lambda leaf: leaf[place : place + 1], run.state),
        rule=scenario.rule.for_workers(run.workers),
    )


def _stop(run: Run, scenario: Scenario, diverged: int, total: int) -> int:
    """Where a replay of one lane stops that diverges at a commit: with the chunk after it, unless that one waits."""
    length = chunk_length(scenario.packing.size, scenario.workload.batch_size, 1, run.rule.window)
    measured = [every for name, every in run.strides.items() if name not in (*QUANTITIES, *run.own)]
    stop = seen = 0  # chunks handed over, and looked at
    while seen <= diverged and stop < total:
        before, stop = stop, min([stop + length, total, *(stop - stop % every + every for every in measured)])
        seen = stop if any(stop % every == 0 for every in measured) else before
    return stop


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, or a used-up quota
KEPT = 4  # schedules and workloads that a process keeps at hand
VERSIONS = {"asyncsim": __version__, "jax": jax.__version__}
Kept = TypeVar("Kept")
Name = TypeVar("Name")
_workloads: dict[str, Workload] = {}  # by digest, the oldest first
_traces: dict[tuple[Path, str], Trace] = {}  # by store and digest, the oldest first


@dataclass(frozen=True)
class Task:
    """A batch on its way to the process that computes it."""

    store: str  # where results are kept
    parcel: str  # the batches of a block, as `unpack` finds them
    place: int  # of the batch among them
    versions: Mapping[str, str]  # those of the process that sends it
    origin: Mapping[str, Any]  # where the scenarios came from, to be kept with their results
    run_limit: float | None = None  # seconds that a run may take, or None


class DifferentVersions(ValueError):
    """The process that computes has another asyncsim, another JAX, or other settings of JAX than the one that asks."""


def work(task: Task) -> Outcome:
    """Compute the missing results of a batch, in the process that computes."""
    store = _store_of(task.store, task.versions)
    try:
        batch = _block(store.data, task.parcel)[task.place]
        first = batch.scenarios[0]  # whose workload may be that of an earlier batch, for which programs are compiled
        known = _at_hand(_workloads, hash_of(first.description["workload"]), lambda: first.workload)
        for scenario in batch.scenarios:
            vars(scenario)["workload"] = known
    except Exception as error:
        raise WorkerTrouble(this_worker(), f"{type(error).__name__}: {error}") from error
    return work_on(batch, store, task.origin, task.run_limit)


_block = lru_cache(maxsize=KEPT)(unpack)


def check_worker(task: tuple[str, Mapping[str, str]]) -> None:
    """Check that this process can compute for a sweep, given its store and the versions of the process that asks."""
    store = _store_of(*task)
    try:
        with tempfile.TemporaryFile(dir=store.path / LEASES) as file:
            file.write(b"written")
    except OSError as error:
        raise WorkerTrouble(this_worker(), _not_kept(store, error)) from error


def this_worker() -> str:
    """The name of this process: its address as a worker of Dask, or else its number and host."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with suppress(ValueError):  # it is none
            return str(distributed.get_worker().address)
    return f"process {os.getpid()} on {socket.gethostname()}"


def _store_of(place: str, versions: Mapping[str, str]) -> Store:
    """The store of a sweep whose process has these versions: with others, results would not be those of this one."""
    for name, version in versions.items():
        if VERSIONS.get(name) != version:
            raise DifferentVersions(
                f"The workers have {name} {VERSIONS.get(name)}, and this process has {name} {version}. Install the "
                "same on both."
            )
    if not is_store(Path(place)):
        where = f"`store` {place!r} is not there"
        raise WorkerTrouble(this_worker(), f"{where}. All workers must see the folder under the same path.")
    return Store(Path(place))


def _require_environment(scenario: Scenario) -> None:
    """Refuse to compute with other settings of JAX than those that the scenario's digest covers."""
    if (different := difference(scenario.description)) is not None:
        raise DifferentVersions(f"{this_worker()} was asked to compute {different}")


def work_on(batch: Batch, store: Store, origin: Mapping[str, Any], run_limit: float | None = None) -> Outcome:
    """As `work`, of a batch that is at hand."""
    _require_environment(batch.scenarios[0])
    try:
        with store.lease(batch.digests) as is_mine:
            return _leased(batch, store, origin, run_limit) if is_mine else Outcome(busy=True)
    except OSError as error:  # not even the lease can be written
        reason = _not_kept(store, error)
        return Outcome(dict.fromkeys(batch.digests, reason), trouble=WorkerTrouble(this_worker(), reason))


def _leased(batch: Batch, store: Store, origin: Mapping[str, Any], run_limit: float | None) -> Outcome:
    """Compute the missing results of a batch, each by itself unless they share a program."""
    there = {digest for digest in batch.digests if store.has(digest)}
    missing = [digest for digest in batch.digests if digest not in there]
    prepare = Preparation()
    failed, unwritten = dict[str, str](), dict[str, str]()

    def keep(result: Result, seconds: Seconds) -> None:
        try:
            store.put(result, seconds, origin)
        except OSError as error:
            unwritten[result.require_scenario().digest] = _not_kept(store, error)

    for one in batch.left(there) if missing else ():
        limit = None if run_limit is None else Limit(run_limit * len(one.scenarios))
        try:
            trace = _trace(store, one.scenarios[0], limit)
            for result, seconds in compute(one, trace, store.unfinished(one.digests[0]), limit, prepare):
                if result.require_scenario().digest in missing:
                    keep(result, seconds)
        except Exception as error:  # lanes share their program, and none has a result without the others
            if isinstance(error, OSError) and error.errno in FULL:
                unwritten |= dict.fromkeys(one.digests, _not_kept(store, error))
            else:
                failed |= {scenario.digest: _fail(store, scenario, error) for scenario in one.scenarios}
    reasons = {digest: failed.get(digest) or unwritten.get(digest, "") for digest in missing}
    return Outcome(reasons, trouble=next((WorkerTrouble(this_worker(), one) for one in unwritten.values()), None))


def obtain(
    scenarios: Mapping[Name, Scenario],
    store: Store,
    *,
    progress: Callable[[Name, Progress], None] | None = None,
    simulating: Callable[[Name, Simulated], None] | None = None,
    origins: Mapping[Name, Mapping[str, Any]] | None = None,
) -> Iterator[tuple[Name, Result]]:
    """Name and result of each scenario as it comes: from the store, from this process or from one that computes it."""
    left, patience = {scenario.digest: name for name, scenario in scenarios.items()}, Patience()
    while left:
        before = len(left)
        for digest, name in [*left.items()]:
            told = progress and partial(progress, name), simulating and partial(simulating, name)
            result = _find_or_compute(scenarios[name], store, *told, (origins or {}).get(name))
            if result is not None:
                del left[digest]
                yield from ((other, result) for other, one in scenarios.items() if one.digest == digest)
        if len(left) < before:
            patience.end()
        else:
            patience.wait(lambda: holders_of(store.path / LEASES, left))
            time.sleep(PAUSE)


def _find_or_compute(
    scenario: Scenario,
    store: Store,
    progress: Callable[[Progress], None] | None,
    simulating: Callable[[Simulated], None] | None,
    origin: Mapping[str, Any] | None,
) -> Result | None:
    """The result of a scenario, or None if another process computes it. An error ends all."""
    folder = store.folder(scenario.digest)
    try:
        found = store.get(scenario)
        if found is not None:
            return found
        is_damaged = store.is_damaged(scenario.digest)
    except (ValueError, FileNotFoundError):
        store.discard(scenario.digest)
        is_damaged = True
    if is_damaged:
        store.refuse_foreign(scenario.digest)
        warnings.warn(f"{str(folder)!r} is damaged. It is computed again.", stacklevel=3)
    with store.lease([scenario.digest]) as is_mine:
        if not is_mine or store.has(scenario.digest):  # it is there next time, unless the other process dies
            return None
        _require_environment(scenario)
        trace = _trace(store, scenario, simulating)
        batch = Batch((scenario,), program_of(scenario))
        ((result, seconds),) = compute(batch, trace, store.unfinished(scenario.digest), progress)
        store.put(result, seconds, origin)
    return replace(result, folder=folder)


def _not_kept(store: Store, error: OSError) -> str:
    """Why there is no result of a valid scenario, which the next call may still be able to keep."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"`store` {str(store.path)!r} could not be written: {reason}. Once it can, the same sweep goes on."


def _fail(store: Store, scenario: Scenario, error: Exception) -> str:
    """The reason of a failure, kept in the store unless it is the machine's and not the scenario's."""
    reason = str(error) if isinstance(error, TooLong) else f"{type(error).__name__}: {error}"
    if isinstance(error, (OSError, MemoryError)):
        return reason
    return store.fail(scenario, reason, "".join(traceback.format_exception(error)))


def _trace(store: Store, scenario: Scenario, simulating: Callable[[Simulated], None] | None = None) -> Trace:
    """The schedule of a scenario. The last few stay at hand."""
    key = store.path.absolute(), scenario.schedule_digest
    return _at_hand(_traces, key, lambda: store.trace(scenario, simulating))


def _at_hand(known: dict[Any, Kept], key: Any, make: Callable[[], Kept]) -> Kept:
    """One of the last few values, made unless it is known."""
    if key in known:
        return known[key]
    value = make()
    while len(known) >= KEPT:
        known.pop(next(iter(known)), None)
    return known.setdefault(key, value)
