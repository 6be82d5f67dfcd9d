"""Findings about a log of rollouts, in sentences: restarts, lost and doubled rows, and clocks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace._columns import TimeColumn
from asyncsim.trace._findings import describe_pauses
from asyncsim.trace._log import Log
from asyncsim.trace._values import Times

CLOCKS = 0.01  # of the mean time of a step, before its end: more openings than this share of it are late by a clock
MANY = 5.0  # times as many openings as by chance
LEAST_OPENINGS = 10
MOSTLY = 0.99  # share of the groups that are ready, or opened, at a time of their own
LEAST_STEPS = 10  # by which the usual number of groups of a step is known
MOST_BREAKS = 3  # in the order of rows, which a clock or a file that was joined explains
MOST_NAMED = 3  # gaps in a sentence


def find_losses(opened: TimeColumn, ready: TimeColumn, trained: TimeColumn, pauses: NDArray[np.float64]) -> TimeColumn:
    """Return when each group was lost: at the begin of a pause that nothing opened before it survived, else never."""
    lost = np.full(len(opened), np.inf)
    for begin, end in pauses:
        before = (opened <= begin) & ~(trained <= begin) & np.isinf(lost)
        survives = np.isfinite(trained) | (np.isfinite(ready) & (ready >= end))
        if not (before & survives).any():
            lost[before] = begin
    return lost


def note_pauses(pauses: NDArray[np.float64], lost: int) -> list[str]:
    """Report times without any step that are far longer than all others, and the groups that they cost."""
    groups = "1 group that was opened before was never trained, and counts"
    if lost > 1:
        groups = f"{lost:,} groups that were opened before were never trained, and count"
    when = "it begins" if len(pauses) == 1 else "they begin"
    also = f" {groups} as lost when {when}: the job seems to have been restarted." if lost else ""
    return [f"{note}{also}" for note in describe_pauses(pauses, "trained", "the groups")]


def note_skipped(numbers: dict[str, TimeColumn]) -> list[str]:
    """Report versions that the log lacks."""
    version = np.unique(numbers.get("version", np.zeros(0)))
    version = version[np.isfinite(version)]
    before = np.flatnonzero(np.diff(version) > 1)
    if not len(before) or (version % 1 != 0).any():  # Stamps in place of numbers leave out most.
        return []
    gaps = [(int(version[row]) + 1, int(version[row + 1]) - 1) for row in before[:MOST_NAMED]]
    named = ", ".join(f"{first}" if first >= last else f"{first} to {last}" for first, last in gaps)
    more = f" and {len(before) - MOST_NAMED} gaps more" if len(before) > MOST_NAMED else ""
    return [f"The log lacks `version` {named}{more}: rows are lost, and staleness counts the other steps alone."]


def note_sizes(version: NDArray[np.int32]) -> list[str]:
    """Report steps with other numbers of groups than most have. The last one may be cut off."""
    sizes = np.bincount(version)[:-1]
    if len(sizes) < LEAST_STEPS:
        return []
    usual = int(np.bincount(sizes).argmax())
    fewer, more = int((sizes < usual).sum()), int((sizes > usual).sum())
    if not fewer + more or 2 * (fewer + more) >= len(sizes):
        return []
    counts = [f"{count:,} have {word}" for count, word in ((fewer, "fewer"), (more, "more")) if count]
    cause = "rows are lost" if fewer else "rows are doubled"
    return [f"Most steps train {usual} groups, and {' and '.join(counts)}: {cause}, or the size of a batch varies."]


def note_order(log: Log, times: Times, numbers: dict[str, TimeColumn]) -> list[str]:
    """Say where steps of a log in their order end before earlier ones: a clock was set back, or files were joined."""
    trained = times.columns["trained"]
    done = np.flatnonzero(np.isfinite(trained))
    back = np.flatnonzero(np.diff(trained[done]) < 0) + 1
    parts = np.diff(back, prepend=0, append=len(done))  # One late row is no clock.
    if "version" in numbers or not 0 < len(back) <= MOST_BREAKS or parts.min() < LEAST_STEPS:
        return []
    location = log.source.locate(int(done[back[0]]))
    by = trained[done[back[0] - 1]] - trained[done[back[0]]]
    return [
        f"`trained` steps back by {by:.3g} s in {location.unit} {location.number}: a clock was set back, or the log "
        "holds two parts. Steps were ordered by it. If they overlap, correct the times or log `version`."
    ]


def note_clocks(columns: dict[str, Any], versions_are_known: bool) -> list[str]:
    """Report openings that cluster just before the end of a step: they read the version after it, by another clock."""
    ends = columns["commit_time"][columns["closes_step"]]
    opened = columns["read_time"][columns["read_time"] > 0]
    if versions_are_known or len(ends) < 2 or len(opened) < LEAST_OPENINGS:
        return []
    period = float(np.diff(ends).mean())
    wait = ends[np.minimum(np.searchsorted(ends, opened, side="right"), len(ends) - 1)] - opened
    just_before = (wait > 0) & (wait < CLOCKS * period)
    if just_before.sum() < max(LEAST_OPENINGS, MANY * CLOCKS * len(opened)):
        return []
    return [
        f"{just_before.sum():,} of {len(opened):,} groups were opened within {CLOCKS * period:.3g} s before the end of "
        "a step: if the clocks of rollouts and trainer differ, they read the version after it. Log `read_version`."
    ]


def note_doubled(log: Log, times: Times, numbers: dict[str, TimeColumn]) -> list[str]:
    """Report groups that stand in the log twice, where `ready` or `opened` tells all others apart."""
    done = np.flatnonzero(np.isfinite(times.columns["trained"]))
    columns = [column[done] for column in (*times.columns.values(), *numbers.values())]
    if not len(done):
        return []
    _, first, times_logged = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_counts=True)
    name = "ready" if "ready" in times.columns else "opened"
    moment = times.columns[name][done]
    # Groups that are opened together, as all are at the start, may be alike.
    begins = moment[moment == moment.min()] if name == "opened" else moment[:0]
    again = np.setdiff1d(np.arange(len(done)), first)
    # Where nothing varies, all groups of a step are alike.
    steps = len(np.unique(times.columns["trained"][done]))
    everything = len(first) >= max(LEAST_STEPS, 2 * steps) and times_logged.min() > 1
    if not everything:
        again = again[~np.isin(moment[again], begins)]
        own = moment[first][~np.isin(moment[first], begins)]
        if not len(again) or len(np.unique(own)) < MOSTLY * len(own):
            return []
    at = log.source.locate(int(done[again[0]]))
    rows_are = "1 row is" if len(again) == 1 else f"{len(again):,} rows are"
    return [f"{rows_are} repeated, first in {at.unit} {at.number}: if groups were logged twice, remove them."]
