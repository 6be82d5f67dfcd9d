"""A store: the results of many scenarios in one folder, which any number of processes and hosts may fill at once.

    store.json             says that this is a store
    DIGEST/                results of the scenario with this digest, in the files of `asyncsim.run`
    traces/SCHEDULE.npz    schedules, each once: the folders have hard links to them
    failed/DIGEST.json     why there are no results
    claims/DIGEST.json     who is computing them
    sweeps/SWEEP.json      what was asked for
    data/HASH.bin          large arrays that scenarios are made of, for other processes
    unfinished/DIGEST.npz  checkpoints of long runs

A folder of results is put together beside its place and renamed, so that it is there whole or not at all. A result that
is there is never computed again. What is read is compared with its checksums, and with the scenario that it should
belong to.
"""

import errno
import json
import os
import secrets
import shutil
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from asyncsim import npz
from asyncsim.cluster.simulation import Simulated
from asyncsim.engine import run_file
from asyncsim.files import flush, read_json, read_owned, require_folder, write_json, write_owned
from asyncsim.folders.holders import this_process
from asyncsim.folders.labels import (
    CLAIMS,
    DATA,
    DIGEST,
    FAILED,
    MAKING,
    ORIGIN,
    RUN,
    STORE,
    SUMMARY,
    SWEEPS,
    TRACE,
    TRACES,
    UNFINISHED,
    read_label,
)
from asyncsim.folders.labels import SCENARIO as LABEL
from asyncsim.folders.labels import STORE_FOLDERS as FOLDERS
from asyncsim.folders.own import move_into, remove_results
from asyncsim.scenario.rebuild import hints
from asyncsim.scenario.scenario import Scenario
from asyncsim.study import lease
from asyncsim.study.keep import make_folder
from asyncsim.study.run import OWNER, Result, load_run, load_trace
from asyncsim.trace import Trace

MARKER, FORMAT = STORE, 1
DONE, RUNNING, FAILURE, MISSING = "done", "running", "failed", "missing"  # the states of a scenario
MOST_WAITING = 1.0  # seconds for which results wait for others, to be flushed with them
MOST_FLUSHED = 16  # files at a time
MOST_FLUSHING = 0.03  # of the time
NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


class NotKept(OSError):
    """The store cannot be written.

    Attributes:
        digests: Those of the scenarios whose results are lost.
    """

    def __init__(self, error: OSError, digests: Iterable[str]) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.digests = tuple(digests)


@dataclass(frozen=True)
class Store:
    """A folder that keeps results by the digests of their scenarios; see `open_store`.

    Attributes:
        path: The folder.
    """

    path: Path

    def folder(self, digest: str) -> Path:
        """Where the results of a scenario are, or would be."""
        return self.path / digest

    def has(self, digest: str, *, check: bool = False) -> bool:
        """Whether the results of a scenario are there: every file, none of them emptied, truncated or another's.

        Args:
            digest: That of the scenario.
            check: Read the arrays, too, and compare their checksums.
        """
        folder = self.path / digest
        if self.summary(digest) is None or read_label(folder / LABEL) is None:
            return False
        is_sound = npz.is_sound if check else npz.is_whole
        return all(is_sound(folder / name) for name in (RUN, TRACE))

    def is_damaged(self, digest: str) -> bool:
        """Whether there is something of the results of a scenario, but not all."""
        return any((self.path / digest / name).exists() for name in (LABEL, RUN, SUMMARY)) and not self.has(digest)

    def present(self) -> set[str]:
        """The digests of all scenarios whose results are there."""
        kept = {*FOLDERS, MARKER}
        return {entry.name for entry in os.scandir(self.path) if entry.name not in kept and self.has(entry.name)}

    def states(self, digests: Iterable[str]) -> dict[str, str]:
        """Digest -> "done", "running", "failed" or "missing"."""
        running = lease.holders(self.path / CLAIMS)
        failed = {path.stem for path in (self.path / FAILED).glob("*.json")}

        def state(digest: str) -> str:
            if self.has(digest):
                return DONE
            if digest in running:
                return RUNNING
            return FAILURE if digest in failed and self.failure(digest) is not None else MISSING

        return {digest: state(digest) for digest in digests}

    def claim(self, digests: Iterable[str]) -> Any:
        """Claim scenarios for a block; see `asyncsim.study.lease.claimed`."""
        return lease.claimed(self.path / CLAIMS, digests)

    def trace(self, scenario: Scenario, simulating: Callable[[Simulated], None] | None = None) -> Trace:
        """The schedule of a scenario: from the store, or else simulated and kept there; then `simulating` is called."""
        path = self._trace_path(scenario)
        with suppress(FileNotFoundError, ValueError):  # a damaged one is made again
            return scenario.in_steps(load_trace(scenario, path))
        trace = scenario.schedule() if simulating is None else scenario.schedule(progress=simulating)
        trace.save(path, notes={OWNER: scenario.schedule_digest}, sync=False)
        return scenario.in_steps(trace)

    def unfinished(self, digest: str) -> Path:
        """The file of a long run's checkpoints; its folder is there."""
        folder = self.path / UNFINISHED
        folder.mkdir(exist_ok=True)
        return folder / f"{digest}.npz"

    def put(self, result: Result, seconds: Mapping[str, float], origin: Mapping[str, Any] | None = None) -> None:
        """Keep a result; if another process was faster, its result stays.

        Args:
            result: The result, whose trace is that of `trace`.
            seconds: Notes of the run: its times.
            origin: Where the scenario came from, as `Origin.describe` tells.

        Raises:
            NotKept: If it cannot be written; then nothing of it is there.
        """
        with self.putting() as put:
            put(result, seconds, origin)

    @contextmanager
    def putting(self) -> Iterator[Callable[..., None]]:
        """A function for the block that takes what `put` takes: to wait for the disk once for many small results.

        They are there when the block ends, whether by an error or not, or a second has passed.
        """
        made: dict[str, Path] = {}
        begun = time.monotonic()

        def put(result: Result, seconds: Mapping[str, float], origin: Mapping[str, Any] | None = None) -> None:
            nonlocal begun
            begun = begun if made else time.monotonic()
            digest = result.scenario.digest
            try:
                made[digest] = self._make(result, seconds, origin)
            except OSError as error:
                raise NotKept(error, [digest]) from error
            if time.monotonic() - begun > MOST_WAITING:
                self._publish(made)

        try:
            yield put
        finally:
            self._publish(made)

    def _make(self, result: Result, seconds: Mapping[str, float], origin: Mapping[str, Any] | None) -> Path:
        """Put a folder of results together, beside its place."""
        scenario, digest = result.scenario, result.scenario.digest
        making = self.path / MAKING / f"{digest}.{secrets.token_hex(8)}"
        making.mkdir()
        try:
            notes = {OWNER: digest, **seconds, SUMMARY: json.dumps(result.summary)}
            run_file.write(making / RUN, vars(result.run), notes, resumable=False, new=True)
            self._link_trace(result, making / TRACE)
            told = {} if origin is None else {ORIGIN: {**origin, "rebuild": hints(scenario)}}
            write_owned(making / LABEL, {DIGEST: digest, **scenario.description, **told}, digest, new=True)
            write_owned(making / SUMMARY, result.summary, digest, new=True)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        return making

    def _publish(self, made: dict[str, Path]) -> None:
        """Flush folders of results and rename them to their places, by digest; none of them is left in `made`."""
        try:
            _flushing.flush(made.values())
            for digest, making in made.items():
                self._move(making, self.folder(digest))
                for file in (self.path / FAILED / f"{digest}.json", self.path / UNFINISHED / f"{digest}.npz"):
                    file.unlink(missing_ok=True)
        except OSError as error:
            raise NotKept(error, [digest for digest in made if not self.has(digest)]) from error
        finally:
            for making in made.values():
                shutil.rmtree(making, ignore_errors=True)
            made.clear()

    def get(self, scenario: Scenario) -> Result | None:
        """The result of a scenario, None if it is not there.

        Raises:
            ValueError: If its files are damaged or not this scenario's.
        """
        folder = self.folder(scenario.digest)
        if not self.has(scenario.digest):
            return None
        try:
            run, notes = load_run(scenario, folder / RUN)
            trace = scenario.in_steps(load_trace(scenario, folder / TRACE))
        except ValueError as error:
            remedy = "The same sweep computes it again with `--retry-failed`; in Python, `retry_failed=True`."
            raise ValueError(f"{error} {remedy}") from error
        return Result(scenario, trace, run, json.loads(notes[SUMMARY]), folder, recomputed=False)

    def summary(self, digest: str) -> dict[str, Any] | None:
        """The summary of a scenario's run; None if there is none, or it is damaged or another's."""
        return read_owned(self.path / digest / SUMMARY, digest)

    def discard(self, digest: str) -> None:
        """Remove the results of a scenario, or why there are none."""
        for file in (self.path / FAILED / f"{digest}.json", self.path / UNFINISHED / f"{digest}.npz"):
            file.unlink(missing_ok=True)
        if self.folder(digest).is_dir():
            remove_results(self.folder(digest))

    def fail(self, scenario: Scenario, reason: str, details: str = "") -> None:
        """Keep why there are no results of a scenario; `details` is a traceback."""
        told = {"digest": scenario.digest, "reason": reason, "details": details, "when": now(), **this_process()}
        content = {**told, "scenario": scenario.describe()}
        write_owned(self.path / FAILED / f"{scenario.digest}.json", content, scenario.digest)

    def failure(self, digest: str) -> dict[str, Any] | None:
        """Why there are no results of a scenario: "reason", "details", "when"; None if it has not failed."""
        return read_owned(self.path / FAILED / f"{digest}.json", digest)

    def clear(self) -> None:
        """Remove what dead processes have left: their claims, and results that they did not finish."""
        lease.clear(self.path / CLAIMS)
        running = lease.holders(self.path / CLAIMS)
        for making in (self.path / MAKING).iterdir():
            if making.name.partition(".")[0] not in running:
                shutil.rmtree(making, ignore_errors=True)

    def write_sweep(self, name: str, description: Mapping[str, Any]) -> None:
        """Keep what was asked for."""
        write_owned(self.path / SWEEPS / f"{name}.json", description, name)

    def sweeps(self) -> list[dict[str, Any]]:
        """What was asked for, the oldest first; with a warning where a file is damaged."""
        found = []
        for path in (self.path / SWEEPS).glob("*.json"):
            asked = read_owned(path, path.stem)
            if asked is None:
                warnings.warn(
                    f"{str(path)!r} is damaged: what it asked for is not listed until the same sweep is started again.",
                    stacklevel=2,
                )
            else:
                found.append(asked)
        return sorted(found, key=lambda one: one["when"])

    @cached_property
    def data(self) -> Path:
        """The folder of large arrays."""
        return self.path / DATA

    def _trace_path(self, scenario: Scenario) -> Path:
        return self.path / TRACES / f"{scenario.schedule_digest}.npz"

    def _link_trace(self, result: Result, place: Path) -> None:
        """The schedule, which a folder shares with all others that have it."""
        shared = self._trace_path(result.scenario)
        try:
            os.link(shared, place)
        except FileNotFoundError:
            recorded = result.scenario.trace
            kept = result.trace if recorded is None else recorded
            kept.save(place, notes={OWNER: result.scenario.schedule_digest})
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            shutil.copyfile(shared, place)

    def _move(self, made: Path, place: Path) -> None:
        """Rename a whole folder of results to its place, unless another process was faster.

        Damaged results that are there are removed; anything else that is there stays.
        """
        if self.has(place.name):
            return
        if place.is_dir():
            remove_results(place)
        try:
            move_into(made, place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else another process was faster between the two


class _Flushing:
    """Waits for the disk, but only for a small share of the time: a sweep of tiny runs would take twice as long.

    Results that take longer than that to compute are always flushed. Others may be emptied by a power cut within half a
    minute, which the next call notices: it costs less to compute them again.
    """

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.spent = 0.0

    def flush(self, folders: Iterable[Path]) -> None:
        """Flush folders of results, unless too much of the time has gone there."""
        now = time.monotonic()
        if self.spent <= MOST_FLUSHING * (now - self.begun):
            flush_all(folders)
            self.spent += time.monotonic() - now


_flushing = _Flushing()  # of this process


def flush_all(folders: Iterable[Path]) -> None:
    """Flush the files of some folders, and the folders, to the disk.

    Many at a time: a journal takes them together, one after another takes ten times as long.
    """
    paths = [path for folder in folders for path in (*folder.iterdir(), folder)]
    with ThreadPoolExecutor(MOST_FLUSHED) as pool:
        deque(pool.map(flush, paths), maxlen=0)


def open_store(path: str | os.PathLike[str], *, create: bool = True) -> Store:
    """The store in a folder.

    Args:
        path: The folder.
        create: Make an empty store if there is no such folder, or nothing in it.

    Raises:
        ValueError: If the folder holds anything else, or a store of a newer asyncsim; or, without `create`, if there is
            no store.
        OSError: If it cannot be created.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = open_store(folder)
        ...     sorted(store.states(["0123456789abcdef"]).items())
        [('0123456789abcdef', 'missing')]
    """
    folder = require_folder("store", path)
    marker = read_json(folder / MARKER)
    if not (isinstance(marker, dict) and isinstance(marker.get("format"), int)):
        begun = all((folder / name).is_dir() for name in FOLDERS)  # a store, of which only the marker is damaged
        if not begun:
            _require_empty(folder, create)
            make_folder(folder)
        if create:
            for name in FOLDERS:
                make_folder(folder / name)
            with suppress(OSError) if begun else nullcontext():  # it may only be read, or else that is said later
                write_json(folder / MARKER, {"kind": "asyncsim store", "format": FORMAT})  # the last: all else is there
    elif marker["format"] > FORMAT:
        raise ValueError(
            f"`store` {str(folder)!r} was written by a newer asyncsim (format {marker['format']}; this one reads up to "
            f"{FORMAT}). Update asyncsim."
        )
    return Store(folder)


def now() -> str:
    """The present time, for people."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def _require_empty(folder: Path, create: bool) -> None:
    if not create and not folder.is_dir():
        raise ValueError(f"`store` {str(folder)!r} is not a folder. Check the name.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`store` {str(folder)!r} is a file. Choose another name.")
    begun = {*FOLDERS, MARKER}  # by another process, which has not come to the marker yet
    other = sorted(entry.name for entry in folder.iterdir() if not _is_begun(entry, begun)) if folder.is_dir() else []
    if other:
        raise ValueError(f"`store` {str(folder)!r} holds other files, such as {other[0]!r}. Choose another folder.")
    if not create:
        raise ValueError(f"`store` {str(folder)!r} is empty. Check the name.")


def _is_begun(entry: Path, begun: set[str]) -> bool:
    return entry.name in begun or (entry.name.startswith(f".{MARKER}.") and entry.suffix == ".tmp")
