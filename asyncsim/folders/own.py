"""Which files asyncsim has put into a folder, so that nothing else is ever removed with them."""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from asyncsim.files import TEMPORARY
from asyncsim.folders.labels import LABELS, MAKING, REPORT, REPORT_PAGE, RUN, STORE, STORE_FOLDERS, SUMMARY, TRACE

RESULTS = (*LABELS, TRACE, RUN, SUMMARY, REPORT, REPORT_PAGE)  # of one study
DIGEST = re.compile(r"[0-9a-f]{16}")
IN_STORE = re.compile(  # what the folders of a store hold, with what killed processes leave there
    r"[0-9a-f]{16}\.(json|npz|bin)|\.(process|clock)\.[0-9a-f]{16}|\.[0-9a-f]{16}\.(json|npz|bin)\.[0-9a-f]{16}(\.tmp)?"
)


def remove_results(folder: Path) -> None:
    """Remove the results of a study, and the folder if that leaves it empty."""
    _remove(folder, lambda name: name in RESULTS or ((left := TEMPORARY.fullmatch(name)) and left["name"] in RESULTS))


def remove_store(folder: Path) -> None:
    """Remove a store with all its results, and the folder if that leaves it empty."""
    if not (folder / STORE).is_file():
        return
    for entry in list(folder.iterdir()):
        if entry.is_symlink() or not entry.is_dir():
            continue
        if entry.name == MAKING:
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name in STORE_FOLDERS:
            _remove(entry, lambda name: IN_STORE.fullmatch(name) is not None)
        elif DIGEST.fullmatch(entry.name):
            remove_results(entry)
    _remove(folder, lambda name: name == STORE)


def move_into(source: Path, target: Path) -> None:
    """Move a folder to its place; where a folder is there already, what it holds, beside whatever else is there."""
    if source.is_dir() and target.is_dir():
        for entry in sorted(source.iterdir(), key=lambda entry: entry.name == SUMMARY):  # which says that all is there
            move_into(entry, target / entry.name)
        source.rmdir()
    elif source.is_dir():
        os.rename(source, target)
    else:
        os.replace(source, target)


def _remove(folder: Path, is_own: Callable[[str], object]) -> None:
    """Remove the files of some names, and the folder if nothing else is in it."""
    for entry in list(folder.iterdir()):
        if is_own(entry.name) and (entry.is_symlink() or not entry.is_dir()):
            entry.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
