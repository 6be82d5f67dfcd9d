"""Roots and integrals of functions of one variable."""

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.delays import FloatArray


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """A root of a function whose values at `low` and `high` differ in sign, to about 12 digits."""
    from scipy.optimize import brentq

    find: Any = brentq
    return float(find(function, low, high, xtol=1e-13 * (abs(low) + abs(high)), rtol=1e-13))


def integrals(function: Callable[[FloatArray], FloatArray], edges: FloatArray) -> FloatArray:
    """∫ f from the first edge to every edge, by `cell_means`; same shape as `edges`."""
    return np.concatenate([[0.0], np.cumsum(cell_means(function, edges) * np.diff(edges))])


def cell_means(function: Callable[[FloatArray], FloatArray], edges: FloatArray) -> FloatArray:
    """The mean of f between neighbouring edges, by four Gauss-Legendre points per cell; one value per cell."""
    points, weights = np.polynomial.legendre.leggauss(4)
    inside = edges[:-1, None] + np.diff(edges)[:, None] * (points + 1) / 2
    return function(inside) @ weights / 2
