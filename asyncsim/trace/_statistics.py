"""A trace in numbers: rates, queue, work done and wasted, staleness, worker by worker."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim.components._checked import checked
from asyncsim.trace._columns import Fate, Fault, TimeColumn, previous_own_row
from asyncsim.trace._findings import estimated_jobs
from asyncsim.trace._presence import awake, find_pauses
from asyncsim.trace._trace import Trace

FloatArray = NDArray[np.float64]


class StalenessStatistics(NamedTuple):
    """Staleness over all commits, NaN if there are none."""

    mean: float
    sd: float  # divided by the number of commits, not by one less
    median: float  # the smallest value that half of the commits do not exceed, and so on
    q90: float
    q99: float
    max: float


class WorkerStatistics(NamedTuple):
    """Worker by worker, arrays of shape (n,)."""

    commits: NDArray[np.int64]
    share: FloatArray  # of all commits, NaN if there are none
    staleness: FloatArray  # mean of its commits, NaN if it has none
    utilisation: FloatArray  # share of the time that it computed for commits, NaN if no time passes


class ComputeStatistics(NamedTuple):
    """Durations of committed computations, from their start to their finish, in seconds. NaN where there are none."""

    mean: float
    cv: float  # standard deviation over mean, NaN if the mean is 0
    by_worker_mean: FloatArray  # (n,)
    by_worker_cv: FloatArray  # (n,)
    contains: tuple[str, ...]  # see `Statistics`


class Statistics(NamedTuple):
    """The result of `statistics`. Averages over time are NaN if no time passes.

    Attributes:
        workers, commits, steps: Number of workers, of commits, and of steps that the server made.
        seconds: Time of the last commit. All averages are over the time from 0 to it without pauses of the whole job,
            in which nothing is committed for far longer than otherwise (see the notes of a trace). A trace with faults
            has none.
        commits_per_second, steps_per_second: Rates.
        waiting, in_service: Mean number of commits that wait at the server, and that are in service.
        utilisation, wasted, under_way: Shares of the workers' time spent on computing committed jobs, jobs that were
            cancelled, dropped or lost, and jobs that are in flight at the end.
        staleness: Its `mean`, `sd`, `median`, `q90`, `q99` and `max` over all commits.
        by_worker: `commits`, `share` of all commits, mean `staleness` and `utilisation`, arrays of shape (n,).
        fates, faults: Number of jobs that did not commit, and of faults, by the name of their `Fate` or `Fault` in
            small letters. Every name is a key.
        compute: Durations of committed computations: `mean`, `cv`, `by_worker_mean`, `by_worker_cv`, and `contains`,
            the stages that the trace does not separate from computing. "download" is one of them if all jobs start when
            they read, and "upload", "queue" and "service" are if all finish when they commit. First jobs of a log whose
            beginning nobody recorded, those of late workers and of a log that counts from its first commit, are left
            out.
        by_group: Staleness of each parameter group that is read at versions of its own, by its name. `staleness` is
            the largest of each commit. Empty for most traces.
    """

    workers: int
    commits: int
    steps: int
    seconds: float
    commits_per_second: float
    steps_per_second: float
    waiting: float
    in_service: float
    utilisation: float
    wasted: float
    under_way: float
    staleness: StalenessStatistics
    by_worker: WorkerStatistics
    fates: dict[str, int]
    faults: dict[str, int]
    compute: ComputeStatistics
    by_group: dict[str, StalenessStatistics]


@checked
def statistics(trace: Trace) -> Statistics:
    """Compute rates, queue, work and staleness of a trace.

    The mean number of commits in a place is the sum of the times that they spend there divided by the whole time. This
    is Little's law, which is exact for a trace in which every commit that came has gone. A job that never commits does
    not count at the server, because the trace lacks its time there, nor does the wait of jobs in flight at the end.

    Args:
        trace: A valid trace.

    Returns:
        The `Statistics`, with times in seconds.

    Example:
        >>> found = statistics(Trace.from_commits([0, 1, 0, 1], commit_time=[1.0, 2.0, 3.0, 4.0]))
        >>> found.commits_per_second, found.utilisation, found.under_way, found.staleness.mean
        (1.0, 0.875, 0.125, 0.75)
        >>> found.by_worker.staleness.tolist()
        [0.5, 1.0]
        >>> found.compute.mean, found.compute.contains  # from a worker's commit to its next
        (1.75, ('download', 'upload', 'queue', 'service'))

    References:
        Little 1961, "A proof for the queuing formula L = λW".
    """
    rest = trace.unfinished
    # A clock that stands still while the whole job pauses, unless the trace says itself who was away.
    pauses = [] if len(trace.faults) else find_pauses(trace.worker, trace.commit_time, trace.workers)
    clock = partial(awake, pauses=pauses)
    end = trace.seconds
    seconds = float(clock(np.array([end]))[0])
    whole = seconds * trace.workers
    computed = clock(trace.finish_time) - clock(trace.start_time)
    until = clock(np.minimum(np.minimum(rest.finish_time, rest.end_time), end))
    lasted = np.maximum(until - clock(np.minimum(rest.start_time, end)), 0.0)
    in_flight = rest.fate == Fate.IN_FLIGHT
    by_worker, compute = _by_worker(trace, computed, seconds)
    return Statistics(
        workers=trace.workers,
        commits=len(trace),
        steps=trace.steps,
        seconds=end,
        commits_per_second=_ratio(len(trace), seconds),
        steps_per_second=_ratio(trace.steps, seconds),
        waiting=_ratio((clock(trace.serve_time) - clock(trace.arrive_time)).sum(), seconds),
        in_service=_ratio((clock(trace.commit_time) - clock(trace.serve_time)).sum(), seconds),
        utilisation=_ratio(computed.sum(), whole),
        wasted=_ratio(lasted[~in_flight].sum(), whole),
        under_way=_ratio(lasted[in_flight].sum(), whole),
        staleness=_staleness(trace.staleness),
        by_worker=by_worker,
        fates={fate.name.lower(): int(np.count_nonzero(rest.fate == fate)) for fate in Fate},
        faults={kind.name.lower(): int(np.count_nonzero(trace.faults.kind == kind)) for kind in Fault},
        compute=compute,
        by_group={name: _staleness(tau) for name, tau in zip(trace.groups, trace.group_staleness.T, strict=True)},
    )


def total_variation(staleness: ArrayLike, pmf: ArrayLike) -> float:
    """Compute the total variation distance ½ Σ |measured - predicted| between staleness and a distribution of it.

    All values beyond the end of the prediction count as one.

    Args:
        staleness: (commits,) measured staleness in versions, for example `trace.staleness`.
        pmf: (values,) predicted probability of staleness 0, 1, and so on.

    Returns:
        A number from 0 (equal) to 1.

    Example:
        >>> total_variation([0, 1, 1, 2], [0.5, 0.5])  # predicted: never 2
        0.25
    """
    expected = np.asarray(pmf, np.float64)
    counts = np.bincount(np.minimum(staleness, len(expected)), minlength=len(expected) + 1)
    rest = max(0.0, 1 - float(expected.sum()))
    return float(np.abs(counts / counts.sum() - np.append(expected, rest)).sum() / 2)


def kolmogorov_distance(shares: ArrayLike) -> float:
    """Return the largest distance of numbers from 0 to 1 from the uniform distribution (Kolmogorov, Smirnov)."""
    ordered = np.sort(shares)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))


def _ratio(amount: float, of: float) -> float:
    return float(amount) / of if of else float("nan")


def _staleness(staleness: NDArray[np.int32]) -> StalenessStatistics:
    if not len(staleness):
        return StalenessStatistics(*[float("nan")] * 6)
    quantiles = np.quantile(staleness, [0.5, 0.9, 0.99, 1.0], method="inverted_cdf").tolist()
    return StalenessStatistics(float(staleness.mean()), float(staleness.std()), *map(float, quantiles))


def _by_worker(trace: Trace, computed: TimeColumn, seconds: float) -> tuple[WorkerStatistics, ComputeStatistics]:
    worker, workers = trace.worker, trace.workers
    commits = np.bincount(worker, minlength=workers)
    time = np.bincount(worker, computed, workers)
    known = ~estimated_jobs(trace)
    jobs = np.bincount(worker[known], minlength=workers)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_worker = WorkerStatistics(
            commits=commits,
            share=commits / np.float64(len(trace)),
            staleness=np.bincount(worker, trace.staleness, workers) / commits,
            utilisation=time / np.float64(seconds),
        )
        mean = np.bincount(worker[known], computed[known], workers) / jobs
        squares = np.bincount(worker[known], ((computed - mean[worker]) ** 2)[known], workers)
        cv = np.sqrt(squares / jobs) / mean
    overall, spread = (float(computed[known].mean()), float(computed[known].std())) if known.any() else [math.nan] * 2
    return by_worker, ComputeStatistics(overall, _ratio(spread, overall), mean, cv, hidden_stages(trace))


def hidden_stages(trace: Trace) -> tuple[str, ...]:
    """Return the stages of a job that cannot be separated from computing in a trace (see `Statistics`)."""
    before = not np.any(trace.start_time > trace.begin_time)
    after = not np.any(trace.commit_time > trace.finish_time)
    return ("download",) * before + ("upload", "queue", "service") * after


def previous_commit(trace: Trace) -> TimeColumn:
    """Return the (commits,) times of the same worker's previous commit, or 0 for its first."""
    return np.append(trace.commit_time, 0.0)[previous_own_row(trace.worker)]


def most_in_service(trace: Trace) -> int:
    """Return the largest number of commits in service at once. Of events at one time, ends come first."""
    times = np.concatenate([trace.commit_time, trace.serve_time])
    change = np.repeat([-1, 1], len(trace))
    return int(np.cumsum(change[np.lexsort((change, times))]).max(initial=1))
