"""Durations in place of stamps: the log of a job's start and of how long it took, as timelines of tasks have them."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace._columns import IntColumn, TimeColumn, refuse, require_length
from asyncsim.trace._values import as_durations

DURATION = "duration"  # a column of a log, which no trace has
ROUNDING = 1e-6  # seconds, by which a sum of Unix times may miss a stamp of the same moment
OF_COMPUTING = (("start_time", "finish_time", 1), ("finish_time", "start_time", -1))  # known, unknown, sign
OF_JOBS = (("read_time", "commit_time", 1), ("commit_time", "read_time", -1))

Times = Mapping[str, NDArray[Any]]


def add_stamps(times: Times, worker: IntColumn, values: Any, unit: str, *, is_named: bool) -> tuple[Times, list[str]]:
    """Return the columns of times that follow from durations, and notes.

    A duration is that of the computation where its start or its finish is known, and else of the job from the read to
    the commit. Without a time of the commit, a job commits when it has finished.

    Args:
        times: Columns of the log, in seconds.
        worker: (rows,) who committed.
        values: Durations, as the log has them.
        unit: Unit of those that are numbers.
        is_named: Whether the user says that these are durations. Else those that do not fit are ignored.
    """
    seconds = as_durations(DURATION, values, unit)
    require_length(DURATION, seconds, len(worker))
    ways = OF_COMPUTING if {"start_time", "finish_time"} & times.keys() else OF_JOBS[: 1 + is_named]
    way = next(
        ((known, unknown, sign) for known, unknown, sign in ways if known in times and unknown not in times), None
    )
    if way is None:
        return {}, [f"Column {DURATION!r} was ignored."]
    known, unknown, sign = way
    stamps = times[known] + sign * seconds
    of_job = [times[name] for name in ("read_time", "arrive_time", "commit_time") if name in times and name != known]
    added = {unknown: _snap(stamps, 0.0, *of_job)}
    if "commit_time" not in {**times, **added}:
        added["commit_time"] = added.get("finish_time", times.get("finish_time", stamps))
    if not is_named and not _fit({**times, **added}, worker):
        return {}, [
            f"Column {DURATION!r} was ignored: with it, jobs end after `commit_time` or begin before they read."
        ]
    refuse(seconds < 0, DURATION, seconds, "not be negative", "Correct it.")
    names = " and ".join(f"`{name}`" for name in added)
    return added, [f"{names} {'is' if len(added) == 1 else 'are'} `{known}` {'+' if sign > 0 else '-'} `{DURATION}`."]


def touch(times: Times, worker: IntColumn) -> Times:
    """Return the columns of times in which reads and starts are at the worker's previous commit if they nearly are.

    Sums, and columns of different units, miss it by rounding.
    """
    before = _previous_commit(times, worker)
    begins = {name: times[name] for name in ("read_time", "start_time") if name in times}
    return {**times, **{name: _snap(values, before) for name, values in begins.items()}}


def _fit(times: Times, worker: IntColumn) -> bool:
    """Return whether times of each job are in order, and begin after those of the worker's job before."""
    stamps = [times[name] for name in ("read_time", "start_time", "finish_time", "commit_time") if name in times]
    overlaps = bool((stamps[0] < _previous_commit(times, worker) - ROUNDING).any())
    return not overlaps and all(bool((before <= after).all()) for before, after in pairwise(stamps))


def _previous_commit(times: Times, worker: IntColumn) -> TimeColumn:
    """Return when the worker of each row committed before, NaN for its first row."""
    ends = times["commit_time"]
    rows = np.lexsort((ends, worker))
    before = np.full(len(ends), np.nan)
    before[rows[1:]] = np.where(np.diff(worker[rows]) == 0, ends[rows[:-1]], np.nan)
    return before


def _snap(stamps: TimeColumn, *recorded: Any) -> TimeColumn:
    """Return stamps moved to recorded ones that they miss by rounding."""
    for other in recorded:
        stamps = np.where(np.abs(stamps - other) <= ROUNDING, other, stamps)
    return stamps
