"""From a log to a posterior by simulation: simulate the prior, learn the posterior, and condition it on the log.

Most of the way is a regression of the parameters' coordinates on the statistics, weighted by how well each simulation
identifies them. The residuals, in units of their standard error, are learned by normalising flows. Several of them are
averaged, because a single one is overconfident. On simulations that were held back the ranks of the truth are
counted, and the level of the intervals is set so that 90 % of these hold it.
"""

import itertools
import json
import os
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim._checks import require_integer
from asyncsim._version import __version__
from asyncsim.calibration._fit import Clusters, Evidence, Fit, beginning, fit_of, require_model
from asyncsim.calibration._model import Model, Parameter
from asyncsim.calibration._simulations import Job, Report, SimulationProgress, simulations
from asyncsim.calibration._stages import stages_of
from asyncsim.calibration._statistics import VERSION, seen_columns, summaries
from asyncsim.calibration._transforms import HALF, LEVEL, FloatArray
from asyncsim.components._description import hash_of
from asyncsim.components._environment import environment
from asyncsim.files import _npz as npz
from asyncsim.files._atomic import final_name, require_folder, require_format
from asyncsim.files._json import read_owned, write_owned
from asyncsim.store._labels import refuse_stores
from asyncsim.trace import Trace

NPE = "npe"
LEAST_PER_WORKER = 10  # commits of a log, from which its statistics identify workers' times
LEAST_SIMULATIONS = 500
MOST_COMMITS = 4000  # that are simulated, or 20 for each worker if those are more
DRAWS = 1000
ROUNDS = 20  # of draws, until enough lie within the prior
EDGE = 0.02  # share of the prior at each end that counts as its edge
OUTSIDE = 0.1  # of the range of a statistic over all simulations, by which a log is outside
OWNER, FORMAT = "simulations", 2  # of the file that describes the folder
ABOUT = "about.json"
FLOWS = 3  # that are averaged
LAYERS, WIDTH, DEPTH, KNOTS, INTERVAL = 3, 50, 2, 6, 5.0
BATCH, EPOCHS, PATIENCE, LEARNING_RATE = 256, 150, 8, 1.5e-3
HELD_BACK = 0.1  # share of the simulations on which the coverage of the intervals is counted
MOST_HELD_BACK = 1000
STOPPING = 0.1  # share of the others by which training stops
RIDGE = 1e-3  # per row, of the regression
REWEIGHTED = 4  # times, the rows of the regression
BEYOND = 8.0  # standard deviations, or units of error, beyond which nothing is learned
LEVELS = (0.5, 0.995)  # between which that of the intervals lies
LEAST_OF_KIND = 100  # simulations by which a level is set
RANK_DRAWS = 300  # from each flow, of each simulation that was held back
FORMAT_VERSION = 3  # of files
FLAT = 1e-6  # standard deviation of a statistic that says nothing
EXTRA = "Neural posteriors need flowjax: pip install 'asyncsim[calibrate]'."
Store = str | os.PathLike[str] | None  # a folder for simulations and what is learned from them


@dataclass(frozen=True, eq=False)
class Estimator:
    """A learned posterior."""

    centre: FloatArray  # (p,) of the coordinates
    scale: FloatArray  # (p,)
    kept: Any  # (k,) whether a statistic varies
    middle: FloatArray  # (k',) centre of those that vary
    spread: FloatArray  # (k',)
    least: FloatArray  # (k',) smallest over all simulations
    most: FloatArray  # (k',)
    mean: FloatArray  # (k' + 1, p) regression of the coordinates
    error: FloatArray  # (k' + 1, p) regression of the logarithm of their errors
    flows: tuple[Any, ...]  # of the residuals
    prior: FloatArray  # (2, p) 5 and 95 % of the coordinates over all simulations
    # (2, p) level of the posterior's intervals of which 90 % hold the truth: of logs that do not identify the
    # parameter, and of those that do.
    level: FloatArray
    covered: FloatArray  # (p,) share of the posterior's own 90 % intervals that hold it
    held_back: int  # simulations on which this was counted
    simulations: int  # all

    def sample(self, statistics: FloatArray, count: int, seed: int) -> FloatArray:
        """(count, logs, p) coordinates from the posteriors of some logs' statistics, (logs, k)."""
        import jax
        import jax.numpy as jnp

        # As the networks see them, no further away than the simulations were.
        near = np.clip(statistics[:, self.kept], self.least, self.most)
        rows = np.clip((near - self.middle) / self.spread, -BEYOND, BEYOND)
        keys = jax.random.split(jax.random.key(seed), len(self.flows))
        seen, each = jnp.asarray(rows, jnp.float32), -(-count // len(keys))
        parts = [np.asarray(_drawing()(*one, seen, each), np.float64) for one in zip(self.flows, keys, strict=True)]
        rest = np.clip(np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])[:count], -BEYOND, BEYOND)
        whole = _with_one(rows)
        return self.centre + self.scale * (whole @ self.mean + rest * np.exp(whole @ self.error))

    def identifies(self, drawn: FloatArray) -> Any:
        """(logs, p) whether 90 % of the draws, (count, logs, p), are within half of the prior's width."""
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return (high - low) / (self.prior[1] - self.prior[0]) <= HALF


ARRAYS = ("centre", "scale", "kept", "middle", "spread", "least", "most", "mean", "error", "prior", "level", "covered")


def learn(model: Model, values: FloatArray, statistics: FloatArray, seed: int) -> Estimator:
    """Learn the posterior from simulations."""
    require_flowjax()
    usable = np.isfinite(statistics).all(axis=1)
    if usable.sum() < max(200, len(values) / 2):
        raise ValueError(
            f"`simulations` must give 200 usable logs or more; got {usable.sum()} of {len(values)}. Ask for more."
        )
    values, statistics = values[usable], statistics[usable]
    z = model.to_coordinates(values, np.exp(statistics[:, 0]))
    kept = statistics.std(axis=0) > FLAT
    kept[0] &= not model.times  # then only ratios count
    held = min(MOST_HELD_BACK, int(HELD_BACK * len(z)))
    taught = slice(0, len(z) - held)
    s = statistics[taught][:, kept]
    start: dict[str, Any] = {
        "centre": z[taught].mean(axis=0),
        "scale": z[taught].std(axis=0),
        "kept": kept,
        "middle": s.mean(axis=0),
        "spread": s.std(axis=0),
        "least": statistics[:, kept].min(axis=0),
        "most": statistics[:, kept].max(axis=0),
        "prior": np.quantile(z, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0),
        "held_back": held,
        "simulations": len(z),
    }
    rows = np.clip((s - start["middle"]) / start["spread"], -BEYOND, BEYOND)
    target = (z[taught] - start["centre"]) / start["scale"]
    mean, error = _regressions(rows, target)
    whole = _with_one(rows)
    rest = np.clip((target - whole @ mean) / np.exp(whole @ error), -BEYOND, BEYOND)
    flows = _flows(rest, rows, seed)
    unjudged = np.full((2, z.shape[1]), LEVEL)
    found = Estimator(**start, mean=mean, error=error, flows=flows, level=unjudged, covered=unjudged[0])
    return _judged(found, z[len(z) - held :], statistics[len(z) - held :], seed)


def require_flowjax() -> None:
    """Refuse to go on without the extra."""
    try:
        import flowjax  # noqa: F401
    except ImportError as error:
        raise ValueError(EXTRA) from error


def _with_one(rows: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(rows)), rows])


def _regressions(rows: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Regressions of each coordinate and of the logarithm of its error by turns, weighted by precision."""
    whole = _with_one(rows)
    means, errors = [], []
    for column in target.T:
        error = np.zeros(whole.shape[1])
        mean = error
        for _ in range(REWEIGHTED):
            weights = np.exp(-2 * np.clip(whole @ error, -6, 6))
            mean = _ridge(whole, column, weights / weights.mean())
            away = np.log(np.abs(column - whole @ mean) + 1e-4)
            error = _ridge(whole, away + 0.635, np.ones(len(away)))  # E log|N(0, 1)| = -0.635
        means.append(mean)
        errors.append(error)
    return np.stack(means, axis=1), np.stack(errors, axis=1)


def _ridge(whole: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
    penalty = RIDGE * len(target) * np.eye(whole.shape[1]) / whole.shape[1]
    penalty[0, 0] = 0.0
    weighted = whole * weights[:, None]
    return np.linalg.solve(whole.T @ weighted + penalty, weighted.T @ target)


def _new_flow(key: Any, size: int, conditions: int) -> Any:
    import jax.numpy as jnp
    from flowjax.bijections import RationalQuadraticSpline
    from flowjax.distributions import Normal
    from flowjax.flows import masked_autoregressive_flow

    return masked_autoregressive_flow(
        key,
        base_dist=Normal(jnp.zeros(size)),
        transformer=RationalQuadraticSpline(knots=KNOTS, interval=INTERVAL),
        cond_dim=conditions,
        flow_layers=LAYERS,
        nn_width=WIDTH,
        nn_depth=DEPTH,
    )


def _flows(rest: FloatArray, rows: FloatArray, seed: int) -> tuple[Any, ...]:
    import jax
    import jax.numpy as jnp
    import optax
    from flowjax.train import fit_to_data
    from flowjax.train.losses import MaximumLikelihoodLoss

    data = jnp.asarray(rest, jnp.float32), jnp.asarray(rows, jnp.float32)
    options: dict[str, Any] = {  # the same objects for all: one compilation
        "loss_fn": MaximumLikelihoodLoss(),
        "optimizer": optax.adam(LEARNING_RATE),
        "batch_size": min(BATCH, max(1, int(STOPPING * len(rest)))),
    }
    options |= {"max_epochs": EPOCHS, "max_patience": PATIENCE, "val_prop": STOPPING, "show_progress": False}
    found = []
    for key in jax.random.split(jax.random.key(seed), FLOWS):
        start, training = jax.random.split(key)
        found.append(fit_to_data(training, _new_flow(start, rest.shape[1], rows.shape[1]), data, **options)[0])
    return tuple(found)


@lru_cache(maxsize=1)
def _drawing() -> Any:
    """The compiled function, made once."""
    import equinox

    return equinox.filter_jit(lambda flow, key, rows, count: flow.sample(key, (count,), condition=rows))


def _judged(found: Estimator, z: FloatArray, statistics: FloatArray, seed: int) -> Estimator:
    """The same, with its coverage and the level of its intervals."""
    drawn = found.sample(statistics, RANK_DRAWS * len(found.flows), seed + 1)
    away = np.abs(2 * (drawn < z).mean(axis=0) - 1)
    identified = found.identifies(drawn)
    level = np.empty((2, z.shape[1]))
    for i in range(z.shape[1]):
        for kind in (0, 1):
            mine = away[identified[:, i] == bool(kind), i]
            mine = mine if len(mine) >= LEAST_OF_KIND else away[:, i]
            level[kind, i] = np.clip(np.quantile(mine, min(1.0, LEVEL * (1 + 1 / len(mine)))), *LEVELS)
    return replace(found, covered=(away < LEVEL).mean(axis=0), level=level)


def save_estimator(estimator: Estimator, path: Path) -> None:
    """Keep an estimator, completely or not at all."""
    import jax

    arrays: dict[str, Any] = {name: np.asarray(getattr(estimator, name)) for name in ARRAYS}
    for i, flow in enumerate(estimator.flows):
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(flow) if isinstance(leaf, jax.Array)]
        arrays |= {f"flow{i}.{j}": leaf for j, leaf in enumerate(leaves)}
    numbers = {"held_back": estimator.held_back, "simulations": estimator.simulations, "made": _made_by()}
    head = np.frombuffer(json.dumps(numbers).encode(), np.uint8)
    npz.write(path, {"head": head, **arrays}, version=FORMAT_VERSION, notes={npz.OWNER: path.parent.name})


def load_estimator(path: Path) -> Estimator | None:
    """The estimator in the file, or None if it is missing, damaged, or of other networks or versions."""
    import jax

    found = npz.read_if_whole(path, kind="estimator", version=FORMAT_VERSION, owner=path.parent.name)
    if found is None:
        return None
    head = json.loads(found["head"].tobytes())
    if head.pop("made") != _made_by():
        return None
    arrays = {name: found[name] for name in ARRAYS}
    leaves, tree = jax.tree.flatten(_new_flow(jax.random.key(0), len(arrays["centre"]), int(arrays["kept"].sum())))
    flows = []
    for i in range(FLOWS):
        own = (jax.device_put(found[f"flow{i}.{j}"]) for j in itertools.count())
        flows.append(tree.unflatten([next(own) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]))
    return Estimator(**arrays, **head, flows=tuple(flows))


def _made_by() -> list[Any]:
    """Facts with which a stored estimator must agree."""
    import jax

    return [version("flowjax"), jax.__version__, FLOWS, LAYERS, WIDTH, DEPTH, KNOTS, INTERVAL]


def fit_by_simulation(
    log: Trace, model: Model, *, count: int, seed: int, jobs: int | None, store: Store, progress: Report | None
) -> Fit:
    """Fit a model by a neural posterior, with the arguments of `calibrate`."""
    require_flowjax()
    count = require_integer("simulations", count, least=LEAST_SIMULATIONS, remedy="5000 are usual.")
    notes = stages_of(log).notes
    least = LEAST_PER_WORKER * log.workers
    if len(log) < least:
        raise ValueError(
            f"`log` must have {least} commits or more, {LEAST_PER_WORKER} for each worker; got {len(log)}. Record more."
        )
    require_model(log, model)
    used = beginning(log, max(MOST_COMMITS, 2 * LEAST_PER_WORKER * log.workers))
    if used is not log:
        notes += (f"Only the first {len(used):,} commits were used: each simulation makes as many.",)
    seen = seen_columns(used)
    job = Job(model, len(used), (seen,), seed)
    estimator = _estimator(job, count, _folder(store, job), jobs, progress)
    named = summaries(used, seen)
    statistics = np.array(list(named.values()))[None]
    cycle = float(np.exp(statistics[0, 0]))
    coordinates, inside = _draws(estimator, model, statistics, cycle, seed)
    values = model.from_coordinates(coordinates, cycle)
    found, widths = _parameters(estimator, model, coordinates, cycle)
    notes += (*_excluded(estimator, named), *_edges(model, values, inside))
    learned = dict(zip(model.names, estimator.covered.tolist(), strict=True))
    evidence = Evidence({}, widths, learned, estimator.held_back, estimator.simulations)
    return fit_of(log, used, Clusters.of(model, found, values, used), notes, NPE, evidence, seed)


def _estimator(job: Job, count: int, folder: Path | None, jobs: int | None, progress: Report | None) -> Estimator:
    """The estimator learned from some simulations, stored in a folder for further calls."""
    place = None if folder is None else folder / f"estimator-{count}.npz"
    kept = None if place is None else load_estimator(place)
    if kept is not None:
        return kept
    begun = time.monotonic()
    made = simulations(job, count, folder=folder, jobs=jobs, progress=progress)
    if progress is not None:
        progress(SimulationProgress(count, count, count, time.monotonic() - begun, "learning"))
    estimator = learn(job.model, made.values, made.statistics[0], job.seed)
    if place is not None:
        save_estimator(estimator, place)
    return estimator


def _folder(store: Store, job: Job) -> Path | None:
    """The folder of a job within the store, with a description of its contents."""
    if store is None:
        return None
    root = require_folder("store", store)
    refuse_stores("store", root)
    content = {
        "model": job.model.digest(),
        "workers": job.model.workers,
        "commits": job.commits,
        "columns": job.seen,
        "seed": job.seed,
        "statistics": VERSION,
        "asyncsim": __version__,
        **environment(),
    }
    there = [path.name for path in root.iterdir() if path.name == final_name(path.name)] if root.is_dir() else []
    marker = read_owned(root / ABOUT, OWNER)
    if marker is not None:
        require_format(f"`store` {str(store)!r}", marker["format"], FORMAT, "Give a new folder.")
    elif there:
        raise ValueError(f"`store` {str(store)!r} holds other files. Give a new folder, or one of simulations.")
    folder = root / hash_of(content)
    try:
        root.mkdir(parents=True, exist_ok=True)
        if marker is None:
            write_owned(root / ABOUT, {"format": FORMAT}, OWNER)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"`store` {str(store)!r} cannot be made: {error.strerror}. Give another one.") from error
    if not (folder / ABOUT).is_file():  # a store without write permission still serves its contents
        write_owned(folder / ABOUT, {**content, "parameters": list(job.model.names)}, folder.name)
    return folder


def _draws(
    estimator: Estimator, model: Model, statistics: FloatArray, cycle: float, seed: int
) -> tuple[FloatArray, float]:
    """(DRAWS, p) coordinates within the prior, and the share of all draws that were."""
    kept: list[FloatArray] = []
    while len(kept) < ROUNDS and sum(map(len, kept)) < DRAWS:
        found = estimator.sample(statistics, DRAWS, seed + len(kept))[:, 0]
        kept.append(found[model.allows(found)])
    whole = np.concatenate(kept)
    share = len(whole) / (DRAWS * len(kept))
    if len(whole) < DRAWS:  # the prior excludes the log: the nearest values
        outside = estimator.sample(statistics, DRAWS - len(whole), seed + ROUNDS)[:, 0]
        nearest = model.to_coordinates(model.from_coordinates(outside, cycle), cycle)
        whole = np.concatenate([whole, nearest])
    return whole[:DRAWS], share


def _parameters(
    estimator: Estimator, model: Model, coordinates: FloatArray, cycle: float
) -> tuple[dict[str, Parameter], dict[str, float]]:
    """Medians, intervals at the level of which 90 % hold the truth, and their widths over those of the prior."""
    size = coordinates.shape[1]
    level = np.where(estimator.identifies(coordinates[:, None])[0], estimator.level[1], estimator.level[0])
    shares = np.stack([np.full(size, 0.5), (1 - level) / 2, (1 + level) / 2])
    ends = np.stack([np.quantile(coordinates[:, i], shares[:, i]) for i in range(size)], axis=1)
    values = model.from_coordinates(ends, cycle)
    widths = (ends[2] - ends[1]) / (estimator.prior[1] - estimator.prior[0])
    found = {
        name: Parameter(estimate, low, high, NPE, bool(width <= HALF))
        for name, (estimate, low, high), width in zip(model.names, values.T.tolist(), widths, strict=True)
    }
    return found, dict(zip(model.names, widths.tolist(), strict=True))


def _excluded(estimator: Estimator, statistics: dict[str, float]) -> list[str]:
    """The statistic of the log that is furthest from what the prior produces, if one is."""
    values, least, most = np.array(list(statistics.values()))[estimator.kept], estimator.least, estimator.most
    beyond = np.maximum(values - most, least - values) / (most - least)
    worst = int(beyond.argmax())
    if beyond[worst] <= OUTSIDE:
        return []
    name = list(statistics)[np.flatnonzero(estimator.kept)[worst]]
    return [
        f"The prior excludes this log: its {name} is {values[worst]:.3g}, and was from {least[worst]:.3g} to "
        f"{most[worst]:.3g} in {estimator.simulations:,} simulations. Widen the prior, or change the model."
    ]


def _edges(model: Model, values: FloatArray, inside: float) -> list[str]:
    """Parameters whose posterior stands at an end of the prior, although the log identifies them."""
    found = []
    for (name, prior), drawn in zip(model.prior.items(), values.T, strict=True):
        share = prior.distribution.cdf(drawn)
        for end, value, at_edge in (("least", prior.low, share < EDGE), ("greatest", prior.high, share > 1 - EDGE)):
            if at_edge.mean() > 0.5 and name not in model.times:
                found.append(f"The posterior of {name} stands at the {end} value of its prior, {value:g}: widen it.")
    if not found and inside < 0.2:
        found.append(f"Of the posterior's draws only {inside:.0%} lie within the prior: widen it.")
    return found
