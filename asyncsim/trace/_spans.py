"""A trace as intervals of its workers: the stages of every job, and the time for which workers are down."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace._columns import COMMIT_TIMES, Fault, Tables, TimeColumn

Bools = NDArray[np.bool_]

COMMITTED = -1  # next to the values of `Fate`
DOWN_FAULTS = (Fault.CRASH, Fault.OFFLINE)  # faults for which a worker is away
STAGES = ("begin_time", *COMMIT_TIMES[1:])  # their limits


class Spans(NamedTuple):
    """Intervals of workers, in seconds."""

    worker: NDArray[np.int32]
    start: TimeColumn
    end: TimeColumn

    def rows(self, which: Bools) -> "Spans":
        """Return the intervals for which `which` is true."""
        return Spans(self.worker[which], self.start[which], self.end[which])

    def within(self, start: float, stop: float) -> "Spans":
        """Return the parts of the intervals between two times, without empty ones."""
        begin, end = np.maximum(self.start, start), np.minimum(self.end, stop)
        return Spans(self.worker, begin, end).rows(begin < end)


class JobSpans(NamedTuple):
    """Jobs with the limits of their stages, those that committed first."""

    worker: NDArray[np.int32]  # (jobs,) int32
    times: list[TimeColumn]
    fate: NDArray[np.int8]  # (jobs,) int8, values of `Fate`, or `COMMITTED`

    def stage(self, number: int) -> Spans:
        """Return the intervals of a stage: 0 reads, 1 computes, 2 sends, 3 waits for the server, 4 is in service."""
        return Spans(self.worker, self.times[number], self.times[number + 1])

    @property
    def whole(self) -> Spans:
        """From the beginning of each job to its end."""
        return Spans(self.worker, self.times[0], self.times[-1])


def find_jobs(
    trace: Tables, end: float, done: Bools | slice = slice(None), open: Bools | slice = slice(None)
) -> JobSpans:
    """Return all jobs, or those in these rows of commits and of jobs without one. None lasts longer than `end`."""
    rest = trace.unfinished
    last = np.minimum(rest.end_time, end)
    # A stage that a job did not reach ends when the job does and so has no length.
    ended = [np.minimum(column, last) for column in (rest.begin_time, rest.start_time, rest.finish_time)] + 3 * [last]
    times = [np.concatenate([getattr(trace, n)[done], e[open]]) for n, e in zip(STAGES, ended, strict=True)]
    committed = np.full(len(trace.worker[done]), COMMITTED, np.int8)
    worker = np.concatenate([trace.worker[done], rest.worker[open]])
    return JobSpans(worker, times, np.concatenate([committed, rest.fate[open]]))


def spells(trace: Tables, *kinds: Fault) -> Spans:
    """Return when faults of these kinds lasted. Worker -1 is the server."""
    faults = trace.faults
    return Spans(faults.worker, faults.start_time, faults.end_time).rows(np.isin(faults.kind, kinds))


def joined(*parts: Spans) -> Spans:
    """Return all intervals of several tables."""
    return Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def union(spans: Spans, workers: NDArray[np.int32], start: float, stop: float) -> Spans:
    """Return the same moments without overlaps: a worker that is offline can crash as well."""
    # What the gaps leave free is covered by some interval, and gaps do not overlap.
    return gaps(gaps(spans, workers, start, stop), workers, start, stop)


def gaps(spans: Spans, workers: NDArray[np.int32], start: float, stop: float) -> Spans:
    """Return the parts of the window that the intervals of each worker leave free, worker by worker."""
    intervals, every = spans.rows(np.isin(spans.worker, workers)), np.ones(len(workers))
    # Each worker gets an interval before the window and one after it, so that its gaps lie between two intervals.
    before = Spans(workers, -np.inf * every, start * every)  # the beginning of the window
    after = Spans(workers, stop * every, np.inf * every)
    rows = joined(before, intervals, after)
    order = np.lexsort((rows.start, rows.worker))
    rows = Spans(rows.worker[order], rows.start[order], rows.end[order])
    # An interval may end before an earlier one of the same worker does, which then counts.
    busy_until = rows.end.copy()
    for ends in np.split(busy_until, np.flatnonzero(np.diff(rows.worker)) + 1):
        np.maximum.accumulate(ends, out=ends)
    same = rows.worker[1:] == rows.worker[:-1]
    return Spans(rows.worker[1:], busy_until[:-1], rows.start[1:]).rows(same).within(start, stop)
