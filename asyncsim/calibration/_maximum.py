"""The maximum of a likelihood within bounds, and the normal approximation around it.

A bound is active if the maximum is at it: an end of the range, or of the values that the data allow (a shortest
delay is no longer than the shortest duration). There, errors are on one side only and exponential rather than normal.
The others are normal, given it.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from asyncsim.calibration._transforms import FloatArray

Value = Callable[[FloatArray], float]

IMPOSSIBLE = -1e15  # the logarithm of a likelihood of 0, or below: the more durations are impossible, the lower
SIMPLEX_COORDINATES = 8  # coordinates, up to which a simplex finds its way
PER_COORDINATE = 150  # evaluations of a simplex
SLOPE = 1e-6  # step of the gradients of the search, in widths of the prior
BOUND_MARGIN = 0.02  # of the log-likelihood: a maximum so close to a bound is at it
SEARCH_WIDTH = 0.02  # in widths of the prior, how far away the ends of the possible values are looked for
INWARD_WIDTH = 0.25  # widths of the prior, from which on a likelihood that is no lower is not highest at a bound
ROUNDS = 4  # of the search at active bounds and between them
STEP = 0.1  # of a second difference, in standard errors
LOG_DROP = 0.5  # of the log-likelihood, by which a slope at an active bound is measured
STEEP_TAIL = 25.0  # standard deviations from its middle, from which on a normal tail is exponential
FLAT = 1e-6  # a fall over the whole width that is none
BOUND_TOLERANCE = 1e-12  # relative distance from an active bound that counts as none
ONE_SIDED_SWEEPS = 100  # sweeps over coordinates at active bounds, where there are several


class ActiveBound(NamedTuple):
    """A coordinate whose maximum is at an active bound."""

    place: int  # index of the coordinate
    side: int  # 1 at an upper end, -1 at a lower one
    of_range: bool  # whether it is an end of the range. Otherwise the data are impossible beyond it


class NoInteriorMaximum(ValueError):
    """A coordinate that cannot move either way, because the data are impossible on both sides."""

    def __init__(self, place: int) -> None:
        super().__init__(f"coordinate {place} has no interior maximum")
        self.place = place


class Maximum(NamedTuple):
    """Where a likelihood is highest."""

    at: FloatArray  # (p,) coordinates
    height: float  # log-likelihood there
    active: tuple[ActiveBound, ...] = ()  # the active bounds


def maximise(value: Value, start: FloatArray, low: FloatArray, high: FloatArray) -> Maximum:
    """Maximise from one point: by a simplex, which impossible values do not mislead, then by gradients."""
    from scipy.optimize import minimize

    at, ends = start, list(zip(low, high, strict=True))
    loss = lambda x: -value(x)  # noqa: E731
    if len(start) <= SIMPLEX_COORDINATES:
        # The point and, in each coordinate, one a tenth of a width away from it, to the side where there is more room.
        steps = np.where(high - start >= start - low, 1, -1) * np.minimum(0.1, (high - low) / 4)
        simplex = {"initial_simplex": np.vstack([start, start + np.diag(steps)])}
        options = {"maxfev": PER_COORDINATE * len(start), "xatol": 1e-6, "fatol": 1e-4, "adaptive": len(start) > 2}
        at = minimize(loss, at, method="Nelder-Mead", bounds=ends, options={**options, **simplex}).x
    options = {"maxiter": 200, "ftol": 1e-14, "gtol": 1e-4, "finite_diff_rel_step": SLOPE}
    end = minimize(loss, np.clip(at, low, high), method="L-BFGS-B", jac="3-point", bounds=ends, options=options).x
    best = max((np.clip(end, low, high), at), key=value)
    return Maximum(best, value(best))


def at_bounds(value: Value, maximum: Maximum, low: FloatArray, high: FloatArray) -> Maximum:
    """Move from the result of `maximise` to the highest point near it, and find its active bounds."""
    active: dict[int, ActiveBound] = {}
    for _ in range(ROUNDS):
        before, bounds = maximum.height, len(active)
        for place in range(len(low)):
            if place in active and active[place].of_range:
                continue
            bound, maximum = _bound(value, maximum, place, low, high)
            if bound is not None:
                active[place] = bound
        maximum = _between(value, maximum, low, high, sorted(active))
        if maximum.height - before < BOUND_MARGIN and len(active) == bounds:
            break
    of_data = [bound.place for bound in active.values() if not bound.of_range]
    # If all coordinates together lead higher, the way there is along several active bounds at once.
    if of_data and maximise(value, maximum.at, low, high).height > maximum.height + BOUND_MARGIN:
        raise NoInteriorMaximum(of_data[0])
    return maximum._replace(active=tuple(active[place] for place in sorted(active)))


def _bound(
    value: Value, maximum: Maximum, place: int, low: FloatArray, high: FloatArray
) -> tuple[ActiveBound | None, Maximum]:
    """Find the bound that a coordinate is at, and move the point there."""
    ends = {1: high[place], -1: low[place]}
    heights = {side: value(_replace_coordinates(maximum.at, place, end)) for side, end in ends.items()}
    near = [side for side in (1, -1) if heights[side] >= maximum.height - BOUND_MARGIN]
    if len(near) == 2:  # Nothing depends on the coordinate.
        return None, maximum
    if near:
        (side,) = near
        inside = _replace_coordinates(
            maximum.at, place, ends[side] - side * min(INWARD_WIDTH, (high[place] - low[place]) / 2)
        )
        other = _between(value, Maximum(inside, value(inside)), low, high, [place])
        if other.height >= maximum.height - BOUND_MARGIN:  # The point is on a ridge, which happens to end at the bound.
            return None, other
        return ActiveBound(place, side, True), Maximum(
            _replace_coordinates(maximum.at, place, ends[side]), heights[side]
        )
    last = {side: _last_possible(value, maximum, place, side, end) for side, end in ends.items()}
    if None not in last.values():
        raise NoInteriorMaximum(place)
    for side, coordinate in last.items():
        if coordinate is None:
            continue
        point = _replace_coordinates(maximum.at, place, coordinate)
        if value(point) >= maximum.height:
            return ActiveBound(place, side, False), Maximum(point, value(point))
    return None, maximum


def _last_possible(value: Value, maximum: Maximum, place: int, side: int, end: float) -> float | None:
    """Return the last possible value in a direction, if the next ones are impossible."""
    inside, outside = maximum.at[place], maximum.at[place] + side * min(SEARCH_WIDTH, abs(end - maximum.at[place]))
    if value(_replace_coordinates(maximum.at, place, outside)) > IMPOSSIBLE:
        return None
    while abs(outside - inside) > BOUND_TOLERANCE * max(1.0, abs(inside)):
        middle = (inside + outside) / 2
        if value(_replace_coordinates(maximum.at, place, middle)) > IMPOSSIBLE:
            inside = middle
        else:
            outside = middle
    return inside


def _between(value: Value, maximum: Maximum, low: FloatArray, high: FloatArray, fixed: Sequence[int]) -> Maximum:
    """Maximise over the coordinates that are at no active bound."""
    free = [place for place in range(len(low)) if place not in fixed]
    if not free:
        return maximum
    inner = maximise(
        lambda x: value(_replace_coordinates(maximum.at, free, x)), maximum.at[free], low[free], high[free]
    )
    if inner.height < maximum.height:
        return maximum
    return Maximum(_replace_coordinates(maximum.at, free, inner.at), inner.height)


class Shape(NamedTuple):
    """A log-likelihood around its maximum: g·δ - ½ δ·H·δ, g being 0 except at active bounds."""

    at: FloatArray  # (p,) the maximum
    slope: FloatArray  # (p,) g, outwards
    information: FloatArray  # (p, p) H
    active: tuple[ActiveBound, ...]  # of the maximum

    @property
    def inner(self) -> list[int]:
        """The coordinates that are at no active bound."""
        active = {bound.place for bound in self.active}
        return [place for place in range(len(self.at)) if place not in active]

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the inner coordinates, given the others."""
        return np.asarray(np.linalg.inv(self.information[np.ix_(self.inner, self.inner)]), np.float64)

    def draw(self, generator: np.random.Generator, count: int, low: FloatArray, high: FloatArray) -> FloatArray:
        """Draw (count, p) from exp(g·δ - ½ δ·H·δ) within the bounds: first at active bounds, then the others."""
        deviations = np.zeros((count, len(self.at)))
        inner, outer = self.inner, [bound.place for bound in self.active]
        if outer:
            deviations[:, outer] = self._one_sided(generator, count, outer, low, high)
        if inner:
            across = self.information[np.ix_(inner, outer)]
            centre = -(deviations[:, outer] @ across.T) @ self.covariance if outer else np.zeros((count, len(inner)))
            spread = np.linalg.cholesky(self.covariance)
            deviations[:, inner] = centre + generator.standard_normal((count, len(inner))) @ spread.T
            for _ in range(ROUNDS):  # Draws out of bounds are repeated.
                out = ((self.at + deviations < low) | (self.at + deviations > high))[:, inner].any(axis=1)
                fresh = centre + generator.standard_normal((count, len(inner))) @ spread.T
                deviations[np.ix_(np.flatnonzero(out), np.array(inner))] = fresh[out]
        return np.clip(self.at + deviations, low, high)

    def _one_sided(
        self, generator: np.random.Generator, count: int, outer: list[int], low: FloatArray, high: FloatArray
    ) -> FloatArray:
        """Draw (count, active) distances t from active bounds, of density exp(-|g| t - ½ t·S·t)."""
        from scipy.special import ndtr, ndtri

        sides = np.array([bound.side for bound in self.active])
        room = np.where(sides > 0, (self.at - low)[outer], (high - self.at)[outer])
        across = self.information[np.ix_(self.inner, outer)]
        s = self.information[np.ix_(outer, outer)] - (across.T @ self.covariance @ across if self.inner else 0.0)
        s = s * np.outer(sides, sides)
        slope = np.abs(self.slope[outer])
        away = np.minimum(generator.exponential(size=(count, len(outer))) / np.maximum(slope, 1e-9), room)
        for _ in range(ONE_SIDED_SWEEPS if len(outer) > 1 else 1):
            for i in range(len(outer)):
                pull = slope[i] + away @ s[i] - away[:, i] * s[i, i]
                sd = max(s[i, i], 1e-300) ** -0.5
                if (pull * sd > STEEP_TAIL).all():  # The tail is exponential, within the room.
                    pull = np.maximum(pull, FLAT / room[i])
                    away[:, i] = -np.log1p(generator.random(count) * np.expm1(-pull * room[i])) / pull
                else:  # The tail is that of a normal distribution, and is drawn by its inverse.
                    first, last = ndtr(-pull * sd), ndtr(-pull * sd - room[i] / sd)
                    away[:, i] = sd * -ndtri(first - generator.random(count) * (first - last)) - pull * sd * sd
        return -sides * np.clip(away, 0.0, room)


def shape_of(
    value: Value, maximum: Maximum, scale: FloatArray, floor: float, low: FloatArray, high: FloatArray
) -> Shape:
    """Compute slopes and second differences of a log-likelihood at its maximum."""
    size, at = len(maximum.at), maximum.at
    active = {bound.place: bound for bound in maximum.active}
    steps, slope, information = np.array(scale, np.float64), np.zeros(size), np.zeros((size, size))
    for place in range(size):
        if place in active:
            steps[place], slope[place], information[place, place] = _at_bound(value, maximum, active[place], low, high)
        else:
            steps[place], information[place, place] = _curvature(value, maximum, place, steps[place], low, high)
    for i, j in combinations(range(size), 2):
        information[i, j] = information[j, i] = _differentiate_twice(value, at, j, i, steps, active)
    inner = [place for place in range(size) if place not in active]
    if inner:
        information[np.ix_(inner, inner)] = raise_eigenvalues(information[np.ix_(inner, inner)], floor)
    return Shape(at, slope, information, maximum.active)


def _curvature(
    value: Value, maximum: Maximum, place: int, step: float, low: FloatArray, high: FloatArray
) -> tuple[float, float]:
    """Find a step of a tenth of a standard error, and minus the second derivative, by central differences."""
    most = (high[place] - low[place]) / 4
    second = 0.0
    for _ in range(ROUNDS):
        step = min(step, most)
        ends = [value(_replace_coordinates(maximum.at, place, maximum.at[place] + side * step)) for side in (1, -1)]
        while min(ends) <= IMPOSSIBLE and step > BOUND_TOLERANCE:
            step /= 4
            ends = [value(_replace_coordinates(maximum.at, place, maximum.at[place] + side * step)) for side in (1, -1)]
        second = (2 * maximum.height - sum(ends)) / step**2
        better = min(STEP / np.sqrt(second) if second > 0 else most, most)
        if abs(np.log(better / step)) < 0.5:
            break
        step = better
    return step, max(second, 0.0)


def _at_bound(
    value: Value, maximum: Maximum, bound: ActiveBound, low: FloatArray, high: FloatArray
) -> tuple[float, float, float]:
    """Find a step inwards by which it falls a little, the slope outwards, and minus the second derivative."""
    at = maximum.at[bound.place]
    room = (at - low[bound.place]) if bound.side > 0 else (high[bound.place] - at)
    fall = lambda step: maximum.height - value(_replace_coordinates(maximum.at, bound.place, at - bound.side * step))  # noqa: E731
    step = room / 4
    while fall(step) > LOG_DROP and step > BOUND_TOLERANCE * room:
        step /= 2
    first, second = fall(step), fall(2 * step)
    slope, bend = (4 * first - second) / (2 * step), (second - 2 * first) / step**2
    return step, bound.side * max(slope, 0.0), max(bend, 0.0)


def _differentiate_twice(
    value: Value, at: FloatArray, i: int, j: int, steps: FloatArray, active: dict[int, ActiveBound]
) -> float:
    """Compute minus the mixed derivative.

    Differences are central, but inwards for a coordinate at an active bound.
    """
    (a, b), (c, d) = ((-active[k].side, 0) if k in active else (1, -1) for k in (i, j))
    corners = [
        _replace_coordinates(at, [i, j], at[[i, j]] + np.array(way) * steps[[i, j]]) for way in product((a, b), (c, d))
    ]
    heights = [value(corner) for corner in corners]
    if min(heights) <= IMPOSSIBLE:
        return 0.0
    both_first, first, second, neither = heights
    return -(both_first - first - second + neither) / ((a - b) * steps[i] * (c - d) * steps[j])


def raise_eigenvalues(information: FloatArray, floor: float) -> FloatArray:
    """Raise eigenvalues to a floor, so that directions that the data do not identify are as wide as the bounds."""
    values, vectors = np.linalg.eigh(information)
    return (vectors * np.maximum(values, floor)) @ vectors.T


def _replace_coordinates(at: FloatArray, place: Any, to: Any) -> FloatArray:
    """Return a point with some of its coordinates changed."""
    point = at.copy()
    point[place] = to
    return point
