"""Durations between times of a clock that is so coarse that some jobs seem to take no time.

A time that is rounded down or to the nearest tick h moves by up to a tick. The difference of two of them has the right
mean, and h²/6 is added to its variance (Sheppard). No law of positive durations has made the zeros among them, so that
a fit of the differences as they are would choose among laws that begin at 0, whose mean may be another one.
"""

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration._transforms import FloatArray

WHOLE = 0.01  # of a tick: times that are nearer to a whole number of ticks are rounded
EQUAL_P_VALUE = 1e-3  # p-value below which workers have means of their own


def find_tick(durations: FloatArray, times: FloatArray) -> float:
    """Return the tick of the clock, in seconds, or 0 if no duration is 0 or if it is finer than all of them.

    Args:
        durations: (jobs,) those of a stage.
        times: (commits,) when the commits of the log came.
    """
    positive = durations[durations > 0]
    if len(positive) in (0, len(durations)):
        return 0.0
    tick = float(positive.min())
    ticks = np.concatenate([durations, times - times[0]]) / tick
    return tick if is_whole(ticks) else 0.0


def is_whole(ticks: FloatArray) -> bool:
    """Return whether numbers of ticks are whole."""
    return bool(np.abs(ticks - np.rint(ticks)).max(initial=0.0) < WHOLE)


def correct_spread(durations: FloatArray, worker: NDArray[np.int32], tick: float) -> FloatArray:
    """Draw durations together around their mean, or that of each worker if these differ, by what the clock spread them.

    Their variance is then less by h²/6. Durations that no more than the clock spreads become equal. Those of a mean
    below a tick, whose shape is not visible, become the quantiles of a gamma law.

    References:
        Sheppard 1898, "On the calculation of the most probable values of frequency constants for data arranged
        according to equidistant divisions of a scale".
    """
    mean = float(durations.mean())
    centre = np.full(len(durations), mean)
    if _differ(durations, worker):
        jobs = np.maximum(np.bincount(worker), 1)
        centre = (np.bincount(worker, durations) / jobs)[worker]
    away = durations - centre
    variance = float((away**2).mean())
    spread = variance - tick**2 / 6
    if spread <= 0:
        return centre
    if mean >= tick:
        return centre + np.sqrt(spread / variance) * away
    return centre * _gamma_ranks(durations, spread / mean**2)


def _gamma_ranks(durations: FloatArray, squared_cv: float) -> FloatArray:
    """Return, in the order of some durations, as many quantiles of a gamma law of mean 1."""
    from scipy.stats import gamma

    ranks = np.argsort(np.argsort(durations, kind="stable"), kind="stable")
    quantiles = gamma.ppf((ranks + 0.5) / len(ranks), 1 / squared_cv)
    return np.asarray(quantiles / quantiles.mean(), np.float64)


def _differ(durations: FloatArray, worker: NDArray[np.int32]) -> bool:
    """Return whether the durations of workers differ (Kruskal and Wallis)."""
    from scipy.stats import kruskal

    parts = [durations[worker == w] for w in np.unique(worker)]
    return len(parts) > 1 and float(kruskal(*parts).pvalue) < EQUAL_P_VALUE
