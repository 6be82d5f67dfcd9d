"""A trace as many nearly independent observations: statistics of blocks of commits."""

import numpy as np

from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.predictive import cycles
from asyncsim.checks import require_integer
from asyncsim.trace import Trace

COMMITS_PER_WORKER = 20  # of a block: beyond the memory of a cluster
TINY = 1e-12  # of a second: the logarithm of equal times


def blocks(trace: Trace, commits: int | None = None) -> FloatArray:
    """Statistics of successive blocks of a trace, one row each, for `avo`.

    AVO wants independent observations, and a trace is one dependent sequence; blocks of some twenty commits a worker
    depend on each other hardly at all. Standardise the columns by the mean and standard deviation of the data's.

    Args:
        trace: Observed, or simulated.
        commits: Of a block; by default 20 for each worker.

    Returns:
        (blocks, 7): the columns `NAMES`. Commits that do not fill a block are left out.

    Raises:
        ValueError: If the trace has less than one block.

    Example:
        >>> blocks(Trace.from_commits([0, 1] * 100)).shape
        (5, 7)
    """
    size = COMMITS_PER_WORKER * trace.workers if commits is None else commits
    size = require_integer("commits", size, least=2 * trace.workers + 1, remedy="20 for each worker are usual.")
    if len(trace) < size:
        raise ValueError(f"`trace` must have a block of {size} commits; got {len(trace)}. Record more.")
    return np.array([_statistics(trace, at, at + size) for at in range(0, len(trace) - size + 1, size)])


def _statistics(trace: Trace, begin: int, end: int) -> list[float]:
    times = trace.commit_time[begin:end] - trace.commit_time[begin]
    block = Trace.from_commits(trace.worker[begin:end], times, workers=trace.workers, start=0.0)
    staleness, within = trace.staleness[begin:end], cycles(block)
    low, middle, high = np.quantile(within, [0.1, 0.5, 0.9]) + TINY
    short, long = np.quantile(np.diff(times), [0.1, 0.9]) + TINY
    rate = (end - begin - 1) / (times[-1] + TINY)
    spread = float(staleness.std())
    logs = np.log([rate, middle, high / low, short, long])
    return [logs[0], float(staleness.mean()), spread, *logs[1:].tolist()]
