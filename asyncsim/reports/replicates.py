"""The same measurement with several seeds, batched in one replay or one after another, with standard errors."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks

__all__ = ["Lanes", "Mean", "batched", "mean_and_error", "replicate"]


class Mean(NamedTuple):
    """A mean over replicates and its standard error, as arrays of one shape."""

    value: NDArray[np.float64]
    error: NDArray[np.float64]


def mean_and_error(values: ArrayLike, axis: int = 0) -> Mean:
    """Mean over independent replicates, and its standard error s/√n.

    Args:
        values: One value per replicate along `axis`, which the result does not have.
        axis: The axis of the replicates.

    Returns:
        A `Mean`; of a single replicate, the error is NaN.

    Example:
        >>> mean, error = mean_and_error([1.0, 2.0, 3.0])
        >>> float(mean), round(float(error), 3)
        (2.0, 0.577)
    """
    samples = np.asarray(values, np.float64)
    count = samples.shape[axis]
    mean = samples.mean(axis=axis)
    if count < 2:
        return Mean(mean, np.full_like(mean, np.nan))
    return Mean(mean, samples.std(axis=axis, ddof=1) / np.sqrt(count))


def replicate(measure: Callable[[int], Mapping[str, ArrayLike]], seeds: int) -> dict[str, NDArray[np.float64]]:
    """Repeat a measurement with seeds 0, 1, …, and average.

    Args:
        measure: Seed -> measured numbers, by name.
        seeds: Number of seeds.

    Returns:
        For each NAME, its mean, and under NAME_error the standard error; see `mean_and_error`.

    Raises:
        ValueError: If `seeds` is not a whole number of at least 1.

    Example:
        >>> replicate(lambda seed: {"loss": 0.5 * seed}, seeds=2)["loss_error"].item()
        0.25
    """
    seeds = checks.require_integer("seeds", seeds, least=1, remedy="Measure with one seed or more.")
    rows = [measure(seed) for seed in range(seeds)]
    found = {}
    for name in rows[0]:
        found[name], found[f"{name}_error"] = mean_and_error(np.array([row[name] for row in rows]))
    return found


class Lanes(NamedTuple):
    """The values and seeds of the lanes of a replay.

    Attributes:
        values: (lanes,) one value per lane, for an argument of the rule.
        seeds: (lanes,) one seed per lane, for `replay`.
    """

    values: NDArray[np.float64]
    seeds: list[int]


def batched(values: ArrayLike, seeds: int) -> Lanes:
    """Every value of an argument with every seed, so that a single replay computes them all.

    Args:
        values: (k,) values, such as a grid of step sizes.
        seeds: Number of seeds: 0, 1, …

    Returns:
        `Lanes`, ordered by seed: reshape the results of the replay to (seeds, k, …).

    Raises:
        ValueError: If `seeds` is not a whole number of at least 1.

    Example:
        >>> batched([0.1, 0.2], seeds=2)
        Lanes(values=array([0.1, 0.2, 0.1, 0.2]), seeds=[0, 0, 1, 1])
    """
    seeds = checks.require_integer("seeds", seeds, least=1, remedy="Replay one seed or more.")
    grid = np.asarray(values, np.float64)
    return Lanes(np.tile(grid, seeds), [seed for seed in range(seeds) for _ in grid])
