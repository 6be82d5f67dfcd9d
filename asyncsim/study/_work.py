"""The tasks of a sweep are computed here, in any process: results that a store lacks, or that another one computes.

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
from asyncsim.components._digest import hash_of
from asyncsim.components._environment import difference
from asyncsim.engine import Progress
from asyncsim.files import _npz as npz
from asyncsim.pool._parcels import unpack
from asyncsim.pool._queue import PAUSE, Limit, Outcome, Patience, TooLong, holders_of
from asyncsim.pool._slots import WorkerError
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._labels import LEASES, is_store
from asyncsim.study._batches import Batch, program_of
from asyncsim.study._replay import Preparation, compute
from asyncsim.study._result_files import Result, Seconds
from asyncsim.study._store import Store
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

FULL_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a full disk, or of a used-up quota
CACHED = 4  # schedules, workloads and blocks that a process has in memory
VERSIONS = {"asyncsim": __version__, "jax": jax.__version__}
Value = TypeVar("Value")
Name = TypeVar("Name")
_workloads: dict[str, Workload] = {}  # by digest, the oldest first
_traces: dict[tuple[Path, str], Trace] = {}  # by store and digest, the oldest first


@dataclass(frozen=True)
class Assignment:
    """A batch on its way to the process that computes it."""

    store: str  # where results are kept
    parcel: str  # the batches of a block, as `unpack` finds them
    index: int  # that of the batch in the block
    versions: Mapping[str, str]  # those of the process that sends it
    origin: Mapping[str, Any]  # where the scenarios came from, to be kept with their results
    run_limit: float | None = None  # seconds that a run may take, or None


class DifferentVersions(ValueError):
    """The process that computes has another asyncsim, another JAX, or other settings of JAX than the one that asks."""


def work(assignment: Assignment) -> Outcome:
    """Compute the missing results of a batch, in the process that computes."""
    store = _store_of(assignment.store, assignment.versions)
    try:
        batch = _block(store.data, assignment.parcel)[assignment.index]
        first = batch.scenarios[0]
        # Programs are compiled for the workload of an earlier batch, which is another object with the same description.
        workload = _cached(_workloads, hash_of(first.description["workload"]), lambda: first.workload)
        for scenario in batch.scenarios:
            vars(scenario)["workload"] = workload
    except Exception as error:  # Another process may be able to read the parcel, or to import what it names.
        raise WorkerError(this_worker(), f"{type(error).__name__}: {error}") from error
    return work_on(batch, store, assignment.origin, assignment.run_limit)


_block = lru_cache(maxsize=CACHED)(unpack)  # Consecutive tasks are batches of one block.


def check_worker(task: tuple[str, Mapping[str, str]]) -> None:
    """Check that this process can compute for a sweep, given its store and the versions of the process that asks."""
    store = _store_of(*task)
    try:
        with tempfile.TemporaryFile(dir=store.path / LEASES) as file:
            file.write(b"written")  # On a full disk, files can be created but not filled.
    except OSError as error:
        raise WorkerError(this_worker(), _explain_unwritten(store, error)) from error


def this_worker() -> str:
    """Name this process: its address as a worker of Dask, or else its number and host."""
    distributed = sys.modules.get("distributed")  # A worker of Dask has imported it.
    if distributed is not None:
        with suppress(ValueError):  # This process is no worker of Dask.
            return str(distributed.get_worker().address)
    return f"process {os.getpid()} on {socket.gethostname()}"


def _store_of(path: str, versions: Mapping[str, str]) -> Store:
    """Open the store of a sweep whose process has these versions. With others, results might differ from its own."""
    for name, version in versions.items():
        if VERSIONS.get(name) != version:
            raise DifferentVersions(
                f"The workers have {name} {VERSIONS.get(name)}, and this process has {name} {version}. Install the "
                "same on both."
            )
    if not is_store(Path(path)):  # Another host may not have mounted the file system.
        where = f"`store` {path!r} is not there"
        raise WorkerError(this_worker(), f"{where}. All workers must see the folder under the same path.")
    return Store(Path(path))


def _require_environment(scenario: Scenario) -> None:
    """Refuse to compute with other settings of JAX than those that the scenario's digest covers."""
    if (different := difference(scenario.description)) is not None:
        raise DifferentVersions(f"{this_worker()} was asked to compute {different}")


def work_on(batch: Batch, store: Store, origin: Mapping[str, Any], run_limit: float | None = None) -> Outcome:
    """Compute the missing results of a batch under its lease."""
    _require_environment(batch.scenarios[0])
    try:
        with store.lease(batch.digests) as is_mine:
            return _compute_missing(batch, store, origin, run_limit) if is_mine else Outcome(busy=True)
    except OSError as error:  # Not even the lease can be written.
        reason = _explain_unwritten(store, error)
        return Outcome(dict.fromkeys(batch.digests, reason), worker_error=WorkerError(this_worker(), reason))


def _compute_missing(batch: Batch, store: Store, origin: Mapping[str, Any], run_limit: float | None) -> Outcome:
    """Compute the missing results of a batch, each by itself unless they share a program."""
    done = {digest for digest in batch.digests if store.has(digest)}
    missing = [digest for digest in batch.digests if digest not in done]
    prepare = Preparation()
    # A result that could not be written is tried again by the next sweep, and one that failed is not.
    failed, unwritten = dict[str, str](), dict[str, str]()

    def keep(result: Result, seconds: Seconds) -> None:
        try:
            store.put(result, seconds, origin)
        except OSError as error:
            unwritten[result.require_scenario().digest] = _explain_unwritten(store, error)

    for part in batch.without(done) if missing else ():
        limit = None if run_limit is None else Limit(run_limit, len(part.scenarios))
        try:
            trace = _trace(store, part.scenarios[0], limit)
            for result, seconds in compute(part, trace, store.unfinished(part.digests[0]), limit, prepare):
                if result.require_scenario().digest in missing:  # All lanes are computed again if one is missing.
                    keep(result, seconds)
        except Exception as error:  # Lanes share their program, so none has a result without the others.
            if isinstance(error, OSError) and error.errno in FULL_DISK_ERRORS:
                unwritten |= dict.fromkeys(part.digests, _explain_unwritten(store, error))
            else:
                failed |= {scenario.digest: _fail(store, scenario, error) for scenario in part.scenarios}
    reasons = {digest: failed.get(digest) or unwritten.get(digest, "") for digest in missing}
    worker_error = WorkerError(this_worker(), next(iter(unwritten.values()))) if unwritten else None
    return Outcome(reasons, worker_error=worker_error)


def obtain(
    scenarios: Mapping[Name, Scenario],
    store: Store,
    *,
    progress: Callable[[Name, Progress], None] | None = None,
    simulating: Callable[[Name, Simulated], None] | None = None,
    origins: Mapping[Name, Mapping[str, Any]] | None = None,
) -> Iterator[tuple[Name, Result]]:
    """Yield name and result of each scenario as it comes: from the store, this process or one that computes it."""
    missing, patience = {scenario.digest: name for name, scenario in scenarios.items()}, Patience()
    while missing:
        before = len(missing)
        for digest, name in [*missing.items()]:
            callbacks = progress and partial(progress, name), simulating and partial(simulating, name)
            result = _find_or_compute(scenarios[name], store, *callbacks, (origins or {}).get(name))
            if result is not None:
                del missing[digest]
                # One scenario may stand under several names.
                yield from ((same, result) for same, scenario in scenarios.items() if scenario.digest == digest)
        if len(missing) < before:  # Only waiting for others without any progress takes patience.
            patience.end()
        else:
            patience.wait(lambda: holders_of(store.path / LEASES, missing))
            time.sleep(PAUSE)


def _find_or_compute(
    scenario: Scenario,
    store: Store,
    progress: Callable[[Progress], None] | None,
    simulating: Callable[[Simulated], None] | None,
    origin: Mapping[str, Any] | None,
) -> Result | None:
    """Read or compute the result of a scenario, or None if another process computes it. An error ends all."""
    folder = store.folder(scenario.digest)
    try:
        if (result := store.get(scenario)) is not None:
            return result
        is_damaged = store.is_damaged(scenario.digest)
    except (npz.Damaged, FileNotFoundError):  # Another process may just have removed a file.
        store.discard(scenario.digest)
        is_damaged = True
    if is_damaged:
        store.refuse_foreign(scenario.digest)
        warnings.warn(f"{str(folder)!r} is damaged. It is computed again.", stacklevel=3)
    with store.lease([scenario.digest]) as is_mine:
        if not is_mine or store.has(scenario.digest):  # The next call finds it, unless the other process dies.
            return None
        _require_environment(scenario)
        trace = _trace(store, scenario, simulating)
        batch = Batch((scenario,), program_of(scenario))
        ((result, seconds),) = compute(batch, trace, store.unfinished(scenario.digest), progress)
        store.put(result, seconds, origin)
    return replace(result, folder=folder)


def _explain_unwritten(store: Store, error: OSError) -> str:
    """Say why there is no result of a valid scenario, which the next call may still be able to keep."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"`store` {str(store.path)!r} could not be written: {reason}. Once it can, the same sweep goes on."


def _fail(store: Store, scenario: Scenario, error: Exception) -> str:
    """Return the reason of a failure, and keep it in the store unless it is the machine's and not the scenario's."""
    # Its message is a sentence by itself.
    reason = str(error) if isinstance(error, TooLong) else f"{type(error).__name__}: {error}"
    if isinstance(error, (OSError, MemoryError)):
        return reason
    return store.fail(scenario, reason, "".join(traceback.format_exception(error)))


def _trace(store: Store, scenario: Scenario, simulating: Callable[[Simulated], None] | None = None) -> Trace:
    """Read or simulate the schedule of a scenario, of which the last few stay in memory."""
    key = store.path.absolute(), scenario.schedule_digest
    return _cached(_traces, key, lambda: store.trace(scenario, simulating))


def _cached(cache: dict[Any, Value], key: Any, make: Callable[[], Value]) -> Value:
    """Return one of the last few values from memory, or make it."""
    if key in cache:
        return cache[key]
    value = make()
    while len(cache) >= CACHED:  # Another thread may add one meanwhile.
        cache.pop(next(iter(cache)), None)
    return cache.setdefault(key, value)
