"""What a process does with a unit of a sweep: claim it, compute it, keep the results, and tell what became of them.

`obtain` does the same with one scenario that somebody waits for, as comparisons and figures do.
"""

import errno
import os
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from asyncsim.cluster.simulation import Simulated
from asyncsim.engine import Progress, ReplayInterrupted
from asyncsim.scenario import fingerprint
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.run import Result
from asyncsim.study.store import NotKept, Store
from asyncsim.study.transport import unpack
from asyncsim.study.units import Unit, compute, program_of
from asyncsim.trace import Trace
from asyncsim.version import __version__
from asyncsim.workloads import Workload

BUSY = "busy"  # outcome of a unit that another process has claimed
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
    """

    store: str
    unit: bytes = field(repr=False)
    versions: Mapping[str, str]
    origin: Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """What became of a unit.

    Attributes:
        computed: Digests of the results that this process computed and kept.
        failed: Digest -> why it failed; what is worth keeping of that is in the store.
        busy: Whether another process has claimed it, so that nothing was done.
    """

    computed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    busy: bool = False


class DifferentVersions(ValueError):
    """The process that computes has another asyncsim, or another JAX, than the one that asks."""


def work(task: Task) -> Report:
    """Compute what a unit lacks; runs in the process that computes.

    An error in a replay is kept in the store, with its traceback, and does not count as one of this function.

    Raises:
        DifferentVersions: If the versions differ.
        ValueError: If the unit cannot be read here.
    """
    require_versions(task.versions)
    store = Store(Path(task.store))
    return work_on(with_known_workload(unpack(task.unit, store.data)), store, task.origin)


def with_known_workload(unit: Unit) -> Unit:
    """The unit with the workload of earlier units if it is the same: what has been made of it and compiled is there."""
    key = fingerprint.digest(unit.scenarios[0].description["workload"])
    while key not in _workloads and len(_workloads) >= KEPT:
        del _workloads[next(iter(_workloads))]
    known = _workloads.setdefault(key, unit.scenarios[0].workload)
    for scenario in unit.scenarios:
        vars(scenario)["workload"] = known
    return unit


def work_on(unit: Unit, store: Store, origin: Mapping[str, Any]) -> Report:
    """As `work`, of a unit that is at hand."""
    try:
        return _claimed(unit, store, origin)
    except OSError as error:  # not even the claim can be written
        return Report(failed=dict.fromkeys(unit.digests, _not_kept(store, error)))


def _claimed(unit: Unit, store: Store, origin: Mapping[str, Any]) -> Report:
    """Compute a unit under a claim."""
    with store.claim(unit.digests) as is_mine:
        if not is_mine:
            return Report(busy=True)
        missing = [digest for digest in unit.digests if not store.has(digest)]
        if not missing:
            return Report()
        unit = unit.without(set(unit.digests) - set(missing))
        failed = {}
        try:
            trace, unfinished = _trace(store, unit.scenarios[0]), store.unfinished(unit.digests[0])
            with store.putting() as put:
                for result, seconds in compute(unit, trace, unfinished):
                    if result.scenario.digest in missing:
                        failed |= _put(store, put, result, seconds, origin)
        except ReplayInterrupted:
            raise
        except NotKept as error:
            failed |= dict.fromkeys(error.digests, _not_kept(store, error))
        except Exception as error:
            if len(unit.scenarios) == 1:
                failed |= _fail(store, unit.scenarios[0], error)
            else:
                failed |= _each_alone(unit, store, origin)
    return Report(tuple(digest for digest in missing if digest not in failed), failed)


def obtain(scenario: Scenario, store: Store, *, progress: Callable[[Progress], None] | None = None) -> Result:
    """The result of one scenario: as `try_to_obtain`, but waits for another process that computes it.

    What such a process leaves undone when it dies is taken over.
    """
    while (found := try_to_obtain(scenario, store, progress=progress)) is None:
        time.sleep(PATIENCE)
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


def _each_alone(unit: Unit, store: Store, origin: Mapping[str, Any]) -> dict[str, str]:
    """Compute the scenarios of a unit one by one, because one of them fails; the unit is claimed.

    Returns:
        Digest -> reason of those that have failed.
    """
    failed: dict[str, str] = {}
    for one in unit.alone():
        (scenario,) = one.scenarios
        if store.has(scenario.digest):
            continue
        try:
            ((result, seconds),) = compute(one, _trace(store, scenario), store.unfinished(scenario.digest))
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
    return f"`store` {str(store.path)!r} could not be written: {reason}. Once it can, the same sweep goes on."


def _fail(store: Store, scenario: Scenario, error: Exception) -> dict[str, str]:
    """Digest -> reason, kept in the store unless it is the machine's and not the scenario's."""
    if isinstance(error, OSError) and error.errno in FULL:
        return {scenario.digest: _not_kept(store, error)}
    reason = f"{type(error).__name__}: {error}"
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
