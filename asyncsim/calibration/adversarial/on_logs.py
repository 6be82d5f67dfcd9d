"""A model fitted by Adversarial Variational Optimization, on statistics of blocks of the log.

Statistics are in units of their spread over the clusters of the first proposal. In units of the log's own, the critic
would tell all simulations from the log at once, and no proposal would be better than another.
"""

import time
from typing import Any

import numpy as np

from asyncsim.calibration.adversarial.avo import Avo, avo
from asyncsim.calibration.adversarial.blocks import blocks
from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.laws.stages import stages_of
from asyncsim.calibration.likelihood.frame import Frame, axis
from asyncsim.calibration.model import Model
from asyncsim.calibration.model_fit import (
    ModelFit,
    beginning,
    built,
    require_enough,
    require_repeatable,
    require_workers,
    untold,
)
from asyncsim.calibration.result import HALF, MOST_CHECKED, NORMAL, Parameter
from asyncsim.calibration.simulated.simulations import Report, SimulationProgress
from asyncsim.calibration.simulated.summaries import Seen, previous_commit, seen_columns
from asyncsim.checks import require_integer
from asyncsim.cluster import simulate
from asyncsim.trace import Trace

METHOD = "avo"
BATCH = 16  # simulated blocks of a step
LEAST_BLOCKS = 2 * BATCH  # of the log
MOST_PER_WORKER = 20  # commits of a block: beyond the memory of a cluster
LEAST_STEPS = 20
START_SD = 0.3  # of the proposal, in widths of the prior: that of a uniform one
PROPOSAL_RATE, CRITIC_RATE, PENALTY = 0.03, 0.003, 1.0  # faster than the published ones: steps are dear
DRAWS = 1000
FIRST = 128  # simulations by which statistics are scaled
SHORTEST = 1e-6  # of a cycle, of which the logarithm stands for that of nothing
NO_POSTERIOR = (
    "The intervals are of AVO's proposal, which is no posterior: it narrows for as long as one runs, and another seed "
    "ends elsewhere."
)


def fit_by_avo(log: Trace, model: Model, *, count: int, seed: int, progress: Report | None = None) -> ModelFit:
    """Fit a model by version 2 of AVO; arguments as in `calibrate`.

    Raises:
        ValueError: If the log or the model does not fit.
    """
    least = FIRST + BATCH * LEAST_STEPS
    count = require_integer("simulations", count, least=least, remedy="5000 are usual.")
    notes = stages_of(log).notes
    require_enough(log)
    require_workers(log, model)
    size = _block(log)
    cycle = log.workers * log.seconds / len(log)
    frame = Frame([axis(model, name, cycle) for name in model.names], model.names, {})
    require_repeatable(model)
    seen = seen_columns(log)
    observed = observations(log, seen, size)
    work = _Simulator(model, frame, seen, size, count, progress)
    start = np.random.default_rng([seed, 10])
    first = work.simulated(start, START_SD * start.standard_normal((FIRST, len(model.names))))
    work.centre, work.scale = observed.mean(axis=0), first.std(axis=0) + SHORTEST
    way = avo(
        work,
        work.scaled(observed),
        mean=np.zeros(len(model.names)),
        sd=np.full(len(model.names), START_SD),
        version=2,
        steps=(count - FIRST) // BATCH,
        batch=BATCH,
        penalty=PENALTY,
        critic_rate=CRITIC_RATE,
        proposal_rate=PROPOSAL_RATE,
        backend="numpy",
        seed=seed,
    )
    return _fit(log, model, frame, way, seen, notes, seed)


def observations(trace: Trace, seen: Seen, size: int) -> FloatArray:
    """(blocks, k) statistics of successive blocks: those of `blocks`, and mean and spread of the stages that are seen.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.simulate(asim.Cluster(2, asim.delays.Exponential(1.0)), commits=60)
        >>> observations(trace, ("commit_time",), 20).shape
        (3, 7)
    """
    found = [blocks(trace, size)]
    before = previous_commit(trace)
    for name in seen if len(seen) > 1 else ():
        column = getattr(trace, name)
        whole = (column - before)[: len(found[0]) * size].reshape(-1, size)
        logs = np.log(np.maximum(whole, SHORTEST * trace.workers * trace.seconds / len(trace)))
        found.append(
            np.stack([np.log(np.maximum(whole.mean(axis=1), 1e-300)), logs.mean(axis=1), logs.std(axis=1)], axis=1)
        )
        before = column
    return np.concatenate(found, axis=1)


class _Simulator:
    """`(rng, theta)` -> one block of statistics for each row, the second of a trace: the first warms up."""

    def __init__(
        self,
        model: Model,
        frame: Frame,
        seen: Seen,
        size: int,
        total: int,
        progress: Report | None,
    ) -> None:
        self.model, self.frame, self.seen, self.size = model, frame, seen, size
        self.centre, self.scale = np.zeros(0), np.ones(0)
        self.total, self.done = total, 0
        self.progress = progress
        self.begun = time.monotonic()

    def __call__(self, rng: np.random.Generator, theta: Any) -> FloatArray:
        return self.scaled(self.simulated(rng, np.asarray(theta, np.float64)))

    def scaled(self, x: FloatArray) -> FloatArray:
        """In units of the first simulations; what is far away by its logarithm."""
        return np.arcsinh((x - self.centre) / self.scale)

    def simulated(self, rng: np.random.Generator, theta: FloatArray) -> FloatArray:
        """(m, k) statistics as they are."""
        rows = []
        for row in theta:
            cluster = self.model.cluster(_values(self.frame, row))
            trace = simulate(cluster, commits=2 * self.size, seed=int(rng.integers(2**31)))
            rows.append(observations(trace, self.seen, self.size)[1])
        self.done = min(self.done + len(rows), self.total)
        if self.progress is not None:
            seconds = time.monotonic() - self.begun
            self.progress(SimulationProgress(self.done, self.total, self.done, seconds))
        return np.array(rows)


def _block(log: Trace) -> int:
    """Commits of a block, so that there are enough of them.

    Raises:
        ValueError: If the log is too short.
    """
    least = 2 * log.workers + 1
    if len(log) < LEAST_BLOCKS * least:
        raise ValueError(
            f"`log` must have {LEAST_BLOCKS * least:,} commits or more for AVO, {LEAST_BLOCKS} blocks of {least}; got "
            f'{len(log):,}. Give `method="npe"`.'
        )
    return min(MOST_PER_WORKER * log.workers, max(least, len(log) // LEAST_BLOCKS))


def _values(frame: Frame, x: FloatArray) -> list[float]:
    """Values within the prior."""
    return list(frame.values(np.clip(x, frame.low, frame.high)).values())


def _fit(log: Trace, model: Model, frame: Frame, way: Avo, seen: Seen, notes: tuple[str, ...], seed: int) -> ModelFit:
    mean, sd = np.clip(way.average(), frame.low, frame.high), way.sd
    drawn = mean + sd * np.random.default_rng([seed, 9]).standard_normal((DRAWS, len(mean)))
    draws = np.array([_values(frame, row) for row in drawn])
    low, middle, high = (_values(frame, mean + side * NORMAL * sd) for side in (-1, 0, 1))
    widths = dict(zip(model.names, (2 * NORMAL * sd).tolist(), strict=True))
    found = {
        name: Parameter(middle[i], low[i], high[i], METHOD, widths[name] <= HALF) for i, name in enumerate(model.names)
    }
    hidden = tuple(name for name, one in found.items() if not one.identifiable)
    used = beginning(log, MOST_CHECKED)
    return ModelFit(
        **built(log, used, model, draws, seen),
        middle=model.cluster(middle),
        method=METHOD,
        seed=seed,
        found=found,
        widths=widths,
        hidden=hidden,
        notes=(*notes, NO_POSTERIOR, *untold(hidden, widths)),
        avo=way,
    )
