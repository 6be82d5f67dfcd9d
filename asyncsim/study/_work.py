"""The work of a process: it computes missing results of a store, those of a task or those that somebody waits for.

A sweep sends tasks to processes, each of which computes a batch under a lease and keeps results and failures in the
store. `obtain` computes in this process for comparisons and figures, and waits for what other processes compute.
"""

import errno
import os
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import jax

from asyncsim._version import __version__
from asyncsim.cluster._simulation import Simulated
from asyncsim.components._description import hash_of
from asyncsim.components._environment import difference
from asyncsim.engine import Progress
from asyncsim.pool._parcels import unpack
from asyncsim.pool._queue import PAUSE, Limit, Outcome, Patience, TooLong, holders_of
from asyncsim.pool._slots import WorkerTrouble
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._labels import LEASES, is_store
from asyncsim.study._lists import Batch, program_of
from asyncsim.study._record import Result, Seconds
from asyncsim.study._replay import Preparation, compute
from asyncsim.study._store import Store
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

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
