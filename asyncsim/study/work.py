"""What a process does with a unit of a sweep: claim it, compute it, store the results, and report their fate.

A process that cannot work, because it does not see the store or cannot import the library, says so by `WorkerTrouble`:
that is no failure of a run.

`obtain` does the same with one scenario that somebody waits for, as comparisons and figures do.
"""

import errno
import os
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from asyncsim.cluster.simulation import Simulated
from asyncsim.engine import Progress, ReplayInterrupted
from asyncsim.folders.labels import CLAIMS
from asyncsim.scenario import fingerprint
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.patience import Limit, Patience, TooLong, holders_of
from asyncsim.study.run import Result
from asyncsim.study.store import MARKER, NotKept, Store
from asyncsim.study.transport import unpack
from asyncsim.study.units import Unit, compute, program_of
from asyncsim.trace import Trace
from asyncsim.version import __version__
from asyncsim.workloads import Workload

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a full disk says, or one of which no more may be taken
KEPT = 4  # schedules and workloads that a process keeps at hand
PATIENCE = 0.2  # seconds until a scenario that another process computes is looked at again
VERSIONS = {"asyncsim": __version__, "jax": jax.__version__}
_workloads: dict[str, Workload] = {}  # by digest, the oldest first
_traces: dict[tuple[Path, str], Trace] = {}  # by store and digest, the oldest first


@dataclass(frozen=True)
class Task:
    """A unit on its way to the process that computes it.

    Attributes:
        store: Where results are kept.
        unit: A `Unit`, as bytes.
        versions: Those of the process that sends it.
        origin: Where the scenarios came from, to be kept beside their results.
        run_limit: Seconds that a run may take, or None.
    """

    store: str
    unit: bytes = field(repr=False)
    versions: Mapping[str, str]
    origin: Mapping[str, Any]
    run_limit: float | None = None


@dataclass(frozen=True)
class Report:
    """What became of a unit.

    Attributes:
        computed: Digests of the results that this process computed and kept.
        failed: Digest -> why it failed; what is worth keeping of that is in the store.
        busy: Whether another process has claimed it, so that nothing was done.
        trouble: Why results could not be written, if so, which another process may find different; else empty.
        worker: The process, as its messages name it.
    """

    computed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    busy: bool = False
    trouble: str = ""
    worker: str = ""


class DifferentVersions(ValueError):
    """The process that computes has another asyncsim, or another JAX, than the one that asks."""


class WorkerTrouble(Exception):
    """A process cannot compute, for a reason of its own.

    Args:
        worker: The process.
        reason: Why.
    """

    def __init__(self, worker: str, reason: str) -> None:
        super().__init__(worker, reason)
        self.worker, self.reason = worker, reason

    def __str__(self) -> str:
        return f"{self.worker}: {self.reason}"


def work(task: Task) -> Report:
    """Compute what a unit lacks; runs in the process that computes.

    An error in a replay is kept in the store, with its traceback, and does not count as one of this function.

    Raises:
        DifferentVersions: If the versions differ.
        WorkerTrouble: If the store or the unit cannot be read here.
    """
    require_versions(task.versions)
    store = Store(Path(task.store))
    _require_store(store)
    try:
        unit = with_known_workload(unpack(task.unit, store.data))
    except Exception as error:
        raise WorkerTrouble(this_worker(), f"{type(error).__name__}: {error}") from error
    return replace(work_on(unit, store, task.origin, task.run_limit), worker=this_worker())


def check_worker(store: str, versions: Mapping[str, str]) -> None:
    """Whether this process could work for a sweep.

    Raises:
        DifferentVersions: If the versions differ.
        WorkerTrouble: If the store cannot be read and written here.
    """
    require_versions(versions)
    _require_store(Store(Path(store)))
    try:
        with tempfile.TemporaryFile(dir=Path(store) / CLAIMS) as file:
            file.write(b"written")
    except OSError as error:
        raise WorkerTrouble(this_worker(), _not_kept(Store(Path(store)), error)) from error


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


def with_known_workload(unit: Unit) -> Unit:
    """The unit with the workload of earlier units if it is the same: what has been made of it and compiled is there."""
    key = fingerprint.digest(unit.scenarios[0].description["workload"])
    while key not in _workloads and len(_workloads) >= KEPT:
        del _workloads[next(iter(_workloads))]
    known = _workloads.setdefault(key, unit.scenarios[0].workload)
    for scenario in unit.scenarios:
        vars(scenario)["workload"] = known
    return unit


def work_on(unit: Unit, store: Store, origin: Mapping[str, Any], run_limit: float | None = None) -> Report:
    """As `work`, of a unit that is at hand."""
    try:
        return _claimed(unit, store, origin, run_limit)
    except OSError as error:  # not even the claim can be written
        reason = _not_kept(store, error)
        return Report(failed=dict.fromkeys(unit.digests, reason), trouble=reason)


def _claimed(unit: Unit, store: Store, origin: Mapping[str, Any], run_limit: float | None) -> Report:
    """Compute a unit under a claim."""
    with store.claim(unit.digests) as is_mine:
        if not is_mine:
            return Report(busy=True)
        missing = [digest for digest in unit.digests if not store.has(digest)]
        if not missing:
            return Report()
        unit = unit.without(set(unit.digests) - set(missing))
        failed: dict[str, str] = {}
        limits = [] if run_limit is None else [Limit(run_limit * (1 if unit.in_turn else len(unit.scenarios)))]
        try:
            trace, unfinished = _trace(store, unit.scenarios[0], *limits), store.unfinished(unit.digests[0])
            with store.putting() as put:
                for result, seconds in compute(unit, trace, unfinished, *limits):
                    if result.scenario.digest in missing:
                        failed |= _put(store, put, result, seconds, origin)
                    for limit in limits:
                        limit.begin()
        except ReplayInterrupted:
            raise
        except NotKept as error:
            failed |= dict.fromkeys(error.digests, _not_kept(store, error))
        except Exception as error:
            if unit.in_turn:
                failed |= _each_alone(unit, store, origin, limits)
            else:  # lanes share their program, and none of them has a result without the others
                for scenario in unit.scenarios:
                    failed |= _fail(store, scenario, error)
    trouble = next((reason for reason in failed.values() if reason.startswith(_unwritten(store))), "")
    return Report(tuple(digest for digest in missing if digest not in failed), failed, trouble=trouble)


def obtain(scenario: Scenario, store: Store, *, progress: Callable[[Progress], None] | None = None) -> Result:
    """The result of one scenario: as `try_to_obtain`, but waits for another process that computes it.

    What such a process leaves undone when it dies is taken over.
    """
    patience = Patience()
    while (found := try_to_obtain(scenario, store, progress=progress)) is None:
        time.sleep(PATIENCE)
        patience.wait(lambda: holders_of(store, [scenario.digest]))
    return found


def try_to_obtain(
    scenario: Scenario,
    store: Store,
    *,
    progress: Callable[[Progress], None] | None = None,
    simulating: Callable[[Simulated], None] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Result | None:
    """The result of one scenario: found in the store, or computed in this process; None if another one computes it.

    A result whose files are damaged is computed again, with a warning.

    Args:
        scenario: What is wanted.
        store: Where results are kept.
        progress: Called after every chunk of a replay in this process.
        simulating: The same for its schedule.
        origin: Where the scenario came from, as `Origin.describe` tells.

    Raises:
        ReplayInterrupted: On Ctrl-C; the next call resumes from a checkpoint.
        ValueError: Whatever the replay refuses.
        OSError: If the result cannot be written.
    """
    digest = scenario.digest
    found = _found(store, scenario)
    if found is not None:
        return found
    with store.claim([digest]) as is_mine:
        if is_mine and not store.has(digest):
            unit = Unit((scenario,), program_of(scenario))
            trace = _trace(store, scenario, simulating)
            ((result, seconds),) = compute(unit, trace, store.unfinished(digest), progress)
            store.put(result, seconds, origin)
            return replace(result, folder=store.folder(digest))
    return _found(store, scenario)


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


def _each_alone(unit: Unit, store: Store, origin: Mapping[str, Any], limits: Sequence[Limit]) -> dict[str, str]:
    """Compute the scenarios of a unit one by one, because one of them fails; the unit is claimed.

    Returns:
        Digest -> reason of those that have failed.
    """
    failed: dict[str, str] = {}
    for one in unit.alone():
        (scenario,) = one.scenarios
        if store.has(scenario.digest):
            continue
        for limit in limits:
            limit.begin()
        try:
            trace = _trace(store, scenario, *limits)
            ((result, seconds),) = compute(one, trace, store.unfinished(scenario.digest), *limits)
        except ReplayInterrupted:
            raise
        except Exception as error:
            failed |= _fail(store, scenario, error)
            continue
        failed |= _put(store, store.put, result, seconds, origin)
    return failed


def _put(
    store: Store,
    put: Callable[..., None],
    result: Result,
    seconds: Mapping[str, float],
    origin: Mapping[str, Any],
) -> dict[str, str]:
    """Keep a result; digest -> reason if that is not possible, which the next call may find different."""
    try:
        put(result, seconds, origin)
    except NotKept as error:
        return dict.fromkeys(error.digests, _not_kept(store, error))
    return {}


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
