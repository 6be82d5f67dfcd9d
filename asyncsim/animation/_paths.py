"""The way of a central variable through a plane: two parameters, or two directions among many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import brief
from asyncsim.animation._film import Film
from asyncsim.animation._mechanism import Mechanism, make_mechanism
from asyncsim.engine import Run
from asyncsim.engine._layout import Packing
from asyncsim.trace import Trace
from asyncsim.workloads._analytic import Point, landscape_of
from asyncsim.workloads._batches import init_key

UNITS = 2**13  # whole numbers across the window: finer than any screen, so that a part of it can be magnified
REACH = 4  # windows around the window in which places are still distinguished
GRID, COARSE_GRID = 52, 24  # points of a side, of heights that cost nothing and of a model's loss
SHADES = 1000
MOST_LOSSES = 120  # points of a small curve
MARGIN = 0.15  # of the window, around its contents
MOST_AWAY = 1.5  # times the distance from the start to the minima, as far as anything is shown
WIDEST = 2.5  # times the least that a window must hold: overshoots are shown as far as this
PRINCIPAL = "principal"

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plane:
    """A window of a plane in the space of parameters."""

    origin: Floats  # (parameters,), the point (0, 0)
    directions: Floats  # (2, parameters)
    low: Floats  # (2,) corner of the window
    high: Floats  # (2,)
    # (rows, columns) from 0 to `SHADES`: the logarithm of the loss, from its lowest to its highest in the window, where
    # y grows with the row. None if it cannot be computed.
    heights: NDArray[np.int64] | None = None
    minima: tuple[Point, ...] = ()  # that are known
    names: tuple[str, str] = ("x", "y")  # of the two axes

    def project(self, points: ArrayLike) -> Floats:
        """Project points of shape (…, parameters) on the plane: (…, 2)."""
        with np.errstate(all="ignore"):  # runs may have diverged
            return (np.asarray(points, float) - self.origin) @ self.directions.T

    def round(self, places: Floats) -> Floats:
        """Round places to whole numbers, 0 to `UNITS` within the window and cut off far outside of it."""
        units = np.round((places - self.low) / (self.high - self.low) * UNITS)
        return np.clip(units, -REACH * UNITS, (1 + REACH) * UNITS)

    def place(self, units: Floats) -> Floats:
        """Return the places of whole numbers."""
        return self.low + units / UNITS * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class Path:
    """A run in a plane."""

    film: Film
    plane: Plane
    units: Floats  # (points, 2) the central variable before the window and after its commits, as far as it is finite
    # (committing jobs, 2): where a job's gradient was taken, seen from the central variable of the version that it
    # read. NaN beyond the run's end, and None if all are 0.
    offsets: Floats | None
    diverged_at: int | None  # the commit
    mechanism: Mechanism | None = None  # for every committing job's gradient, for a plane of the two parameters

    def after(self, commits: int) -> tuple[float, float] | None:
        """Return the central variable after some commits of the window, or None beyond the run or its divergence."""
        if commits >= len(self.units):
            return None
        x, y = self.plane.place(self.units[commits]).tolist()
        return x, y

    def places(self, job: NDArray[np.int64]) -> Floats:
        """Return (jobs, 2) points where gradients were taken, or the central variable that an unfinished job read."""
        index = self.film.read_index[job]
        replayed = (job >= 0) & (index < len(self.units))
        units = self.units[np.minimum(index, len(self.units) - 1)].copy()
        if self.offsets is not None:
            commits = (job >= 0) & (job < len(self.offsets))
            units[commits] += self.offsets[job[commits]]
        return np.where(replayed[:, None], self.plane.place(units), np.nan)


def make_plane(
    runs: Mapping[str, Run], directions: str | ArrayLike | None, window: Sequence[Sequence[float]] | None
) -> Plane:
    """Make the plane of some runs, with the heights of their landscape."""
    first = next(iter(runs.values()))
    ways = {name: _way(name, run) for name, run in runs.items()}
    sizes = {name: way.shape[1] for name, way in ways.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"`run` must hold runs of one model; they have {sizes} parameters. Choose view='gravity'.")
    origin, axes, names = _axes(first, np.concatenate([*ways.values()]), directions)
    flat = Plane(origin, axes, np.zeros(2), np.ones(2), names=names)
    landscape = landscape_of(first.workload)
    minima = () if landscape is None else landscape.minima
    if window is None:
        low, high = _window([flat.project(way) for way in ways.values()], np.array(minima).reshape(-1, 2))
    else:
        corners = np.asarray(window, float)
        if corners.shape != (2, 2) or not np.isfinite(corners).all() or not (corners[:, 0] < corners[:, 1]).all():
            raise ValueError(f"`window` must be ((x0, x1), (y0, y1)) with x0 < x1 and y0 < y1; got {brief(window)}.")
        low, high = corners.T
    return Plane(origin, axes, low, high, _heights(first, flat, low, high, minima), minima, names)


def make_path(name: str, film: Film, trace: Trace, run: Run, plane: Plane) -> Path:
    """Make the path of a run through a plane."""
    way, reads = _way(name, run), _recorded(name, run, "read")
    end = run.commits if run.diverged_at is None else int(np.max(run.divergences))  # type: ignore[arg-type]
    window = plane.project(way[film.row : min(film.row + film.commits, end) + 1])
    bad = np.flatnonzero(~np.isfinite(window).all(axis=1))
    units = plane.round(window[: bad[0]] if len(bad) else window)
    if not len(units):
        what = f"ends after {run.commits:,} commits" if run.diverged_at is None else f"diverged at commit {end:,}"
        at = film.seconds[0]
        raise ValueError(f"`start` must be before the end of the run {name!r}, which {what}; {at:g} s is later.")
    index = np.minimum(film.read_index[: film.committing], len(units) - 1)
    read_units = np.full((film.committing, 2), np.nan)
    recorded = film.rows < len(reads)
    read_units[recorded] = plane.round(plane.project(reads[film.rows[recorded]]))
    offsets = read_units - units[index]
    is_parameter_plane = plane.directions.shape[1] == 2 and np.array_equal(plane.directions, np.eye(2))
    mechanism = make_mechanism(run, trace, film.rows[recorded], reads) if is_parameter_plane else None
    visible_offsets = None if np.all(np.nan_to_num(offsets) == 0) else offsets
    return Path(film, plane, units, visible_offsets, run.divergences[0], mechanism)


def losses(film: Film, run: Run, path: Path | None) -> tuple[NDArray[np.int64], Floats, str]:
    """Return a curve for the page: commits of the window, the loss after each, and the name of the loss."""
    from asyncsim.plots._report import SMOOTHED, running_mean

    landscape = None if path is None else landscape_of(run.workload)
    if landscape is not None and path is not None:
        at = path.plane.place(path.units)
        values = np.asarray(jax.vmap(landscape.function)(*jnp.asarray(at).T), float)
        name = "Loss at the central variable"
    else:
        means = running_mean(run.loss, SMOOTHED * run.workers)[film.row : film.row + film.commits]
        values, name = np.concatenate([means[:1], means]), "Training loss, running mean"
    sound = np.flatnonzero(~np.isfinite(values))
    values = values[: sound[0]] if len(sound) else values
    places = np.unique(np.linspace(0, max(len(values) - 1, 0), min(len(values), MOST_LOSSES)).round().astype(int))
    return places, values[places] if len(values) else values, name


def _way(name: str, run: Run) -> Floats:
    """Return the (commits + 1, parameters) central variables, the initial one first."""
    first = Packing.of(run.central).pack(run.workload.init(init_key(int(run.seed))))  # type: ignore[arg-type]
    return np.concatenate([np.asarray(first, float)[None], _recorded(name, run, "central")])


def _recorded(name: str, run: Run, kind: str) -> Floats:
    """Return the (commits, parameters) that were recorded at every commit."""
    at = run.recorded_at.get(kind)
    if at is None or not np.array_equal(at, np.arange(run.commits)):
        how = "not recorded" if at is None else f"recorded at {len(at)} of {run.commits} commits"
        remedy = "Replay with record=('central', 'read'), or choose view='gravity'."
        raise ValueError(f"`run` {name!r} must hold {kind!r} of every commit, where it is {how}. {remedy}")
    return np.asarray(run.records[kind], float).reshape(run.commits, -1)


def _axes(run: Run, way: Floats, directions: str | ArrayLike | None) -> tuple[Floats, Floats, tuple[str, str]]:
    size = way.shape[1]
    if directions is None:
        if size != 2:
            raise ValueError(
                f"`view` 'landscape' is for two parameters; {run.workload.name!r} has {size:,}. Choose "
                "view='gravity', or directions='principal' for the plane in which the central variable moves most."
            )
        return np.zeros(2), np.eye(2), ("x", "y")
    if isinstance(directions, str):
        if directions != PRINCIPAL:
            raise ValueError(
                f"`directions` must be 'principal' or two rows; got {brief(directions)}. Give 'principal'."
            )
        sound = way[np.isfinite(way).all(axis=1)]
        last = sound[-1]
        _, _, axes = np.linalg.svd(sound[:: max(1, len(sound) // 500)] - sound.mean(axis=0), full_matrices=False)
        return last, axes[:2], ("principal component 1", "principal component 2")
    rows = np.asarray(directions, float)
    if rows.shape != (2, size) or np.linalg.matrix_rank(rows) < 2:
        shape = f"two independent rows of {size:,} numbers"
        raise ValueError(f"`directions` must be {shape}; got shape {rows.shape}. Or give 'principal'.")
    return np.zeros(size), np.linalg.qr(rows.T)[0].T, ("direction 1", "direction 2")


def _window(ways: list[Floats], minima: Floats) -> tuple[Floats, Floats]:
    """Return a window with the minima, the most confined run, and others as far as that allows."""
    start = ways[0][0]
    sound = [way[np.isfinite(way).all(axis=1)] for way in ways]
    away = np.concatenate([np.abs(way - start).max(axis=1) for way in sound])
    usual = np.abs(minima - start).max() if len(minima) else np.quantile(away, 0.3)
    reach = MOST_AWAY * (float(usual) or float(away.max()) or 1.0)  # nothing that has diverged sets the scale
    held = [np.clip(way, start - reach, start + reach) for way in sound]
    bounds = [np.array([way.min(axis=0), way.max(axis=0)]) for way in held]
    closest = min(bounds, key=lambda bound: float(np.ptp(bound, axis=0).sum()))
    least = np.concatenate([closest, minima, start[None]])
    low, high = least.min(axis=0), least.max(axis=0)
    middle, half = (low + high) / 2, WIDEST / 2 * np.maximum(high - low, (high - low).max() / 10)
    every = np.concatenate([least, np.clip(np.concatenate(bounds), middle - half, middle + half)])
    low, high = every.min(axis=0), every.max(axis=0)
    span = np.maximum(high - low, max(float((high - low).max()) / 10, 1e-9))
    return (low + high - span) / 2 - MARGIN * span, (low + high + span) / 2 + MARGIN * span


def _heights(run: Run, plane: Plane, low: Floats, high: Floats, minima: tuple[Point, ...]) -> NDArray[np.int64] | None:
    workload = run.workload
    small = plane.directions.shape[1] == 2
    measure: Any = workload.evaluate
    if not measure and (workload.data is not None or workload.draw is not None or workload.by_worker):
        return None  # the loss depends on more than the parameters
    side = GRID if small else COARSE_GRID
    grid = np.stack(np.meshgrid(*(np.linspace(low[i], high[i], side) for i in (0, 1))), axis=-1).reshape(-1, 2)
    minimum_places = np.array(minima).reshape(-1, 2)
    points = np.concatenate([grid, minimum_places]) @ plane.directions + plane.origin
    packing = Packing.of(run.central)

    def height(point: jax.Array) -> jax.Array:
        params = packing.unpack(point.astype(packing.dtype))
        measures = measure(params) if measure else {"test_loss": workload.loss(params, None, jax.random.key(0))}
        return measures.get("test_loss", next(iter(measures.values())))

    values = np.asarray(jax.lax.map(height, jnp.asarray(points)), float)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    # The logarithm of the height above the lowest point, level where it is too fine to see.
    above = np.where(np.isfinite(values), values, finite.max()) - finite.min()
    bottom = 1e-3 * float(np.median(above)) or float(above.max()) or 1.0
    logs = np.log1p(above / bottom)
    shades = np.round(SHADES * logs / max(float(logs.max()), 1e-12)).astype(np.int64)
    return shades[: side * side].reshape(side, side)
