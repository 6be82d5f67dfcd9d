"""Is the time from finish to commit that of a queue alone, of messages alone, or of both?

Where a log has neither `arrive_time` nor `serve_time`, only the order of jobs and what they have in common tell.
"""

import numpy as np

from asyncsim.calibration.coordinates import FloatArray
from asyncsim.trace import Trace

SURE = 1e-3  # p-value below which two columns depend on each other
OVERTAKEN = 0.01  # share of commits before one that finished earlier, more than which no server in order makes


def is_queue_alone(trace: Trace) -> bool:
    """Whether a server with one place, to which messages take no time, may have made the times, and did.

    Its jobs commit in the order in which they finish, and how long one is served depends neither on how long it waited
    nor on how long the server had nothing to do.

    Example:
        >>> import asyncsim as asim
        >>> law = asim.delays.Exponential
        >>> queue = asim.Cluster(8, law(1.0), server=asim.Server(service=law(0.05)))
        >>> network = asim.Cluster(8, law(1.0), network=asim.Network(latency=law(0.05)))
        >>> [is_queue_alone(asim.simulate(cluster, commits=500)) for cluster in (queue, network)]
        [True, False]
    """
    finish, commit = trace.finish_time, trace.commit_time
    before = np.append(0.0, commit[:-1])
    overtaken = float((np.diff(finish) < 0).mean())
    service = commit - np.maximum(finish, before)
    return overtaken <= OVERTAKEN and _p_value(service, before - finish) >= SURE and waits_for_others(trace)


def waits_for_others(trace: Trace) -> bool:
    """Whether the time from finish to commit is longer where more jobs are between the two."""
    finish, commit = trace.finish_time, trace.commit_time
    ahead = np.searchsorted(np.sort(finish), finish) - np.searchsorted(commit, finish, side="right")
    return _p_value(commit - finish, ahead.astype(np.float64), greater=True) < SURE


def _p_value(one: FloatArray, other: FloatArray, *, greater: bool = False) -> float:
    """Of independence, by ranks; 1 where either does not vary."""
    from scipy.stats import spearmanr

    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 1.0
    return float(spearmanr(one, other, alternative="greater" if greater else "two-sided").pvalue)  # type: ignore[attr-defined]
