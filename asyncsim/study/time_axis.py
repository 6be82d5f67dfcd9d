"""Losses against simulated time, the axis on which protocols that wait can be compared with those that do not."""

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.engine import Run
from asyncsim.trace import Trace


def loss_against_time(trace: Trace, run: Run, edges: ArrayLike) -> np.ndarray:
    """Mean training loss of the commits in each interval of simulated time.

    Args:
        trace: The schedule of the run.
        run: A run of one or several seeds.
        edges: (intervals + 1,) bounds of the intervals in seconds, increasing. Each interval includes its upper bound;
            the first one includes its lower bound as well.

    Returns:
        (intervals,), or (seeds, intervals); NaN for intervals without a commit.

    Raises:
        ValueError: If the edges do not increase.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 0, 0, 0])  # at 1, 2, 3 and 4 seconds
        >>> run = asim.replay(trace, asim.rules.downpour(0.5), asim.workloads.quadratic([1.0]))
        >>> run.loss.tolist(), loss_against_time(trace, run, [0, 2, 4, 6]).tolist()
        ([0.5, 0.125, 0.03125, 0.0078125], [0.3125, 0.01953125, nan])
    """
    return mean_by_time(trace.commit_time[: run.loss.shape[-1]], run.loss, edges)


def mean_by_time(time: ArrayLike, values: ArrayLike, edges: ArrayLike) -> np.ndarray:
    """Mean of the values in each interval of time.

    Args:
        time: (commits,) in seconds.
        values: (commits,) or (seeds, commits).
        edges: As in `loss_against_time`.

    Returns:
        (intervals,) or (seeds, intervals); NaN for empty intervals.

    Raises:
        ValueError: If the edges do not increase.

    Example:
        >>> mean_by_time([0.0, 1.0, 2.0, 3.0], [8.0, 4.0, 2.0, 1.0], [0.0, 1.0, 3.0]).tolist()
        [6.0, 1.5]
    """
    time, values, edges = np.asarray(time), np.asarray(values), np.asarray(edges, np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise ValueError(f"`edges` must be two or more increasing times; got {edges!r:.60}. Use `np.linspace`.")
    place = np.searchsorted(edges, time, side="left") - 1
    place[time == edges[0]] = 0
    inside, intervals = (place >= 0) & (place < len(edges) - 1), len(edges) - 1
    counts = np.bincount(place[inside], minlength=intervals)
    rows = np.atleast_2d(values)[:, inside]
    sums = np.stack([np.bincount(place[inside], row, minlength=intervals) for row in rows])
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return means if values.ndim > 1 else means[0]
