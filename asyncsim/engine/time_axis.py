"""Losses and records against simulated time, on which protocols that wait can be compared with those that do not."""

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief
from asyncsim.components._checked import checked
from asyncsim.engine._run import Run
from asyncsim.trace import Trace

__all__ = ["central_against_time", "loss_against_time", "mean_by_time"]


@checked
def loss_against_time(trace: Trace, run: Run, edges: ArrayLike) -> np.ndarray:
    """Return the mean training loss of the commits in each interval of simulated time.

    Args:
        trace: The schedule of the run.
        run: A run of one or several seeds.
        edges: (intervals + 1,) bounds of the intervals in seconds, increasing. Each interval includes its upper bound,
            and the first one its lower bound as well.

    Returns:
        (intervals,), or (seeds, intervals). NaN for intervals without a commit.

    Raises:
        ValueError: If another trace was replayed, or the edges do not increase.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 0, 0, 0])  # at 1, 2, 3 and 4 seconds
        >>> run = asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0]))
        >>> run.loss.tolist(), loss_against_time(trace, run, [0, 2, 4, 6]).tolist()
        ([0.5, 0.125, 0.03125, 0.0078125], [0.3125, 0.01953125, nan])
    """
    _require_same(trace, run)
    return mean_by_time(trace.commit_time[: run.commits], run.loss, edges)


@checked
def central_against_time(
    trace: Trace, run: Run, name: str, times: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return records of the central variable, against simulated time.

    A record of commit k holds from the moment at which the server applied it until the next record: the central
    variable stands still in between, apart from commits that were not recorded.

    Args:
        trace: The schedule of the run.
        run: A run of one or several seeds.
        name: Name of the records, for example "central", "test_loss" or that of your own function.
        times: (times,) simulated seconds at which to look, by default those of the records.

    Returns:
        The times (times,) in seconds, and the values (times, …), or (seeds, times, …), NaN before the first record.

    Raises:
        ValueError: If another trace was replayed, or nothing was recorded under this name.

    Example:
        Distance from the minimum, at which no worker need have taken a gradient:

        >>> import asyncsim as asim
        >>> def distance(commit):
        ...     return abs(commit.central["x"][0])
        >>> trace, workload = asim.Trace.from_commits([0, 0, 0, 0]), asim.workloads.Quadratic([1.0])
        >>> run = asim.replay(trace, asim.rules.Downpour(0.5), workload, record={"distance": (distance, 2)})
        >>> time, value = asim.central_against_time(trace, run, "distance")
        >>> time.tolist(), value.tolist()
        ([2.0, 4.0], [0.25, 0.0625])
        >>> asim.central_against_time(trace, run, "distance", times=[1.0, 3.0, 9.0])[1].tolist()
        [nan, 0.25, 0.0625]
    """
    _require_same(trace, run)
    if name not in run.records:
        raise ValueError(
            f"`name` must be a recorded quantity, here one of {list(run.records)}; got {brief(name)}. Replay with "
            f"record=({brief(name)},)."
        )
    recorded, values = trace.commit_time[run.recorded_at[name]], run.records[name]
    if times is None:
        return recorded, values
    queried, axis = np.asarray(times, np.float64), int(run.several)
    last = np.searchsorted(recorded, queried, side="right") - 1
    shape = (*values.shape[:axis], 1, *values.shape[axis + 1 :])
    unknown = np.full(shape, np.nan, np.result_type(values.dtype, np.float16))
    return queried, np.take(np.concatenate([unknown, values], axis), last + 1, axis)


def _require_same(trace: Trace, run: Run) -> None:
    """Refuse another trace than the one that was replayed."""
    if not run.is_data:
        run.plan(trace)
    # A run without its rule and its workload has the workers of its commits, and no other part of the trace.
    elif trace.workers != run.workers or not np.array_equal(trace.worker[: run.commits], run.worker):
        raise ValueError(f"`trace` must be the one that was replayed; the first {run.commits} commits differ.")


def mean_by_time(time: ArrayLike, values: ArrayLike, edges: ArrayLike) -> np.ndarray:
    """Return the mean of the values in each interval of time.

    Args:
        time: (commits,) in seconds.
        values: (commits,) or (seeds, commits).
        edges: As in `loss_against_time`.

    Returns:
        (intervals,) or (seeds, intervals). NaN for empty intervals.

    Raises:
        ValueError: If the edges do not increase.

    Example:
        >>> mean_by_time([0.0, 1.0, 2.0, 3.0], [8.0, 4.0, 2.0, 1.0], [0.0, 1.0, 3.0]).tolist()
        [6.0, 1.5]
    """
    time, values, edges = np.asarray(time), np.asarray(values), np.asarray(edges, np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise ValueError(f"`edges` must be two or more increasing times; got {brief(edges)}. Use `np.linspace`.")
    interval = np.searchsorted(edges, time, side="left") - 1
    # The first interval includes its lower bound, too.
    interval[time == edges[0]] = 0
    inside, intervals = (interval >= 0) & (interval < len(edges) - 1), len(edges) - 1
    counts = np.bincount(interval[inside], minlength=intervals)
    rows = np.atleast_2d(values)[:, inside]
    sums = np.stack([np.bincount(interval[inside], row, minlength=intervals) for row in rows])
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return means if values.ndim > 1 else means[0]
