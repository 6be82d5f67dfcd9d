"""Leases: who works on a piece of a store or in a folder, among any number of processes and hosts that share it.

A lease is a file that only one process can create. It says who holds it and for which batch, and its holder renews its
time of change as long as it lives. A lease is void if its process is known to be dead (the host, the process number and
the start of the process tell it from all others) or, on another host or in another container, if it has not been
renewed for a while by the clock of the file system. Whoever moves a void lease away first may take it. Therefore no
lock of the operating system is needed, which network file systems do not always have, and no clock of a host.

`filelock.SoftFileLease` (4.2) does not fit: on file systems that refuse RENAME_EXCHANGE, such as NFS, it never takes
over the lease of a killed process.
"""

import errno
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from asyncsim.store._files import digest, read_json, temporary_path

SUFFIX = ".json"
SHOWN = 60  # characters of a command
LASTS = 60.0  # seconds for which a process on another host counts as alive that does not renew its file
RENEWED = LASTS / 4  # seconds from one renewal to the next: a slow file system may miss one
NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
PAUSE = 0.02  # seconds until a lease that another process holds is tried again

_held: set[str] = set()  # files of this process, which one thread renews
_blocks: set[object] = set()  # of this process, whatever their threads, that hold leases or are about to


@contextmanager
def leased(folder: Path, names: Iterable[str]) -> Iterator[bool]:
    """Hold one lease for a batch of names for the block, or False if another process, or thread, holds any of them."""
    batch = [*names]
    path = folder / f"{batch[0] if len(batch) == 1 else digest(*batch)}{SUFFIX}"
    with held(path, batch=batch) as mine:
        if mine and not any(name in batch for name in holders(folder, besides=path)):
            yield True
            return
    yield False


@contextmanager
def held(path: Path, patience: float = 0.0, **about: Any) -> Iterator[bool]:
    """Hold the lease of this path for the block, or False if another one does after `patience` seconds."""
    block, end = object(), time.monotonic() + patience
    _blocks.add(block)
    mine = False
    try:
        while not (mine := _create(path, about) or (_clear(path) and _create(path, about))):
            if time.monotonic() >= end:
                break
            time.sleep(PAUSE)
        yield mine
    finally:
        if mine:
            _give_back(path)
        _blocks.remove(block)


def is_held() -> bool:
    """Whether this process holds a lease, or is about to."""
    return bool(_blocks)


def holders(folder: Path, besides: Path | None = None) -> dict[str, dict[str, Any]]:
    """Name -> who holds it, for every lease that is not void."""
    found = {}
    for path in folder.glob(f"*{SUFFIX}"):
        if path != besides and not is_void(path, holder := read_json(path)):
            known = holder if isinstance(holder, dict) else {}
            found |= dict.fromkeys(known.get("batch", [path.name.removesuffix(SUFFIX)]), known)
    return found


def clear(folder: Path) -> None:
    """Remove the leases of dead processes."""
    for path in folder.glob(f"*{SUFFIX}"):
        _clear(path)
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            if is_void(path, read_json(path)):
                path.unlink()


def live_holder(file: Path) -> dict[str, Any] | None:
    """The process that holds a lease, or None if there is none, or it has ended."""
    try:
        holder = read_json(file)
        return holder if isinstance(holder, dict) and not is_void(file, holder) else None
    except OSError:
        return None


def this_process() -> dict[str, Any]:
    """The host, number and start of this process, which tell it from all others, and its command."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else "python"
    return {
        "host": _host(),
        "process": os.getpid(),
        "started": _start_of(os.getpid()),
        "since": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        "command": command if len(command) <= SHOWN else f"{command[: SHOWN - 1]}…",
    }


def is_void(file: Path, holder: Any) -> bool:
    """Whether the process that a file names is dead, or has not renewed it. An unreadable file is void when old."""
    if isinstance(holder, Mapping) and is_here(holder):
        return not is_alive(holder)
    try:
        return _time_of(file.parent) - file.stat().st_mtime > LASTS
    except FileNotFoundError:
        return False


def is_here(holder: Mapping[str, Any]) -> bool:
    """Whether a process is, or was, on this host and not in another container."""
    return holder.get("host") == _host()


def is_alive(holder: Mapping[str, Any]) -> bool:
    """Whether a process of this host is alive: the very one, and not another that has been given its number."""
    process = holder.get("process")
    if not isinstance(process, int) or process <= 0:
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        pass
    return _start_of(process) == holder.get("started")


def in_words(holder: Mapping[str, Any]) -> str:
    """Who a process is, for a message."""
    since = f" since {holder['since']} ({holder['command']})" if {"since", "command"} <= holder.keys() else ""
    return f"process {holder.get('process')} on {host_of(holder)}{since}"


def host_of(holder: Mapping[str, Any]) -> str:
    """The name of a process's host."""
    return str(holder.get("host", "")).partition(" ")[0] or "an unknown host"


def _create(path: Path, about: Mapping[str, Any]) -> bool:
    """Create a lease, unless there is one, and renew it as long as it is held."""
    content = json.dumps({**_known(os.getpid()), **about}).encode()
    own = temporary_path(path)
    try:
        own.write_bytes(content)
        try:
            os.link(own, path)  # there with its content, or not at all
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            with open(path, "xb") as file:
                file.write(content)
    except FileExistsError:
        return False
    finally:
        _give_back(own)
    _held.add(str(path))
    _renewing(os.getpid())
    return True


def _give_back(path: Path) -> None:
    _held.discard(str(path))
    with suppress(OSError):
        os.unlink(path)


@cache
def _known(process: int) -> dict[str, Any]:
    del process  # The key: a forked process is another one.
    return this_process()


@cache
def _renewing(process: int) -> None:
    del process  # The key: a forked process has no threads.
    threading.Thread(target=_renew_all, daemon=True).start()


def _renew_all() -> None:
    while True:
        time.sleep(RENEWED)
        for path in _held.copy():
            with suppress(OSError):
                os.utime(path)


def _clear(path: Path) -> bool:
    """Remove a void lease, or False if it is not void, or another process was faster."""
    holder = read_json(path)
    if not path.exists():
        return True
    if not is_void(path, holder):
        return False
    aside = temporary_path(path)
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return True
    moved = read_json(aside)
    if moved != holder:  # a new one was made in between: it is put back, unless there is a newer one
        with suppress(OSError):
            os.link(aside, path)
    aside.unlink(missing_ok=True)
    return moved == holder


def _time_of(folder: Path) -> float:
    """The present time by the clock of the file system, or by this host's where nothing can be written."""
    probe = temporary_path(folder / "clock")
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _start_of(process: int) -> str:
    """When a process started, as the system tells it, or "" where it does not, or the process has ended."""
    try:
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    state, start = after_name[0], after_name[19]
    return "" if state == "Z" else start  # a zombie does no work


@cache
def _host() -> str:
    """The host and, where there are containers, the space in which process numbers count."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}".strip()
