"""Laws chosen for the stages of a log, as a model: clusters, parameters with intervals, sampled clusters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from asyncsim._checks import require_count, require_one_of
from asyncsim.calibration._choose import (
    DRAWS,
    SIGNIFICANT,
    Group,
    StageFit,
    choose,
    moments,
    named_laws,
    observed_moments,
    scaled_at_random,
)
from asyncsim.calibration._goodness import dependences, law_check
from asyncsim.calibration._model import NO_CLASSES, Evidence, FittedCluster, Parameter, Parameters
from asyncsim.calibration._stages import Stage, Stages, holders_of
from asyncsim.calibration._statistics import CONSTANT, summary
from asyncsim.calibration._transforms import FAMILIES, LEVEL, NORMAL, FloatArray, values_of
from asyncsim.calibration._waiting import TURN
from asyncsim.cluster import Cluster, Network, Server
from asyncsim.delays import Constant, Delay
from asyncsim.trace import Trace
from asyncsim.trace._columns import IntColumn, list_workers

LIKELIHOOD, WHOLE_JOBS, NOT_OBSERVED = "likelihood", "likelihood of whole jobs", "not observed"
MOST_APART = 10.0  # high over low of an interval, from which a parameter is not identifiable
CENSORED_SHARE = 0.05  # censored jobs over ended ones, up to which the mean of those is taken for that of all
DRAWS_PER_WORKER = 400  # where each worker has a law of its own
QUANTILES = 199  # of each stage's durations, for a Q-Q picture
LAW_MISFIT = 0.01
STAGES = {"compute": "compute", "latency": "network.latency", "service": "server.service", "upload": "upload"}
NO_DRAWS = np.zeros((0, 0))


class Laws(FittedCluster):
    """The model that AIC chooses: a law, or one for each group of workers, for each stage that the log shows."""

    workers: int  # number of workers of the log
    # "compute", and "latency" and "service" where the log identifies them. Elsewhere "upload" is the time from finish
    # to commit, and `contains` says whether a queue is in it.
    stages: Mapping[str, StageFit]
    slots: int  # commits in service at once
    separate: bool  # whether workers pull in a request of their own
    hidden: tuple[str, ...]  # stages that are not identifiable from the log
    seed: int  # of the draws behind intervals
    # The worker of the log whose law each place has, in order: if some took places of others, or none for all workers.
    holders: tuple[int, ...] = ()

    draws = NO_DRAWS  # `sample` draws laws when it is called
    priors: ClassVar[dict[str, tuple[float, float]]] = {}
    jointly = False  # a check does not compare all statistics together as well

    @property
    def shows_service(self) -> bool:
        """Whether the log shows service, which limits more workers."""
        return "service" not in self.hidden

    @property
    def mixed(self) -> tuple[str, ...]:
        """Stages whose durations are no draws of their law, because waiting, messages or service are mixed in them."""
        contains = {name: stage.contains for name, stage in self.stages.items()}
        mixes = {"compute": bool({"waiting", TURN} & {*contains["compute"]}), "service": bool(contains.get("service"))}
        return tuple(name for name in contains if mixes.get(name) or (name == "upload" and "queue" in contains[name]))

    @cached_property
    def parameters(self) -> Parameters:
        """Name -> `Parameter`: the arguments of each law, and of each stage "mean" and "cv"."""
        of_stages = {
            key: parameter._replace(
                method=WHOLE_JOBS if name == "compute" and self._has_whole_jobs else LIKELIHOOD,
                identifiable=parameter.identifiable and name not in self.mixed,
            )
            for name, stage in self.stages.items()
            for key, parameter in parameters_of_stage(STAGES[name], stage, self.seed).items()
        }
        unknown = Parameter(np.nan, np.nan, np.nan, NOT_OBSERVED, False)
        lacking = {f"{STAGES[name]}.mean": unknown for name in self.hidden if name not in self.stages}
        return Parameters({**of_stages, **lacking})

    @property
    def _has_whole_jobs(self) -> bool:
        """Whether the durations of computing contain the server's queue."""
        return "queue" in self.stages["compute"].contains and "service" in self.hidden

    def cluster(self, workers: int) -> Cluster:
        """Build the cluster of highest likelihood, with some number of workers."""
        laws = {name: [estimate.law for estimate in stage.estimates] for name, stage in self.stages.items()}
        return self._cluster(laws, workers)

    def sample(self, generator: np.random.Generator, count: int, workers: int) -> list[Cluster]:
        """Draw clusters from the normal approximation of the likelihood, families by their Akaike weights."""
        drawn = {name: zip(*stage.draw(generator, count), strict=True) for name, stage in self.stages.items()}
        return [self._cluster({name: next(laws) for name, laws in drawn.items()}, workers) for _ in range(count)]

    def joined_by(self, workers: int, add: Mapping[str, int]) -> "Laws":
        """Return the model of a cluster of some workers and further ones of the classes that the fit distinguishes."""
        first = {group.label.strip("[]"): group.workers[0] for group in self.stages["compute"].groups if group.label}
        if not first:
            raise ValueError(f"`add` {NO_CLASSES}: all workers have one law. Ask for `workers` instead.")
        further = [
            [first[require_one_of("add", name, choices=first)]]
            * require_count(f"add of {name!r}", count, remedy="Add one worker or more.")
            for name, count in add.items()
        ]
        holders = map(self._holder, range(workers))
        return replace(self, holders=(*holders, *chain.from_iterable(further)))

    def _holder(self, place: int) -> int:
        """Return the worker of the log whose law a place has."""
        return self.holders[place % len(self.holders)] if self.holders else place % self.workers

    def statistics(self, trace: Trace) -> dict[str, float]:
        """Compute the statistics by which logs are compared."""
        return summary(trace)

    def in_words(self) -> str:
        """List the law of each stage."""
        return ", ".join(f"{name} {_in_words(stage)}" for name, stage in self.stages.items())

    def _cluster(self, laws: Mapping[str, Sequence[Delay]], workers: int) -> Cluster:
        count = require_count("workers", workers, remedy="Use one worker or more.")
        groups = self.stages["compute"].groups
        law_of_worker = {w: law for group, law in zip(groups, laws["compute"], strict=True) for w in group.workers}
        own_laws = [law_of_worker[self._holder(place)] for place in range(count)] if len(groups) > 1 else []
        compute: Any = own_laws or laws["compute"][0]
        network = Network(latency=laws["latency"][0]) if "latency" in laws else Network()
        service = laws["service"][0] if "service" in laws else laws["upload"][0] if "upload" in laws else Constant(0.0)
        slots = max(self.slots, count) if "upload" in laws else self.slots  # Nobody waits for an upload.
        server = Server(slots=slots, service=service, atomic=not self.separate)
        # A job of the log is one commit, so that a scenario whose rule has a window refuses the law of whole jobs.
        return Cluster(count, compute, network=network, server=server, local_steps=1)


def fit_laws(
    log: Trace, durations: Stages, place_of_worker: IntColumn, law: Any, by_worker: bool, seed: int
) -> tuple[Laws, list[str], Evidence]:
    """Choose and fit a law for each stage of a log, with notes and the distances of the durations from the laws."""
    families = named_laws(law, tuple(STAGES))
    fitted = {
        name: _fit(stage, log, families.get(name), by_worker and name == "compute", seed)
        for name in STAGES
        if (stage := getattr(durations, name)) is not None
    }
    for name in families.keys() - fitted.keys():
        raise ValueError(f"`law` of {name!r} must be left out; the log does not show its durations.")
    notes = [
        *durations.notes,
        *(note for name, choice in fitted.items() for note in _describe_fit(name, choice, name in families, log.names)),
        *dependences(durations.compute, fitted["compute"].groups, durations.middle),
        *_describe_hidden(durations),
    ]
    distances = {f"law of {name}": stage.law for name, stage in fitted.items() if stage.law is not None}
    holders = () if place_of_worker.max() + 1 == log.workers else holders_of(place_of_worker)
    laws = Laws(log.workers, fitted, durations.slots, durations.separate, durations.hidden, seed, holders)
    return laws, notes, Evidence(distances)


def _describe_hidden(durations: Stages) -> list[str]:
    """Say which stages are not identifiable, and in which others they may be."""
    if not (durations.hidden and durations.compute.contains):
        return []
    upload = "" if durations.upload is None else f", or upload ({', '.join(durations.upload.contains)})"
    return [
        f"Not identifiable from the log: {' and '.join(durations.hidden)}. No time passes there, or compute contains "
        f"it ({', '.join(durations.compute.contains)}){upload}; log `start_time`, `finish_time`, `arrive_time` and "
        "`serve_time` to identify them."
    ]


def _fit(stage: Stage, log: Trace, law: str | None, by_worker: bool, seed: int) -> StageFit:
    """Choose the laws of a stage, and compare them with its durations."""
    choice = choose(stage, log.workers, law, by_worker=by_worker)
    # Where each worker has a law of its own, the law has its name.
    has_names = bool(log.names) and len(choice.groups) > 2
    groups = tuple(
        replace(group, label=f"[{log.names[group.workers[0]]}]") if has_names else group for group in choice.groups
    )
    rounding = tuple(_error_by_rounding(stage, group) for group in groups) if stage.rounding else ()
    observed = []
    if choice.alternatives and stage.contains:
        for number, part in enumerate(stage.of(group.workers) for group in groups):
            rows = observed_moments(part.durations, part.censored)
            rows[0, 1] = np.hypot(rows[0, 1], rows[0, 0] * (rounding[number] if rounding else 0.0))
            observed.append(rows)
    return replace(
        choice,
        groups=groups,
        contains=stage.contains,
        observed=tuple(observed),
        rounding=rounding,
        law=law_check(stage, groups, seed),
        quantiles=quantiles_of(stage, groups),
    )


def _error_by_rounding(stage: Stage, group: Group) -> float:
    """Compute the relative error of the mean that is due to a coarse clock."""
    mean = group.estimate.law.mean
    return math.sqrt(stage.rounding / group.estimate.jobs) / mean if mean else 0.0


def _describe_fit(name: str, choice: StageFit, named: bool, names: Sequence[str]) -> list[str]:
    """Say whether no law fits a stage, and how the laws of workers differ."""
    differences = _describe_differences(name, choice, names)
    if choice.law is None or choice.law.p_value >= LAW_MISFIT:
        return differences
    misfit = (
        f"No law fits {name}: the {'named' if named else 'best'}, {choice.estimates[0].family}, has a p-value of "
        f"{choice.law.p_value:.1g}; `delays.Empirical` takes the durations as they are."
    )
    return [misfit, *differences]


def _describe_differences(name: str, choice: StageFit, names: Sequence[str] = ()) -> list[str]:
    """Say how the laws of workers differ in a stage, if they do."""
    groups = choice.groups
    if choice.p_equal is None or (len(groups) == 1 and choice.p_equal >= SIGNIFICANT):
        return []
    ratio = "p-value of equal workers " + (f"{choice.p_equal:.1g}" if choice.p_equal >= 1e-12 else "below 1e-12")
    if len(groups) == 1:
        return [f"Workers differ in {name}, but have too few jobs to estimate how: one law is fitted to all ({ratio})."]
    if len(groups) == 2 and groups[1].label == "slow":
        slow = groups[1].workers
        who = f"{list_workers(names, slow)} {'takes' if len(slow) == 1 else 'take'}"
        factor = groups[1].estimate.law.mean / groups[0].estimate.law.mean
        if f"{factor:.2g}" == "1":
            return [f"Two classes of workers: {who} nearly as long as the others, {factor - 1:+.2%} ({ratio})."]
        return [f"Two classes of workers: {who} {factor:.2g} times as long as the others ({ratio})."]
    means = [estimate.law.mean for estimate in choice.estimates]
    return [f"Workers differ: means of {name} from {min(means):.3g} to {max(means):.3g} s ({ratio})."]


def quantiles_of(stage: Stage, groups: Sequence[Group], longest_of: int = 1) -> Any:
    """Compute (2, shares) quantiles of durations, each the longest of some draws, and of the laws.

    The law of each group counts by the number of its durations.
    """
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    # The quantiles of the mixture are those of a sample, to which each law contributes 2000 values.
    fine = ((np.arange(2000) + 0.5) / 2000) ** (1 / longest_of)
    values = np.concatenate([_inverse(group.estimate.law, fine) for group in groups])
    counts = [int(np.isin(stage.worker, group.workers).sum()) for group in groups]
    order, mass = np.argsort(values), np.repeat(np.array(counts) / len(fine), len(fine))
    middle = np.cumsum(mass[order]) - mass[order] / 2
    predicted = np.interp(shares, middle / mass.sum(), values[order])
    return np.stack([np.quantile(stage.durations, shares), predicted])


def _inverse(law: Any, shares: Any) -> Any:
    """Compute quantiles, from the cdf on a fine grid for mixtures, which have none in closed form."""
    if hasattr(law, "quantile"):
        return law.quantile(shares)
    spread = law.mean + 60 * np.sqrt(law.variance)
    grid = np.concatenate([[0.0], np.geomspace(law.mean * 1e-4, spread, 20_000)])
    return np.interp(shares, law.cdf(grid), grid)


def parameters_of_stage(prefix: str, stage: StageFit, seed: int) -> dict[str, Parameter]:
    """Compute the parameters of each group of workers and, with several groups, also the mean of all."""
    count = DRAWS if len(stage.groups) <= 2 else DRAWS_PER_WORKER
    generator = np.random.default_rng([seed, 3])
    chosen = [estimate.draw(generator, count) for estimate in stage.estimates]
    chosen = [scaled_at_random(*pair, generator) for pair in zip(chosen, stage.rounding, strict=False)] or chosen
    both = stage.draw_moments(generator, count)
    averaged = len(stage.alternatives) > 1
    parameters: dict[str, Parameter] = {}
    if len(stage.groups) > 1:
        parameters[f"{prefix}.mean"] = _mean_of_all(stage, both[..., 0], averaged)
    for i, group in enumerate(stage.groups):
        fitted = group.estimate
        label = group.label if group.label.startswith("[") or not group.label else f".{group.label}"
        columns = np.array([values_of(fitted.family, law) for law in chosen[i]]).T
        trios = zip(FAMILIES[fitted.family].names, fitted.values, columns, strict=True)
        arguments = {name: (value, column, False) for name, value, column in trios}
        derived = {
            "mean": (fitted.law.mean, both[i, :, 0], averaged),
            "cv": (moments(fitted.law)[1], both[i, :, 1], averaged),
        }
        observations = dict(zip(derived, stage.observed[i], strict=True)) if stage.observed else {}
        # Where a mean or a cv is an argument of the law as well, it counts the other families, if there are some.
        others = {name: row for name, row in derived.items() if name not in arguments}
        rows = derived | arguments | derived if averaged else others | arguments
        # A spread of which the clock has made the larger part says nothing about the shape.
        lost = (stage.rounding[i] * fitted.law.mean) ** 2 * fitted.jobs if stage.rounding else 0.0
        blurred = lost > fitted.law.variance
        for name, (value, drawn, several) in rows.items():
            is_constant = fitted.family == "constant" and not stage.rounding
            alone = name == "mean" and _has_few_censored(group)
            if name == "cv" and lost and not blurred:  # The difference of two variances has the error of the first.
                drawn = value * (drawn / value) ** (1 + lost / fitted.law.variance)
            row = (value, drawn, several, observations.get(name))
            parameter = _of_constant(value) if is_constant else _parameter(*row, alone=alone)
            visible = name == "mean" or not blurred or fitted.family == "constant"
            parameters[f"{prefix}{label}.{name}"] = parameter._replace(identifiable=parameter.identifiable and visible)
    return parameters


def _mean_of_all(stage: StageFit, means: FloatArray, averaged: bool) -> Parameter:
    """Compute the mean of a stage over all workers, from (groups, count) draws of the mean of each group."""
    counts = np.array([len(group.workers) for group in stage.groups])
    shares = (counts / counts.sum()).tolist()
    estimate = sum(share * group.estimate.law.mean for share, group in zip(shares, stage.groups, strict=True))
    drawn: Any = sum(share * of_group for share, of_group in zip(shares, means, strict=True))
    few = all(_has_few_censored(group) for group in stage.groups)
    if not stage.observed:
        return _parameter(estimate, drawn, averaged, None, alone=few)
    observed, errors = np.array(stage.observed)[:, 0].T
    moments_of_all = np.array([counts @ observed, np.linalg.norm(counts * errors)]) / counts.sum()
    return _parameter(estimate, drawn, averaged, moments_of_all, alone=few)


def _has_few_censored(group: Group) -> bool:
    """Return whether the mean of durations is that of all, because at most one per worker had not ended."""
    return len(group.workers) <= CENSORED_SHARE * group.estimate.jobs


def _parameter(
    estimate: float, drawn: FloatArray, averaged: bool, observed: FloatArray | None, *, alone: bool = False
) -> Parameter:
    """Give an estimate the interval of its draws.

    Where durations may be sums, it is at least as wide as the observed moments leave open. The error of a mean is known
    whatever the law (`alone`), so that the differences between families say nothing more about it.
    """
    ends = [] if observed is None else [observed[0] + side * NORMAL * observed[1] for side in (-1, 1)]
    others = [estimate] if alone and ends else _ends_of_draws(estimate, drawn, averaged)
    low, high = float(min(*others, *ends)), float(max(*others, *ends))
    return Parameter(float(estimate), low, high, LIKELIHOOD, bool(0 < low < high < MOST_APART * low))


def _ends_of_draws(estimate: float, drawn: FloatArray, averaged: bool) -> list[float]:
    """Return low and high, between which the draws of an estimate lie."""
    between = "linear" if np.isfinite(drawn).all() else "nearest"  # Some laws have an infinite variance.
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method=between).tolist()
    if averaged:  # The chosen family may have less than half of all weight.
        return [min(low, estimate), max(high, estimate)]
    if estimate >= drawn.max():  # It is the shortest duration, and the law's own least can only be below it.
        return [float(np.quantile(drawn, 1 - LEVEL, method=between)), estimate]
    if estimate <= drawn.min():  # It is the longest duration.
        return [estimate, float(np.quantile(drawn, LEVEL, method=between))]
    return [low, high]


def _of_constant(estimate: float) -> Parameter:
    """Give a number of a constant law the interval of its rounding."""
    margin = CONSTANT * (estimate or 1.0)
    return Parameter(estimate, max(estimate - margin, 0.0), estimate + margin, LIKELIHOOD, True)


def _in_words(stage: StageFit) -> str:
    """List the laws of a stage, with their means."""
    if len(stage.groups) > 2:
        means = [estimate.law.mean for estimate in stage.estimates]
        return f"{stage.estimates[0].family}, means {min(means):.3g} to {max(means):.3g} s by worker"
    words = [f"{group.estimate.family} of mean {group.estimate.law.mean:.3g} s" for group in stage.groups]
    counts = [f"{len(group.workers)} {group.label}: " if group.label else "" for group in stage.groups]
    return " and ".join(count + word for count, word in zip(counts, words, strict=True))
