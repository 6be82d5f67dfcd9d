"""Who holds a lock or a claim, and whether that process is still at work: the one test of it.

A process is known by its host, its number and its start: a number alone may have been given to another process. Of a
process on this host the system tells whether it lives. One on another host, or in another container, cannot be asked:
it renews the time of its file as long as it lives, so that a file that is old by the clock of its file system belongs
to a dead one.
"""

import os
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from asyncsim.files import read_json

LASTS = 60.0  # seconds for which a process on another host counts as alive that does not renew its file
RENEWED = LASTS / 4  # seconds from one renewal to the next: a slow file system may miss one


def this_process() -> dict[str, Any]:
    """What tells this process from all others, on whatever host.

    Example:
        >>> is_here(this_process()), is_alive(this_process())
        (True, True)
    """
    return {"host": _host(), "process": os.getpid(), "started": _start_of(os.getpid())}


def live_holder(file: Path) -> dict[str, Any] | None:
    """The process that holds a lock or claim, as its file tells; None if there is none, or it has ended."""
    try:
        holder = read_json(file)
        return holder if isinstance(holder, dict) and not is_void(file, holder) else None
    except OSError:
        return None


def is_void(file: Path, holder: Any) -> bool:
    """Whether the process that a file names is known to be dead, or has not renewed the file for a while.

    Args:
        file: The file.
        holder: Its content, whatever that is: one that cannot be read, because it is being written, is void when old.
    """
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
    """Who a process is, for a message.

    Example:
        >>> in_words({"host": "gpu3 pid:[4026531836]", "process": 77, "since": "2026-11-01 09:30", "command": "sweep"})
        'process 77 on gpu3 since 2026-11-01 09:30 (sweep)'
    """
    since = f" since {holder['since']} ({holder['command']})" if {"since", "command"} <= holder.keys() else ""
    return f"process {holder.get('process')} on {host_of(holder)}{since}"


def host_of(holder: Mapping[str, Any]) -> str:
    """The name of a process's host."""
    return str(holder.get("host", "")).partition(" ")[0]


def _time_of(folder: Path) -> float:
    """The present time by the clock of the file system; by this host's where nothing can be written."""
    probe = folder / f".clock.{secrets.token_hex(8)}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _start_of(process: int) -> str:
    """When a process started, as the system tells it; "" where it does not, or the process has ended."""
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
