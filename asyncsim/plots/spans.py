"""What every worker did when: a trace as intervals, the numbers behind `draw_timeline`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.delays import FloatArray
from asyncsim.trace import Fate, Fault, Trace
from asyncsim.trace.tables import end_of_trace

Bools = NDArray[np.bool_]

COMPUTING, VAIN = "computing", "computing in vain"
NETWORK, SENT = "reading or sending", "sent, no commit"
WAITING, SERVICE = "waiting for the server", "in service"
IDLE, DOWN = "idle or blocked", "down"

COMMITTED = -1  # beside the values of `Fate`


class Spans(NamedTuple):
    """Intervals of workers, in seconds."""

    worker: NDArray[np.int32]
    start: FloatArray
    end: FloatArray

    def rows(self, which: Bools) -> "Spans":
        """The intervals for which `which` is true."""
        return Spans(self.worker[which], self.start[which], self.end[which])

    def within(self, start: float, stop: float) -> "Spans":
        """The parts of the intervals between two times, without empty ones."""
        begin, end = np.maximum(self.start, start), np.minimum(self.end, stop)
        return Spans(self.worker, begin, end).rows(begin < end)


def seconds_per_job(trace: Trace) -> float:
    """Mean seconds from one job of a worker to its next, over all workers and the whole trace."""
    ended = len(trace) + int(np.count_nonzero(trace.unfinished.fate != Fate.IN_FLIGHT))
    return end_of_trace(trace) * trace.workers / max(ended, 1)


def spells(trace: Trace, *kinds: Fault) -> Spans:
    """When faults of these kinds lasted; worker -1 is the server."""
    faults = trace.faults
    return Spans(faults.worker, faults.start_time, faults.end_time).rows(np.isin(faults.kind, kinds))


def activities(trace: Trace, workers: NDArray[np.int32], start: float, stop: float) -> dict[str, Spans]:
    """What workers did between two times, as far as the trace shows.

    Args:
        trace: The trace.
        workers: The workers' numbers.
        start: Left end, in seconds.
        stop: Right end, in seconds.

    Returns:
        Activity -> its intervals; at every moment from `start` to `stop` or the end of the trace, a worker is in
        exactly one. `NETWORK` includes the time-outs of lost messages, `WAITING` queue, turn and pause; `VAIN` is
        computing for jobs that were cancelled, dropped, lost or crashed, `SENT` the time after computing of a job that
        has not committed (a trace does not separate its transfer from its wait), and `IDLE` the rest.

    Example:
        >>> spans = activities(Trace.from_commits([0, 1, 0]), np.arange(2, dtype=np.int32), 0.0, 3.0)
        >>> {name: (span.end - span.start).tolist() for name, span in spans.items() if len(span.worker)}
        {'computing': [1.0, 2.0, 2.0, 1.0]}
    """
    end = end_of_trace(trace)
    stop = min(stop, end)
    worker, times, fate = _jobs(trace, workers, start, stop, end)

    def stage(number: int, which: Bools) -> Spans:
        return Spans(worker, times[number], times[number + 1]).rows(which).within(start, stop)

    every, committed, flying = np.full(len(worker), True), fate == COMMITTED, fate == Fate.IN_FLIGHT
    down = _union(spells(trace, Fault.CRASH, Fault.OFFLINE).within(start, stop), workers, start, stop)
    busy = _joined(Spans(worker, times[0], times[-1]).within(start, stop), down)
    return {
        IDLE: _gaps(busy, workers, start, stop),
        NETWORK: _joined(stage(0, every), stage(2, committed)),
        COMPUTING: stage(1, committed | flying),
        VAIN: stage(1, ~(committed | flying)),
        SENT: stage(2, ~committed),
        WAITING: stage(3, every),
        SERVICE: stage(4, every),
        DOWN: down,
    }


def _jobs(
    trace: Trace, workers: NDArray[np.int32], start: float, stop: float, end: float
) -> tuple[NDArray[np.int32], list[FloatArray], NDArray[np.int8]]:
    """Workers, times (begin, start, finish, arrive, serve, end) and fates of the jobs that touch the window."""
    done = np.isin(trace.worker, workers) & (trace.commit_time >= start) & (trace.begin_time <= stop)
    rest, last = trace.unfinished, np.minimum(trace.unfinished.end_time, end)
    left = np.isin(rest.worker, workers) & (last >= start) & (rest.begin_time <= stop)
    names = ("begin_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")
    ended = [np.minimum(column, last) for column in (rest.begin_time, rest.start_time, rest.finish_time)] + 3 * [last]
    times = [np.concatenate([getattr(trace, n)[done], e[left]]) for n, e in zip(names, ended, strict=True)]
    fate = np.concatenate([np.full(np.count_nonzero(done), COMMITTED, np.int8), rest.fate[left]])
    return np.concatenate([trace.worker[done], rest.worker[left]]), times, fate


def _joined(*parts: Spans) -> Spans:
    return Spans(
        np.concatenate([part.worker for part in parts]),
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
    )


def _union(spans: Spans, workers: NDArray[np.int32], start: float, stop: float) -> Spans:
    """The same moments without overlaps: a worker that is offline can crash as well."""
    return _gaps(_gaps(spans, workers, start, stop), workers, start, stop)


def _gaps(spans: Spans, workers: NDArray[np.int32], start: float, stop: float) -> Spans:
    """The parts of the window that the intervals of each worker leave free."""
    found = []
    for worker in workers:
        own = np.flatnonzero(spans.worker == worker)
        own = own[np.argsort(spans.start[own], kind="stable")]
        begins = np.append(spans.start[own], stop)
        ends = np.maximum.accumulate(np.append(start, spans.end[own]))
        found.append(Spans(np.full(len(begins), worker, np.int32), ends, begins).within(start, stop))
    return _joined(*found)
