"""From a log to a posterior by simulation: simulate the prior, learn, and look at the log."""

import os
import time
from pathlib import Path

import numpy as np

from asyncsim._checks import require_integer
from asyncsim._description import hash_of
from asyncsim._version import __version__
from asyncsim.calibration._estimator import Estimator, learn, load_estimator, require_flowjax, save_estimator
from asyncsim.calibration._fit import Evidence, Fit, beginning, fit_of_model, require_model, unidentified
from asyncsim.calibration._model import Model, Parameter
from asyncsim.calibration._simulations import Job, Report, SimulationProgress, simulations
from asyncsim.calibration._stages import stages_of
from asyncsim.calibration._summaries import VERSION, seen_columns, summaries
from asyncsim.calibration._transforms import HALF, LEVEL, FloatArray
from asyncsim.store._files import final_name, read_owned, require_folder, require_format, write_owned
from asyncsim.trace import Trace

NPE = "npe"
LEAST_PER_WORKER = 10  # commits of a log, from which its statistics identify workers' times
LEAST_SIMULATIONS = 500
MOST_COMMITS = 4000  # that are simulated, or as many as make 20 for each worker
DRAWS = 1000
ROUNDS = 20  # of draws, until enough lie within the prior
EDGE = 0.02  # share of the prior at each end that counts as its edge
OUTSIDE = 0.1  # of the range of a statistic over all simulations, by which a log is outside
OWNER, FORMAT = "simulations", 2  # of the file that says what the folder holds
ABOUT = "about.json"


def fit_by_simulation(
    log: Trace,
    model: Model,
    *,
    count: int,
    seed: int,
    jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Report | None = None,
) -> Fit:
    """Fit a model by a neural posterior; arguments as in `calibrate`."""
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
    job = Job(model, len(used), (seen_columns(used),), seed)
    estimator = estimator_of(job, count, folder=_folder(store, job), jobs=jobs, progress=progress)
    return _posterior(log, used, job, estimator, notes)


def estimator_of(
    job: Job, count: int, *, folder: Path | None = None, jobs: int | None = None, progress: Report | None = None
) -> Estimator:
    """The estimator learned from `count` simulations, kept in `folder` and used again."""
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


def _folder(store: str | os.PathLike[str] | None, job: Job) -> Path | None:
    """The folder of a job within the store, with a description of its contents."""
    if store is None:
        return None
    root = require_folder("store", store)
    content = {
        "model": job.model.digest(),
        "workers": job.model.workers,
        "commits": job.commits,
        "columns": job.seen,
        "seed": job.seed,
        "statistics": VERSION,
        "asyncsim": __version__,
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


def _posterior(log: Trace, used: Trace, job: Job, estimator: Estimator, notes: tuple[str, ...]) -> Fit:
    model, seen = job.model, job.seen[0]
    named = summaries(used, seen)
    statistics = np.array(list(named.values()))[None]
    cycle = float(np.exp(statistics[0, 0]))
    coordinates, inside = _draws(estimator, model, statistics, cycle, job.seed)
    values = model.within(model.from_coordinates(coordinates, cycle))  # rounding may leave the prior
    found, widths = _parameters(estimator, model, coordinates, cycle)
    hidden = tuple(name for name, one in found.items() if not one.identifiable)
    notes += _excluded(estimator, named) + _edges(model, values, inside) + tuple(unidentified(hidden, widths))
    learned = dict(zip(model.names, estimator.covered.tolist(), strict=True))
    return fit_of_model(
        log,
        used,
        model,
        estimate=model.cluster([one.estimate for one in found.values()]),
        draws=values,
        parameters=found,
        seen=seen,
        notes=notes,
        method=NPE,
        evidence=Evidence({}, widths, learned, estimator.held_back, estimator.simulations),
        seed=job.seed,
    )


def _draws(
    estimator: Estimator, model: Model, statistics: FloatArray, cycle: float, seed: int
) -> tuple[FloatArray, float]:
    """(DRAWS, p) coordinates within the prior, and the share of all draws that were."""
    kept, drawn = [], 0
    for i in range(ROUNDS):
        found = estimator.sample(statistics, DRAWS, seed + i)[:, 0]
        inside = model.allows(model.from_coordinates(found, cycle))
        kept.append(found[inside])
        drawn += len(found)
        if sum(map(len, kept)) >= DRAWS:
            break
    whole = np.concatenate(kept)
    share = len(whole) / drawn
    if len(whole) < DRAWS:  # the prior excludes the log: the nearest values
        outside = model.from_coordinates(estimator.sample(statistics, DRAWS - len(whole), seed + ROUNDS)[:, 0], cycle)
        nearest = model.to_coordinates(model.within(outside), np.full(len(outside), cycle))
        whole = np.concatenate([whole, nearest])
    return whole[:DRAWS], share


def _parameters(
    estimator: Estimator, model: Model, coordinates: FloatArray, cycle: float
) -> tuple[dict[str, Parameter], dict[str, float]]:
    """Medians and intervals, at the level of which 90 % hold the truth; and their widths over those of the prior."""
    size = coordinates.shape[1]
    identified = estimator.widths(coordinates[:, None], np.full(size, LEVEL))[0] <= HALF
    level = np.where(identified, estimator.level[1], estimator.level[0])
    shares = np.stack([np.full(size, 0.5), (1 - level) / 2, (1 + level) / 2])
    ends = np.stack([np.quantile(coordinates[:, i], shares[:, i]) for i in range(size)], axis=1)
    values = model.within(model.from_coordinates(ends, cycle))
    widths = (ends[2] - ends[1]) / (estimator.prior[1] - estimator.prior[0])
    found = {
        name: Parameter(estimate, low, high, NPE, bool(width <= HALF))
        for name, (estimate, low, high), width in zip(model.names, values.T.tolist(), widths, strict=True)
    }
    return found, dict(zip(model.names, widths.tolist(), strict=True))


def _excluded(estimator: Estimator, statistics: dict[str, float]) -> tuple[str, ...]:
    """The statistic of the log that is furthest from what the prior produces, if one is."""
    names = [name for name, kept in zip(statistics, estimator.kept, strict=True) if kept]
    values = np.array(list(statistics.values()))[estimator.kept]
    span = estimator.most - estimator.least
    beyond = np.maximum(values - estimator.most, estimator.least - values) / span
    worst = int(beyond.argmax())
    if beyond[worst] <= OUTSIDE:
        return ()
    ends = f"from {estimator.least[worst]:.3g} to {estimator.most[worst]:.3g}"
    return (
        f"The prior excludes this log: its {names[worst]} is {values[worst]:.3g}, and was {ends} in "
        f"{estimator.simulations:,} simulations. Widen the prior, or change the model.",
    )


def _edges(model: Model, values: FloatArray, inside: float) -> tuple[str, ...]:
    """Parameters whose posterior stands at an end of the prior, although the log identifies them."""
    found = []
    for i, (name, prior) in enumerate(model.prior.items()):
        if name in model.times:
            continue
        share = prior.distribution.cdf(values[:, i])
        for end, at_edge in (("least", share < EDGE), ("greatest", share > 1 - EDGE)):
            if at_edge.mean() > 0.5:
                value = prior.low if end == "least" else prior.high
                found.append(f"The posterior of {name} stands at the {end} value of its prior, {value:g}: widen it.")
    if not found and inside < 0.2:
        found.append(f"Of the posterior's draws only {inside:.0%} lie within the prior: widen it.")
    return tuple(found)
