"""Findings about a log, in sentences: pauses, doubled lines, a coarse clock, who came late or left, and barriers."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from asyncsim._metrics import counted
from asyncsim.trace._columns import BoolColumn, IntColumn, Tables, TimeColumn, list_workers, previous_own_row
from asyncsim.trace._presence import LEAST_GAPS, LONGER, Presence, presence

MOST_TIES = 0.1  # share of commits at the time of the commit before
LEAST_ROUNDS = 5
REMEMBERED = 0.5  # correlation of workers' places in successive rounds, below which they wait for each other
MOST_AWAY = 5  # jobs that may be none
LEAST_WAIT = 0.2  # of a median job, which a worker waits for its next read if rows are lost
MOST_FAR = 0.1  # share of reads that come so late, of a log that lacks rows
LEAST_EARLY = 3  # commits, of which chance makes three in a thousand logs this much sooner than the others
SOONER = 10.0  # times
CONSTANT = 1e-6  # relative spread of durations that differ by rounding only

AnyTrace = TypeVar("AnyTrace", bound=Tables)


def with_findings(trace: AnyTrace, present: Presence | None) -> AnyTrace:
    """Return a trace that was read from a log, with notes on what the log shows. `present` is computed if it is not."""
    notes = findings(trace, present or presence(trace.worker, trace.commit_time, trace.workers))
    return replace(trace, notes=tuple(dict.fromkeys((*trace.notes, *notes)))) if notes else trace


def findings(trace: Tables, presence: Presence) -> list[str]:
    """Write sentences about a log whose workers were present as `presence` says."""
    before = previous_own_row(trace.worker)
    jobs = (trace.commit_time - trace.commit_time[before])[before >= 0]
    notes = [*describe_pauses(presence.pauses), *_late(trace, presence), *_successors(trace, presence)]
    notes += [] if len(presence.pauses) else _gaps(trace, before)
    if not is_constant(jobs):
        notes += [
            *([] if len(presence.pauses) else _away(trace)),
            *_doubled(jobs),
            *_early(jobs),
            *_ties(np.diff(trace.commit_time)),
        ]
    return [*notes, *_departed(trace, presence), *find_rounds(trace, jobs)]


def is_constant(times: TimeColumn) -> bool:
    """Return whether times differ by rounding only."""
    return not len(times) or float(times.max() - times.min()) <= CONSTANT * float(times.max())


def describe_pauses(pauses: NDArray[np.float64], done: str = "committed", jobs: str = "the jobs") -> list[str]:
    """Report times without any commit that are far longer than all others."""
    times = [f"from {begin:.6g} s to {end:.6g} s" for begin, end in pauses]
    if not times:
        return []
    kind = "a pause" if len(times) == 1 else "pauses"
    return [
        f"Nothing was {done} {', nor '.join(times)}: {kind} of the cluster or of the log. Rates leave "
        f"{'it' if len(times) == 1 else 'them'} out, and {jobs} in between are not fitted."
    ]


def _doubled(jobs: TimeColumn) -> list[str]:
    """Report commits at the time of their worker's previous one."""
    doubled = int((jobs == 0).sum())
    if not doubled:
        return []
    commits, theirs = ("commit comes", "its") if doubled == 1 else ("commits come", "their")
    return [
        f"{doubled:,} {commits} at the very time of {theirs} worker's previous one: if lines are doubled, remove them."
    ]


def _ties(gaps: TimeColumn) -> list[str]:
    """Report a clock that does not resolve the commits."""
    if len(gaps) < LEAST_GAPS or (gaps == 0).mean() <= MOST_TIES:
        return []
    return [
        f"Of the commits {(gaps == 0).mean():.0%} have the same time as the one before: a clock this coarse "
        "hides the server's queue. Log times with their fractions."
    ]


def _late(trace: Tables, presence: Presence) -> list[str]:
    """Report workers that joined late."""
    late = np.flatnonzero(presence.late)
    if not len(late):
        return []
    begin = presence.first[late]
    when = f"at {begin[0]:.6g} s" if len(late) == 1 else f"from {begin.min():.6g} s to {begin.max():.6g} s"
    joiners = f"{list_workers(trace.names, late, 'Worker')} joined late, with a first commit {when}"
    if not first_jobs_are_unknown(trace):
        return [f"{joiners}."]
    whose = "its first job began" if len(late) == 1 else "their first jobs began"
    return [
        f"{joiners}: the log does not show when {whose}, which counts as a typical job before that commit, and is in "
        "no mean of compute times and no fit."
    ]


def first_jobs_are_unknown(trace: Tables) -> bool:
    """Return whether nobody recorded when a worker's first job began. Later ones begin with a commit."""
    return {"read_time", "start_time"} <= {*trace.derived}


def estimated_jobs(trace: Tables) -> BoolColumn:
    """Return which jobs began at a time that nobody recorded and no commit shows: first ones, of workers who were late.

    Of a log that counts from its first commit, they are all first jobs.
    """
    first = previous_own_row(trace.worker) < 0
    if not first_jobs_are_unknown(trace):
        return np.zeros(len(first), np.bool_)
    begins_with_commits = bool((trace.finish_time <= trace.start_time)[first].any())
    return first & (begins_with_commits | (trace.start_time > 0))


def _away(trace: Tables) -> list[str]:
    """Report a few jobs that lasted far longer than all others, where reads are not recorded."""
    before = previous_own_row(trace.worker)
    again = np.flatnonzero(before >= 0)
    if len(again) < LEAST_GAPS or not first_jobs_are_unknown(trace):
        return []
    times = trace.commit_time[again] - trace.commit_time[before[again]]
    longest = np.sort(np.partition(times, -2 - MOST_AWAY)[-2 - MOST_AWAY :]) if len(times) > 2 + MOST_AWAY else times
    far = np.flatnonzero(longest[1:] > LONGER * longest[:-1]) + 1
    if not len(far) or longest[far[-1] - 1] <= 0:
        return []
    rows = again[times >= longest[far[-1]]]
    row = int(rows[0])
    of_worker = list_workers(trace.names, trace.worker[[row]], "Worker")
    others = f", and {counted(len(rows) - 1, 'other gap')} like it" if len(rows) > 1 else ""
    return [
        f"{of_worker} committed nothing from {trace.commit_time[before[row]]:.6g} s to {trace.commit_time[row]:.6g} s"
        f"{others}, {times.max() / longest[far[-1] - 1]:.0f} times as long as any other job: if it was away or rows "
        "are lost, this job is none. Log `read_time`, or give the worker a new name after the gap."
    ]


def _gaps(trace: Tables, before: IntColumn) -> list[str]:
    """Report a few reads that come a job or more after the worker's previous commit, where all others come at it."""
    again = before >= 0
    if "read_time" in trace.derived or again.sum() < LEAST_GAPS:
        return []
    waits = (trace.read_time - trace.commit_time[before])[again]
    jobs = (trace.commit_time - trace.read_time)[again]
    far = waits > LEAST_WAIT * float(np.median(jobs))
    others = waits[~far].max(initial=0.0)
    if not far.any() or far.mean() > MOST_FAR or others > CONSTANT * float(jobs.mean()):
        return []
    row = int(np.flatnonzero(again)[far][0])
    reads = "1 read comes" if far.sum() == 1 else f"{far.sum():,} reads come"
    return [
        f"{reads} long after the worker's previous commit, and all others at it, first that of "
        f"{list_workers(trace.names, trace.worker[[row]])} at {trace.read_time[row]:.6g} s: rows are lost, or workers "
        "were away."
    ]


def _early(times: TimeColumn) -> list[str]:
    """Report a few commits that follow their worker's previous one far sooner than all others."""
    ordered = np.sort(times)
    ordered = ordered[ordered > 0]
    few = slice(LEAST_EARLY, max(LEAST_EARLY, len(ordered) // 10))
    far = np.flatnonzero(ordered[few] > SOONER * ordered[few.start - 1 : few.stop - 1])
    if len(times) < LEAST_GAPS or not len(far):
        return []
    count = LEAST_EARLY + int(far[0])
    return [
        f"{count:,} commits follow their worker's previous one within {ordered[count - 1]:.3g} s, and all others only "
        f"after {ordered[count]:.3g} s: if lines are doubled, with stamps of their own, remove them."
    ]


def _successors(trace: Tables, presence: Presence) -> list[str]:
    """Say how many workers were there at once, if some came only after others had left."""
    most, seen = int(presence.slots().max()) + 1, int(np.isfinite(presence.first).sum())
    if most >= seen:
        return []
    return [
        f"At most {most} of {seen} workers were there at once: some may be others under new names. "
        f"A cluster of this log has {most} workers at a time."
    ]


def _departed(trace: Tables, presence: Presence) -> list[str]:
    """Report workers that seem to have left."""
    gone = np.flatnonzero(presence.left)
    if not len(gone):
        return []
    end = float(trace.commit_time[-1])
    if len(gone) == trace.workers > 1:
        commits = np.bincount(trace.worker, minlength=trace.workers)
        number = "" if np.ptp(commits) else f" after {commits[0]:,} commits each"
        since = f"from {presence.last.min():.6g} s to {presence.last.max():.6g} s"
        return [
            f"All workers seem to have stopped{number}, one after another {since}: no job counts as under way after "
            "the last commit of its worker."
        ]
    single = len(gone) == 1
    since = f" since {presence.last[gone[0]]:.6g} s" if single and presence.last[gone[0]] else ""
    whose = "its" if single else "their"
    return [
        f"{list_workers(trace.names, gone, 'Worker')} committed nothing{since}, of {end:.6g} s: "
        f"{'it seems' if single else 'they seem'} to have left. No job counts as under way after {whose} last commit."
    ]


def find_rounds(trace: Tables, jobs: TimeColumn) -> list[str]:
    """Say if workers seem to wait for each other: each commits once in every round, at a place that has no memory."""
    workers = trace.workers
    rounds = len(trace.worker) // workers
    if workers < 2 or rounds < LEAST_ROUNDS or is_constant(jobs):
        return []
    rows = slice(0, rounds * workers)
    order = trace.worker[rows].reshape(rounds, workers)
    if len(np.unique(order[0])) < workers or not (np.sort(order, axis=1) == np.arange(workers)).all():
        return []
    times = np.take_along_axis(trace.commit_time[rows].reshape(rounds, workers), np.argsort(order, axis=1), axis=1)
    slots = times - times.mean(axis=1, keepdims=True)
    before, after = slots[:-1].ravel(), slots[1:].ravel()
    if not before.any() or float(before @ after) >= REMEMBERED * float(np.sqrt((before @ before) * (after @ after))):
        return []
    return [
        "Every worker commits once in each round, early or late by chance: they seem to wait for each other, as in a "
        "synchronous cluster, whereas the fitted cluster is an asynchronous one."
    ]
