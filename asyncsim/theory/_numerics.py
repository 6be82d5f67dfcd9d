"""Bounds of a computation, roots, integrals, and quantiles and atoms of laws known by their distribution function."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.delays import Delay, FloatArray

MOST_NUMBERS = 2**22  # in one array: 32 MiB, or a dense matrix of order 2048
MOST_OPERATIONS = 2**35  # multiplications and additions of one call: some ten seconds
TURN = 2**13  # operations that take the time of one line of a Python loop


def require_size(arguments: str, numbers: float, remedy: str, *, operations: float = 0.0) -> None:
    """Refuse a computation that needs too much memory or time, before it begins or while it grows.

    `arguments` names those on which the size of the largest array and the operations depend, with their values.
    """
    for needs, most, unit in ((numbers, MOST_NUMBERS, "numbers in one array"), (operations, MOST_OPERATIONS, "steps")):
        if needs > most:
            raise ValueError(
                f"{arguments} needs {min(needs, sys.float_info.max):.3g} {unit}, and at most {most:.3g} are computed. "
                f"{remedy}"
            )


def require_finite(arguments: str, numbers: Any, remedy: str) -> Any:
    """Return the numbers, or refuse arguments for which they are too large for a float."""
    if not np.isfinite(numbers).all():
        raise ValueError(f"{arguments} gives numbers beyond the largest float. {remedy}")
    return numbers


def ways(total: float, chosen: float) -> float:
    """Return C(total, chosen) approximately, at once for any arguments, infinite beyond the largest float."""
    logarithm = math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)
    return math.exp(logarithm) if logarithm < 700 else math.inf


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """Return a root of a function whose values at `low` and `high` differ in sign, to about 12 digits."""
    from scipy.optimize import brentq

    find: Any = brentq
    return float(find(function, low, high, xtol=1e-13 * (abs(low) + abs(high)), rtol=1e-13))


def integrals(function: Callable[[FloatArray], FloatArray], edges: FloatArray) -> FloatArray:
    """Return ∫ f from the first edge to every edge, by four Gauss-Legendre points per cell, in the shape of `edges`."""
    inside, weights = gauss(edges, 4)
    return np.concatenate([[0.0], np.cumsum(function(inside) @ weights * np.diff(edges))])


def gauss(edges: FloatArray, number: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre points in every cell, shape (cells, number), and their weights, which sum to 1."""
    points, weights = np.polynomial.legendre.leggauss(number)
    return edges[:-1, None] + np.diff(edges)[:, None] * (points + 1) / 2, weights / 2


_TAIL = np.logspace(-13, -4, 73)
LEVELS = np.concatenate([_TAIL, np.linspace(0, 1, 2049)[1:-1], 1 - _TAIL])  # probabilities, far into both tails
_BISECTIONS = 110  # from the largest float bracket in use down to neighbouring floats
_SMALLEST_ATOM = 1e-7


def quantile(law: Delay, probability: ArrayLike) -> FloatArray:
    """Return the least t with cdf(t) >= probability, by bisection down to rounding, in the shape of `probability`."""
    probability = np.asarray(probability, dtype=np.float64)
    low, high = np.full(probability.shape, -0.0), np.full(probability.shape, max(law.mean, 1e-300))
    if not np.isfinite(high).all():
        high = np.ones(probability.shape)
    while (short := law.cdf(high) < probability).any() and high.max() < 1e300:
        high = np.where(short, 4 * high, high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = law.cdf(middle) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def has_atoms(law: Delay) -> bool:
    """Return whether some single delay has a probability above 1e-7, found from the distribution function alone."""
    if law.cdf(0.0) > _SMALLEST_ATOM:
        return True
    edges = np.unique(quantile(law, np.linspace(0, 1, 513)[1:-1]))
    # A density may be infinite at 0 (gamma with cv > 1), hence no cell that touches 0.
    edges = np.concatenate([edges[:1] / 2, edges, edges[-1:] * 2])
    low, high = edges[:-1], edges[1:]
    for _ in range(40):
        middle = (low + high) / 2
        in_lower_half = law.cdf(middle) - law.cdf(low) >= law.cdf(high) - law.cdf(middle)
        low, high = np.where(in_lower_half, low, middle), np.where(in_lower_half, middle, high)
    return bool((law.cdf(high) - law.cdf(low)).max() > _SMALLEST_ATOM)
