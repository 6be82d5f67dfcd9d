"""Leases: who works on a piece of a store or in a folder, among any number of processes and hosts that share it.

A lease is a file that only one process can create. It says who holds it and for which batch, and its holder renews its
time of change as long as it lives. A lease is void if its process is known to be dead (the host, the process number and
the start of the process tell it from all others) or, on another host or in another container, if it has not been
renewed for a while by the clock of the file system. A time in the future, as a clock that was set back leaves it, is
set to the present by whoever sees it, so that such a lease ends too, and so does a damaged one, which names no holder.
Whoever moves a void lease away first may take it. Therefore no lock of the operating system is needed, which network
file systems do not always have, and no clock of a host.

`filelock.SoftFileLease` (4.2) does not fit: on file systems that refuse RENAME_EXCHANGE, such as NFS, it never takes
over the lease of a killed process.
"""

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

from asyncsim._checks import truncate
from asyncsim.files._atomic import temporary_path
from asyncsim.files._hash import hash_parts
from asyncsim.files._json import read_json

SUFFIX = ".json"
MOST_CHARACTERS = 60  # characters of a command
LEASE_SECONDS = 60.0  # seconds for which a process on another host counts as alive that does not renew its file
RENEWAL_SECONDS = LEASE_SECONDS / 4  # seconds from one renewal to the next: a slow file system may miss one
CLOCK_TOLERANCE = 1.0  # seconds in the future that two readings of the clock of a coarse file system may differ
LARGEST = 1 << 24  # bytes of a lease, far more than that of the longest batch
BEGINNING = b'{"host": '  # first bytes of every lease
PAUSE = 0.02  # seconds until a lease that another process holds is tried again

_held: set[str] = set()  # paths of the leases that this process holds, which one thread renews
_acquisitions: set[object] = set()  # one object for each `with hold(…)` that has its lease or still tries to get it


@contextmanager
def hold_batch(folder: Path, names: Iterable[str]) -> Iterator[bool]:
    """Hold one lease for a batch of names for the block, or False if another process, or thread, holds any of them."""
    batch = [*names]
    path = folder / f"{batch[0] if len(batch) == 1 else hash_parts(*batch)}{SUFFIX}"
    with hold(path, batch=batch) as acquired:
        if acquired and not any(name in batch for name in holders(folder, ignored=path)):
            yield True
            return
    yield False


@contextmanager
def hold(path: Path, timeout: float = 0.0, **about: Any) -> Iterator[bool]:
    """Hold the lease of this path for the block, or False if another one does after `timeout` seconds."""
    acquisition, end = object(), time.monotonic() + timeout
    _acquisitions.add(acquisition)
    acquired = False
    try:
        while not (acquired := _create(path, about) or (_remove_if_void(path) and _create(path, about))):
            if time.monotonic() >= end:
                break
            time.sleep(PAUSE)
        yield acquired
    finally:
        if acquired:
            _release(path)
        _acquisitions.remove(acquisition)


def is_held() -> bool:
    """Tell whether this process holds a lease, or is about to."""
    return bool(_acquisitions)


def holders(folder: Path, ignored: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return name -> holder of every lease that is not void."""
    by_name = {}
    for path in folder.glob(f"*{SUFFIX}"):
        if path != ignored and not is_void(path, holder := read_holder(path)):
            batch = holder.get("batch")
            if not isinstance(batch, list) or not all(isinstance(name, str) for name in batch):
                batch = [path.name.removesuffix(SUFFIX)]
            by_name |= dict.fromkeys(batch, holder)
    return by_name


def read_holder(path: Path) -> dict[str, Any]:
    """Read who holds a lease, or {} if it is missing, damaged or no lease."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return {}
        holder = read_json(path)
    except OSError:  # Another user's file may be unreadable.
        return {}
    return holder if isinstance(holder, dict) else {}


def is_lease(path: Path) -> bool:
    """Tell whether a file is a lease, or what was left of one when its process was killed or the power was cut."""
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            return BEGINNING.startswith(file.read(len(BEGINNING)).rstrip(b"\0"))
    except OSError:
        return False


def remove_void(folder: Path) -> None:
    """Remove the leases of dead processes."""
    for path in filter(is_lease, folder.glob(f"*{SUFFIX}")):
        _remove_if_void(path)
    for path in filter(is_lease, folder.glob(".*.tmp")):
        with suppress(OSError):
            if is_void(path, read_holder(path)):
                path.unlink()


def live_holder(file: Path) -> dict[str, Any] | None:
    """Return the process that holds a lease, or None if there is none, or it has ended."""
    holder = read_holder(file)
    return None if not holder or is_void(file, holder) else holder


def this_process() -> dict[str, Any]:
    """Describe this process: host, number and start, which tell it from all others, and its command."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else "python"
    return {
        "host": _host(),
        "process": os.getpid(),
        "started": _start_of(os.getpid()),
        "since": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        "command": truncate(command, MOST_CHARACTERS),
    }


def is_void(file: Path, holder: Mapping[str, Any]) -> bool:
    """Tell whether the process that a file names is dead, or has not renewed it. One that names none ends when old."""
    if is_here(holder):
        return not is_alive(holder)
    now = _read_time(file.parent)
    try:
        age = now - file.lstat().st_mtime
        if age < -CLOCK_TOLERANCE:
            _set_time(file, now)
    except OSError:
        return False
    return age > LEASE_SECONDS


def is_here(holder: Mapping[str, Any]) -> bool:
    """Tell whether a process is, or was, on this host and not in another container."""
    return holder.get("host") == _host()


def is_alive(holder: Mapping[str, Any]) -> bool:
    """Tell whether a process of this host is alive: the very one, and not another that has been given its number."""
    process = holder.get("process")
    if not isinstance(process, int) or process <= 0:
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # A process of another user is alive.
        pass
    return _start_of(process) == holder.get("started")


def in_words(holder: Mapping[str, Any]) -> str:
    """Describe a process, for a message."""
    since, command = (_printable(holder.get(name, "")) for name in ("since", "command"))
    return f"{name_of(holder)}{f' since {since} ({command})' if since and command else ''}"


def name_of(holder: Mapping[str, Any]) -> str:
    """Return the number and the host of a process."""
    return f"process {_printable(holder.get('process', '?'))} on {host_of(holder)}"


def host_of(holder: Mapping[str, Any]) -> str:
    """Return the name of a process's host."""
    return _printable(holder.get("host", "")).partition(" ")[0] or "an unknown host"


def _printable(value: object) -> str:
    """Convert a value of a lease, which may be damaged, to a short text that every terminal shows."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(value)[:MOST_CHARACTERS])


def _create(path: Path, about: Mapping[str, Any]) -> bool:
    """Create a lease, unless there is one, and renew it as long as it is held."""
    content = json.dumps({**_describe_process(os.getpid()), **about}).encode()
    temporary = temporary_path(path)
    try:
        temporary.write_bytes(content)
        _create_exclusively(temporary, path, content)
    except FileExistsError:
        return False
    finally:
        _release(temporary)
    _held.add(str(path))
    _renewing(os.getpid())
    return True


def _create_exclusively(source: Path, path: Path, content: bytes) -> None:
    """Create a file unless there is one: with its content, or not at all where the file system has hard links."""
    try:
        os.link(source, path)
    except FileExistsError:
        raise
    except OSError:  # File systems without hard links differ in their error.
        with open(path, "xb", buffering=0) as file:
            try:
                file.write(content)
            except BaseException:
                path.unlink(missing_ok=True)
                raise


def _release(path: Path) -> None:
    _held.discard(str(path))
    with suppress(OSError):
        os.unlink(path)


@cache
def _describe_process(process: int) -> dict[str, Any]:
    del process  # The key: a forked process is another one.
    return this_process()


@cache
def _renewing(process: int) -> None:
    del process  # The key: a forked process has no threads.
    threading.Thread(target=_renew_all, daemon=True).start()


def _renew_all() -> None:
    while True:
        time.sleep(RENEWAL_SECONDS)
        for path in _held.copy():
            with suppress(OSError):
                _set_time(Path(path), _read_time(Path(path).parent))


def _remove_if_void(path: Path) -> bool:
    """Remove a void lease, and return whether it is gone. A file that is no lease is only moved aside.

    False if the lease is not void, or another process was faster.
    """
    holder = read_holder(path)
    if not os.path.lexists(path):
        return True
    if not is_void(path, holder):
        return False
    aside = temporary_path(path)
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return True
    moved = read_holder(aside)
    if moved != holder:  # Another process has made a new lease meanwhile: it is put back, unless there is a newer one.
        with suppress(OSError):
            _create_exclusively(aside, path, aside.read_bytes())
    if is_lease(aside):
        aside.unlink(missing_ok=True)
    return moved == holder


def _set_time(file: Path, now: float) -> None:
    """Set the time of change of a file to the present by the file system's clock, and not by this host's."""
    try:
        os.utime(file, (now, now))
    except PermissionError:  # Only the owner of a file may set any time, but whoever may write it may set the present.
        os.utime(file)


def _read_time(folder: Path) -> float:
    """Read the present time by the clock of the file system, or by this host's where nothing can be written."""
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
    """Read when a process started, or "" if the system does not tell, or the process has ended."""
    try:
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    state, start = after_name[0], after_name[19]
    return "" if state == "Z" else start  # A zombie has ended.


@cache
def _host() -> str:
    """Return the host and, where there are containers, the space in which process numbers count."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}".strip()
