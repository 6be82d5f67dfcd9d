"""Laws chosen for the stages of a log, as a model: clusters, parameters with intervals, sampled clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from asyncsim._checks import require_count
from asyncsim.calibration._choose import (
    DRAWS,
    SIGNIFICANT,
    Group,
    StageFit,
    choose,
    moments,
    named_laws,
    observed_moments,
)
from asyncsim.calibration._goodness import dependences, law_check
from asyncsim.calibration._model import FittedCluster, Parameter, Parameters
from asyncsim.calibration._stages import Stage, stages_of
from asyncsim.calibration._statistics import summary
from asyncsim.calibration._transforms import FAMILIES, LEVEL, NORMAL, FloatArray, values_of
from asyncsim.cluster import Cluster, Network, Server
from asyncsim.delays import Constant, Delay
from asyncsim.trace import Trace

LIKELIHOOD, WHOLE_JOBS, NOT_OBSERVED = "likelihood", "likelihood of whole jobs", "not observed"
MOST_APART = 10.0  # high over low of an interval, from which a parameter is not identifiable
DRAWS_PER_WORKER = 400  # where each worker has a law of its own
QUANTILES = 199  # of each stage's durations that are kept for a Q-Q picture
LAW_MISFIT = 0.01
STAGES = {"compute": "compute", "latency": "network.latency", "service": "server.service", "upload": "upload"}
NO_DRAWS = np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
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

    draws = NO_DRAWS  # laws are drawn when a sample is asked for
    priors: ClassVar[dict[str, tuple[float, float]]] = {}
    jointly = False  # whether a check is of all statistics together as well

    @property
    def shows_service(self) -> bool:
        """Whether the log shows service, which limits more workers."""
        return "service" not in self.hidden

    @property
    def mixed(self) -> tuple[str, ...]:
        """Stages whose durations are no draws of their law, because messages, queue and service are mixed in them."""
        contains = {name: self.stages[name].contains for name in ("service", "upload") if name in self.stages}
        return tuple(name for name, parts in contains.items() if "queue" in parts or (name == "service" and parts))

    @cached_property
    def parameters(self) -> Parameters:
        """Name -> `Parameter`: the arguments of each law, and of each stage "mean" and "cv"."""
        found = Parameters()
        for name, stage in self.stages.items():
            whole = name == "compute" and "queue" in stage.contains and "service" in self.hidden
            for key, one in parameters_of_stage(STAGES[name], stage, self.seed).items():
                identifiable = one.identifiable and name not in self.mixed
                found[key] = one._replace(method=WHOLE_JOBS if whole else LIKELIHOOD, identifiable=identifiable)
        for name in self.hidden:
            if name not in self.stages:
                found[f"{STAGES[name]}.mean"] = Parameter(np.nan, np.nan, np.nan, NOT_OBSERVED, False)
        return found

    def cluster(self, workers: int) -> Cluster:
        """The cluster of highest likelihood, with some number of workers."""
        laws = {name: [one.law for one in stage.estimates] for name, stage in self.stages.items()}
        return self._cluster(laws, workers)

    def sample(self, generator: np.random.Generator, count: int, workers: int) -> list[Cluster]:
        """Clusters drawn from the normal approximation of the likelihood, families by their Akaike weights."""
        drawn = {name: zip(*stage.draw(generator, count), strict=True) for name, stage in self.stages.items()}
        return [self._cluster({name: next(laws) for name, laws in drawn.items()}, workers) for _ in range(count)]

    def statistics(self, trace: Trace) -> dict[str, float]:
        """The statistics by which logs are compared."""
        return summary(trace)

    def in_words(self) -> str:
        """The law of each stage."""
        return ", ".join(f"{name} {_in_words(stage)}" for name, stage in self.stages.items())

    def _cluster(self, laws: Mapping[str, Sequence[Delay]], workers: int) -> Cluster:
        workers = require_count("workers", workers, remedy="Use one worker or more.")
        groups = self.stages["compute"].groups
        compute: Any = laws["compute"][0]
        if len(groups) > 1:
            law_of_worker = {w: law for group, law in zip(groups, laws["compute"], strict=True) for w in group.workers}
            compute = [law_of_worker[w % self.workers] for w in range(workers)]
        network = Network(latency=laws["latency"][0]) if "latency" in laws else Network()
        service = laws["service"][0] if "service" in laws else laws["upload"][0] if "upload" in laws else Constant(0.0)
        slots = max(self.slots, workers) if "upload" in laws else self.slots  # so that nobody waits
        server = Server(slots=slots, service=service, atomic=not self.separate)
        return Cluster(workers, compute, network=network, server=server)


def fit_laws(log: Trace, law: Any, by_worker: bool, seed: int) -> tuple[Laws, list[str]]:
    """Choose and fit a law for each stage of a log, with notes."""
    laws = named_laws(law, tuple(STAGES))
    found = stages_of(log)
    notes = list(found.notes)
    fitted = {
        name: _fit(name, stage, log.workers, laws.get(name), by_worker and name == "compute", seed, notes)
        for name in STAGES
        if (stage := getattr(found, name)) is not None
    }
    for name in laws.keys() - fitted.keys():
        raise ValueError(f"`law` of {name!r} must be left out; the log does not show its durations.")
    notes += dependences(found.compute, fitted["compute"].groups, found.middle)
    if found.hidden and found.compute.contains:
        inside = f"compute contains it ({', '.join(found.compute.contains)})"
        if found.upload is not None:
            inside += f", or upload ({', '.join(found.upload.contains)})"
        notes.append(
            f"Not identifiable from the log: {' and '.join(found.hidden)}. No time passes there, or {inside}; "
            "log `start_time`, `finish_time`, `arrive_time` and `serve_time` to identify them."
        )
    return Laws(log.workers, fitted, found.slots, found.separate, found.hidden, seed), notes


def _fit(
    name: str, stage: Stage, workers: int, law: str | None, by_worker: bool, seed: int, notes: list[str]
) -> StageFit:
    found = choose(stage, workers, law, by_worker=by_worker)
    check = law_check(stage, found.groups, seed)
    if check is not None and check.p_value < LAW_MISFIT:
        notes.append(
            f"No law fits {name}: the {'named' if law else 'best'}, {found.estimates[0].family}, has a p-value of "
            f"{check.p_value:.1g}; `delays.Empirical` takes the durations as they are."
        )
    notes += _unequal(name, found)
    found = found._replace(contains=stage.contains, law=check, quantiles=quantiles_of(stage, found.groups))
    if not found.alternatives or not stage.contains:
        return found
    parts = [stage.of(group.workers) for group in found.groups]
    return found._replace(observed=np.array([observed_moments(one.durations, one.censored) for one in parts]))


def _unequal(name: str, choice: StageFit) -> list[str]:
    groups = choice.groups
    ratio = "p-value of equal workers " + (f"{choice.p_equal:.1g}" if choice.p_equal >= 1e-12 else "below 1e-12")
    if len(groups) == 1:
        few = f"Workers differ in {name}, but have too few jobs to estimate how: one law is fitted to all ({ratio})."
        return [few] if choice.p_equal < SIGNIFICANT else []
    if len(groups) == 2 and groups[1].label == "slow":
        slow = ", ".join(map(str, groups[1].workers[:12])) + (", …" if len(groups[1].workers) > 12 else "")
        who = f"worker {slow} takes" if len(groups[1].workers) == 1 else f"workers {slow} take"
        factor = groups[1].estimate.law.mean / groups[0].estimate.law.mean
        if f"{factor:.2g}" == "1":
            return [f"Two classes of workers: {who} nearly as long as the others, {factor - 1:+.2%} ({ratio})."]
        return [f"Two classes of workers: {who} {factor:.2g} times as long as the others ({ratio})."]
    means = [one.law.mean for one in choice.estimates]
    return [f"Workers differ: means of {name} from {min(means):.3g} to {max(means):.3g} s ({ratio})."]


def quantiles_of(stage: Stage, groups: Sequence[Group], longest_of: int = 1) -> Any:
    """(2, shares) of durations, each the longest of some draws, and of the laws, weighted by their durations."""
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    # Quantiles of a mixture: those of a sample of each law at equal shares, as large as the group.
    fine = ((np.arange(2000) + 0.5) / 2000) ** (1 / longest_of)
    values = np.concatenate([_inverse(group.estimate.law, fine) for group in groups])
    counts = [int(np.isin(stage.worker, group.workers).sum()) for group in groups]
    order, mass = np.argsort(values), np.repeat(np.array(counts) / len(fine), len(fine))
    middle = np.cumsum(mass[order]) - mass[order] / 2
    predicted = np.interp(shares, middle / mass.sum(), values[order])
    return np.stack([np.quantile(stage.durations, shares), predicted])


def _inverse(law: Any, shares: Any) -> Any:
    """Quantiles, from the cdf on a fine grid for mixtures, which have none in closed form."""
    if hasattr(law, "quantile"):
        return law.quantile(shares)
    spread = law.mean + 60 * np.sqrt(law.variance)
    grid = np.concatenate([[0.0], np.geomspace(law.mean * 1e-4, spread, 20_000)])
    return np.interp(shares, law.cdf(grid), grid)


def parameters_of_stage(prefix: str, stage: StageFit, seed: int) -> dict[str, Parameter]:
    """The parameters of each group of workers and, with several groups, also the mean of all."""
    count = DRAWS if len(stage.groups) <= 2 else DRAWS_PER_WORKER
    generator = np.random.default_rng([seed, 3])
    chosen = [one.draw(generator, count) for one in stage.estimates]
    both = stage.draw_moments(generator, count)
    averaged = len(stage.alternatives) > 1
    found: dict[str, Parameter] = {}
    if len(stage.groups) > 1:
        counts = np.array([len(group.workers) for group in stage.groups])
        shares = (counts / counts.sum()).tolist()
        estimate = sum(share * one.law.mean for share, one in zip(shares, stage.estimates, strict=True))
        drawn: Any = sum(share * means for share, means in zip(shares, both[..., 0], strict=True))
        seen = None
        if len(stage.observed):
            means, errors = stage.observed[:, 0].T
            seen = np.array([counts @ means, np.linalg.norm(counts * errors)]) / counts.sum()
        found[f"{prefix}.mean"] = _parameter(estimate, drawn, averaged, seen)
    for i, (group, one) in enumerate(zip(stage.groups, stage.estimates, strict=True)):
        label = group.label if group.label.startswith("[") or not group.label else f".{group.label}"
        columns = np.array([values_of(one.family, law) for law in chosen[i]]).T
        trios = zip(FAMILIES[one.family].names, one.values, columns, strict=True)
        own: dict[str, tuple[float, FloatArray, bool]] = {name: (value, column, False) for name, value, column in trios}
        derived = {
            "mean": (one.law.mean, both[i, :, 0], averaged),
            "cv": (moments(one.law)[1], both[i, :, 1], averaged),
        }
        seen = dict(zip(derived, stage.observed[i], strict=True)) if len(stage.observed) else {}
        first, second = (derived, own) if averaged else (own, derived)
        rest = {name: row for name, row in second.items() if name not in first}
        rows = first | rest if averaged else rest | first
        found |= {f"{prefix}{label}.{name}": _parameter(*row, seen.get(name)) for name, row in rows.items()}
    return found


def _parameter(estimate: float, drawn: FloatArray, averaged: bool, seen: FloatArray | None) -> Parameter:
    """With an interval from draws, at least as wide as observed moments leave open where durations may be sums."""
    between = "linear" if np.isfinite(drawn).all() else "nearest"  # some laws have no variance
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method=between).tolist()
    if averaged:  # the chosen family may be less than half of all
        low, high = min(low, estimate), max(high, estimate)
    elif estimate >= drawn.max():  # the shortest duration: the law's own least can only be below it
        low, high = float(np.quantile(drawn, 1 - LEVEL)), float(estimate)
    elif estimate <= drawn.min():  # the longest one
        low, high = float(estimate), float(np.quantile(drawn, LEVEL))
    if seen is not None:
        middle, error = seen.tolist()
        low, high = min(low, middle - NORMAL * error), max(high, middle + NORMAL * error)
    return Parameter(float(estimate), low, high, LIKELIHOOD, bool(low == high or (low > 0 and high / low < MOST_APART)))


def _in_words(stage: StageFit) -> str:
    if len(stage.groups) > 2:
        means = [one.law.mean for one in stage.estimates]
        return f"{stage.estimates[0].family}, means {min(means):.3g} to {max(means):.3g} s by worker"
    words = [f"{group.estimate.family} of mean {group.estimate.law.mean:.3g} s" for group in stage.groups]
    counts = [f"{len(group.workers)} {group.label}: " if group.label else "" for group in stage.groups]
    return " and ".join(count + word for count, word in zip(counts, words, strict=True))
