"""The time of each worker, in parts that sum to the whole."""

from itertools import pairwise

import numpy as np

from asyncsim.costs._result import PARTS
from asyncsim.trace import Fate, Trace
from asyncsim.trace._spans import COMMITTED, DOWN, Spans, gaps, jobs, joined, spells, union

ROUNDING = 1e-12  # relative: waiting that is shorter is none
STAGES = ("download", "compute", "upload", "queue", "service")  # of a job, in their order


def time_budget(trace: Trace, end: float) -> dict[str, np.ndarray]:
    """Part of the time -> (workers,) seconds of each worker until `end`; the parts sum to n·end."""
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
