"""Workers that make windows of local steps and then average with random others: drift, noise, and stable momentum."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.theory._outer import Step, Window
from asyncsim.theory._parameters import Momentum, Workers, require_count, require_scale_or_zero

Groups = Annotated[int, require_count, "Use one group or more."]  # r
OuterStep = Annotated[float, require_scale_or_zero, "Give the outer step size, such as 0.7."]  # α
Curvature = Annotated[float, require_scale_or_zero, "Give `window_curvature`, from 0 to 2."]  # c
HALVINGS = 50  # of the interval in which the limit lies


@checked
def partition_consensus(groups: Groups, workers: Workers) -> float:
    """Return the share of Σ |x_i - x̄|² that is left where random groups of workers take their means (exact).

    Whatever the sizes of the r groups, one random partition leaves (r - 1)/(n - 1) on average. Pairs have r = n/2.

    Args:
        groups: Number of groups r, at most n.
        workers: Number of workers n, at least 2.

    Example:
        >>> round(partition_consensus(4, workers=8), 5)
        0.42857

    References:
        The mean over a group is a projection, and all r of them together one of rank r. Random labels spread what it
        keeps besides the mean, r - 1 dimensions, evenly over n - 1.
    """
    if workers < 2:
        raise ValueError(f"`workers` must be at least 2; got {workers}. One has nobody to agree with.")
    checks.require_at_most("groups", groups, largest=workers, remedy="A group has one worker or more.")
    return (groups - 1) / (workers - 1)


@checked
def local_drift(step: Step, window: Window, workers: Workers) -> float:
    """Return E (1/n) Σ |x_i - x̄|² of workers after a window of local steps from one point (exact).

    On ½hx² with gradients of variance s², H steps leave the variance η²s²·(1 - q^H)/(1 - q) with q = (1 - ηh)², of
    which the mean of n workers takes its share 1/n.

    Args:
        step: ηh, the step size of a local step times the curvature, no unit, at least 0.
        window: H, local steps in a window.
        workers: Number of workers n.

    Returns:
        The distance in units of η²s², infinite where it is beyond all numbers.

    Example:
        >>> round(local_drift(0.1, window=10, workers=8), 4)
        4.0454

    References:
        Stich 2019, "Local SGD converges fast and communicates little", bounds it.
    """
    contraction = (1 - step) ** 2
    with np.errstate(over="ignore"):
        spread = window if contraction == 1 else (1 - np.power(np.float64(contraction), window)) / (1 - contraction)
    return float((1 - 1 / workers) * spread)


def _moments(step: float, momentum: float, curvature: float, workers: float) -> NDArray[np.float64]:
    """Return the matrix by which the moments a = E Σ|d|², b = E Σ d·m and e = E Σ|m|² change in a round."""
    mean, square = _shares(curvature, workers)
    velocity = np.array([step**2 * square, -2 * step * momentum * mean, momentum**2])
    cross = np.array([-step * mean, momentum, 0.0]) + velocity
    distance = np.array([1 - 2 * step * mean, 2 * momentum, 0.0]) + velocity
    return np.array([distance, cross, velocity])


def _shares(curvature: float, workers: float) -> tuple[float, float]:
    """Return the mean and the mean square of the share by which a pair is pulled, on the curvature of a window."""
    within = workers / (2 * (workers - 1))  # of Σ |d|², what the pairs differ by inside
    return curvature * (1 - within) + within, curvature**2 * (1 - within) + within


def _require_pairs(workers: int) -> None:
    if workers % 2:
        raise ValueError(f"`workers` must be even, so that all meet in pairs; got {workers}. Use one more.")


@checked
def noloco_noise_floor(outer_step: OuterStep, momentum: Momentum, curvature: Curvature, workers: Workers) -> float:
    """Return E (1/n) Σ |φ_i - φ̄|² of NoLoCo's outer weights, where windows have noise of variance s² (exact).

    A window ends at θ = φ - cφ + ξ, and random pairs make m ← βm + α(mean θ - φ), φ ← φ + m. With d = φ - φ̄,
    q = n/(2(n - 1)), p = c(1 - q) + q and r = c²(1 - q) + q, sums over the workers a = E|d|², b = E d·m, e = E|m|² obey

        e' = β²e - 2αβp·b + α²r·a + α²(1 - q)(n - 1)s²,   b' = βb - αp·a + e',   a' = a + 2(βb - αp·a) + e'.

    Args:
        outer_step: α, the outer step size.
        momentum: β in [0, 1).
        curvature: c of a window, `window_curvature`.
        workers: Number of workers n, even.

    Returns:
        The distance a/n in units of s², infinite where it grows.

    Example:
        >>> round(8 * noloco_noise_floor(0.7, momentum=0.5, curvature=0.3, workers=8), 6)
        4.186047

    References:
        Kolehmainen et al. 2025, arXiv 2506.10911 (NoLoCo), for the method. The moments are derived here.
    """
    _require_pairs(workers)
    change = _moments(outer_step, momentum, curvature, workers)
    if not np.isfinite(change).all() or np.abs(np.linalg.eigvals(change)).max() >= 1:
        return float("inf")
    within = workers / (2 * (workers - 1))
    source = np.full(3, outer_step**2 * (1 - within) * (workers - 1))
    return float(np.linalg.solve(np.eye(3) - change, source)[0] / workers)


@checked
def noloco_limit(outer_step: OuterStep, workers: Workers, curvature: Curvature = 0.0) -> float:
    """Return the largest momentum β with which NoLoCo's outer weights stay together, in mean square (exact).

    It is the β at which the moments of `noloco_noise_floor` begin to grow, 1 if they never do, and 0 if they always do.
    Without curvature it is what flat directions allow, where only the pairs pull the workers together.

    Args:
        outer_step: α, the outer step size, positive.
        workers: Number of workers n, even.
        curvature: c of a window, `window_curvature`.

    Example:
        DiLoCo's momentum 0.9 is too much for pairs:

        >>> [round(noloco_limit(0.7, workers), 3) for workers in (4, 8, 16, 10**9)]
        [0.867, 0.832, 0.818, 0.806]

    References:
        As for `noloco_noise_floor`.
    """
    _require_pairs(workers)
    if outer_step == 0:
        raise ValueError("`outer_step` must be positive; got 0.0. Workers that never move stay together.")

    def grows(momentum: float) -> bool:
        change = _moments(outer_step, momentum, curvature, workers)
        return not np.isfinite(change).all() or bool(np.abs(np.linalg.eigvals(change)).max() > 1)

    low, high = 0.0, 1.0
    if grows(low):
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if grows(middle) else (middle, high)
    return low if high < 1 else 1.0
