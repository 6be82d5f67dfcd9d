"""Memory and cores of this machine, and sizes and durations in words."""

import math
import os
from pathlib import Path

# Limits of control groups, as containers and batch systems set them: version 2, version 1.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
TIMES = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def total() -> float:
    """Return the bytes of memory that this process may use: the machine's, or its container's if that has less."""
    try:
        machine = float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Not every system has these names.
        machine = math.inf
    return min([machine if machine > 0 else math.inf, *map(_limit, LIMITS)])


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def require(need: float, subject: str, remedy: str, have: float | None = None) -> None:
    """Refuse a need that exceeds this machine's memory."""
    have = total() if have is None else have
    if need > have:
        raise ValueError(f"{subject} takes at least {size(need)} of memory; this machine has {size(have)}. {remedy}")


def size(number: float) -> str:
    """Return a number of bytes as people read it."""
    power = int(math.log10(min(max(number, 1), 1000 ** (len(UNITS) - 1))) // 3)
    return f"{number / 1000**power:.3g} {UNITS[power]}"


def duration(seconds: float) -> str:
    """Return a number of seconds as people read it."""
    length, unit = next(((length, unit) for length, unit in TIMES if seconds >= length), TIMES[-1])
    return f"{seconds / length:.3g} {unit}"


def _limit(path: str) -> float:
    """Return the limit in a file of the system, infinite if there is none."""
    try:
        return float(Path(path).read_text())
    except (OSError, ValueError):  # There is no such file, or it says "max".
        return math.inf
