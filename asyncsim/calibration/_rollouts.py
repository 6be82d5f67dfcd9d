"""Rollouts fitted to the log of an asynchronous reinforcement learning system: generation lengths and step times."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from asyncsim._checks import require_integer
from asyncsim._parts import override
from asyncsim.calibration._choose import (
    Estimate,
    Group,
    StageFit,
    alternatives,
    choose,
    draw_laws,
    hessian,
    require_family,
)
from asyncsim.calibration._laws import parameters_of_stage
from asyncsim.calibration._model import Parameters
from asyncsim.calibration._stages import LEAST_COMMITS, Stage
from asyncsim.calibration._transforms import FAMILIES, LEVEL, FloatArray, law_of
from asyncsim.cluster import Rollouts
from asyncsim.delays import Constant, log_likelihood
from asyncsim.delays._per_worker import ZERO, is_zero
from asyncsim.trace import Trace

FAMILIES_OF_LONGEST = ("exponential", "gamma", "lognormal", "weibull")  # of samples of which the longest is logged
STEP = 1e-3  # of a finite difference, in logarithms
WARM_UP = 0.1  # share of the steps of a simulation


class Interval(NamedTuple):
    """A number of the summary: median of the simulations, and where 90 % of them lie."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class RolloutFit:
    """Rollouts as they were fitted to a log.

    Attributes:
        rollouts: The fitted system.
        parameters: "generate.mean", "generate.cv", "train.mean", "train.cv" and arguments of the laws -> estimates with
            90 % intervals.
        log: Name -> value of the summary, as far as the log shows it.
        notes: Findings and assumptions, in sentences.
        stages: "generate" and "train" -> the fit of that stage's law.
    """

    rollouts: Rollouts
    parameters: Parameters
    log: dict[str, float]
    notes: tuple[str, ...]
    stages: dict[str, StageFit]

    def __repr__(self) -> str:
        laws = ", ".join(f"{name} {getattr(self.rollouts, name)!r}" for name in self.stages)
        return f"RolloutFit({laws})"

    def sample(self, count: int, *, seed: int = 0) -> list[Rollouts]:
        """Rollouts as likely as the fitted ones: laws drawn from the approximation of their likelihood.

        Args:
            count: How many, at least 1.
            seed: Seed of the draws.
        """
        count = require_integer("count", count, least=1, remedy="Draw one or more.")
        generator = np.random.default_rng([seed, 1])
        drawn = {
            name: draw_laws([group.estimate for group in stage.groups], stage.alternatives, generator, count)[0]
            for name, stage in self.stages.items()
        }
        return [replace(self.rollouts, **{name: laws[i] for name, laws in drawn.items()}) for i in range(count)]

    def what_if(self, *, steps: int = 200, draws: int = 16, seed: int = 0, **changes: Any) -> dict[str, Interval]:
        """Simulate the fitted system with other arguments, such as `lead=4` or `slots=192`.

        Each draw of the laws is simulated once, so that the intervals hold the uncertainty of the fit and the chance of
        a run of so many steps.

        Args:
            steps: Steps of each simulation, at least 2; the first tenth is left out.
            draws: Number of simulations.
            seed: Seed of the draws and of the simulations.
            **changes: Arguments of `asyncsim.Rollouts`; none for the system of the log.

        Returns:
            Name of each number of `Rollouts.ledger(…).summary` -> median, low and high.

        Raises:
            ValueError: If an argument does not fit.

        Example:
            >>> import asyncsim as asim
            >>> law, step = asim.delays.Exponential(1.0), asim.delays.Constant(0.5)
            >>> hidden = asim.Rollouts(slots=8, group=1, batch=4, generate=law, train=step, lead=1)
            >>> fit = asim.calibrate(asim.simulate(hidden, commits=800), hidden, law="exponential")
            >>> found = fit.what_if(lead=3, draws=4)
            >>> found["group_staleness"].median > 1.5
            True
        """
        steps = require_integer("steps", steps, least=2, remedy="Simulate two steps or more.")
        rows = []
        for number, one in enumerate(self.sample(draws, seed=seed)):
            changed = override(one, **changes) if changes else one
            ledger = changed.ledger(commits=steps * changed.batch, seed=seed + number)
            rows.append(ledger.summary(warm_up=int(WARM_UP * steps)))
        levels = [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2]
        return {name: Interval(*np.quantile([row[name] for row in rows], levels).tolist()) for name in rows[0]}


def rollouts_of(log: Trace) -> Rollouts:
    """The system that a log shows, with a group as one sample: slots, batch, order, and the smallest lead."""
    batch = int(np.bincount(log.version).max(initial=1))
    opened = np.sort(np.append(log.read_time, log.unfinished.read_time))
    updates = log.commit_time[log.closes_step]
    version = np.searchsorted(updates, opened, side="right")
    lead = float(np.max((np.arange(len(opened)) + 1) / batch - version - 1, initial=0.0))
    busy = np.append(np.ones(len(opened)), -np.ones(len(log)))
    moments = np.lexsort((busy, np.append(opened, log.finish_time)))
    slots = int(np.cumsum(busy[moments])[: len(opened) + len(log)].max(initial=1))
    in_order = bool((np.diff(log.read_time[np.lexsort((log.read_time, log.version))]) >= 0).all())
    order: Any = "submission" if in_order else "completion"
    return Rollouts(
        slots=slots, group=1, batch=batch, generate=Constant(1.0), train=Constant(1.0), lead=lead, order=order
    )


def fit_rollouts(log: Trace, rollouts: Rollouts, law: Any, seed: int) -> RolloutFit:
    """Fit the laws of generation and of steps; see `calibrate`."""
    notes: list[str] = []
    if len(log) < LEAST_COMMITS:
        raise ValueError(f"`log` must have {LEAST_COMMITS} trained groups or more; got {len(log)}. Record more.")
    if not is_zero(rollouts.sync):
        notes.append("Times of steps and of generation contain the pauses of synchronisations, and `sync` is 0 here.")
    if not is_zero(rollouts.reward):
        notes.append("Times of generation contain those of rewards, and `reward` is 0 here.")
    if rollouts.group > 1 and rollouts.refill == "sample":
        notes.append(
            "The log shows the first start and the last end of a group. Its samples are taken to start together, which "
            f"overestimates their length by about {rollouts.group / rollouts.slots:.0%} or less."
        )
    laws = dict(law) if isinstance(law, Mapping) else {} if law is None else {"generate": law}
    for name in laws:
        if name not in ("generate", "train"):
            raise ValueError(f"`law` must name 'generate' or 'train'; got {name!r}. Leave it out.")
    families = {name: require_family("law", one) for name, one in laws.items()}
    first = np.unique(log.version, return_index=True)[1]
    step = (log.commit_time - log.serve_time)[first]
    generation = _generation(log, rollouts)
    if generation.durations.max(initial=0.0) <= 0 or step.max(initial=0.0) <= 0:
        raise ValueError("`log` must show when groups were ready and taken; it does not. Give `ready` and `taken`.")
    stages = {
        "generate": _choose(generation, rollouts.group, families.get("generate")),
        "train": choose(_alone(step, np.zeros(0)), 1, families.get("train")),
    }
    fitted = {name: stage.groups[0].estimate.law for name, stage in stages.items()}
    parameters = Parameters()
    for name, stage in stages.items():
        parameters |= parameters_of_stage(name, stage, seed)
    system = replace(rollouts, **fitted, sync=ZERO, reward=ZERO)
    return RolloutFit(system, parameters, _measured(log, step), tuple(notes), stages)


def _alone(durations: FloatArray, censored: FloatArray) -> Stage:
    return Stage(durations, np.zeros(len(durations), np.int32), censored, np.zeros(len(censored), np.int32))


def _generation(log: Trace, rollouts: Rollouts) -> Stage:
    """Durations from opening to completion, of groups that were complete, and how long the others had lasted."""
    rest = log.unfinished
    done = rest.finish_time <= log.seconds
    ends = np.full(len(rest), log.seconds)
    if rollouts.stale == "abort" and rollouts.max_age is not None:
        updates = np.append(log.commit_time[log.closes_step], log.seconds)
        ends = updates[np.minimum(rest.read_version + rollouts.max_age, len(updates) - 1)]
    lasted = np.maximum(np.minimum(ends, rest.end_time) - rest.start_time, 0.0)[~done]
    whole = np.append(log.finish_time - log.start_time, (rest.finish_time - rest.start_time)[done])
    return _alone(whole, lasted[lasted > 0])


def _measured(log: Trace, step: FloatArray) -> dict[str, float]:
    return {
        "group_staleness": float(log.staleness.mean()),
        "steps_per_second": log.steps / log.seconds,
        "trainer_idle": 1 - float(step.sum()) / log.seconds,
    }


class _Longest:
    """The law of the longest of some samples, as far as a likelihood needs it."""

    def __init__(self, law: Any, samples: int) -> None:
        self.law, self.samples = law, samples

    def cdf(self, times: FloatArray) -> FloatArray:
        """P(all samples ≤ t)."""
        return np.asarray(self.law.cdf(times) ** self.samples, np.float64)

    def log_density(self, times: FloatArray) -> FloatArray:
        """log of S·f(t)·F(t)^(S - 1)."""
        below = np.log(np.maximum(self.law.cdf(times), np.finfo(float).tiny))
        return np.asarray(math.log(self.samples) + self.law.log_density(times) + (self.samples - 1) * below)


def _choose(stage: Stage, samples: int, law: str | None) -> StageFit:
    """The law of one sample, of which the longest of a group is logged."""
    if samples == 1:
        return choose(stage, 1, law)
    if law is not None and law not in FAMILIES_OF_LONGEST:
        known = ", ".join(map(repr, FAMILIES_OF_LONGEST))
        raise ValueError(
            f"`law` of samples in groups must be one of {known}; got {law!r}. Choose one, or leave it out."
        )
    if np.ptp(stage.durations) == 0:
        return choose(stage, 1, None)
    found = {name: _longest(name, stage, samples) for name in (FAMILIES_OF_LONGEST if law is None else (law,))}
    best = min(found, key=lambda name: found[name].aic)
    aic = {name: one.aic for name, one in found.items()}
    beside = alternatives({name: [one] for name, one in found.items()}) if law is None else ()
    return StageFit((Group("", (0,), found[best]),), aic, {}, math.nan, math.nan, beside)


def _longest(family: str, stage: Stage, samples: int) -> Estimate:
    """A family fitted by maximum likelihood, with the covariance of the logarithms of its arguments."""
    from scipy.optimize import minimize

    def loss(x: FloatArray) -> float:
        try:
            one = _Longest(law_of(family, np.exp(x).tolist()), samples)
            value = -log_likelihood(one, stage.durations, stage.censored)
        except (ValueError, OverflowError, ZeroDivisionError):
            return 1e300
        return value if math.isfinite(value) else 1e300

    begin = FAMILIES[family].law.fit(stage.durations)
    start = np.log(FAMILIES[family].values(begin))
    start[0] -= math.log(1 + math.log(samples) * 0.5)  # the longest is longer than the mean
    at = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000}).x
    covariance = np.asarray(np.linalg.inv(hessian(loss, at, STEP)), np.float64)
    return Estimate(family, tuple(np.exp(at).tolist()), covariance, len(stage.durations), -loss(at))
