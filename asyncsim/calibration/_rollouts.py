"""Rollouts fitted to the log of an asynchronous reinforcement learning system: generation lengths and step times."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from asyncsim._checks import brief
from asyncsim.calibration._choose import Estimate, Group, StageFit, alternatives, choose, hessian, named_laws
from asyncsim.calibration._laws import NO_DRAWS, parameters_of_stage, quantiles_of
from asyncsim.calibration._model import NO_CLASSES, Evidence, Parameters
from asyncsim.calibration._stages import LEAST_COMMITS, Stage
from asyncsim.calibration._statistics import takes_time
from asyncsim.calibration._transforms import FAMILIES, FloatArray, build_law, values_of
from asyncsim.cluster import Rollouts
from asyncsim.components import Component
from asyncsim.delays import Constant, log_likelihood
from asyncsim.delays._per_worker import ZERO, is_zero
from asyncsim.trace import Fate, Trace
from asyncsim.trace._presence import awake, find_pauses, spans_pause

FAMILIES_OF_LONGEST = ("exponential", "gamma", "lognormal", "weibull")  # of samples of which the longest is logged
LEADS = (0.0, 1.0, 2.0, 4.0, 8.0)  # leads that are simulated, with the lead of the log
STEPS = 200  # of a simulation
STEP = 1e-3  # of a finite difference, in logarithms
LEAST_LOG_SURVIVAL = -50.0  # log P of one longer sample, below which two of them are a matter of rounding
WARM_UP = 0.1  # share of the steps of a simulation


class FittedRollouts(Component):
    """Rollouts as they were fitted to a log."""

    rollouts: Rollouts  # the system of the estimates
    stages: Mapping[str, StageFit]  # "generate" and "train", as they were fitted
    workers: int  # places of groups in the log
    seed: int  # of the draws behind intervals
    hidden: tuple[str, ...] = ()  # stages that are not identifiable from the log

    mixed = ()
    draws = NO_DRAWS  # `sample` draws laws when it is called
    priors: ClassVar[dict[str, tuple[float, float]]] = {}
    jointly = False  # a check does not compare all statistics together as well
    shows_service = True  # no number of workers depends on stages that the log hides
    varied: ClassVar[str] = "lead"  # the argument of which `what_if` tries several values
    labels: ClassVar[Mapping[str, str]] = {
        "group_staleness": "mean staleness of groups, versions",
        "steps_per_second": "steps per second",
        "staleness_max": "largest staleness, versions",
        "trainer_idle": "idle share of the trainer's time",
        "slots_idle": "idle share of the slots' time",
        "wasted": "share of generation that was dropped",
    }
    script: ClassVar[str] = "Simulate other leads"

    @cached_property
    def parameters(self) -> Parameters:
        """Name -> `Parameter`: "generate.mean", "train.cv" and the like, and the laws' arguments."""
        return Parameters(
            (key, parameter._replace(identifiable=parameter.identifiable and name not in self.hidden))
            for name, stage in self.stages.items()
            for key, parameter in parameters_of_stage(name, stage, self.seed).items()
        )

    def ladder(self, workers: int) -> list[float]:
        """Return the leads to be simulated."""
        del workers  # Leads are in steps.
        lead = self.rollouts.lead
        return sorted({*LEADS, math.inf if lead is None else lead})

    def size(self, commits: int, workers: int) -> str:
        """Say the size of the log in words."""
        return f"{commits:,} trained groups in {workers:,} places"

    def cluster(self, workers: int) -> Rollouts:
        """Return the system of the estimates."""
        self._require_same(workers)
        return self.rollouts

    def sample(self, generator: np.random.Generator, count: int, workers: int) -> list[Rollouts]:
        """Draw systems, their laws from the normal approximation of the likelihood, families by Akaike weights."""
        self._require_same(workers)
        drawn = {name: stage.draw(generator, count)[0] for name, stage in self.stages.items()}
        return [replace(self.rollouts, **{name: laws[i] for name, laws in drawn.items()}) for i in range(count)]

    def statistics(self, trace: Trace) -> dict[str, float]:
        """Compute the statistics by which logs are compared, under the names of the summary of a ledger."""
        seconds = float(awake(trace.commit_time[-1:], _pauses(trace))[0])
        return {
            "group_staleness": float(trace.staleness.mean()),
            "steps_per_second": trace.steps / seconds,
            "trainer_idle": 1 - float(_step_times(trace).sum()) / seconds,
        }

    def simulated(self, rollouts: Rollouts, steps: int | None, seed: int) -> dict[str, float]:
        """Simulate one run, and return its summary."""
        length = STEPS if steps is None else steps
        ledger = rollouts.ledger(commits=length * rollouts.batch, seed=seed)
        return ledger.summary(warm_up=int(WARM_UP * length))

    def predicted(self, lead: Any) -> dict[str, float]:
        """Predict nothing: `theory.rollouts` has bounds only."""
        del lead
        return {}

    def in_words(self) -> str:
        """List the law of each stage."""
        return ", ".join(f"{name} {getattr(self.rollouts, name)!r}" for name in self.stages)

    def joined_by(self, workers: int, add: Mapping[str, int]) -> "FittedRollouts":
        """Refuse further workers, because a log of rollouts shows places of groups and no classes of them."""
        del workers, add
        raise ValueError(f"`add` {NO_CLASSES}: its log is of rollouts. Give `what_if` other `slots` instead.")

    def _require_same(self, workers: int) -> None:
        """Refuse another number of workers than that of the log."""
        if workers != self.workers:
            remedy = "Give `what_if` other `slots` instead."
            raise ValueError(
                f"`workers` must be the log's {self.workers} places of groups; got {brief(workers)}. {remedy}"
            )


def rollouts_of(log: Trace) -> tuple[Rollouts, str]:
    """Derive the system that a log shows, with a group as one sample, and a note that says so."""
    batch = int(np.bincount(log.version).max(initial=1))
    rest = log.unfinished
    lost = rest.fate == Fate.LOST  # in a restart, after which others took their places
    opened = np.sort(np.append(log.read_time, rest.read_time[~lost]))
    updates = log.commit_time[log.closes_step]
    version = np.searchsorted(updates, opened, side="right")
    lead = float(np.max((np.arange(len(opened)) + 1) / batch - version - 1, initial=0.0))
    ends = np.append(log.finish_time, np.minimum(rest.finish_time, rest.end_time)[lost])
    begins = np.append(opened, rest.read_time[lost])
    busy = np.append(np.ones(len(begins)), -np.ones(len(ends)))
    moments = np.lexsort((busy, np.append(begins, ends)))
    slots = int(np.cumsum(busy[moments]).max(initial=1))
    in_order = bool((np.diff(log.read_time[np.lexsort((log.read_time, log.version))]) >= 0).all())
    order: Any = "submission" if in_order else "completion"
    note = (
        f"No Rollouts were given: a group counts as one sample on one of {slots} slots, and the lead {lead:.4g} is the "
        "smallest that the log allows."
    )
    second = Constant(1.0)  # The fit replaces the laws.
    return Rollouts(slots=slots, group=1, batch=batch, generate=second, train=second, lead=lead, order=order), note


def fit_rollouts(log: Trace, rollouts: Rollouts, law: Any, seed: int) -> tuple[FittedRollouts, list[str], Evidence]:
    """Fit the laws of generation and of steps, with notes (see `calibrate`)."""
    notes = _contradictions(log, rollouts)
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
    families = named_laws(law, ("generate", "train"))
    durations = {"generate": _generation(log, rollouts), "train": _of_one_worker(_step_times(log), np.zeros(0))}
    if any(stage.durations.max(initial=0.0) <= 0 for stage in durations.values()):
        raise ValueError("`log` must show when groups were ready and taken; it does not. Give `ready` and `taken`.")
    hidden = () if _shows_ready(log) else ("generate",)
    if hidden:
        notes.append(
            "The log lacks `ready`: each group counts as complete when its step takes it, so that the times of "
            "generation contain the wait in the queue and are not identifiable. Log `ready`."
        )
    stages = {}
    for name, stage in durations.items():
        longest_of = rollouts.group if name == "generate" else 1
        choice = _choose(stage, longest_of, families.get(name))
        stages[name] = replace(choice, quantiles=quantiles_of(stage, choice.groups, longest_of))
    fitted = {name: stage.groups[0].estimate.law for name, stage in stages.items()}
    system = replace(rollouts, **fitted, sync=ZERO, reward=ZERO)
    return FittedRollouts(system, stages, log.workers, seed, hidden), notes, Evidence({})


def _shows_ready(log: Trace) -> bool:
    """Return whether groups were complete before their steps took them, unless a step takes its only group at once."""
    if takes_time(log, log.serve_time - log.finish_time):
        return True
    ends = log.commit_time[log.closes_step]
    begins = log.serve_time[np.unique(log.version, return_index=True)[1]]
    # A trainer that is never idle takes groups that have waited, and of several groups only the last has not.
    is_waiting_for_groups = takes_time(log, begins[1:] - ends[: len(begins) - 1])
    return log.steps == len(log) and is_waiting_for_groups


def _contradictions(log: Trace, rollouts: Rollouts) -> list[str]:
    """Name the arguments of a model that the log contradicts, with both numbers."""
    shown, _ = rollouts_of(log)
    sizes = np.bincount(log.version)[: log.steps]
    typical = int(np.bincount(sizes).argmax()) if len(sizes) else rollouts.batch
    oldest = int(log.staleness.max(initial=0))
    notes = []
    if typical != rollouts.batch:
        notes.append(f"The model has `batch` {rollouts.batch}, and steps of the log train {typical} groups.")
    elif rollouts.lead is not None and shown.lead is not None and shown.lead > rollouts.lead:
        notes.append(f"The model has `lead` {rollouts.lead:.4g}, and the log needs {shown.lead:.4g} or more.")
    if rollouts.group == 1 and shown.slots > rollouts.slots:
        notes.append(f"The model has `slots` {rollouts.slots}, and {shown.slots} samples of the log run at once.")
    if rollouts.max_age is not None and oldest > rollouts.max_age:
        notes.append(f"The model has `max_age` {rollouts.max_age}, and a group of the log is {oldest} versions old.")
    return [f"{note} Correct the model: its what-ifs are of another system." for note in notes]


def _of_one_worker(durations: FloatArray, censored: FloatArray) -> Stage:
    """Put the durations of all groups together as those of worker 0."""
    return Stage(durations, np.zeros(len(durations), np.int32), censored, np.zeros(len(censored), np.int32))


def _generation(log: Trace, rollouts: Rollouts) -> Stage:
    """Measure the complete groups from opening to completion, and how long the others have lasted so far."""
    open_groups = log.unfinished
    done = open_groups.finish_time <= log.seconds
    updates = np.append(log.commit_time[log.closes_step], log.seconds)
    age = rollouts.max_age if rollouts.stale == "abort" else None
    ends = log.seconds if age is None else updates[np.minimum(open_groups.read_version + age, len(updates) - 1)]
    lasted = np.maximum(np.minimum(ends, open_groups.end_time) - open_groups.start_time, 0.0)[~done]
    counts = ~spans_pause(_pauses(log), log.start_time, log.finish_time)
    own = (log.finish_time - log.start_time)[counts]
    whole = np.append(own, (open_groups.finish_time - open_groups.start_time)[done])
    return _of_one_worker(whole, lasted[lasted > 0])


def _step_times(log: Trace) -> FloatArray:
    """Return (steps,) seconds of each step of the trainer."""
    first = np.unique(log.version, return_index=True)[1]
    begin, end = log.serve_time[first], log.commit_time[first]
    return (end - begin)[~spans_pause(_pauses(log), begin, end)]


def _pauses(log: Trace) -> FloatArray:
    """Find the times in which nothing was trained, such as that before a restart."""
    return find_pauses(log.worker, log.commit_time, log.workers)


class _Longest:
    """The law of the longest of some samples, as far as a likelihood needs it."""

    def __init__(self, law: Any, samples: int) -> None:
        self.law, self.samples = law, samples

    def cdf(self, times: FloatArray) -> FloatArray:
        """Compute P(all samples ≤ t)."""
        return np.asarray(self.law.cdf(times) ** self.samples, np.float64)

    def log_survival(self, times: FloatArray) -> FloatArray:
        """Compute log P(any sample > t)."""
        one = self.law.log_survival(times)
        with np.errstate(divide="ignore"):
            any_longer = np.log(-np.expm1(self.samples * np.log1p(-np.exp(one))))
        return np.where(one < LEAST_LOG_SURVIVAL, math.log(self.samples) + one, any_longer)

    def log_density(self, times: FloatArray) -> FloatArray:
        """Compute the logarithm of S·f(t)·F(t)^(S - 1)."""
        below = np.log(np.maximum(self.law.cdf(times), np.finfo(float).tiny))
        return np.asarray(math.log(self.samples) + self.law.log_density(times) + (self.samples - 1) * below)


def _choose(stage: Stage, samples: int, law: str | None) -> StageFit:
    """Choose the law of one sample, of which the longest of a group is logged."""
    if samples == 1:
        return choose(stage, 1, law)
    if law is not None and law not in FAMILIES_OF_LONGEST:
        families = ", ".join(map(repr, FAMILIES_OF_LONGEST))
        raise ValueError(
            f"`law` of samples in groups must be one of {families}; got {brief(law)}. Choose one, or leave it out."
        )
    if np.ptp(stage.durations) == 0:
        return choose(stage, 1, None)
    fitted = {name: _fit_longest(name, stage, samples) for name in (FAMILIES_OF_LONGEST if law is None else (law,))}
    aic = {name: estimate.aic for name, estimate in fitted.items()}
    best = min(aic, key=aic.__getitem__)
    likely = alternatives({name: [estimate] for name, estimate in fitted.items()}) if law is None else ()
    return StageFit((Group("", (0,), fitted[best]),), aic, {}, alternatives=likely)


def _fit_longest(family: str, stage: Stage, samples: int) -> Estimate:
    """Fit a family by maximum likelihood, with the covariance of the logarithms of its arguments."""
    from scipy.optimize import minimize

    def loss(x: FloatArray) -> float:
        try:
            law = _Longest(build_law(family, np.exp(x).tolist()), samples)
            value = -log_likelihood(law, stage.durations, stage.censored)
        except (ValueError, OverflowError, ZeroDivisionError):  # A law refuses arguments in no other way.
            return 1e300
        return value if math.isfinite(value) else 1e300

    start = np.log(values_of(family, FAMILIES[family].law.fit(stage.durations)))
    start[0] -= math.log(1 + math.log(samples) * 0.5)  # The longest of a group is longer than the mean.
    at = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000}).x
    covariance = np.asarray(np.linalg.inv(hessian(loss, at, STEP)), np.float64)
    return Estimate(family, tuple(np.exp(at).tolist()), covariance, len(stage.durations), -loss(at))
