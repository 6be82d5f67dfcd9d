"""What every worker did when: a trace as intervals, the numbers behind `draw_timeline`."""

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace import Fate, Trace
from asyncsim.trace import _spans as tr
from asyncsim.trace._spans import COMMITTED, Bools, Jobs, Spans, gaps, joined, spells, union
from asyncsim.trace._tables import end_of_trace

COMPUTING, VAIN = "computing", "computing in vain"
NETWORK, SENT = "reading or sending", "sent, no commit"
WAITING, SERVICE = "waiting for the server", "in service"
IDLE, DOWN = "idle or blocked", "down"


def seconds_per_job(trace: Trace) -> float:
    """Mean seconds from one job of a worker to its next, over all workers and the whole trace."""
    ended = len(trace) + int(np.count_nonzero(trace.unfinished.fate != Fate.IN_FLIGHT))
    return end_of_trace(trace) * trace.workers / max(ended, 1)


def activities(trace: Trace, workers: NDArray[np.int32], start: float, stop: float) -> dict[str, Spans]:
    """What workers did between two times, as far as the trace shows."""
    end = end_of_trace(trace)
    stop = min(stop, end)
    jobs = _jobs(trace, workers, start, stop, end)

    def stage(number: int, which: Bools) -> Spans:
        return jobs.stage(number).rows(which).within(start, stop)

    every, committed, flying = np.full(len(jobs.worker), True), jobs.fate == COMMITTED, jobs.fate == Fate.IN_FLIGHT
    down = union(spells(trace, *tr.DOWN).within(start, stop), workers, start, stop)
    busy = joined(jobs.whole.within(start, stop), down)
    return {
        IDLE: gaps(busy, workers, start, stop),
        NETWORK: joined(stage(0, every), stage(2, committed)),
        COMPUTING: stage(1, committed | flying),
        VAIN: stage(1, ~(committed | flying)),
        SENT: stage(2, ~committed),
        WAITING: stage(3, every),
        SERVICE: stage(4, every),
        DOWN: down,
    }


def _jobs(trace: Trace, workers: NDArray[np.int32], start: float, stop: float, end: float) -> Jobs:
    """The jobs that touch the window."""
    done = np.isin(trace.worker, workers) & (trace.commit_time >= start) & (trace.begin_time <= stop)
    rest, last = trace.unfinished, np.minimum(trace.unfinished.end_time, end)
    left = np.isin(rest.worker, workers) & (last >= start) & (rest.begin_time <= stop)
    return tr.jobs(trace, end, done, left)
