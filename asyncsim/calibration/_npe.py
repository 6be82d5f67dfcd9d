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
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim._checks import require_integer
from asyncsim._version import __version__
from asyncsim.calibration._model import Clusters, Evidence, Model, Parameter, require_model
from asyncsim.calibration._simulations import Job, Report, SimulationProgress, simulations
from asyncsim.calibration._statistics import VERSION, recorded_columns, summaries
from asyncsim.calibration._transforms import HALF, LEVEL, FloatArray
from asyncsim.components._digest import hash_of
from asyncsim.components._environment import environment
from asyncsim.files import _npz as npz
from asyncsim.files._atomic import final_name, require_folder, require_format
from asyncsim.files._json import read_owned, write_owned
from asyncsim.store._labels import refuse_stores
from asyncsim.trace import Trace

NPE = "npe"
LEAST_PER_WORKER = 10  # commits of a log, from which its statistics identify workers' times
LEAST_SIMULATIONS = 500
MOST_COMMITS = 4000  # of a simulation, or 20 for each worker if those are more
DRAWS = 1000
ROUNDS = 20  # of draws, until enough lie within the prior
EDGE_SHARE = 0.02  # share of the prior at each end that counts as its edge
RANGE_MARGIN = 0.1  # of the range of a statistic over all simulations, by which a log is outside
OWNER, FORMAT = "simulations", 2  # of the file that describes the folder
ABOUT = "about.json"
FLOWS = 3  # that are averaged
LAYERS, WIDTH, DEPTH, KNOTS, INTERVAL = 3, 50, 2, 6, 5.0
BATCH, EPOCHS, PATIENCE, LEARNING_RATE = 256, 150, 8, 1.5e-3
HELD_BACK = 0.1  # share of the simulations on which the coverage of the intervals is counted
MOST_HELD_BACK = 1000
VALIDATION_SHARE = 0.1  # share of the others by which training stops
RIDGE = 1e-3  # per row, of the regression
REWEIGHTED = 4  # times, the rows of the regression
MOST_DEVIATIONS = 8.0  # standard deviations, or units of error, beyond which nothing is learned
LEVELS = (0.5, 0.995)  # between which that of the intervals lies
LEAST_OF_KIND = 100  # simulations by which a level is set
RANK_DRAWS = 300  # from each flow, of each simulation that was held back
FORMAT_VERSION = 4  # of files
NO_WIDTH = 1e-6  # of the prior's: draws that were moved to one value, because the prior excludes the log
FLAT = 1e-6  # standard deviation of a statistic that says nothing
INSTALL_REMEDY = "Neural posteriors need flowjax: pip install 'asyncsim[calibrate]'."
Store = str | os.PathLike[str] | None  # a folder for simulations and what is learned from them


@dataclass(frozen=True, eq=False)
class Estimator:
    """A learned posterior of a model's parameters, for every log with as many commits and the same columns.

    Parameters are in coordinates, in which errors are nearly normal: see `Model.to_coordinates`.

    Attributes:
        prior: (2, p) ends of the middle 90 % of the prior, in coordinates.
        level: (2, p) level of the intervals of which 90 % hold the truth, for logs that do not identify a parameter and
            for those that do.
        covered: (p,) share of the posterior's own 90 % intervals that hold the truth, on the simulations held back.
        held_back: Number of these simulations.
        simulations: Number of all simulations.
    """

    centre: FloatArray  # (p,) of the coordinates
    scale: FloatArray  # (p,)
    varies: Any  # (k,) whether a statistic varies
    middle: FloatArray  # (k',) centre of the statistics that vary
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
        """Draw (count, logs, p) coordinates from the posteriors of some logs' statistics, (logs, k)."""
        import jax
        import jax.numpy as jnp

        # The networks have seen no statistics beyond those of the simulations.
        near = np.clip(statistics[:, self.varies], self.least, self.most)
        rows = np.clip((near - self.middle) / self.spread, -MOST_DEVIATIONS, MOST_DEVIATIONS)
        keys = jax.random.split(jax.random.key(seed), len(self.flows))
        conditions, each = jnp.asarray(rows, jnp.float32), -(-count // len(keys))
        parts = [
            np.asarray(_compiled_draw()(flow, key, conditions, each), np.float64)
            for flow, key in zip(self.flows, keys, strict=True)
        ]
        residuals = np.clip(
            np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])[:count], -MOST_DEVIATIONS, MOST_DEVIATIONS
        )
        whole = _with_one(rows)
        return self.centre + self.scale * (whole @ self.mean + residuals * np.exp(whole @ self.error))

    def identifies(self, drawn: FloatArray) -> Any:
        """Return, (logs, p), whether 90 % of the draws, (count, logs, p), are within half of the prior's width."""
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return (high - low) / (self.prior[1] - self.prior[0]) <= HALF


ARRAYS = ("centre", "scale", "varies", "middle", "spread", "least", "most")  # fields that a file holds as they are
ARRAYS += ("mean", "error", "prior", "level", "covered")


def learn(model: Model, values: FloatArray, statistics: FloatArray, seed: int) -> Estimator:
    """Learn the posterior from simulations."""
    _require_flowjax()
    usable = np.isfinite(statistics).all(axis=1)
    if usable.sum() < max(200, len(values) / 2):
        raise ValueError(
            f"`simulations` must give 200 usable logs or more; got {usable.sum()} of {len(values)}. Ask for more."
        )
    values, statistics = values[usable], statistics[usable]
    z = model.to_coordinates(values, np.exp(statistics[:, 0]))
    varies = statistics.std(axis=0) > FLAT
    varies[0] &= not model.times  # With `times`, only ratios of times count, and the mean cycle says nothing.
    held_back = min(MOST_HELD_BACK, int(HELD_BACK * len(z)))
    training = slice(0, len(z) - held_back)
    s = statistics[training][:, varies]
    start: dict[str, Any] = {
        "centre": z[training].mean(axis=0),
        "scale": z[training].std(axis=0),
        "varies": varies,
        "middle": s.mean(axis=0),
        "spread": s.std(axis=0),
        "least": statistics[:, varies].min(axis=0),
        "most": statistics[:, varies].max(axis=0),
        "prior": np.quantile(z, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0),
        "held_back": held_back,
        "simulations": len(z),
    }
    rows = np.clip((s - start["middle"]) / start["spread"], -MOST_DEVIATIONS, MOST_DEVIATIONS)
    target = (z[training] - start["centre"]) / start["scale"]
    mean, error = _regressions(rows, target)
    whole = _with_one(rows)
    residuals = np.clip((target - whole @ mean) / np.exp(whole @ error), -MOST_DEVIATIONS, MOST_DEVIATIONS)
    flows = _train_flows(residuals, rows, seed)
    uncorrected = np.full((2, z.shape[1]), LEVEL)
    estimator = Estimator(**start, mean=mean, error=error, flows=flows, level=uncorrected, covered=uncorrected[0])
    return _correct_level(estimator, z[len(z) - held_back :], statistics[len(z) - held_back :], seed)


def has_flowjax() -> bool:
    """Return whether the extra is installed."""
    return find_spec("flowjax") is not None


def _require_flowjax() -> None:
    """Refuse to go on without the extra."""
    if not has_flowjax():
        raise ValueError(INSTALL_REMEDY)


def _with_one(rows: FloatArray) -> FloatArray:
    """Prepend a column of ones, for the constant of a regression."""
    return np.column_stack([np.ones(len(rows)), rows])


def _regressions(rows: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Regress each coordinate and the logarithm of its error by turns, weighted by precision."""
    whole = _with_one(rows)
    means, errors = [], []
    for column in target.T:
        error = np.zeros(whole.shape[1])
        mean = error
        for _ in range(REWEIGHTED):
            weights = np.exp(-2 * np.clip(whole @ error, -6, 6))
            mean = _ridge(whole, column, weights / weights.mean())
            away = np.log(np.abs(column - whole @ mean) + 1e-4)
            error = _ridge(whole, away + 0.635, np.ones(len(away)))  # E log|N(0, 1)| is -0.635.
        means.append(mean)
        errors.append(error)
    return np.stack(means, axis=1), np.stack(errors, axis=1)


def _ridge(whole: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
    """Solve a weighted ridge regression, whose constant has no penalty."""
    penalty = RIDGE * len(target) * np.eye(whole.shape[1]) / whole.shape[1]
    penalty[0, 0] = 0.0
    weighted = whole * weights[:, None]
    return np.linalg.solve(whole.T @ weighted + penalty, weighted.T @ target)


def _new_flow(key: Any, size: int, conditions: int) -> Any:
    """Build an untrained flow."""
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


def _train_flows(residuals: FloatArray, rows: FloatArray, seed: int) -> tuple[Any, ...]:
    """Train several flows on the residuals, each from other weights."""
    import jax
    import jax.numpy as jnp
    import optax
    from flowjax.train import fit_to_data
    from flowjax.train.losses import MaximumLikelihoodLoss

    data = jnp.asarray(residuals, jnp.float32), jnp.asarray(rows, jnp.float32)
    options: dict[str, Any] = {  # All flows share these objects, so that training compiles once.
        "loss_fn": MaximumLikelihoodLoss(),
        "optimizer": optax.adam(LEARNING_RATE),
        "batch_size": min(BATCH, max(1, int(VALIDATION_SHARE * len(residuals)))),
    }
    options |= {"max_epochs": EPOCHS, "max_patience": PATIENCE, "val_prop": VALIDATION_SHARE, "show_progress": False}
    flows = []
    for key in jax.random.split(jax.random.key(seed), FLOWS):
        start, training = jax.random.split(key)
        flows.append(fit_to_data(training, _new_flow(start, residuals.shape[1], rows.shape[1]), data, **options)[0])
    return tuple(flows)


@lru_cache(maxsize=1)
def _compiled_draw() -> Any:
    """Return the compiled function that draws from a flow, which is the same for all calls."""
    import equinox

    return equinox.filter_jit(lambda flow, key, rows, count: flow.sample(key, (count,), condition=rows))


def _correct_level(estimator: Estimator, z: FloatArray, statistics: FloatArray, seed: int) -> Estimator:
    """Count the coverage of an estimator, and set the level of its intervals so that 90 % of them hold the truth."""
    drawn = estimator.sample(statistics, RANK_DRAWS * len(estimator.flows), seed + 1)
    away = np.abs(2 * (drawn < z).mean(axis=0) - 1)
    identified = estimator.identifies(drawn)
    level = np.empty((2, z.shape[1]))
    for i in range(z.shape[1]):
        for kind in (0, 1):
            mine = away[identified[:, i] == bool(kind), i]
            mine = mine if len(mine) >= LEAST_OF_KIND else away[:, i]
            level[kind, i] = np.clip(np.quantile(mine, min(1.0, LEVEL * (1 + 1 / len(mine)))), *LEVELS)
    return replace(estimator, covered=(away < LEVEL).mean(axis=0), level=level)


def save_estimator(estimator: Estimator, path: Path) -> None:
    """Write an estimator, completely or not at all."""
    import jax

    arrays: dict[str, Any] = {name: np.asarray(getattr(estimator, name)) for name in ARRAYS}
    for i, flow in enumerate(estimator.flows):
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(flow) if isinstance(leaf, jax.Array)]
        arrays |= {f"flow{i}.{j}": leaf for j, leaf in enumerate(leaves)}
    numbers = {"held_back": estimator.held_back, "simulations": estimator.simulations, "made": _versions()}
    head = np.frombuffer(json.dumps(numbers).encode(), np.uint8)
    npz.write(path, {"head": head, **arrays}, version=FORMAT_VERSION, notes={npz.OWNER: path.parent.name})


def load_estimator(path: Path) -> Estimator | None:
    """Read the estimator in a file, or return None if it is missing, damaged, or of other networks or versions."""
    import jax

    content = npz.read_if_whole(path, kind="estimator", version=FORMAT_VERSION, owner=path.parent.name)
    if content is None:
        return None
    head = json.loads(content["head"].tobytes())
    if head.pop("made") != _versions():
        return None
    arrays = {name: content[name] for name in ARRAYS}
    leaves, tree = jax.tree.flatten(_new_flow(jax.random.key(0), len(arrays["centre"]), int(arrays["varies"].sum())))
    flows = []
    for i in range(FLOWS):
        weights = (jax.device_put(content[f"flow{i}.{j}"]) for j in itertools.count())
        flows.append(tree.unflatten([next(weights) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]))
    return Estimator(**arrays, **head, flows=tuple(flows))


def _versions() -> list[Any]:
    """List the versions and sizes with which a stored estimator must agree."""
    import jax

    return [version("flowjax"), jax.__version__, FLOWS, LAYERS, WIDTH, DEPTH, KNOTS, INTERVAL]


def limit_simulated(workers: int) -> int:
    """Return the number of a log's first commits that are simulated at most."""
    return max(MOST_COMMITS, 2 * LEAST_PER_WORKER * workers)


def fit_by_simulation(
    log: Trace,
    used: Trace,
    model: Model,
    count: int,
    seed: int,
    jobs: int | None,
    store: Store,
    progress: Report | None,
) -> tuple[Clusters, list[str], Evidence]:
    """Fit a model to the first commits of a log, `used`, by a neural posterior (see `calibrate`), with notes."""
    _require_flowjax()
    count = require_integer("simulations", count, least=LEAST_SIMULATIONS, remedy="5000 are usual.")
    notes = []
    least = LEAST_PER_WORKER * log.workers
    if len(log) < least:
        raise ValueError(
            f"`log` must have {least} commits or more, {LEAST_PER_WORKER} for each worker; got {len(log)}. Record more."
        )
    require_model(log, model)
    if used is not log:
        notes.append(f"Only {len(used):,} successive commits were used: each simulation makes as many.")
    columns = recorded_columns(used)
    job = Job(model, len(used), (columns,), seed)
    estimator = _estimator(job, count, _folder(store, job), jobs, progress)
    named = summaries(used, columns)
    statistics = np.array(list(named.values()))[None]
    cycle = float(np.exp(statistics[0, 0]))
    coordinates, inside = _draws(estimator, model, statistics, cycle, seed)
    values = model.from_coordinates(coordinates, cycle)
    parameters, widths = _parameters(estimator, model, coordinates, cycle)
    notes += [*_outside(estimator, named), *_edges(model, values, inside)]
    coverage = dict(zip(model.names, estimator.covered.tolist(), strict=True))
    evidence = Evidence({}, widths, coverage, estimator.held_back, estimator.simulations)
    return Clusters.of(model, parameters, values, columns), notes, evidence


def _estimator(job: Job, count: int, folder: Path | None, jobs: int | None, progress: Report | None) -> Estimator:
    """Learn the estimator from some simulations, or read it from a folder that stores it for further calls."""
    path = None if folder is None else folder / f"estimator-{count}.npz"
    stored = None if path is None else load_estimator(path)
    if stored is not None:
        return stored
    start = time.monotonic()
    examples = simulations(job, count, folder=folder, jobs=jobs, progress=progress)
    if progress is not None:
        progress(SimulationProgress(count, count, count, time.monotonic() - start, "learning"))
    estimator = learn(job.model, examples.values, examples.statistics[0], job.seed)
    if path is not None:
        save_estimator(estimator, path)
    return estimator


def _folder(store: Store, job: Job) -> Path | None:
    """Create the folder of a job within the store, with a description of its contents."""
    if store is None:
        return None
    root = require_folder("store", store)
    refuse_stores("store", root)
    content = {
        "model": job.model.digest(),
        "workers": job.model.workers,
        "commits": job.commits,
        "columns": job.columns,
        "seed": job.seed,
        "statistics": VERSION,
        "asyncsim": __version__,
        **environment(),
    }
    entries = [path.name for path in root.iterdir() if path.name == final_name(path.name)] if root.is_dir() else []
    marker = read_owned(root / ABOUT, OWNER)
    if marker is not None:
        require_format(f"`store` {str(store)!r}", marker["format"], FORMAT, "Give a new folder.")
    elif entries:
        raise ValueError(f"`store` {str(store)!r} holds other files. Give a new folder, or one of simulations.")
    folder = root / hash_of(content)
    try:
        root.mkdir(parents=True, exist_ok=True)
        if marker is None:
            write_owned(root / ABOUT, {"format": FORMAT}, OWNER)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"`store` {str(store)!r} cannot be made: {error.strerror}. Give another one.") from error
    if not (folder / ABOUT).is_file():  # A store without write permission still serves its contents.
        write_owned(folder / ABOUT, {**content, "parameters": list(job.model.names)}, folder.name)
    return folder


def _draws(
    estimator: Estimator, model: Model, statistics: FloatArray, cycle: float, seed: int
) -> tuple[FloatArray, float]:
    """Draw (DRAWS, p) coordinates within the prior, and return the share of all draws that are within it."""
    parts: list[FloatArray] = []
    while len(parts) < ROUNDS and sum(map(len, parts)) < DRAWS:
        drawn = estimator.sample(statistics, DRAWS, seed + len(parts))[:, 0]
        parts.append(drawn[model.allows(drawn)])
    whole = np.concatenate(parts)
    share = len(whole) / (DRAWS * len(parts))
    if len(whole) < DRAWS:  # The prior excludes the log, so that draws outside are moved to the nearest values.
        outside = estimator.sample(statistics, DRAWS - len(whole), seed + ROUNDS)[:, 0]
        nearest = model.to_coordinates(model.from_coordinates(outside, cycle), cycle)
        whole = np.concatenate([whole, nearest])
    return whole[:DRAWS], share


def _parameters(
    estimator: Estimator, model: Model, coordinates: FloatArray, cycle: float
) -> tuple[dict[str, Parameter], dict[str, float]]:
    """Compute medians, intervals of which 90 % hold the truth, and their widths over those of the prior."""
    size = coordinates.shape[1]
    level = np.where(estimator.identifies(coordinates[:, None])[0], estimator.level[1], estimator.level[0])
    shares = np.stack([np.full(size, 0.5), (1 - level) / 2, (1 + level) / 2])
    ends = np.stack([np.quantile(coordinates[:, i], shares[:, i]) for i in range(size)], axis=1)
    values = model.from_coordinates(ends, cycle)
    widths = (ends[2] - ends[1]) / (estimator.prior[1] - estimator.prior[0])
    parameters = {
        name: Parameter(estimate, low, high, NPE, bool(NO_WIDTH < width <= HALF))
        for name, (estimate, low, high), width in zip(model.names, values.T.tolist(), widths, strict=True)
    }
    return parameters, dict(zip(model.names, widths.tolist(), strict=True))


def _outside(estimator: Estimator, statistics: dict[str, float]) -> list[str]:
    """Report the statistic of the log that is furthest outside of those that the prior produces, if one is."""
    values, least, most = np.array(list(statistics.values()))[estimator.varies], estimator.least, estimator.most
    beyond = np.maximum(values - most, least - values) / (most - least)
    worst = int(beyond.argmax())
    if beyond[worst] <= RANGE_MARGIN:
        return []
    name = list(statistics)[np.flatnonzero(estimator.varies)[worst]]
    return [
        f"The prior excludes this log: its {name} is {values[worst]:.3g}, and was from {least[worst]:.3g} to "
        f"{most[worst]:.3g} in {estimator.simulations:,} simulations. Widen the prior, or change the model."
    ]


def _edges(model: Model, values: FloatArray, inside: float) -> list[str]:
    """Report parameters whose posterior stands at an end of the prior, although the log identifies them."""
    notes = []
    for (name, prior), drawn in zip(model.prior.items(), values.T, strict=True):
        share = prior.distribution.cdf(drawn)
        for end, value, at_edge in (
            ("least", prior.low, share < EDGE_SHARE),
            ("greatest", prior.high, share > 1 - EDGE_SHARE),
        ):
            if at_edge.mean() > 0.5 and name not in model.times:
                notes.append(f"The posterior of {name} stands at the {end} value of its prior, {value:g}: widen it.")
    if not notes and inside < 0.2:
        notes.append(f"Of the posterior's draws only {inside:.0%} lie within the prior: widen it.")
    return notes
