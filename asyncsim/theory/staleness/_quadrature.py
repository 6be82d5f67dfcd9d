"""Integrals ∫ g(x) F(dx) over laws that are known only by their distribution functions."""

from typing import NamedTuple

import numpy as np

from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._per_worker import Group
from asyncsim.theory._laws import quantile

_NODES = 8  # per panel: where g is evaluated
_FINE = 16  # per panel: where F is evaluated
_OMITTED_MASS = 1e-11


class Quadrature(NamedTuple):
    """Times at which to evaluate g, shape (points,), and one row of weights per law, shape (laws, points)."""

    x: FloatArray
    weights: FloatArray


def quadrature(laws: tuple[Group, ...], longest: float) -> Quadrature:
    """Nodes and weights such that weights[l] @ g(x) = ∫_0^longest g(x) F_l(dx) for all laws at once."""
    edges = _panels(laws, longest)
    points, _ = np.polynomial.legendre.leggauss(_NODES)
    x = edges[:-1, None] + np.diff(edges)[:, None] * (points + 1) / 2
    return Quadrature(x.ravel(), np.array([_weights(group.law, edges).ravel() for group in laws]))


def longest_time(laws: tuple[Group, ...]) -> float:
    """The time that no law exceeds with a probability above 1e-11."""
    return max(float(quantile(group.law, 1 - _OMITTED_MASS)) for group in laws)


def _panels(laws: tuple[Group, ...], longest: float) -> FloatArray:
    """The edges of panels, halved while one holds much probability, or is wide and not empty."""
    workers = sum(group.workers for group in laws)
    cycle = min(group.law.mean for group in laws)
    heaviest, widest = 1 / (6 + np.sqrt(workers)), cycle * min(0.5, 8 / np.sqrt(workers))
    # A law's support may end inside a panel: its ends are edges from the start.
    ends = [float(quantile(group.law, end)) for group in laws for end in (1e-14, 1 - 1e-14)]
    edges = np.unique([0.0, *[end for end in ends if end < longest], longest])
    while True:
        mass = np.max([np.diff(group.law.cdf(edges)) for group in laws], axis=0)
        width = np.diff(edges)
        split = ((mass > heaviest) & (width > 1e-9 * cycle)) | ((mass > 1e-8) & (width > widest))
        if not split.any():
            return edges
        edges = np.sort(np.concatenate([edges, (edges[:-1] + width / 2)[split]]))


def _weights(law: Delay, edges: FloatArray) -> FloatArray:
    """∫ l_i dF = [l_i F] - ∫ l_i' F for the Lagrange polynomials l_i of every panel, shape (panels, nodes)."""
    right, slopes, fine = _lagrange()
    inside = edges[:-1, None] + np.diff(edges)[:, None] * (fine + 1) / 2
    # Relative to the left end: at 1 - 1e-11 the differences of F are what counts.
    start = law.cdf(edges[:-1])[:, None]
    return (law.cdf(edges[1:])[:, None] - start) * right - (law.cdf(inside) - start) @ slopes


def _lagrange() -> tuple[FloatArray, FloatArray, FloatArray]:
    """l_i(1), quadrature weights times l_i' at the fine points, and the fine points, all on [-1, 1]."""
    points, _ = np.polynomial.legendre.leggauss(_NODES)
    fine, fine_weights = np.polynomial.legendre.leggauss(_FINE)
    to_powers = np.linalg.inv(np.vander(points, increasing=True))  # column i: coefficients of l_i
    powers = np.arange(1, _NODES)
    slopes = (fine[:, None] ** (powers - 1) * powers) @ to_powers[1:]
    right = to_powers.sum(axis=0)
    return right, fine_weights[:, None] * slopes, fine
