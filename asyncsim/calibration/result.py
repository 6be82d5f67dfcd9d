"""What a calibration found: a cluster, its parameters with their intervals, and clusters that are as likely."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.calibration.coordinates import FloatArray, law_of, values_of
from asyncsim.calibration.laws.average import Rival, draw_laws, draw_moments
from asyncsim.calibration.laws.choose import Group
from asyncsim.calibration.laws.estimate import DRAWS, Estimate, moments
from asyncsim.calibration.predictive import Check, Checks, compared, summary
from asyncsim.checks import did_you_mean, require_integer
from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.delays import Constant, Delay
from asyncsim.files import read_json, write_json
from asyncsim.scenario.rebuild import NotByName

FORMAT = "asyncsim calibration"
FORMAT_VERSION, NEWEST = 1, 2  # of what is written here, and by `model_fit`
LIKELIHOOD, WHOLE_JOBS = "likelihood", "likelihood of whole jobs"
LEVEL = 0.9  # of the intervals
NORMAL = 1.6448536269514722  # quantile of the standard normal at their upper end
HALF = 0.5  # of the prior's width: a parameter with a wider interval is not told by the log
MOST_APART = 10.0  # high over low of an interval, from which the log hardly tells the parameter
JUDGED = 64  # simulated logs by which a model is found not to fit
MOST_CHECKED = 10_000  # commits of the logs that are simulated for comparison
QUANTILES = 199  # of each stage's durations that are kept for a Q-Q picture
DRAWS_PER_WORKER = 400  # where each worker has a law of its own
READERS: dict[str, Callable[[Mapping[str, Any]], "Calibration"]] = {}  # kind -> reader
STAGES = {"compute": "compute", "latency": "network.latency", "service": "server.service", "upload": "upload"}


class Parameter(NamedTuple):
    """One number of the model.

    Attributes:
        estimate: Of highest likelihood; NaN if the log does not tell. Of a model: the median of the posterior, or the
            mean of AVO's proposal; where no duration depends on it, the median of the prior.
        low, high: Ends of the 90 % interval; one of them is the estimate where this is the shortest or longest
            duration itself. Of mean and cv, where the law was chosen by AIC, they count the other families too, by
            Akaike weights; of the chosen law's own arguments they do not. By "avo", 5 and 95 % of the proposal, which
            is no posterior.
        method: "likelihood"; "likelihood of whole jobs", where network, queue and service may be in them, because the
            log tells neither; "not observed"; of a model, also "npe" or "avo".
        identifiable: Whether the log tells it: its interval spans less than a factor of ten. Of a model: it is at most
            half as wide as that of the prior.
    """

    estimate: float
    low: float
    high: float
    method: str
    identifiable: bool


class Parameters(dict[str, Parameter]):
    """Name -> parameter; a name that there is not is refused with the nearest one."""

    def __missing__(self, name: str) -> Parameter:
        hint = did_you_mean(str(name), self)
        raise KeyError(f"`parameters` has no {name!r}; it has {', '.join(self)}.{hint}")


class StageFit(NamedTuple):
    """One stage as it was fitted.

    Attributes:
        groups: All workers, two classes of them, or each.
        contains: What else may be in its durations.
        aic: Family -> Akaike's criterion of one law for all workers.
        refused: Family -> why it was out of the question.
        p_equal: p-value of equal workers.
        p_classes: p-value of two classes.
        law: How far the durations are from the law; None for a constant.
        quantiles: (2, 199) of the durations and, by the fitted laws, at the same shares.
        rivals: The families that may have made the durations, with their weights; none if the law was named.
    """

    groups: tuple[Group, ...]
    contains: tuple[str, ...]
    aic: dict[str, float]
    refused: dict[str, str]
    p_equal: float
    p_classes: float
    law: Check | None
    quantiles: FloatArray
    rivals: tuple[Rival, ...] = ()

    def draw(self, generator: np.random.Generator, count: int) -> list[list[Delay]]:
        """For each group, laws that the durations speak for as well, of every family that may have made them."""
        return draw_laws([group.estimate for group in self.groups], self.rivals, generator, count)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """A cluster fitted to a log, and how sure one is of it.

    Attributes:
        workers: Number of workers.
        commits: Commits in the log.
        seconds: Its length.
        stages: "compute", and "latency" and "service" where the log tells them, as they were fitted; "upload" is the
            time from finish to commit where it does not, and `contains` says whether a queue is in it.
        slots: Commits in service at once.
        separate: Whether workers pull in a request of their own.
        hidden: Stages that the log does not tell.
        notes: What was found, in sentences.
        log: Statistics of the log that `check` compares.
        checked: How many of the log's first commits they are of.
        method: "likelihood"; of a model (then it is a `ModelFit`) also "npe" or "avo".
        seed: Of everything that is drawn.
    """

    workers: int
    commits: int
    seconds: float
    stages: Mapping[str, StageFit]
    slots: int
    separate: bool
    hidden: tuple[str, ...]
    notes: tuple[str, ...]
    log: Mapping[str, float]
    checked: int
    method: str = "likelihood"
    seed: int = 0
    _kept: dict[Any, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        laws = [f"{name} {_in_words(stage)}" for name, stage in self.stages.items()]
        hidden = f"; not told: {', '.join(self.hidden)}" if self.hidden else ""
        return f"Calibration({self.workers} workers, {self.commits:,} commits: {', '.join(laws)}{hidden})"

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster of highest likelihood."""
        return self.with_workers(self.workers)

    def with_workers(self, workers: int) -> Cluster:
        """The same cluster with another number of workers.

        The first workers are those of the log. More of them repeat these in order, so that classes keep their shares.

        Raises:
            ValueError: If `workers` is not an integer of at least 1.
        """
        return self._cluster(
            {name: [group.estimate.law for group in one.groups] for name, one in self.stages.items()}, workers
        )

    @cached_property
    def parameters(self) -> Parameters:
        """Name -> `Parameter`: the arguments of each law, and of each stage "mean" and "cv"."""
        found = Parameters()
        for name, stage in self.stages.items():
            whole = name == "compute" and "queue" in stage.contains and "service" in self.hidden
            parameters = _parameters(STAGES[name], stage, self.seed)
            if name in self.mixed:
                parameters = {key: one._replace(identifiable=False) for key, one in parameters.items()}
            found |= {key: one._replace(method=WHOLE_JOBS if whole else LIKELIHOOD) for key, one in parameters.items()}
        for name in self.hidden:
            if name not in self.stages:
                nan = float("nan")
                found[f"{STAGES[name]}.mean"] = Parameter(nan, nan, nan, "not observed", False)
        return found

    @property
    def mixed(self) -> tuple[str, ...]:
        """Stages whose durations are no draws of their law, because messages, queue and service are mixed in them."""
        contains = {name: self.stages[name].contains for name in ("service", "upload") if name in self.stages}
        return tuple(name for name, parts in contains.items() if "queue" in parts or (name == "service" and parts))

    def sample(self, count: int, seed: int | None = None, workers: int | None = None) -> list[Cluster]:
        """Clusters that the log speaks for as well, drawn from the normal approximation of the likelihood.

        Where laws were chosen by AIC, other families occur as often as their Akaike weights say.

        Args:
            count: How many.
            seed: Of the draws; by default that of the calibration.
            workers: Number of workers; by default as in the log.

        Raises:
            ValueError: If `count` or `workers` is not an integer of at least 1.
        """
        count = require_integer("count", count, least=1, remedy="200 show a band.")
        generator = np.random.default_rng([self.seed if seed is None else seed, 2])
        drawn = {name: stage.draw(generator, count) for name, stage in self.stages.items()}
        chosen = self.workers if workers is None else workers
        return [
            self._cluster({name: [laws[i] for laws in groups] for name, groups in drawn.items()}, chosen)
            for i in range(count)
        ]

    def check(self, count: int = JUDGED) -> Checks:
        """Predictive p-values: statistics of the log among those of logs that clusters drawn from the fit produce.

        Throughput, staleness, shares and inter-commit times; and of each stage the Kolmogorov-Smirnov distance of its
        durations from the law. Every log begins as the simulated ones do, at time 0 with all workers reading.

        Args:
            count: How many logs are simulated, each of as many commits (10 000 at most). Fewer than 64 are quicker;
                if they speak against the model, 64 decide, as by default.

        Returns:
            Statistic -> `Check`; `.fits` says whether the model may have produced the log.

        Raises:
            ValueError: If `count` is below 8.

        References:
            Gelman, Meng and Stern 1996, "Posterior predictive assessment of model fitness via realized discrepancies".
        """
        count = require_integer("count", count, least=8, remedy="64 tell p-values apart.")
        for logs in (count, max(count, JUDGED)):
            if logs not in self._kept:
                self._kept[logs] = self._checks(logs)
            if self._kept[logs].fits:
                break
        return self._kept[logs]

    def _checks(self, count: int) -> Checks:
        """The checks by so many simulated logs."""
        clusters = self.sample(count, seed=self.seed + 1)
        replicates = [
            summary(simulate(cluster, commits=self.checked, seed=self.seed + i)) for i, cluster in enumerate(clusters)
        ]
        laws = {f"law of {name}": one.law for name, one in self.stages.items() if one.law is not None}
        return Checks({**compared(dict(self.log), replicates), **laws})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, whole or not at all.

        Raises:
            OSError: If the file cannot be written.
        """
        write_json(path, self.as_json())

    def as_json(self) -> dict[str, Any]:
        """As plain data, for `save`."""
        stages = {name: _stage_as_json(stage) for name, stage in self.stages.items()}
        same = (
            "workers",
            "commits",
            "seconds",
            "slots",
            "separate",
            "hidden",
            "notes",
            "log",
            "checked",
            "method",
            "seed",
        )
        parameters = {name: parameter._asdict() for name, parameter in self.parameters.items()}
        fields = {name: getattr(self, name) for name in same}
        head = {"format": FORMAT, "version": FORMAT_VERSION}
        return {**head, **fields, "parameters": parameters, "stages": stages}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Calibration":
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it holds no calibration, or one of a newer asyncsim.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"`path` {str(path)!r} does not exist. Check the name.")
        found = read_json(path)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f"`path` {str(path)!r} holds no calibration. Write one by `Calibration.save`.")
        if found["version"] > NEWEST:
            raise ValueError(f"`path` {str(path)!r} was written by a newer asyncsim. Update asyncsim.")
        try:
            kind = found.get("kind", found["method"])
            if kind in READERS:
                return READERS[kind](found)
            return cls(
                workers=found["workers"],
                commits=found["commits"],
                seconds=found["seconds"],
                stages={name: _stage_from_json(stage) for name, stage in found["stages"].items()},
                slots=found["slots"],
                separate=found["separate"],
                hidden=tuple(found["hidden"]),
                notes=tuple(found["notes"]),
                log=found["log"],
                checked=found["checked"],
                method=found["method"],
                seed=found["seed"],
            )
        except (KeyError, TypeError, IndexError, NotByName) as error:
            raise ValueError(f"`path` {str(path)!r} is damaged: {error!r}. Calibrate again.") from error

    def _cluster(self, laws: Mapping[str, list[Delay]], workers: int) -> Cluster:
        workers = require_integer("workers", workers, least=1, remedy="Use one worker or more.")
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


def _parameters(prefix: str, stage: StageFit, seed: int) -> dict[str, Parameter]:
    """Of each group of workers; with several, also the mean of all."""
    count = DRAWS if len(stage.groups) <= 2 else DRAWS_PER_WORKER
    generator = np.random.default_rng([seed, 3])
    estimates = [group.estimate for group in stage.groups]
    chosen = [one.draw(generator, count) for one in estimates]
    both = draw_moments(estimates, stage.rivals, generator, count)
    averaged = len(stage.rivals) > 1
    workers = sum(len(group.workers) for group in stage.groups)
    totals, estimate = np.zeros(count), 0.0
    each: dict[str, Parameter] = {}
    for i, group in enumerate(stage.groups):
        dot = "" if group.label.startswith("[") or not group.label else "."
        name = f"{prefix}{dot}{group.label}"
        each |= _of_group(name, group.estimate, chosen[i], both[i], averaged=averaged)
        share = len(group.workers) / workers
        totals += share * both[i, :, 0]
        estimate += share * group.estimate.law.mean
    if len(stage.groups) == 1:
        return each
    return {f"{prefix}.mean": _parameter(estimate, totals, averaged=averaged)} | each


def _of_group(
    prefix: str, one: Estimate, laws: Sequence[Delay], both: FloatArray, *, averaged: bool
) -> dict[str, Parameter]:
    """Mean and cv, over all families if they were averaged, and the law's own arguments."""
    drawn = np.array([values_of(one.family, law) for law in laws])
    own = {
        f"{prefix}.{name}": _parameter(value, drawn[:, i])
        for i, (name, value) in enumerate(zip(one.names, one.values, strict=True))
    }
    derived = {
        f"{prefix}.{name}": _parameter(value, both[:, i], averaged=averaged)
        for i, (name, value) in enumerate(zip(("mean", "cv"), moments(one.law), strict=True))
    }
    if averaged:
        return derived | {name: parameter for name, parameter in own.items() if name not in derived}
    return {name: parameter for name, parameter in derived.items() if name not in own} | own


def _parameter(estimate: float, drawn: FloatArray, *, averaged: bool = False) -> Parameter:
    between = "linear" if np.isfinite(drawn).all() else "nearest"  # some laws have no variance
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method=between).tolist()
    if averaged:  # the chosen family may be less than half of all
        low, high = min(low, estimate), max(high, estimate)
    elif estimate >= drawn.max():  # the shortest duration: the law's own least can only be below it
        low, high = float(np.quantile(drawn, 1 - LEVEL)), float(estimate)
    elif estimate <= drawn.min():  # the longest one
        low, high = float(estimate), float(np.quantile(drawn, LEVEL))
    identifiable = bool(low == high or (low > 0 and high / low < MOST_APART))
    return Parameter(float(estimate), low, high, LIKELIHOOD, identifiable)


def _in_words(stage: StageFit) -> str:
    if len(stage.groups) > 2:
        means = [group.estimate.law.mean for group in stage.groups]
        return f"{stage.groups[0].estimate.family}, means {min(means):.3g} to {max(means):.3g} s by worker"
    words = [f"{group.estimate.family} of mean {group.estimate.law.mean:.3g} s" for group in stage.groups]
    counts = [f"{len(group.workers)} {group.label}: " if group.label else "" for group in stage.groups]
    return " and ".join(count + word for count, word in zip(counts, words, strict=True))


def _stage_as_json(stage: StageFit) -> dict[str, Any]:
    groups = [
        {"label": group.label, "workers": group.workers, **_estimate_as_json(group.estimate)} for group in stage.groups
    ]
    rivals = [{"weight": one.weight, "laws": [*map(_estimate_as_json, one.estimates)]} for one in stage.rivals]
    law = None if stage.law is None else stage.law._asdict()
    return {**stage._asdict(), "groups": groups, "law": law, "rivals": rivals}


def _estimate_as_json(one: Estimate) -> dict[str, Any]:
    return {
        "law": one.family,
        "arguments": dict(zip(one.names, one.values, strict=True)),
        "covariance": one.covariance,
        "jobs": one.jobs,
        "log_likelihood": one.log_likelihood,
    }


def _stage_from_json(found: dict[str, Any]) -> StageFit:
    groups = [Group(one["label"], tuple(one["workers"]), _estimate_from_json(one)) for one in found["groups"]]
    rivals = [Rival(one["weight"], tuple(map(_estimate_from_json, one["laws"]))) for one in found["rivals"]]
    return StageFit(
        groups=tuple(groups),
        contains=tuple(found["contains"]),
        aic=found["aic"],
        refused=found["refused"],
        p_equal=_number(found["p_equal"]),
        p_classes=_number(found["p_classes"]),
        law=None if found["law"] is None else Check(**found["law"]),
        quantiles=np.array(found["quantiles"], np.float64),
        rivals=tuple(rivals),
    )


def _estimate_from_json(found: dict[str, Any]) -> Estimate:
    values = tuple(float(value) for value in found["arguments"].values())
    law_of(found["law"], values)
    size = len(found["covariance"])
    covariance = np.array(found["covariance"], np.float64).reshape(size, size)
    likelihood = np.inf if found["log_likelihood"] is None else found["log_likelihood"]
    return Estimate(found["law"], values, covariance, found["jobs"], likelihood)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
