"""Whether workers wait for the end of a step before they begin another job, as far as commits and reads show it.

A worker that commits as one of the first of a step and waits for its end begins its next job later than one of the
last. So the time to its next commit grows with the number of commits that the step still lacks, and what is left after
the end of the step does not depend on it. Of workers that go on at once, whatever they queue for, it is the other way
round: times are those of any moment, and what is left falls with the number.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration._statistics import ROUNDING
from asyncsim.calibration._transforms import FloatArray
from asyncsim.trace import Trace
from asyncsim.trace._columns import previous_own_row
from asyncsim.trace._statistics import previous_commit

MOST_ROWS = 3000  # of a log, in which rounds are sought
MOST_WORKERS = 32  # a round has so many commits at most
DECISIVE_EVIDENCE = math.log(100)  # evidence, a difference of log-likelihoods, from which workers wait or do not
SURE_OF_ROUNDS = math.log(1e4)  # the same where the rounds are not known either
SAME_TURN = 0.98  # share of commits with as many since the worker's last as the commit before, of workers in turn
EVEN = 5.0  # ratio of long gaps to short ones (95 and 5 %), below which commits come at nearly equal intervals
TURN = "wait for a turn"  # which jobs may contain
IN_TURN = (
    "Workers commit in turn at nearly equal intervals, as a server that is always busy makes them, and also regular "
    "workers that began one after another: commits alone do not tell these apart, so that neither computing nor "
    "service is identifiable. Log `start_time` and `finish_time`, or `arrive_time` and `serve_time`."
)
EARLY_SHARE = 0.1  # share of jobs that read before the end of a step for which workers wait
CORRELATION_ERRORS = 5.0  # standard errors

Rows = NDArray[Any]  # integers


class Evidence(NamedTuple):
    """Correlations with the number of commits that a step still lacks, in standard errors of independent ones."""

    whole: float  # of the time to the worker's next commit: 0 where nobody waits
    rest: float  # of the part of it after the end of the step: 0 where workers wait

    @property
    def waits(self) -> float:
        """Log of the odds that workers wait."""
        return (self.whole**2 - self.rest**2) / 2


def waits_for_steps(log: Trace) -> tuple[bool | None, float]:
    """Return whether workers wait for the end of a step of several commits, and the share of their times if they do.

    None means that they may wait. The share is 0 where it is sure that nobody does.
    """
    again = np.flatnonzero(previous_own_row(log.worker) >= 0)
    before, last = previous_own_row(log.worker)[again], _last_rows(log)
    end = log.commit_time[last[before]]
    if "read_time" not in log.derived:
        own, early = (
            (log.begin_time - previous_commit(log))[again],
            log.begin_time[again] < end - ROUNDING * log.seconds,
        )
        # What is read before the end of the step was not waited for.
        return _correlation(
            own, (last - np.arange(len(log)))[before]
        ) > CORRELATION_ERRORS and early.mean() < EARLY_SHARE, 0.0
    evidence = _evidence(log.commit_time, again, before, last)
    if evidence is None or evidence.waits < -DECISIVE_EVIDENCE:
        return False, 0.0
    share = float((end - log.commit_time[before]).sum() / (log.commit_time[again] - log.commit_time[before]).sum())
    return (None if 0 < evidence.waits < DECISIVE_EVIDENCE else evidence.waits > 0), share


def find_round(log: Trace) -> int:
    """Return the size of the rounds in which the commits of a log come, each waited for by who commits, or 0."""
    rows = slice(MOST_ROWS)
    worker, time = log.worker[rows], log.commit_time[rows]
    again = np.flatnonzero(previous_own_row(worker) >= 0)
    before, rounds = previous_own_row(worker)[again], []
    for size in range(2, min(log.workers, MOST_WORKERS) + 1):
        for offset in range(size):
            number = (np.arange(len(time)) + offset) // size
            if (number[again] == number[before]).any():
                continue  # Who waits commits once in a round.
            last = np.minimum((number + 1) * size - offset - 1, len(time) - 1)
            evidence = _evidence(time, again, before, last)
            if evidence is not None and evidence.whole > 0:
                rounds.append((evidence.waits, size))
    odds, size = max(rounds, default=(0.0, 0))
    return size if odds > SURE_OF_ROUNDS else 0


def takes_turns(log: Trace) -> bool:
    """Return whether workers commit in turn at nearly equal intervals."""
    before = previous_own_row(log.worker)
    turns = (np.arange(len(log)) - before)[before >= 0]
    if len(turns) < 2 or log.workers < 2:
        return False
    short, long = np.quantile(np.diff(log.commit_time), (0.05, 0.95)).tolist()
    return bool((np.diff(turns) == 0).mean() >= SAME_TURN and 0 < long < EVEN * short)


def _last_rows(log: Trace) -> Rows:
    """Return, (commits,), the row that ends the step of each commit, and the last row of all for an open step."""
    closing = np.append(np.flatnonzero(log.closes_step), len(log) - 1)
    return closing[np.searchsorted(closing[:-1], np.arange(len(log)))]


def _evidence(time: FloatArray, again: Rows, before: Rows, last: Rows) -> Evidence | None:
    """Compute the correlations, None where a worker commits again before the end of its step, so that nobody waits."""
    whole, rest = time[again] - time[before], time[again] - time[last[before]]
    if (rest < 0).any():
        return None
    lacking = (last - np.arange(len(last)))[before]
    return Evidence(_correlation(whole, lacking), _correlation(rest, lacking))


def _correlation(times: FloatArray, numbers: Rows) -> float:
    """Compute the correlation of the ranks of times with numbers, in standard errors of independent ones."""
    if not len(times) or not np.ptp(times) or not np.ptp(numbers):
        return 0.0
    ranks, centred = np.argsort(np.argsort(times, kind="stable")), numbers - numbers.mean()
    return float(centred @ ranks) / float(np.linalg.norm(centred) * np.std(ranks))
