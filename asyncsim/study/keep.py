"""Keeping the results of a study in a folder: whose folder it is, what it holds, and how new results replace old ones.

Every file is written whole or not at all. A label beside the files holds the digest of the study that they belong to,
and so does each file: results are reused only under an equal digest. Results that are replaced stay until the new ones
are complete. While a process works in a folder, the folder is locked.
"""

import errno
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from asyncsim import npz
from asyncsim.files import read_json, read_owned, remove_temporary_files, to_plain, write_owned
from asyncsim.folders import holders, labels
from asyncsim.folders.differences import SHOWN, first_difference
from asyncsim.folders.kept import HOLDER
from asyncsim.folders.labels import CLAIMS, DIGEST, ORIGIN
from asyncsim.folders.own import move_into, remove_store
from asyncsim.plots.style import read_png_metadata
from asyncsim.study import lease

STAGED = ".unfinished"  # folder inside, for results that will replace those beside it once they are complete
MOVING = ".finished"  # the same folder, once they are complete and take their places
LOCK = ".lock"  # name of a file; beside it `HOLDER` says who is at work; both are removed in the end
PATIENCE = 1.0  # seconds to wait for a lock that another process holds
PATIENCE_OF_MANY = 10.0  # the same, for one that is only held while files are written
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


class Study(Protocol):
    """What results belong to: a scenario, a comparison or an experiment."""

    @cached_property
    def digest(self) -> str:
        """Hash of the description."""
        ...

    def describe(self) -> dict[str, Any]:
        """The study as plain data."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder that holds the results of one study and of no other.

    Attributes:
        path: The folder; created if missing.
        label: The file that says whose it is: "scenario.json", "comparison.json" or "experiment.json".
        files: The files that the study writes beside the label.
        store: The folder that holds the runs of the study; "" if there is none.
    """

    path: Path
    label: str
    files: tuple[str, ...]
    store: str = ""

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self / name).is_file()

    @contextmanager
    def claim(self, study: Study, force: bool = False, origin: Mapping[str, Any] | None = None) -> Iterator["Folder"]:
        """Make the folder this study's, or find that it is, and hand out the folder in which to work.

        That is this folder itself; or, if `force` gives up the results that it holds, a hidden folder inside, which
        later calls without `force` find again. At the end of the block, the work replaces what is here. If the block
        raises an error, nothing is replaced, and a later call with the same study resumes the work.

        The folder is locked until the end of the block, unless this process may not write there: then it can only
        read what is complete. A folder with a store is only locked while results are replaced: where they are new, any
        number of processes may fill the store at once, and each locks the folder (`locked`) to write its files.

        Args:
            study: Whose results the folder is to hold.
            force: Start afresh, whatever the folder holds.
            origin: Where the study came from, kept in the label of a new piece of work beside the description.

        Raises:
            ValueError: If another process works in the folder, or it holds another study, or such files of unknown
                origin.
            OSError: If it cannot be created or written.
        """
        make_folder(self.path)
        with ExitStack() as until_done:
            until_done.enter_context(locked(self.path, PATIENCE_OF_MANY if self.store else PATIENCE))
            if force:
                self._require_idle()
            work = self._place_of_work(study, force, origin)
            remove_temporary_files(work.path, (*self.files, self.label))
            if self.store and work.path == self.path:
                until_done.close()
            yield work
            self._take(work)

    def _require_idle(self) -> None:
        """Refuse to replace runs that other processes are computing."""
        held = lease.holders(self.path / self.store / CLAIMS) if self.store else {}
        if held:
            raise ValueError(in_use(self.path, next(iter(held.values()))))

    def _take(self, work: "Folder") -> None:
        """Replace the files here by those of a finished piece of work, and remove the folder that it was done in.

        The label is removed first and written last: a failure halfway leaves files without an owner, rather than
        files with the wrong one.
        """
        if work.path == self.path:
            return
        dropped = [name for name in self.files if not work.has(name)]
        shutil.rmtree(self / MOVING, ignore_errors=True)
        os.replace(work.path, self / MOVING)
        for name in (self.label, *dropped):
            (self / name).unlink(missing_ok=True)
        self._finish_moving()

    def _finish_moving(self) -> None:
        """Move the files of finished work here, the rest of them if an earlier call was killed halfway."""
        finished = Folder(self / MOVING, self.label, self.files)
        if finished.has(self.label):
            (self / self.label).unlink(missing_ok=True)
            if self.store and (finished / self.store).is_dir():
                if (self / self.store).is_dir():
                    remove_store(self / self.store)
                move_into(finished / self.store, self / self.store)
            for name in filter(finished.has, (*self.files, self.label)):
                os.replace(finished / name, self / name)
        if finished.path.is_dir():
            shutil.rmtree(finished.path)

    def _place_of_work(self, study: Study, force: bool, origin: Mapping[str, Any] | None) -> "Folder":
        self._finish_moving()
        work, staged = self, Folder(self / STAGED, self.label, self.files, self.store)
        if force and any(self.has(name) for name in (self.label, *self.files)):
            shutil.rmtree(staged.path, ignore_errors=True)
            make_folder(staged.path)
            work = staged
        elif not force:
            for folder in (staged, self):
                if (folder._read_label() or {}).get(DIGEST) == study.digest:
                    return folder
            if self._read_label() != {} or self._has_of_others(study):
                self._refuse_others(to_plain(study.describe()))
        told = {} if origin is None else {ORIGIN: origin}
        write_owned(work / self.label, {DIGEST: study.digest, **study.describe(), **told}, study.digest)
        return work

    def _read_label(self) -> dict[str, Any] | None:
        """The content of the label, {} if it is damaged; None if there is no label."""
        return (labels.read_label(self / self.label) or {}) if self.has(self.label) else None

    def _has_of_others(self, study: Study) -> bool:
        """Whether a file here that can be read is not this study's: where the label is damaged, they must tell."""
        return any(_is_of_others(self / name, study.digest) for name in self.files if self.has(name))

    def _refuse_others(self, description: Mapping[str, Any]) -> None:
        remedy = "Choose another folder (`--out`), or replace what it holds (`--force`)."
        label = self._read_label()
        if label is not None:
            differs = first_difference(labels.description_in(label), description) if label else None
            if differs is None:
                raise ValueError(f"`out` {str(self.path)!r} holds a damaged {self.label!r}. {remedy}")
            kind = self.label.removesuffix(".json")
            raise ValueError(f"`out` {str(self.path)!r} holds a different {kind}: {differs}. {remedy}")
        strange = [name for name in self.files if self.has(name)]
        if strange:
            raise ValueError(f"`out` {str(self.path)!r} holds a {strange[0]!r} but no {self.label!r}. {remedy}")


@contextmanager
def locked(folder: Path, patience: float | None = None) -> Iterator[None]:
    """Hold a folder's lock, with a file beside it that tells others who does.

    Nothing is locked where this process may not write.

    Args:
        folder: The folder, which must exist.
        patience: Seconds to wait for another process; by default about one.

    Raises:
        ValueError: If another process holds the lock.
        OSError: If there can be no lock.
    """
    lock, holder = _acquire(folder, PATIENCE if patience is None else patience), folder / HOLDER
    ended = threading.Event()
    try:
        if lock is not None:
            with suppress(OSError):
                holder.write_text(json.dumps(this_process()), encoding="utf-8")
            threading.Thread(target=_renew, args=(holder, ended), daemon=True).start()
        yield
    finally:
        ended.set()
        if lock is not None:
            for file in (holder, folder / LOCK):  # whoever waits for a lock file that is gone makes another
                with suppress(OSError):
                    file.unlink(missing_ok=True)
            lock.release()


def _renew(holder: Path, ended: threading.Event) -> None:
    """Tell other hosts that this process lives, as long as it holds a lock."""
    while not ended.wait(holders.RENEWED):
        with suppress(OSError):
            os.utime(holder)


def _acquire(folder: Path, patience: float) -> Any:
    """The lock, held; None where this process may not write."""
    from filelock import FileLock, Timeout  # loads asyncio

    lock = FileLock(folder / LOCK, thread_local=False)
    try:
        lock.acquire(timeout=patience)
    except Timeout as error:
        raise ValueError(in_use(folder, read_json(folder / HOLDER))) from error
    except OSError as error:
        if error.errno in UNWRITABLE:
            return None
        reason = error.strerror or str(error)
        message = f"`out` {str(folder)!r} cannot be locked: {reason}. Choose another folder (`--out`)."
        raise OSError(error.errno, message) from error
    return lock


def in_use(folder: Path, holder: Any) -> str:
    """Says who works in a folder."""
    known = isinstance(holder, dict) and holders.this_process().keys() <= holder.keys()
    who = holders.in_words(holder) if known else "another process"
    return f"`out` {str(folder)!r} is in use by {who}. Wait until it has ended, or choose another folder (`--out`)."


def _is_of_others(path: Path, digest: str) -> bool:
    """Whether a file can be read, and says that it belongs to another study, or to none."""
    if path.suffix == ".json":
        return read_owned(path) is not None and read_owned(path, digest) is None
    if path.suffix == ".npz":
        try:
            return digest not in npz.read_notes(path, kind="results", version=None).values()
        except npz.Damaged:
            return False
        except ValueError:
            return True
    return False


def owner_of(study: Study) -> dict[str, str]:
    """What a picture's metadata says of the study that it belongs to."""
    return {"Study": study.digest}


def is_picture_of(study: Study, path: Path) -> bool:
    """Whether a picture is there, whole, and was drawn of this study."""
    return owner_of(study).items() <= read_png_metadata(path).items()


def this_process() -> dict[str, Any]:
    """What tells others who holds a lock."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else "python"
    since = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    shown = command if len(command) <= SHOWN else f"{command[: SHOWN - 1]}…"
    return {**holders.this_process(), "since": since, "command": shown}


def make_folder(path: Path) -> None:
    """Create the folder that was given as `out`, and those above it, unless it exists.

    Raises:
        OSError: If it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"`out` {str(path)!r} cannot be created: {reason}. Choose another folder."
        raise OSError(error.errno, message) from error
