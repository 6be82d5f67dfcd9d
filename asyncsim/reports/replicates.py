"""The same measurement with several seeds, batched in one replay or one after another, with standard errors."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks

__all__ = ["Lanes", "Limit", "Mean", "batched", "mean_and_error", "mean_on_grid", "replicate"]


class Mean(NamedTuple):
    """A mean over replicates and its standard error, as arrays of one shape."""

    value: NDArray[np.float64]
    error: NDArray[np.float64]


def mean_and_error(values: ArrayLike, axis: int = 0) -> Mean:
    """Return the mean over independent replicates along an axis, and its standard error s/√n, NaN for one replicate."""
    samples = np.asarray(values, np.float64)
    count = samples.shape[axis]
    mean = samples.mean(axis=axis)
    if count < 2:
        return Mean(mean, np.full_like(mean, np.nan))
    return Mean(mean, samples.std(axis=axis, ddof=1) / np.sqrt(count))


def replicate(measure: Callable[[int], Mapping[str, ArrayLike]], seeds: int) -> dict[str, NDArray[np.float64]]:
    """Measure with seeds 0, 1, …: for each NAME its mean over seeds, and under NAME_error the standard error."""
    seeds = checks.require_count("seeds", seeds, remedy="Measure with one seed or more.")
    rows = [measure(seed) for seed in range(seeds)]
    results = {}
    for name in rows[0]:
        results[name], results[f"{name}_error"] = mean_and_error(np.array([row[name] for row in rows]))
    return results


class Limit(NamedTuple):
    """A mean of limits and its standard error."""

    value: float
    error: float


def mean_on_grid(limits: ArrayLike, step: float) -> Limit:
    """Return the mean of limits from a grid with this relative step, and its error, which includes that of the grid."""
    # A limit lies anywhere in its cell of the grid, with the standard deviation of a uniform law.
    mean, error = mean_and_error(limits)
    return Limit(float(mean), math.hypot(0.0 if np.isnan(error) else error, step * mean / math.sqrt(12)))


class Lanes(NamedTuple):
    """One value for an argument of the rule and one seed for `replay`, for each lane of a replay."""

    values: NDArray[np.float64]
    seeds: list[int]


def batched(values: ArrayLike, seeds: int) -> Lanes:
    """Pair every value of an argument with every seed 0, 1, …, so that a single replay computes them all.

    The lanes are ordered by seed: reshape the results of the replay to (seeds, values, …).
    """
    seeds = checks.require_count("seeds", seeds, remedy="Replay one seed or more.")
    grid = np.asarray(values, np.float64)
    return Lanes(np.tile(grid, seeds), [seed for seed in range(seeds) for _ in grid])
