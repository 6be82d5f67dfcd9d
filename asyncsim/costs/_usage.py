"""The usage of a trace: the time of each worker in parts that sum to the whole, and messages in both directions."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from asyncsim.costs._result import PARTS
from asyncsim.trace import Fate, Fault, Trace
from asyncsim.trace._spans import COMMITTED, DOWN, Spans, gaps, jobs, joined, spells, union

ROUNDING = 1e-12  # relative: waiting that is shorter is none
STAGES = ("download", "compute", "upload", "queue", "service")  # of a job, in their order


def time_budget(trace: Trace, end: float) -> dict[str, np.ndarray]:
    """Part of the time -> (workers,) seconds of each worker until `end`, where the parts sum to n·end."""
    n, found = trace.workers, jobs(trace, end)
    limits = [np.minimum(column, end) for column in found.times]
    if not np.any(trace.arrive_time > trace.finish_time):
        waits = (found.fate != COMMITTED) & (found.fate != Fate.LOST)
        limits[3] = np.where(waits, limits[2], limits[3])
    lasted = [np.bincount(found.worker, after - before, n) for before, after in pairwise(limits)]
    stages = dict(zip(STAGES, lasted, strict=True))
    working = np.sum(lasted, axis=0)
    waiting = end - working
    away = down_spells(trace, end)
    affected = np.unique(away.worker)
    if len(affected):
        in_jobs = Spans(found.worker, limits[0], limits[-1]).rows(np.isin(found.worker, affected))
        free = gaps(joined(in_jobs, away), affected, 0.0, end)
        waiting[affected] = np.bincount(free.worker, free.end - free.start, n)[affected]
    parts = {**stages, "waiting": np.where(waiting > ROUNDING * end, waiting, 0.0)}
    parts["down"] = np.where(np.isin(np.arange(n), affected), np.maximum(end - working - parts["waiting"], 0.0), 0.0)
    return {name: parts[name] for name in PARTS}


def down_spells(trace: Trace, end: float) -> Spans:
    """When workers were down, without overlaps."""
    away = spells(trace, *DOWN).within(0.0, end)
    workers = np.unique(away.worker)
    return union(away, workers, 0.0, end) if len(workers) else away


def messages_by(trace: Trace, at: float | NDArray[np.float64], pulls: bool) -> tuple[NDArray, NDArray]:
    """Number of updates sent to the server by a time, and of times the parameters were sent to a worker."""
    rest = trace.unfinished
    dropped, given_up = (rest.end_time[rest.fate == fate] for fate in (Fate.DROPPED, Fate.LOST))
    losses = spells(trace, Fault.MESSAGE_LOST).start
    sent = _by(trace.arrive_time, at) + _by(dropped, at)
    up = sent + _by(losses if len(losses) else given_up, at)
    reads, firsts = _reads(trace)
    down = _by(reads, at) - _by(firsts, at)
    return up, down + (sent + _by(given_up, at) if pulls else 0)


def shows_pulls(trace: Trace) -> bool:
    """Whether some worker pulled between its read and its commit, in a request of its own."""
    between = np.any(trace.pull_version > trace.read_version) and np.any(trace.pull_version < trace.version)
    return bool(between or np.any(trace.resumes_own))


def _reads(trace: Trace) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times of all reads of the central variable, and of the first of each worker."""
    rest = trace.unfinished
    worker, time = np.append(trace.worker, rest.worker), np.append(trace.read_time, rest.read_time)
    own = np.append(trace.resumes_own, rest.resumes_own)
    worker, time = (worker[~own], time[~own]) if own.any() else (worker, time)
    first = np.full(trace.workers, np.inf)
    np.minimum.at(first, worker, time)
    return time, first[np.isfinite(first)]


def _by(events: NDArray[np.float64], at: float | NDArray[np.float64]) -> NDArray:
    """Number of these events by each time, inclusive."""
    if np.ndim(at):
        return np.searchsorted(np.sort(events), at, side="right").astype(np.int64)
    return np.asarray(np.count_nonzero(events <= at))
