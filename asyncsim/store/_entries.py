"""The files of a store, by digest: entries, failures, leases, sweeps and checkpoints. Scenarios are unknown here.

`study._store` reads and writes results in them. Any number of processes and hosts may fill a store at the same time:
    store.json             says that this is a store
    DIGEST/                an entry: the results of the scenario with this digest, in the files of `asyncsim.run`
    traces/SCHEDULE.npz    schedules, each once: the entries have hard links to them
    failed/DIGEST.json     why there are no results
    leases/BATCH.json      leases: who is computing them
    sweeps/SWEEP.json      the scenarios that a sweep asked for
    data/HASH.bin          large arrays that scenarios are made of, for other processes
    unfinished/DIGEST.npz  checkpoints of long runs

An entry is assembled next to its place and renamed, so it is complete or absent. Existing results are never recomputed.
Files are compared with their checksums and their owner, so a damaged entry counts as missing.
"""

import errno
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from asyncsim.files import _npz as npz
from asyncsim.files._atomic import flush, is_foreign, make_folder, require_folder, require_format, require_no_link
from asyncsim.files._json import read_json, read_owned, write_json
from asyncsim.store import _labels as labels
from asyncsim.store import _lease as lease
from asyncsim.store._entry import publish, remove_results, remove_unpublished
from asyncsim.store._sweeps import SweepSettings, read_sweeps

KIND = "asyncsim store"
FORMAT = 3  # 2: a lease is for a batch; 3: the owner of arrays is their note `owner`
DONE, RUNNING, FAILURE, MISSING = "done", "running", "failed", "missing"  # states of a scenario
MOST_FLUSHING = 0.03  # share of the time that a process waits for the disk


@dataclass(frozen=True)
class Entries:
    """The entries of a store, by digest. See `prepare_store`."""

    path: Path

    def folder(self, digest: str) -> Path:
        """Return the folder of a scenario, which need not exist."""
        return self.path / digest

    def has(self, digest: str, *, check: bool = False) -> bool:
        """Tell whether the results of a scenario are complete: no file is missing, emptied, truncated or another's."""
        folder = self.path / digest
        if self.summary(digest) is None or labels.read_label(folder / labels.SCENARIO) is None:
            return False
        is_sound = npz.is_sound if check else npz.is_whole
        return all(is_sound(folder / name) for name in (labels.RUN, labels.TRACE))

    def is_damaged(self, digest: str) -> bool:
        """Tell whether there is something of the results of a scenario, but not all."""
        names = labels.SCENARIO, labels.RUN, labels.SUMMARY
        return any((self.path / digest / name).exists() for name in names) and not self.has(digest)

    def refuse_foreign(self, digest: str) -> None:
        """Refuse a folder of a scenario in which a file that asyncsim did not write takes the place of a result."""
        for name in (labels.SCENARIO, labels.TRACE, labels.RUN, labels.SUMMARY):
            path = self.path / digest / name
            if is_foreign(path):
                message = f"`store` {str(self.path)!r} holds '{digest}/{name}', which asyncsim did not write"
                raise ValueError(f"{message}. Move it elsewhere, or choose another folder.")

    def digests(self) -> set[str]:
        """List the digests of all scenarios of which there is anything."""
        return {*os.listdir(self.path)} - {*labels.STORE_FOLDERS, labels.STORE}

    def list_failed(self) -> set[str]:
        """List the digests of all scenarios that may have failed, see `read_failure`."""
        return {path.stem for path in (self.path / labels.FAILED).glob("*.json")}

    def states(self, digests: Iterable[str]) -> dict[str, str]:
        """Return digest -> "done", "running", "failed" or "missing"."""
        running, failed = lease.holders(self.path / labels.LEASES), self.list_failed()

        def state(digest: str) -> str:
            if self.has(digest):
                return DONE
            if digest in running:
                return RUNNING
            return FAILURE if digest in failed and self.read_failure(digest) is not None else MISSING

        return {digest: state(digest) for digest in digests}

    def lease(self, digests: Iterable[str]) -> Any:
        """Hold the lease of scenarios for a block. See `asyncsim.store._lease.hold_batch`."""
        return lease.hold_batch(self.path / labels.LEASES, digests)

    def unfinished(self, digest: str) -> Path:
        """Return the file of a long run's checkpoints, in a folder that exists."""
        folder = self.path / labels.UNFINISHED
        folder.mkdir(exist_ok=True)
        return folder / f"{digest}.npz"

    def publish(self, digest: str, fill: Callable[[Path], None]) -> None:
        """Assemble an entry next to its place and rename it, unless another process was faster."""
        making = self.path / labels.MAKING / f"{digest}.{secrets.token_hex(8)}"
        making.mkdir()
        try:
            fill(making)
            _flushing.flush(making)
            require_no_link(self.folder(digest))
            if not self.has(digest):
                publish(making, self.folder(digest))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # Otherwise another process published the entry just now.
        finally:
            remove_results(making)
        self._remove(labels.FAILED, f"{digest}.json")
        self._remove(labels.UNFINISHED, f"{digest}.npz")

    def summary(self, digest: str) -> dict[str, Any] | None:
        """Read the summary of a scenario's run, or None if there is none, or it is damaged or another's."""
        return read_owned(self.path / digest / labels.SUMMARY, digest)

    def discard(self, digest: str) -> None:
        """Remove the results of a scenario, or why there are none. The checkpoint of its run stays."""
        self._remove(labels.FAILED, f"{digest}.json")
        if self.folder(digest).is_dir():
            remove_results(self.folder(digest))

    def _remove(self, folder: str, name: str) -> None:
        file = self.path / folder / name
        if not is_foreign(file):
            file.unlink(missing_ok=True)

    def read_failure(self, digest: str) -> dict[str, Any] | None:
        """Read why a scenario has no results: "reason", "details", "when", or None if it has not failed."""
        return read_owned(self.path / labels.FAILED / f"{digest}.json", digest)

    def clear(self) -> None:
        """Remove the leases of dead processes, and results that they did not finish."""
        lease.remove_void(self.path / labels.LEASES)
        running = lease.holders(self.path / labels.LEASES)
        remove_unpublished(self.path / labels.MAKING, running)

    def sweeps(self) -> list[SweepSettings]:
        """Return what sweeps asked for, the oldest first. A damaged file gives a warning."""
        sweeps, damaged = read_sweeps(self.path)
        for path in damaged:
            warnings.warn(
                f"{str(path)!r} is damaged. Its sweep is not listed until you start the same sweep again.", stacklevel=2
            )
        return sweeps

    @property
    def data(self) -> Path:
        """The folder of large arrays."""
        return self.path / labels.DATA


class _Flushing:
    """Waits for the disk, but only for a small share of the time: a sweep of tiny runs would take twice as long."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.spent = 0.0

    def flush(self, folder: Path) -> None:
        """Flush a folder of results and its files, unless too much of the time has gone there."""
        now = time.monotonic()
        if self.spent <= MOST_FLUSHING * (now - self.begun):
            for path in (*folder.iterdir(), folder):
                flush(path)
            self.spent += time.monotonic() - now


_flushing = _Flushing()  # All stores of a process share one disk, as a rule.


def prepare_store(path: str | os.PathLike[str], create: bool = True) -> Path:
    """Return the folder of a store, made if need be and if `create`. Other folders and formats are refused."""
    folder = require_folder("store", path)
    labels.refuse_stores("store", folder, itself=False)
    for name in labels.STORE_FOLDERS:
        require_no_link(folder / name)
    marker = read_json(folder / labels.STORE)
    if isinstance(marker, dict) and marker.get("kind") == KIND and isinstance(marker.get("format"), int):
        require_format(f"`store` {str(folder)!r}", marker["format"], FORMAT, "Choose another folder.")
        return folder
    # A store whose marker is damaged has all its folders.
    has_folders = all((folder / name).is_dir() for name in labels.STORE_FOLDERS)
    if not create and not folder.is_dir():
        raise ValueError(f"`store` {str(folder)!r} is not a folder. Check the name.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`store` {str(folder)!r} is a file. Choose another name.")
    other = labels.strangers_in(folder) if folder.is_dir() else []
    if other:
        raise ValueError(f"`store` {str(folder)!r} holds other files, such as {other[0]!r}. Choose another folder.")
    if not has_folders:
        if not create:
            raise ValueError(f"`store` {str(folder)!r} is empty. Check the name.")
        for name in ("", *labels.STORE_FOLDERS):
            make_folder(folder / name, "store")
    if create:
        with suppress(OSError) if has_folders else nullcontext():  # A whole store may be read-only.
            marker = {"kind": KIND, "format": FORMAT}
            write_json(folder / labels.STORE, marker)  # The marker comes last: a folder that has it is a whole store.
    return folder


def now() -> str:
    """Return the present time, for people."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")
