"""The steps of a calibration by simulation, one by one, for studies of many logs of one model."""

import os
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief, require_array, require_count, require_integer
from asyncsim.calibration._model import Model
from asyncsim.calibration._npe import Estimator, learn
from asyncsim.calibration._simulations import Job, Report, Simulations, simulations
from asyncsim.calibration._statistics import COLUMNS, summaries
from asyncsim.components._checked import checked
from asyncsim.files._atomic import make_folder, require_folder
from asyncsim.trace import Trace

Names = tuple[str, ...]


def _columns(name: str, value: Any) -> Names:
    """Return names of columns of times in their order, of which the last is that of the commits."""
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if names != tuple(column for column in COLUMNS if column in names) or names[-1:] != COLUMNS[-1:]:
        raise ValueError(
            f"`{name}` must be some of {COLUMNS}, in this order, with the last; got {brief(value)}. Add it."
        )
    return names


@checked
def summarise(trace: Trace, columns: Sequence[str] = COLUMNS[-1:]) -> dict[str, float]:
    """Compute the statistics of a log from which calibrations by simulation learn.

    Args:
        trace: The log.
        columns: Names of the columns of times that count, of which the last is "commit_time".

    Returns:
        Name -> number. Durations are in units of a worker's mean time between commits, whose logarithm is the first.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.simulate(asim.Cluster(4, asim.delays.Constant(2.0)), commits=40)
        >>> statistics = summarise(trace)
        >>> next(iter(statistics)), round(next(iter(statistics.values())), 9)
        ('log of the cycle', 0.693147181)
    """
    return summaries(trace, _columns("columns", columns))


@checked
def simulate_prior(
    model: Model,
    count: Annotated[int, require_count, "1000 or more teach a posterior."],
    *,
    commits: Annotated[int, require_count, "Give that of the logs."],
    columns: Sequence[Sequence[str]] = (COLUMNS[-1:],),
    seed: Annotated[int, require_integer, "Give another one."] = 0,
    jobs: Annotated[int, require_integer, "Give 0 to simulate in this process."] | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Report | None = None,
) -> Simulations:
    """Draw clusters from the prior of a model, and simulate a log of each.

    Args:
        model: The model.
        count: Number of simulations.
        commits: Number of commits in each log.
        columns: Sets of columns, from each of which the statistics of all logs are computed (see `summarise`).
        seed: Seed of all draws. Simulation i depends on the model, `commits`, the seed and i alone.
        jobs: Processes that simulate, by default one for each core. With 0, only this process simulates.
        store: Folder of these simulations and no others, by default none. With it, an interrupted call resumes.
        progress: Called with `.done`, `.total` and `.seconds` whenever simulations are finished.

    Returns:
        `.values`, (count, p) values of the parameters, and `.statistics`, one array (count, k) for each set of columns.

    Example:
        >>> import asyncsim as asim
        >>> from asyncsim.calibration import LogUniform, Model
        >>> model = Model(lambda p: asim.Cluster(4, asim.delays.Gamma(1.0, p["cv"])), {"cv": LogUniform(0.1, 1.0)})
        >>> prior = simulate_prior(model, 20, commits=60, jobs=0)
        >>> prior.values.shape, len(prior.statistics), len(prior.statistics[0])
        ((20, 1), 1, 20)
    """
    sets = tuple(_columns("columns", names) for names in columns)
    if not sets:
        raise ValueError("`columns` must be one set of columns or more; got none. Leave it out for commits alone.")
    folder = None if store is None else require_folder("store", store)
    if folder is not None:
        make_folder(folder, "store")
    return simulations(Job(model, commits, sets, seed), count, folder=folder, jobs=jobs, progress=progress)


@checked
def learn_posterior(
    model: Model,
    values: ArrayLike,
    statistics: ArrayLike,
    seed: Annotated[int, require_integer, "Give another one."] = 0,
) -> Estimator:
    """Learn the posterior of a model's parameters, given the statistics of a log, from simulations.

    Args:
        model: The model.
        values, statistics: (simulations, p) and (simulations, k), as `simulate_prior` returns them.
        seed: Seed of the networks.

    Returns:
        The posterior, an `Estimator`, which serves every log with as many commits and the same columns.

    Raises:
        ValueError: If there are fewer than 200 usable simulations, an array is not one of numbers, or flowjax is not
            installed (`pip install 'asyncsim[calibrate]'`).

    Example:
        >>> from asyncsim import calibration
        >>> model = calibration.default_model(4)
        >>> prior = calibration.simulate_prior(model, 2000, commits=400)  # doctest: +SKIP
        >>> posterior = calibration.learn_posterior(model, prior.values, prior.statistics[0])  # doctest: +SKIP
    """
    points, rows = require_array("values", values), require_array("statistics", statistics)
    for name, array, expected in (("values", points, len(model.prior)), ("statistics", rows, None)):
        if array.ndim != 2 or len(array) != len(points) or (expected is not None and array.shape[1] != expected):
            raise ValueError(f"`{name}` must have a row for each simulation; got shape {array.shape}. Simulate anew.")
    return learn(model, np.asarray(points, np.float64), np.asarray(rows, np.float64), seed)
