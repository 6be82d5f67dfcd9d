"""The messages of a trace that carry an update or the parameters."""

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace import Fate, Fault, Trace
from asyncsim.trace._spans import spells


def messages_by(trace: Trace, at: float | NDArray[np.float64], pulls: bool) -> tuple[NDArray, NDArray]:
    """How many updates were sent to the server by a time, and how often the parameters were sent to a worker."""
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
    """How many of these events there were by each time, inclusive."""
    if np.ndim(at):
        return np.searchsorted(np.sort(events), at, side="right").astype(np.int64)
    return np.asarray(np.count_nonzero(events <= at))
