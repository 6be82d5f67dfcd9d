"""The folder with the results of one study, in a store or given by `out`: it is begun, completed, published or failed.

1. An entry is assembled in a folder of its own. There is no entry yet, so existing results stay.
2. Each file is written whole or not at all, and names the study that owns it. The summary is the last one: an entry
   with a summary is complete.
3. `publish` moves the complete entry to its place. It removes the results that are there, and nothing else: files of
   these names that asyncsim wrote.

An entry of a store is assembled in `.making/` of the store, since several processes may compute the same one. The entry
with a name, an `out` folder, is assembled in `.unfinished/` inside it, where the next call finds the files of an
interrupted one. If there is nothing to be replaced, it is assembled in its place. While a process works there, it holds
the folder's lease.
"""

import errno
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from asyncsim.files import _npz as npz
from asyncsim.files._atomic import final_name, is_foreign, make_folder, remove_temporary_files, require_no_link
from asyncsim.files._hash import DIGEST, is_digest
from asyncsim.files._json import read_owned, to_plain
from asyncsim.store import _labels as labels
from asyncsim.store import _lease as lease

# Folder in an `out` folder, for results that replace those next to it once they are complete.
ASSEMBLY_FOLDER = ".unfinished"
# Files of a scenario's entry, of which the label is the last to go.
RESULTS = (labels.TRACE, labels.RUN, labels.SUMMARY, labels.REPORT, labels.REPORT_PAGE, *labels.LABELS)
TIMEOUT = 1.0  # seconds to wait for a lease that another process holds
WRITE_TIMEOUT = 10.0  # seconds to wait for a lease that is only held while files are written
PERMISSION_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS)
STORE_FILE = re.compile(rf"{DIGEST}\.(json|npz|bin)|clock")  # files in the folders of a store
UNFINISHED_ENTRY = re.compile(rf"{DIGEST}\.[0-9a-f]{{16}}")  # folders of entries that are assembled in a store
MOVE = "Move it elsewhere, or choose another folder (`--out`)."


def publish(entry: Path, place: Path, names: Collection[str] = RESULTS) -> None:
    """Move a complete entry to its place, where it replaces the results of these names.

    If the process is killed before the old label is gone, the same call goes on. After that, `move_into` does.
    """
    if place.is_dir():
        remove_results(place, names)
    move_into(entry, place, names)


def move_into(source: Path, target: Path, names: Collection[str] | None = None, *, marked: bool = True) -> None:
    """Move a folder to its place. If there is one already, its entries of these names move next to others there."""
    if source.is_dir() and target.is_dir():
        last = (*labels.LABELS, labels.SUMMARY)  # They say whose the files are, and that all are there.
        for entry in sorted(source.iterdir(), key=lambda entry: last.index(entry.name) if entry.name in last else -1):
            if names is None or entry.name in names:
                move_into(entry, target / entry.name, marked=marked)
        with suppress(OSError):  # A folder into which the user has put something stays.
            source.rmdir()
    elif source.is_dir():
        os.rename(source, target)
    elif not (marked and is_foreign(target)):
        os.replace(source, target)


def remove_results(folder: Path, names: Collection[str] = RESULTS, *, marked: bool = True) -> None:
    """Remove the results of a study, the label last, and the folder if that leaves it empty."""
    last = (*labels.LABELS, labels.QUESTION)
    _remove(folder, lambda name: name in names and name not in last, marked=marked)
    _remove(folder, lambda name: name in names, marked=marked)


def remove_store(folder: Path) -> None:
    """Remove a store with all its results, and the folder if that leaves it empty."""
    if not labels.is_store(folder):
        return
    for entry in list(folder.iterdir()):
        if entry.is_symlink() or not entry.is_dir():
            continue
        if entry.name == labels.MAKING:
            remove_unpublished(entry)
            _remove(entry, lambda name: False)
        elif entry.name in labels.STORE_FOLDERS:
            _remove(entry, STORE_FILE.fullmatch)
        elif is_digest(entry.name):
            remove_results(entry)
    _remove(folder, labels.STORE.__eq__)


def remove_unpublished(making: Path, running: Collection[str] = ()) -> None:
    """Remove entries that were being assembled, but those of scenarios that are running."""
    for entry in list(making.iterdir()):
        if UNFINISHED_ENTRY.fullmatch(entry.name) and entry.name.partition(".")[0] not in running:
            remove_results(entry)


def _remove(folder: Path, has_name: Callable[[str], object], *, marked: bool = True) -> None:
    """Remove asyncsim's files of some names, also under temporary ones, and the folder if nothing else is in it.

    Its files are told from others by their contents, unless they are not `marked`.
    """
    for entry in list(folder.iterdir()) if folder.is_dir() else ():
        name = final_name(entry.name)
        is_own = name != entry.name or not (marked and is_foreign(entry))
        if has_name(name) and is_own and not entry.is_dir():
            entry.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


class Study(Protocol):
    """The owner of results: a scenario, a comparison or an experiment."""

    @cached_property
    def digest(self) -> str: ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Folder:
    """A folder that holds the results of one study and of no other."""

    path: Path
    label: str
    files: tuple[str, ...]
    store: str = ""  # name of a store of runs, which stays
    scratch: str = ""  # name of a store that is removed when the results are complete

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def has(self, name: str) -> bool:
        """Tell whether the folder has a file."""
        return (self / name).is_file()

    @contextmanager
    def lease(self, study: Study, force: bool = False, origin: Mapping[str, Any] | None = None) -> Iterator["Folder"]:
        """Make the folder this study's, or find that it is, and hand out the folder in which to assemble the entry."""
        self._refuse_others_place(study.digest)
        make_folder(self.path)
        for name in (ASSEMBLY_FOLDER, self.store):
            if name:
                require_no_link(self / name)
        with ExitStack() as until_done:
            until_done.enter_context(locked(self.path, WRITE_TIMEOUT if self.store else TIMEOUT))
            held = lease.holders(self.path / self.store / labels.LEASES) if force and self.store else {}
            for holder in held.values():  # Results that other processes compute are not replaced.
                raise ValueError(in_use(self.path, holder))
            self._publish_again()
            work = self._place_of_work(study, force, origin)
            remove_temporary_files(work.path, (*self.files, self.label, labels.HOLDER))
            if self.store and work.path == self.path:
                until_done.close()  # Any number of processes fill a store, and lock the folder only to write its files.
            yield work
            if work.path != self.path:
                self._publish(work)

    def _publish(self, entry: "Folder") -> None:
        if self.store and (entry / self.store).is_dir():
            remove_store(self / self.store)
        remove_results(self.path, self._names, marked=self._is_marked)
        move_into(entry.path, self.path, self._published, marked=self._is_marked)

    def _publish_again(self) -> None:
        """Publish the entry of a process that was killed when it was complete, unless nothing can be written."""
        entry = self._assembled
        try:
            if entry.has(labels.SUMMARY) and entry.has(self.label) and self.has(self.label):
                self._publish(entry)
            elif entry.has(labels.SUMMARY):  # The process was killed after it had removed the old results.
                move_into(entry.path, self.path, self._published, marked=self._is_marked)
            elif entry.path.is_dir() and not entry.has(self.label):  # It was killed before it had written anything.
                remove_temporary_files(entry.path, self._names)
                with suppress(OSError):  # A folder with files of the user stays.
                    entry.path.rmdir()
        except OSError as error:
            if error.errno not in PERMISSION_ERRORS:
                raise

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.label, *self.files)

    @property
    def _is_marked(self) -> bool:
        return self.label in labels.LABELS  # Files of an answer to a question bear no mark: its label claims them.

    @property
    def _published(self) -> tuple[str, ...]:
        return (*self._names, self.store)

    @property
    def _assembled(self) -> "Folder":
        return replace(self, path=self / ASSEMBLY_FOLDER)

    def _place_of_work(self, study: Study, force: bool, origin: Mapping[str, Any] | None) -> "Folder":
        work, assembled = self, self._assembled
        if force and any(self.has(name) for name in self._names):
            for store in filter(None, (self.store, self.scratch)):
                remove_store(assembled / store)
            remove_results(assembled.path, self._names, marked=self._is_marked)
            make_folder(assembled.path)
            work = assembled
        elif not force and (begun_in := self.require(study)):
            return begun_in
        labels.write_label(work / self.label, study.digest, study.describe(), origin)
        return work

    def require(self, study: Study) -> "Folder | None":
        """Return the folder in which this study was begun, or None. Another study's results are refused."""
        for folder in (self._assembled, self):
            if (folder._read_label() or {}).get(labels.DIGEST) == study.digest:
                return folder
        # If the label is damaged, the other files say whose they are.
        if self._read_label() != {} or any(_is_of_others(self / name, study.digest) for name in self.files):
            self._refuse_others(to_plain(study.describe()))
        return None

    def _refuse_others_place(self, digest: str) -> None:
        """Refuse a folder of another kind, and files that asyncsim did not write under the names that it writes."""
        here = f"`out` {str(self.path)!r}"
        is_same = labels.digest_of(self.path) == digest
        # The entry of a store may be the `out` folder of its own scenario, as a link of a comparison is.
        if not is_same or not labels.is_store(Path(os.path.realpath(self.path)).parent):
            labels.refuse_stores("out", self.path)
        for other in (*labels.LABELS, labels.QUESTION):
            if other != self.label and self.has(other) and not is_foreign(self / other):
                raise ValueError(f"{here} holds another kind of study: {other!r}. Choose another folder (`--out`).")
        for path in self._foreign():
            name = os.path.relpath(path, self.path)
            if name in self._names and not self.has(self.label):
                raise ValueError(f"{here} holds a {name!r} but no {self.label!r}. {MOVE}")
            raise ValueError(f"{here} holds {name!r}, which asyncsim did not write. {MOVE}")

    def _foreign(self) -> Iterator[Path]:
        """Yield whatever has a name that asyncsim uses in the folder, and is not its own."""
        assembled, holder = self._assembled, self / labels.HOLDER
        for folder in (self, assembled):
            if self._is_marked or not folder.has(self.label):
                yield from (folder / name for name in self._names if is_foreign(folder / name))
        if self.store and (self / self.store).is_dir() and labels.strangers_in(self / self.store):
            yield self / self.store
        if self.scratch and not self.has(self.label) and os.path.lexists(self / self.scratch):
            yield self / self.scratch
        # The label is written first and removed last, but for the summary, so files without it are not asyncsim's.
        if not assembled.has(self.label):
            others = (*self.files, self.store, self.scratch)
            names = [name for name in others if name not in ("", labels.SUMMARY)]
            yield from (assembled / name for name in names if (assembled / name).exists())
        if os.path.lexists(assembled.path) and not assembled.path.is_dir():
            yield assembled.path
        if os.path.lexists(holder) and not lease.is_lease(holder):
            yield holder

    def _read_label(self) -> dict[str, Any] | None:
        """Read the label: {} if it is damaged, or None if there is none."""
        return (labels.read_label(self / self.label) or {}) if self.has(self.label) else None

    def _refuse_others(self, description: Mapping[str, Any]) -> None:
        remedy = "Choose another folder (`--out`), or replace its results (`--force`)."
        label = self._read_label()
        if label is not None:
            differs = labels.first_difference(labels.description_in(label), description) if label else None
            if differs is None:
                raise ValueError(f"`out` {str(self.path)!r} holds a damaged {self.label!r}. {remedy}")
            kind = self.label.removesuffix(".json")
            raise ValueError(f"`out` {str(self.path)!r} holds a different {kind}: {differs}. {remedy}")
        strange = [name for name in self.files if self.has(name)]
        if strange:
            raise ValueError(f"`out` {str(self.path)!r} holds a {strange[0]!r} but no {self.label!r}. {remedy}")


@contextmanager
def locked(folder: Path, timeout: float | None = None) -> Iterator[None]:
    """Hold a folder's lease, or nothing where this process may not write."""
    file = folder / labels.HOLDER
    with ExitStack() as until_done:
        try:
            acquired = until_done.enter_context(lease.hold(file, TIMEOUT if timeout is None else timeout))
        except OSError as error:
            if error.errno not in PERMISSION_ERRORS:
                reason = error.strerror or str(error)
                message = f"`out` {str(folder)!r} cannot be locked: {reason}. Choose another folder (`--out`)."
                raise OSError(error.errno, message) from error
        else:
            if not acquired:
                raise ValueError(in_use(folder, lease.read_holder(file)))
        yield


def in_use(folder: Path, holder: Mapping[str, Any]) -> str:
    """Say who works in a folder."""
    who = lease.in_words(holder) if lease.this_process().keys() <= holder.keys() else "another process"
    return f"`out` {str(folder)!r} is in use by {who}. Wait until it has ended, or choose another folder (`--out`)."


def _is_of_others(path: Path, digest: str) -> bool:
    """Tell whether a file can be read, and says that it belongs to another study, or to none."""
    if path.suffix == ".json":
        return read_owned(path) is not None and read_owned(path, digest) is None
    if path.suffix == ".npz" and path.is_file():
        try:
            return digest not in npz.read_notes(path).values()
        except npz.Damaged:
            return False
        except ValueError:
            return True
    return False
