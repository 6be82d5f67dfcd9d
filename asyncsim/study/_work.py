"""The computation of a batch in the process that does it: under a lease, with results and failures kept in the store.

`obtain` does the same with scenarios that somebody waits for, as comparisons and figures do.
"""

import errno
import os
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax

from asyncsim._description import hash_of
from asyncsim._version import __version__
from asyncsim.cluster._simulation import Simulated
from asyncsim.engine import Progress, ReplayInterrupted
from asyncsim.pool._parcels import unpack
from asyncsim.pool._queue import Job, Limit, Outcome, Patience, Queue, TooLong
from asyncsim.pool._slots import WorkerTrouble
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._entries import NotKept
from asyncsim.store._labels import LEASES
from asyncsim.store._labels import STORE as MARKER
from asyncsim.study._batches import Batch, compute, program_of
from asyncsim.study._run import Result
from asyncsim.study._store import Store
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a full disk says, or one of which no more may be taken
KEPT = 4  # schedules and workloads that a process keeps at hand
VERSIONS = {"asyncsim": __version__, "jax": jax.__version__}
_workloads: dict[str, Workload] = {}  # by digest, the oldest first
_traces: dict[tuple[Path, str], Trace] = {}  # by store and digest, the oldest first


@dataclass(frozen=True)
class Task:
    """A batch on its way to the process that computes it."""

    store: str  # where results are kept
    parcel: str  # the batches of a block, as `unpack` finds them
    place: int  # of the batch among them
    versions: Mapping[str, str]  # those of the process that sends it
    origin: Mapping[str, Any]  # where the scenarios came from, to be kept beside their results
    run_limit: float | None = None  # seconds that a run may take, or None


class DifferentVersions(ValueError):
    """The process that computes has another asyncsim, or another JAX, than the one that asks."""


def work(task: Task) -> Outcome:
    """Compute the missing results of a batch; runs in the process that computes."""
    require_versions(task.versions)
    store = Store(Path(task.store))
    _require_store(store)
    try:
        batch = with_known_workload(_block(store.data, task.parcel)[task.place])
    except Exception as error:
        raise WorkerTrouble(this_worker(), f"{type(error).__name__}: {error}") from error
    return replace(work_on(batch, store, task.origin, task.run_limit), worker=this_worker())


@lru_cache(maxsize=KEPT)
def _block(data: Path, parcel: str) -> list[Batch]:
    return unpack(data, parcel)


def check_worker(task: tuple[str, Mapping[str, str]]) -> None:
    """Check that this process can compute for a sweep, given its store and the versions of the process that asks."""
    place, versions = task
    require_versions(versions)
    store = Store(Path(place))
    _require_store(store)
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


def _require_store(store: Store) -> None:
    if not (store.path / MARKER).is_file():
        where = f"`store` {str(store.path)!r} is not there"
        raise WorkerTrouble(this_worker(), f"{where}. All workers must see the folder under the same path.")


def with_known_workload(batch: Batch) -> Batch:
    """The batch with the workload of earlier ones if it is the same, for which programs have been compiled."""
    key = hash_of(batch.scenarios[0].description["workload"])
    while key not in _workloads and len(_workloads) >= KEPT:
        del _workloads[next(iter(_workloads))]
    known = _workloads.setdefault(key, batch.scenarios[0].workload)
    for scenario in batch.scenarios:
        vars(scenario)["workload"] = known
    return batch


def work_on(batch: Batch, store: Store, origin: Mapping[str, Any], run_limit: float | None = None) -> Outcome:
    """As `work`, of a batch that is at hand."""
    try:
        with store.lease(batch.digests) as is_mine:
            return _leased(batch, store, origin, run_limit) if is_mine else Outcome(busy=True)
    except OSError as error:  # not even the lease can be written
        reason = _not_kept(store, error)
        return Outcome(dict.fromkeys(batch.digests, reason), trouble=reason)


def _leased(batch: Batch, store: Store, origin: Mapping[str, Any], run_limit: float | None) -> Outcome:
    """Compute the missing results of a batch, each by itself unless they share a program."""
    missing = [digest for digest in batch.digests if not store.has(digest)]
    batch, failed = batch.without(set(batch.digests) - {*missing}), dict[str, str]()
    try:
        with store.putting() as put:
            for one in (batch.alone() if batch.in_turn else [batch]) if missing else ():
                failed |= _computed(one, {*missing}, store, put, origin, run_limit)
    except NotKept as error:
        failed |= dict.fromkeys(error.digests, _not_kept(store, error))
    trouble = next((reason for reason in failed.values() if reason.startswith(_unwritten(store))), "")
    return Outcome({digest: failed.get(digest, "") for digest in missing}, trouble=trouble)


def _computed(
    batch: Batch,
    missing: set[str],
    store: Store,
    put: Callable[..., None],
    origin: Mapping[str, Any],
    run_limit: float | None,
) -> dict[str, str]:
    """Compute and keep one run, or those that share a program; digest -> reason of those that fail."""
    limits = [] if run_limit is None else [Limit(run_limit * len(batch.scenarios))]
    try:
        trace = _trace(store, batch.scenarios[0], *limits)
        for result, seconds in compute(batch, trace, store.unfinished(batch.digests[0]), *limits):
            if result.scenario.digest in missing:
                put(result, seconds, origin)
    except ReplayInterrupted:
        raise
    except NotKept as error:
        return dict.fromkeys(error.digests, _not_kept(store, error))
    except Exception as error:  # lanes share their program, and none of them has a result without the others
        return {digest: reason for one in batch.scenarios for digest, reason in _fail(store, one, error).items()}
    return {}


def obtain(
    scenarios: Mapping[str, Scenario],
    store: Store,
    *,
    progress: Callable[[str, Progress], None] | None = None,
    simulating: Callable[[str, Simulated], None] | None = None,
    origins: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[tuple[str, Result]]:
    """Name and result of each scenario as it comes: from the store, from this process or from one that computes it."""
    names = {scenario.digest: name for name, scenario in scenarios.items()}
    job = _Obtaining(store, names, progress, simulating, origins or {})
    queue = Queue(job, [Batch((one,), program_of(one)) for one in map(scenarios.__getitem__, names.values())])
    for _ in queue.run([]):
        for found in job.come:
            yield from ((name, found) for name, one in scenarios.items() if one.digest == found.scenario.digest)
        job.come.clear()


class _Obtaining(Job[Batch]):
    """Runs that this process waits for, so that an error ends the queue."""

    def __init__(self, store: Store, names: Mapping[str, str], progress: Any, simulating: Any, origins: Any) -> None:
        self.store, self.leases, self.patience = store, store.path / LEASES, Patience()
        self.names, self.progress, self.simulating, self.origins = names, progress, simulating, origins
        self.come: list[Result] = []

    def here(self, task: Batch) -> Outcome:
        """Find a run, or compute it unless another process does."""
        (scenario,) = task.scenarios
        found = _found(self.store, scenario)
        if found is not None:
            return Outcome(found)
        with self.store.lease(task.digests) as is_mine:
            if not is_mine or self.store.has(scenario.digest):  # it is there next time, unless the other process dies
                return Outcome(busy=True)
            name = self.names[scenario.digest]
            progress, simulating = (one and partial(one, name) for one in (self.progress, self.simulating))
            trace = _trace(self.store, scenario, simulating)
            ((result, seconds),) = compute(task, trace, self.store.unfinished(scenario.digest), progress)
            self.store.put(result, seconds, self.origins.get(name))
        return Outcome(replace(result, folder=self.store.folder(scenario.digest)))

    def receive(self, task: Batch, outcome: Outcome) -> None:
        """Hand a result out."""
        self.come.append(outcome.value)


def _found(store: Store, scenario: Scenario) -> Result | None:
    try:
        found = store.get(scenario)
        if found is not None or not store.is_damaged(scenario.digest):
            return found
    except (ValueError, FileNotFoundError):
        store.discard(scenario.digest)
    warnings.warn(f"{str(store.folder(scenario.digest))!r} is damaged. It is computed again.", stacklevel=3)
    return None


def require_versions(versions: Mapping[str, str]) -> None:
    """Refuse to work for a process with other versions: its results would not be those of this one."""
    for name, version in versions.items():
        if VERSIONS.get(name) != version:
            raise DifferentVersions(
                f"The workers have {name} {VERSIONS.get(name)}, and this process has {name} {version}. Install the "
                "same on both."
            )


def _not_kept(store: Store, error: OSError) -> str:
    """Why there is no result though nothing is wrong with the scenario; the next call may find it different."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{_unwritten(store)}: {reason}. Once it can, the same sweep goes on."


def _unwritten(store: Store) -> str:
    return f"`store` {str(store.path)!r} could not be written"


def _fail(store: Store, scenario: Scenario, error: Exception) -> dict[str, str]:
    """Digest -> reason, kept in the store unless it is the machine's and not the scenario's."""
    if isinstance(error, OSError) and error.errno in FULL:
        return {scenario.digest: _not_kept(store, error)}
    reason = str(error) if isinstance(error, TooLong) else f"{type(error).__name__}: {error}"
    if not isinstance(error, (OSError, MemoryError)):
        try:
            store.fail(scenario, reason, "".join(traceback.format_exception(error)))
        except OSError as full:
            reason = f"{reason} (not kept: {full})"
    return {scenario.digest: reason}


def _trace(store: Store, scenario: Scenario, simulating: Callable[[Simulated], None] | None = None) -> Trace:
    """The schedule of a scenario; the last few are kept at hand."""
    place = store.path.absolute(), scenario.schedule_digest
    if place not in _traces:
        trace = store.trace(scenario, simulating)
        while len(_traces) >= KEPT:
            del _traces[next(iter(_traces))]
        _traces[place] = trace
    return _traces[place]
