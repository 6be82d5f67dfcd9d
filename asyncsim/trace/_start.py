"""When the run of a log began: its times are counted from there, or refused where they cannot be."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import finite
from asyncsim.trace._error import TraceError, refuse

Start = float | Literal["first"] | None

LATEST = 2.0**53  # seconds: beyond it, a float64 cannot tell one second from the next
# Seconds, three years: a log that begins later, and is shorter, counts from another year, as Unix time does.
EPOCH = 1e8
# A log in which every worker commits this often does not begin this many times as late as it is long.
FAR = 10


def start_of(table: Mapping[str, NDArray[Any]], start: Start) -> float:
    """What must be subtracted from the times of a log."""
    if isinstance(start, str) and start != "first":
        remedy = 'Give the time at which the run began, or "first" for the earliest time in the log.'
        raise ValueError(f"`start` must be a number of seconds or 'first'; got {start!r}. {remedy}")
    if start is not None and start != "first":
        return finite("start", start)
    times = _times(table)
    name, row = _earliest(times)
    if row is None:
        return 0.0
    first = float(times[name][row])
    if start == "first":
        return first
    if _counts_from_elsewhere(first, table):
        remedy = 'Give `start` (`--start`): when the run began, "first" for this very time, or 0 if it is right.'
        raise TraceError(name, "must count from the start of the run", remedy, row=row, value=first)
    return 0.0


def require_plausible(table: Mapping[str, NDArray[Any]]) -> None:
    """Refuse times beyond `LATEST`."""
    for name, values in _times(table).items():
        bad = np.isfinite(values) & (np.abs(values) > LATEST)
        refuse(bad, name, values, f"be at most {LATEST:.1g} seconds", "Correct it, or give times in seconds.")


def since(start: float, table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The columns with times counted from `start`."""
    return dict(table) | {name: values - start for name, values in _times(table).items() if start}


def _times(table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: values for name, values in table.items() if name.endswith("_time")}


def _earliest(times: Mapping[str, NDArray[np.float64]]) -> tuple[str, int | None]:
    """Column and row of the earliest finite time; the row is None if there is none."""
    least, place = np.inf, ("", None)
    for name, values in times.items():
        known = np.where(np.isfinite(values), values, np.inf)
        if len(known) and known.min() < least:
            least, place = known.min(), (name, int(known.argmin()))
    return place


def _counts_from_elsewhere(first: float, table: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the earliest time is too late to be one of a run that began at 0."""
    done = table["commit_time"][np.isfinite(table["commit_time"])]
    span = done.max(initial=first) - first
    if first > max(EPOCH, span):
        return True
    return span > 0 and first > FAR * span and len(done) >= FAR * len(np.unique(table["worker"]))
