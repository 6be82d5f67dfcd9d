"""Claims on pieces of work, among any number of processes and hosts that share a folder.

Each process has a file that says who it is, whose time of change it renews as long as it lives; a claim is another name
of that file (a hard link), which only one process can make. A claim whose process is known to be dead, or that has not
been renewed for a while, is void: whoever moves it away first may claim anew. So two processes never do the same work
for long, and a dead one's work is taken up. No lock of the operating system is needed, which network file systems have
or have not; and no clock but the file system's own.
"""

import atexit
import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from asyncsim.files import read_json
from asyncsim.folders.holders import RENEWED, is_void, this_process

SUFFIX = ".json"
OWN = ".process."  # beginning of the name of a process's own file
_blocks: set[object] = set()  # of this process, whatever their threads, that hold claims or are about to
NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def claimed(folder: Path, names: Iterable[str]) -> Iterator[bool]:
    """Claim all of these names for the block, or none.

    Args:
        folder: Where claims are; it must exist.
        names: What is claimed, each the name of a file without its ending.

    Yields:
        Whether they are this process's; False if another one holds one of them.

    Raises:
        OSError: If the folder cannot be written.
    """
    held: list[str] = []
    mine = False
    block = object()
    _blocks.add(block)
    try:
        for name in names:
            path = os.path.join(folder, f"{name}{SUFFIX}")
            mine = _create(path)
            if not mine:
                break
            held.append(path)
        if not mine:
            _remove(held)
            held.clear()
        yield mine
    finally:
        _remove(held)
        _blocks.remove(block)


def is_held() -> bool:
    """Whether this process holds a claim, or is about to."""
    return bool(_blocks)


def holders(folder: Path) -> dict[str, dict[str, Any]]:
    """Name -> who holds it, for every claim that is not void."""
    found = {}
    for path in folder.glob(f"*{SUFFIX}"):
        if not is_void(path, holder := read_json(path)):
            found[path.name.removesuffix(SUFFIX)] = holder if isinstance(holder, dict) else {}
    return found


def clear(folder: Path) -> None:
    """Remove what dead processes have left."""
    for path in folder.glob(f"*{SUFFIX}"):
        _clear(path)
    for path in folder.glob(f"{OWN}*"):
        with suppress(OSError):
            if is_void(path, read_json(path)):
                path.unlink()


def _create(path: str) -> bool:
    """Create a claim, in place of one that is void."""
    for _ in range(3):
        own = _identity(os.path.dirname(path), os.getpid())
        try:
            own.link(path)
        except FileExistsError:
            if not _clear(Path(path)):
                return False
        except FileNotFoundError:  # somebody has cleared the folder
            _identity.cache_clear()
        else:
            return True
    return False


class _Identity:
    """The file of a process in a folder of claims, renewed as long as the process lives.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str) -> None:
        self.content = json.dumps(this_process()).encode()
        self.path = os.path.join(folder, f"{OWN}{secrets.token_hex(8)}")
        self.links = True
        with open(self.path, "xb") as file:
            file.write(self.content)
        threading.Thread(target=self._renew, daemon=True).start()
        atexit.register(_remove, [self.path])

    def link(self, path: str) -> None:
        """Make a claim; a file of its own where there are no hard links, which nobody renews."""
        if self.links:
            try:
                os.link(self.path, path)
                return
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                self.links = False
        with open(path, "xb") as file:
            file.write(self.content)

    def _renew(self) -> None:
        while True:
            time.sleep(RENEWED)
            try:
                os.utime(self.path)
            except OSError:
                return


@lru_cache(maxsize=16)
def _identity(folder: str, process: int) -> _Identity:
    del process  # The key: a forked process has a file of its own.
    return _Identity(folder)


def _clear(path: Path) -> bool:
    """Remove a void claim; False if it is not void, or another process was faster."""
    holder = read_json(path)
    if not path.exists():
        return True
    if not is_void(path, holder):
        return False
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return True
    moved = read_json(aside)
    if moved != holder:  # a new claim was made in between: it is put back, unless there is a newer one
        with suppress(OSError):
            os.link(aside, path)
    aside.unlink(missing_ok=True)
    return moved == holder


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)
