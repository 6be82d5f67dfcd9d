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
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from asyncsim.cluster.simulation import Simulated
from asyncsim.engine import Run, run_file
from asyncsim.files import read_json, require_folder, write_json
from asyncsim.folders.labels import CLAIMS, DIGEST, ORIGIN, RUN, STORE, SUMMARY, TRACE
from asyncsim.folders.labels import SCENARIO as LABEL
from asyncsim.scenario.rebuild import hints
from asyncsim.scenario.scenario import Scenario
from asyncsim.study import lease
from asyncsim.study.keep import make_folder
from asyncsim.study.run import OWNER, Result, load_trace
from asyncsim.trace import Trace

MARKER, FORMAT = STORE, 1
TRACES, FAILED, SWEEPS, DATA, MAKING = "traces", "failed", "sweeps", "data", ".making"
UNFINISHED = "unfinished"
FOLDERS = (UNFINISHED, TRACES, FAILED, CLAIMS, SWEEPS, DATA, MAKING)
DONE, RUNNING, FAILURE, MISSING = "done", "running", "failed", "missing"  # the states of a scenario
NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


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

    def has(self, digest: str) -> bool:
        """Whether the results of a scenario are there."""
        return (self.path / digest / SUMMARY).is_file()

    def present(self) -> set[str]:
        """The digests of all scenarios whose results are there."""
        kept = {*FOLDERS, MARKER}
        return {entry.name for entry in os.scandir(self.path) if entry.name not in kept and self.has(entry.name)}

    def states(self, digests: Iterable[str]) -> dict[str, str]:
        """Digest -> "done", "running", "failed" or "missing"."""
        present, failed = self.present(), {path.stem for path in (self.path / FAILED).glob("*.json")}
        running = lease.holders(self.path / CLAIMS)

        def state(digest: str) -> str:
            for name, members in ((DONE, present), (RUNNING, running), (FAILURE, failed)):
                if digest in members:
                    return name
            return MISSING

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
            OSError: If it cannot be written; then nothing of it is there.
        """
        scenario, digest = result.scenario, result.scenario.digest
        making = self.path / MAKING / f"{digest}.{secrets.token_hex(8)}"
        making.mkdir()
        try:
            notes = {OWNER: digest, **seconds, SUMMARY: json.dumps(result.summary)}
            run_file.write(making / RUN, vars(result.run), notes, resumable=False, new=True)
            self._link_trace(result, making / TRACE)
            told = {} if origin is None else {ORIGIN: {**origin, "rebuild": hints(scenario)}}
            _write_json(making / LABEL, {DIGEST: digest, **scenario.description, **told})
            _write_json(making / SUMMARY, result.summary)
            self._move(making, self.folder(digest))
        finally:
            shutil.rmtree(making, ignore_errors=True)
        for file in (self.path / FAILED / f"{digest}.json", self.path / UNFINISHED / f"{digest}.npz"):
            file.unlink(missing_ok=True)

    def get(self, scenario: Scenario) -> Result | None:
        """The result of a scenario, None if it is not there.

        Raises:
            ValueError: If its files are damaged or not this scenario's.
        """
        folder = self.folder(scenario.digest)
        if not self.has(scenario.digest):
            return None
        run = Run.load(folder / RUN, scenario.rule, scenario.workload)
        notes = run_file.read_notes(folder / RUN)
        if notes.get(OWNER) != scenario.digest:
            raise ValueError(
                f"`store` {str(self.path)!r} holds another scenario's files in {folder.name!r}. Delete that folder; "
                "the same sweep computes it again."
            )
        trace = scenario.in_steps(load_trace(scenario, folder / TRACE))
        return Result(scenario, trace, run, json.loads(notes[SUMMARY]), folder, recomputed=False)

    def summary(self, digest: str) -> dict[str, Any] | None:
        """The summary of a scenario's run; None if there is none, or it is damaged."""
        found = read_json(self.path / digest / SUMMARY)
        return found if isinstance(found, dict) else None

    def discard(self, digest: str) -> None:
        """Remove the results of a scenario, or why there are none."""
        for file in (self.path / FAILED / f"{digest}.json", self.path / UNFINISHED / f"{digest}.npz"):
            file.unlink(missing_ok=True)
        aside = self.path / MAKING / f"{digest}.{secrets.token_hex(8)}"
        with suppress(FileNotFoundError):
            os.rename(self.folder(digest), aside)
        shutil.rmtree(aside, ignore_errors=True)

    def fail(self, scenario: Scenario, reason: str, details: str = "") -> None:
        """Keep why there are no results of a scenario; `details` is a traceback."""
        told = {"digest": scenario.digest, "reason": reason, "details": details, "when": now(), **lease.this_process()}
        write_json(self.path / FAILED / f"{scenario.digest}.json", {**told, "scenario": scenario.describe()})

    def failure(self, digest: str) -> dict[str, Any] | None:
        """Why there are no results of a scenario: "reason", "details", "when"; None if it has not failed."""
        found = read_json(self.path / FAILED / f"{digest}.json")
        return found if isinstance(found, dict) else None

    def clear(self) -> None:
        """Remove what dead processes have left: their claims, and results that they did not finish."""
        lease.clear(self.path / CLAIMS)
        running = lease.holders(self.path / CLAIMS)
        for making in (self.path / MAKING).iterdir():
            if making.name.partition(".")[0] not in running:
                shutil.rmtree(making, ignore_errors=True)

    def write_sweep(self, name: str, description: Mapping[str, Any]) -> None:
        """Keep what was asked for."""
        write_json(self.path / SWEEPS / f"{name}.json", description)

    def sweeps(self) -> list[dict[str, Any]]:
        """What was asked for, the oldest first."""
        found = [read_json(path) for path in (self.path / SWEEPS).glob("*.json")]
        return sorted((one for one in found if isinstance(one, dict)), key=lambda one: one.get("when", ""))

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
        """Rename a whole folder of results to its place, where there may be one already, whole or damaged."""
        for _ in range(2):
            try:
                os.rename(made, place)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            if self.summary(place.name) is not None:
                return  # another process was faster
            self.discard(place.name)


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
        _require_empty(folder, create)
        make_folder(folder)
        for name in FOLDERS:
            make_folder(folder / name)
        write_json(folder / MARKER, {"kind": "asyncsim store", "format": FORMAT})  # the last, so that all else is there
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


def _write_json(path: Path, value: Any) -> None:
    """Plain data as JSON, in a folder that is itself whole or not there; without line breaks it costs a tenth."""
    with open(path, "wb") as file:
        file.write(json.dumps(value, allow_nan=False).encode() + b"\n")
