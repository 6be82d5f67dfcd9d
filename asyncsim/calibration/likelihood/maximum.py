"""The maximum of a likelihood within bounds, and the normal approximation around it.

A coordinate whose maximum is at an edge, of its bounds or of what the data allow (a shortest delay is no longer than
the shortest duration), has an error on one side only: exponential rather than normal. The others are normal, given it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Value = Callable[[FloatArray], float]

IMPOSSIBLE = -1e15  # the logarithm of a likelihood of 0, or below: the more durations are impossible, the lower
FEW = 8  # coordinates, up to which a simplex finds its way
PER_COORDINATE = 150  # evaluations of a simplex
SLOPE = 1e-6  # step of the gradients of the search, in widths of the prior
NEAR = 0.02  # of the log-likelihood: a maximum so close to a bound is at it
FAR = 0.02  # in widths of the prior, how far away walls are looked for
INWARDS = 0.25  # widths of the prior, from which on a likelihood that is no lower is not highest at a bound
ROUNDS = 4  # of the search along walls and between them
STEP = 0.1  # of a second difference, in standard errors
FALL = 0.5  # of the log-likelihood, by which a slope at an edge is measured
STEEP = 25.0  # standard deviations from its middle, from which on a normal tail is exponential
FLAT = 1e-6  # a fall over the whole width that is none
TIGHT = 1e-12  # relative; what is closer to an edge is at it
ONE_SIDED = 100  # sweeps over coordinates that are at edges, where several are


class Edge(NamedTuple):
    """A coordinate whose maximum is at an edge.

    Attributes:
        place: Which.
        side: 1 at an upper end, -1 at a lower one.
        bound: Whether it is the end of the given range; otherwise beyond it the data are impossible.
    """

    place: int
    side: int
    bound: bool


class Corner(ValueError):
    """A coordinate that cannot move either way, because the data are impossible on both sides."""

    def __init__(self, place: int) -> None:
        super().__init__(f"coordinate {place} is in a corner")
        self.place = place


class Peak(NamedTuple):
    """Where a likelihood is highest.

    Attributes:
        at: (p,) coordinates.
        height: Log-likelihood there.
        edges: Of the coordinates that are at one.
    """

    at: FloatArray
    height: float
    edges: tuple[Edge, ...] = ()


def climb(value: Value, start: FloatArray, low: FloatArray, high: FloatArray) -> Peak:
    """Up from one point: a simplex, which walls do not mislead, then gradients."""
    from scipy.optimize import minimize

    at, ends = start, list(zip(low, high, strict=True))
    loss = lambda x: -value(x)  # noqa: E731
    if len(start) <= FEW:
        options = {"maxfev": PER_COORDINATE * len(start), "xatol": 1e-6, "fatol": 1e-4, "adaptive": len(start) > 2}
        simplex = _simplex(start, low, high)
        at = minimize(loss, at, method="Nelder-Mead", bounds=ends, options={**options, "initial_simplex": simplex}).x
    options = {"maxiter": 200, "ftol": 1e-14, "gtol": 1e-4}
    slope = {"jac": "3-point", "options": {**options, "finite_diff_rel_step": SLOPE}}
    found = minimize(loss, np.clip(at, low, high), method="L-BFGS-B", bounds=ends, **slope)
    best = max((np.clip(found.x, low, high), at), key=value)
    return Peak(best, value(best))


def summit(value: Value, peak: Peak, low: FloatArray, high: FloatArray) -> Peak:
    """The highest point near one that `climb` found, with the edges that it is at.

    Raises:
        Corner: If a coordinate cannot move either way.
    """
    edges: dict[int, Edge] = {}
    for _ in range(ROUNDS):
        before, known = peak.height, len(edges)
        for place in range(len(low)):
            if place in edges and edges[place].bound:
                continue
            edge, peak = _edge(value, peak, place, low, high)
            if edge is not None:
                edges[place] = edge
        peak = _between(value, peak, low, high, sorted(edges))
        if peak.height - before < NEAR and len(edges) == known:
            break
    walls = [edge.place for edge in edges.values() if not edge.bound]
    if walls and climb(value, peak.at, low, high).height > peak.height + NEAR:  # along several walls at once
        raise Corner(walls[0])
    return peak._replace(edges=tuple(edges[place] for place in sorted(edges)))


def _edge(value: Value, peak: Peak, place: int, low: FloatArray, high: FloatArray) -> tuple[Edge | None, Peak]:
    """The edge that a coordinate is at, and the point moved there."""
    ends = {1: high[place], -1: low[place]}
    heights = {side: value(_moved(peak.at, place, end)) for side, end in ends.items()}
    near = [side for side in (1, -1) if heights[side] >= peak.height - NEAR]
    if len(near) == 2:  # nothing depends on it
        return None, peak
    if near:
        side = near[0]
        inside = _moved(peak.at, place, ends[side] - side * min(INWARDS, (high[place] - low[place]) / 2))
        other = _between(value, Peak(inside, value(inside)), low, high, [place])
        if other.height >= peak.height - NEAR:  # along a ridge, which happens to end there
            return None, other
        return Edge(place, side, True), Peak(_moved(peak.at, place, ends[side]), heights[side])
    walls = {side: wall for side, end in ends.items() if (wall := _wall(value, peak, place, side, end)) is not None}
    if len(walls) == 2:
        raise Corner(place)
    for side, wall in walls.items():
        there = _moved(peak.at, place, wall)
        if value(there) >= peak.height:
            return Edge(place, side, False), Peak(there, value(there))
    return None, peak


def _wall(value: Value, peak: Peak, place: int, side: int, end: float) -> float | None:
    """The last possible value in a direction, if the next ones are impossible."""
    inside, outside = peak.at[place], peak.at[place] + side * min(FAR, abs(end - peak.at[place]))
    if value(_moved(peak.at, place, outside)) > IMPOSSIBLE:
        return None
    while abs(outside - inside) > TIGHT * max(1.0, abs(inside)):
        middle = (inside + outside) / 2
        if value(_moved(peak.at, place, middle)) > IMPOSSIBLE:
            inside = middle
        else:
            outside = middle
    return inside


def _between(value: Value, peak: Peak, low: FloatArray, high: FloatArray, fixed: Sequence[int]) -> Peak:
    """Up in the coordinates that are at no edge."""
    free = [place for place in range(len(low)) if place not in fixed]
    if not free:
        return peak

    def inner(x: FloatArray) -> float:
        at = peak.at.copy()
        at[free] = x
        return value(at)

    found = climb(inner, peak.at[free], low[free], high[free])
    at = peak.at.copy()
    at[free] = found.at
    return Peak(at, found.height) if found.height >= peak.height else peak


class Shape(NamedTuple):
    """A log-likelihood around its maximum: g·δ - ½ δ·H·δ, g being 0 but at edges.

    Attributes:
        at: (p,) the maximum.
        slope: (p,) g, outwards.
        information: (p, p) H.
        edges: Of the maximum.
    """

    at: FloatArray
    slope: FloatArray
    information: FloatArray
    edges: tuple[Edge, ...]

    @property
    def inner(self) -> list[int]:
        """The coordinates that are at no edge."""
        at_edge = {edge.place for edge in self.edges}
        return [place for place in range(len(self.at)) if place not in at_edge]

    @property
    def covariance(self) -> FloatArray:
        """Of the inner coordinates, given the others."""
        return np.asarray(np.linalg.inv(self.information[np.ix_(self.inner, self.inner)]), np.float64)

    def draw(self, generator: np.random.Generator, count: int, low: FloatArray, high: FloatArray) -> FloatArray:
        """(count, p) from exp(g·δ - ½ δ·H·δ) within the bounds: first what is at an edge, then the others, given it."""
        away = np.zeros((count, len(self.at)))
        inner, outer = self.inner, [edge.place for edge in self.edges]
        if outer:
            sides = np.array([edge.side for edge in self.edges])
            room = np.where(sides > 0, (self.at - low)[outer], (high - self.at)[outer])
            away[:, outer] = -sides * self._one_sided(generator, count, inner, outer, sides, room)
        if inner:
            across = self.information[np.ix_(inner, outer)]
            centre = -(away[:, outer] @ across.T) @ self.covariance if outer else np.zeros((count, len(inner)))
            spread = np.linalg.cholesky(self.covariance)
            away[:, inner] = centre + generator.standard_normal((count, len(inner))) @ spread.T
            for _ in range(ROUNDS):  # what is out of bounds is drawn again
                out = ((self.at + away < low) | (self.at + away > high))[:, inner].any(axis=1)
                fresh = centre + generator.standard_normal((count, len(inner))) @ spread.T
                away[np.ix_(np.flatnonzero(out), np.array(inner))] = fresh[out]
        return np.clip(self.at + away, low, high)

    def _one_sided(
        self,
        generator: np.random.Generator,
        count: int,
        inner: list[int],
        outer: list[int],
        sides: NDArray[np.int64],
        room: FloatArray,
    ) -> FloatArray:
        """(count, edges) distances from the edges, with density exp(-|g| t - ½ t·S·t) where the others are free."""
        from scipy.special import ndtr, ndtri

        h, across = self.information, self.information[np.ix_(inner, outer)]
        s = h[np.ix_(outer, outer)] - (across.T @ self.covariance @ across if inner else 0.0)
        s = s * np.outer(sides, sides)
        slope = np.abs(self.slope[outer])
        away = np.minimum(generator.exponential(size=(count, len(outer))) / np.maximum(slope, 1e-9), room)
        for _ in range(ONE_SIDED if len(outer) > 1 else 1):
            for i in range(len(outer)):
                pull = slope[i] + away @ s[i] - away[:, i] * s[i, i]
                sd = max(s[i, i], 1e-300) ** -0.5
                if (pull * sd > STEEP).all():  # exponential, within the room
                    pull = np.maximum(pull, FLAT / room[i])
                    away[:, i] = -np.log1p(generator.random(count) * np.expm1(-pull * room[i])) / pull
                else:  # the tail of a normal, by its inverse
                    first, last = ndtr(-pull * sd), ndtr(-pull * sd - room[i] / sd)
                    away[:, i] = sd * -ndtri(first - generator.random(count) * (first - last)) - pull * sd * sd
        return np.clip(away, 0.0, room)


def shape_of(value: Value, peak: Peak, scale: FloatArray, floor: float, low: FloatArray, high: FloatArray) -> Shape:
    """Slopes and second differences of a log-likelihood at its maximum.

    Args:
        value: Log-likelihood.
        peak: Its maximum.
        scale: (p,) first guesses of the standard errors.
        floor: Least information in any direction of the inner coordinates: that of the bounds themselves.
        low, high: (p,) bounds.

    Example:
        >>> value = lambda x: float(-2 * (x[0] - 1) ** 2)
        >>> bounds = np.array([-9.0]), np.array([9.0])
        >>> shape_of(value, Peak(np.array([1.0]), 0.0), np.array([0.3]), 1e-6, *bounds).information.round(6).tolist()
        [[4.0]]
    """
    size, at = len(peak.at), peak.at
    edges = {edge.place: edge for edge in peak.edges}
    steps, slope, information = np.array(scale, np.float64), np.zeros(size), np.zeros((size, size))
    for place in range(size):
        if place in edges:
            steps[place], slope[place], information[place, place] = _at_edge(value, peak, edges[place], low, high)
        else:
            steps[place], information[place, place] = _curvature(value, peak, place, steps[place], low, high)
    for i in range(size):
        for j in range(i):
            information[i, j] = information[j, i] = _mixed(value, at, i, j, steps, edges)
    inner = [place for place in range(size) if place not in edges]
    if inner:
        information[np.ix_(inner, inner)] = _raised(information[np.ix_(inner, inner)], floor)
    return Shape(at, slope, information, peak.edges)


def _curvature(
    value: Value, peak: Peak, place: int, step: float, low: FloatArray, high: FloatArray
) -> tuple[float, float]:
    """A step of a tenth of a standard error, and minus the second derivative, by central differences."""
    most = (high[place] - low[place]) / 4
    second = 0.0
    for _ in range(ROUNDS):
        step = min(step, most)
        ends = [value(_moved(peak.at, place, peak.at[place] + side * step)) for side in (1, -1)]
        while min(ends) <= IMPOSSIBLE and step > TIGHT:
            step /= 4
            ends = [value(_moved(peak.at, place, peak.at[place] + side * step)) for side in (1, -1)]
        second = (2 * peak.height - sum(ends)) / step**2
        wanted = STEP / np.sqrt(second) if second > 0 else most
        if abs(np.log(min(wanted, most) / step)) < 0.5:
            break
        step = min(wanted, most)
    return step, max(second, 0.0)


def _at_edge(value: Value, peak: Peak, edge: Edge, low: FloatArray, high: FloatArray) -> tuple[float, float, float]:
    """A step inwards by which it falls a little; the slope outwards, and minus the second derivative."""
    at = peak.at[edge.place]
    room = (at - low[edge.place]) if edge.side > 0 else (high[edge.place] - at)
    fall = lambda step: peak.height - value(_moved(peak.at, edge.place, at - edge.side * step))  # noqa: E731
    step = room / 4
    while fall(step) > FALL and step > TIGHT * room:
        step /= 2
    first, second = fall(step), fall(2 * step)
    slope, bend = (4 * first - second) / (2 * step), (second - 2 * first) / step**2
    return step, edge.side * max(slope, 0.0), max(bend, 0.0)


def _mixed(value: Value, at: FloatArray, i: int, j: int, steps: FloatArray, edges: dict[int, Edge]) -> float:
    """Minus the mixed derivative, by central differences, and inwards where a coordinate is at an edge."""
    ways = [(-edges[k].side, 0) if k in edges else (1, -1) for k in (i, j)]
    total, divisor = 0.0, 1.0
    for a, sign in zip(ways[0], (1, -1), strict=True):
        for b, other in zip(ways[1], (1, -1), strict=True):
            height = value(_moved(_moved(at, i, at[i] + a * steps[i]), j, at[j] + b * steps[j]))
            if height <= IMPOSSIBLE:
                return 0.0
            total += sign * other * height
    for k, (first, last) in zip((i, j), ways, strict=True):
        divisor *= (first - last) * steps[k]
    return -total / divisor


def _raised(information: FloatArray, floor: float) -> FloatArray:
    """With no eigenvalue below a floor: directions that the data do not tell are as wide as the bounds."""
    values, vectors = np.linalg.eigh(information)
    return (vectors * np.maximum(values, floor)) @ vectors.T


def _moved(at: FloatArray, place: int, to: float) -> FloatArray:
    found = at.copy()
    found[place] = to
    return found


def _simplex(start: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """The point and, in each coordinate, a tenth of a width away from it, to the side where there is more room."""
    corners = [start]
    for place in range(len(start)):
        side = 1 if high[place] - start[place] >= start[place] - low[place] else -1
        corners.append(_moved(start, place, start[place] + side * min(0.1, (high[place] - low[place]) / 4)))
    return np.array(corners)
