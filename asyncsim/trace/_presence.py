"""Who was there when: workers that join late or leave, and pauses of the whole job, as far as commits show them.

A log ends for each worker at its last commit or goes on: the job that it has begun since is either under way or was
never begun. How long the last commits are ago tells which, because a job under way has seldom lasted longer than all
jobs before. Times of one worker are compared with those of all in units of its own mean time between commits.
"""

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace._columns import BoolColumn, IntColumn, TimeColumn, previous_own_row

LEAST_GAPS = 30
PAUSE = 20.0  # times the longest other gap and the mean job, for one worker. Several workers stop at once: less
LEAST_PAUSE = 3.0  # times them, for any number of workers
MOST_PAUSES = 10
LONGER = 5.0  # times the longest of all jobs: of an exponential law e⁻²⁰ or less
SURE = 1e-3  # probability below which the times since all last commits are no accident
UNLIKELY = 0.03  # probability of equal numbers of commits, below which they are a plan: to err costs a job a worker
DOUBTED = 0.05  # the same of one worker, where all together are no accident
MOST_JOBS = 50_000  # by which times are judged, about
PRIOR_JOBS = 2  # of the mean of all workers, by which the mean of a worker with few jobs is steadied


class Presence(NamedTuple):
    """What commits say about who was there."""

    late: BoolColumn  # (workers,) whether a worker joined later than the others
    left: BoolColumn  # (workers,) whether a worker made no job after its last commit
    first: TimeColumn  # (workers,) time of the first commit, infinite without one
    last: TimeColumn  # (workers,) time of the last commit, 0 without one
    pauses: NDArray[np.float64]  # (pauses, 2) begin and end of each pause of the whole job
    typical: TimeColumn  # (workers,) seconds between two commits of a worker

    @property
    def joined(self) -> TimeColumn:
        """(workers,) when it first read: at 0 or, if it joined late, a typical job before its first commit."""
        first = np.where(self.late, self.first, 0.0)
        return np.where(self.late, np.maximum(first - self.typical, 0.0), 0.0)

    def spans_pause(self, begin: TimeColumn, end: TimeColumn) -> BoolColumn:
        """Return whether a pause lies between two times."""
        return spans_pause(self.pauses, begin, end)

    def slots(self, names: Sequence[str] = ()) -> IntColumn:
        """Return, (workers,), the slot of each worker in a cluster where a late one takes that of one that has left.

        There are as many slots as workers were ever present at once. Among the free slots a worker takes the one whose
        last name is most like its own (a pod that was started anew), and else the one that was left last.
        """
        seen = np.isfinite(self.first)
        if not (self.late.any() and self.left.any()):
            return np.arange(len(seen), dtype=np.int32)
        # A worker is surely present from its first to its last commit. One that never committed has no slot.
        begin = np.where(self.late, self.first, 0.0)
        end = np.where(seen, np.where(self.left, self.last, np.inf), -1.0)
        slot, holders = np.zeros(len(seen), np.int32), []
        for worker in np.lexsort((seen, begin)).tolist():
            free = [at for at, holder in enumerate(holders) if end[holder] < begin[worker]]
            if not free:
                free = [len(holders)]
                holders.append(worker)
            slot[worker] = max(free, key=lambda at: (*_likeness(names, worker, holders[at]), end[holders[at]]))
            holders[slot[worker]] = worker
        return slot if len(holders) < seen.sum() else np.arange(len(seen), dtype=np.int32)


def _likeness(names: Sequence[str], new: int, old: int) -> tuple[int, int]:
    """Return how much of a name begins another one, so that worker-1-abc is like worker-1 and less like worker-12."""
    if not names:
        return 0, 0
    common = takewhile(lambda pair: pair[0] == pair[1], zip(names[new], names[old], strict=False))
    return sum(1 for _ in common), -len(names[old])


def presence(worker: IntColumn, commit_time: TimeColumn, workers: int) -> Presence:
    """Find late joiners, leavers and pauses in the order and the times of commits."""
    first, last = np.full(workers, np.inf), np.zeros(workers)
    np.minimum.at(first, worker, commit_time)
    np.maximum.at(last, worker, commit_time)
    nobody = np.zeros(workers, np.bool_)
    before = previous_own_row(worker)
    again = before >= 0
    if not len(worker) or not 0 < commit_time[-1] < np.inf:
        return Presence(nobody, nobody, first, last, np.zeros((0, 2)), np.zeros(workers))
    pauses = find_pauses(worker, commit_time, workers)
    clock = awake(commit_time, pauses)
    jobs = (clock - clock[before])[again]
    counts = np.bincount(worker[again], minlength=workers)
    mean = float(jobs.mean()) if len(jobs) else 0.0
    typical = (np.bincount(worker[again], jobs, workers) + PRIOR_JOBS * mean) / (counts + PRIOR_JOBS)
    if len(jobs) < LEAST_GAPS or mean <= 0:
        return Presence(nobody, nobody, first, last, pauses, typical)
    lengths = jobs / typical[worker[again]]
    # All workers may begin slowly, so that a late one is late after the first commit of all.
    delays = (awake(np.minimum(first, commit_time[-1]), pauses) - clock[0]) / typical
    ages = (clock[-1] - awake(last, pauses)) / typical
    longest = float(lengths.max())
    late, left = delays > LONGER * longest, ages > LONGER * longest
    survival = _Survival(lengths[:: 1 + len(lengths) // MOST_JOBS], ages[~left])
    delayed, others = survival.at(delays), ~left
    under_way = survival.under_way(ages)
    if _joint_p_value(delayed[~late]) < SURE:
        late |= delayed < DOUBTED
    if _joint_p_value(under_way[others]) < SURE:
        left |= under_way < DOUBTED
    by_plan = _p_value_of_counts(np.bincount(worker, minlength=workers)[others], lengths, ages[others])
    if (left & others).sum() > others.sum() / 2 or by_plan < UNLIKELY:
        left[:] = True  # Whoever made the last commit of all has stopped as well.
    late &= np.isfinite(first)
    return Presence(late, left, first, last, pauses, typical)


def _joint_p_value(p_values: TimeColumn) -> float:
    """Combine p-values (Fisher): the probability that all together are so small."""
    from scipy.stats import chi2

    return float(chi2.sf(-2 * float(np.log(p_values).sum()), 2 * len(p_values))) if len(p_values) else 1.0


class _Survival:
    """The share of jobs that last longer than a time, by Kaplan and Meier, because long ones end after the log."""

    def __init__(self, lengths: TimeColumn, ages: TimeColumn) -> None:
        times = np.append(lengths, ages)
        order = np.lexsort((np.arange(len(times)) >= len(lengths), times))
        ended = order < len(lengths)
        self.times, self.least = times[order], 1 / (len(lengths) + 1)
        self.shares = np.append(1.0, np.cumprod(1 - ended / np.arange(len(times), 0, -1)))
        # Σ of the steps of the curve from each time on.
        steps = np.diff(self.times, prepend=0.0) * self.shares[:-1]
        self.rest = np.append(np.cumsum(steps[::-1])[::-1], 0.0)

    def at(self, times: TimeColumn) -> TimeColumn:
        """Compute the probability that a job lasts longer."""
        shares = self.shares[np.searchsorted(self.times, times)]
        return np.minimum(shares + self.least, 1.0)

    def under_way(self, ages: TimeColumn) -> TimeColumn:
        """Compute the probability that a job under way at a random time has lasted longer: ∫ S(t) dt beyond it."""
        row = np.minimum(np.searchsorted(self.times, ages), len(self.times) - 1)
        rest = self.rest[row] - (ages - np.append(0.0, self.times)[row]) * self.shares[row]
        return np.minimum(np.maximum(rest, 0.0) / self.rest[0] + self.least, 1.0)


def _p_value_of_counts(commits: NDArray[np.int64], lengths: TimeColumn, ages: TimeColumn) -> float:
    """Return the probability that workers whose jobs differ have equal numbers of commits, if they do.

    The number of commits by some time is nearly normal, with the variance K cv².
    """
    # Those who commit in turn, or wait for each other, have equal numbers too.
    if len(commits) < 2 or np.ptp(commits) or ages.max() <= 1:
        return 1.0
    variance = float(commits[0] * lengths.var() / lengths.mean() ** 2)
    return min(1.0, (2 * math.pi * variance) ** (-(len(commits) - 1) / 2)) if variance else 1.0


def find_pauses(worker: IntColumn, commit_time: TimeColumn, workers: int) -> NDArray[np.float64]:
    """Find the times without any commit that are far longer than all others, (pauses, 2)."""
    gaps, none = np.diff(commit_time), np.zeros((0, 2))
    if len(gaps) < LEAST_GAPS:
        return none
    count = 2 + MOST_PAUSES if workers > 1 else 2  # One worker alone may have slow jobs.
    longest = np.argpartition(-gaps, range(count))[:count]
    others, factor = gaps[longest[1:]], max(LEAST_PAUSE, PAUSE / workers)
    if not (gaps[longest[:-1]] > factor * others).any():
        return none
    before = previous_own_row(worker)
    jobs = (commit_time - commit_time[before])[before >= 0]
    shorter = jobs[jobs < gaps[longest[0]]]  # A pause is in the jobs that were under way.
    if not shorter.any():
        return none
    far = gaps[longest[:-1]] > factor * np.maximum(others, shorter.mean())
    gap_rows = np.sort(longest[: 1 + int(np.flatnonzero(far).max(initial=-1))])
    return np.stack([commit_time[gap_rows], commit_time[gap_rows + 1]], axis=1)


def spans_pause(pauses: NDArray[np.float64], begin: TimeColumn, end: TimeColumn) -> BoolColumn:
    """Return whether a pause lies between two times."""
    inside = np.zeros(np.broadcast(begin, end).shape, np.bool_)
    for first, last in pauses:
        inside |= (begin <= first) & (end >= last)
    return inside


def awake(times: TimeColumn, pauses: Sequence[Any] | NDArray[np.float64]) -> TimeColumn:
    """Return times on a clock that stands still in pauses."""
    if not len(pauses):
        return times
    return times - sum(np.clip(times - begin, 0.0, end - begin) for begin, end in pauses)
