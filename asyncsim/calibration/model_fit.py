"""What fitting a model found: its parameters, draws of them, and the clusters that these build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from asyncsim.calibration.adversarial.avo import Avo, History
from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.model import Model
from asyncsim.calibration.predictive import Check, Checks, compared, summary, together
from asyncsim.calibration.result import JUDGED, NEWEST, READERS, Calibration, Parameter, Parameters
from asyncsim.calibration.simulated.summaries import CYCLE, Seen, summaries
from asyncsim.checks import require_integer
from asyncsim.cluster import Cluster, simulate
from asyncsim.scenario.fingerprint import describe_cluster
from asyncsim.scenario.rebuild import NotByName, rebuild_cluster
from asyncsim.trace import Trace

LEAST_PER_WORKER = 10  # commits of a log, from which its statistics tell workers' times
KEPT = 300  # clusters that `sample` gives and files hold
ENDINGS = ("cv", "%", "autocorrelation")  # statistics of `summaries` that are compared, beside those of `summary`
KIND = "model"  # in files


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelFit(Calibration):
    """A `Calibration` of a `Model`: parameters are the model's own, and `method` says how they were found.

    By "likelihood", `sample` draws from the normal approximation of the likelihood; by "npe" (a `Posterior`) from a
    neural posterior; by "avo" from the proposal, which is no posterior.

    Attributes:
        found: Name -> `Parameter`.
        widths: Name -> width of the interval over that of the prior's, in the coordinate in which it is fitted: 1
            where the log says nothing. Above one half, the parameter is not identifiable.
        priors: Name -> (low, high) of the prior; NaN for a time of a model that fits ratios only.
        draws: (count, p) values.
        middle: The cluster of the estimates.
        clusters: Those of the first draws.
        seen: Columns of times that the log has.
        laws: "law of compute" and the like -> how far the durations are from the model's law; by likelihood.
        avo: The way of the proposal, by "avo".
    """

    found: Mapping[str, Parameter] = field(default_factory=dict)
    widths: Mapping[str, float] = field(default_factory=dict)
    priors: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    draws: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    middle: Cluster
    clusters: Sequence[Cluster] = ()
    seen: Seen = ("commit_time",)
    laws: Mapping[str, Check] = field(default_factory=dict)
    avo: Avo | None = None

    def __repr__(self) -> str:
        told = [f"{name} {one.estimate:.3g}" for name, one in self.found.items() if one.identifiable]
        hidden = f"; not told: {', '.join(self.hidden)}" if self.hidden else ""
        size = f"{self.workers} workers, {self.commits:,} commits"
        return f"{type(self).__name__}({size}, {self._way()}: {', '.join(told)}{hidden})"

    def _way(self) -> str:
        return f"by {self.method}" + (", a proposal and no posterior" if self.avo else "")

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster of the estimates."""
        return self.middle

    def with_workers(self, workers: int) -> Cluster:
        """The same cluster with another number of workers; what belongs to a worker is repeated in order.

        Raises:
            ValueError: If `workers` is not an integer of at least 1.
        """
        return _with_workers(self.middle, workers)

    @cached_property
    def parameters(self) -> Parameters:
        """Name -> `Parameter`, by the model's own names."""
        return Parameters(self.found)

    def sample(self, count: int, seed: int | None = None, workers: int | None = None) -> list[Cluster]:
        """Clusters that the log speaks for as well: 300 different ones, and beyond that again from these.

        Args:
            count: How many.
            seed: Of the draws; by default that of the calibration.
            workers: Number of workers; by default as in the log.

        Raises:
            ValueError: If `count` or `workers` is not an integer of at least 1.
        """
        count = require_integer("count", count, least=1, remedy="200 show a band.")
        generator = np.random.default_rng([self.seed if seed is None else seed, 2])
        rounds = -(-count // len(self.clusters))
        order = np.concatenate([generator.permutation(len(self.clusters)) for _ in range(rounds)])[:count]
        chosen = self.workers if workers is None else workers
        return [_with_workers(self.clusters[i], chosen) for i in order]

    def check(self, count: int = JUDGED) -> Checks:
        """Predictive p-values: statistics of the log among those of logs that clusters of `sample` produce.

        Throughput, staleness, shares and inter-commit times, and the quantiles of whatever stages the log shows, each
        alone and all together (Hotelling's T²); by likelihood, also the Kolmogorov-Smirnov distance of each stage's
        durations from the model's law.

        Args:
            count: How many logs are simulated, each of as many commits as were used. Fewer than 64 are quicker; if
                they speak against the model, 64 decide, as by default.

        Returns:
            Statistic -> `Check`; `.fits` says whether the model may have produced the log.

        Raises:
            ValueError: If `count` is below 8.
        """
        return super().check(count)

    def _checks(self, count: int) -> Checks:
        """The checks by so many simulated logs."""
        replicates = [
            compared_statistics(simulate(cluster, commits=self.checked, seed=self.seed + i), self.seen)
            for i, cluster in enumerate(self.sample(count, seed=self.seed + 1))
        ]
        log = dict(self.log)
        return Checks({**compared(log, replicates), "all together": together(log, replicates), **self.laws})

    def as_json(self) -> dict[str, Any]:
        """As plain data, for `save`."""
        return {
            **super().as_json(),
            "version": NEWEST,  # what reads version 1 alone would take it for a fit of stages
            "kind": KIND,
            "widths": self.widths,
            "priors": self.priors,
            "seen": self.seen,
            "laws": {name: check._asdict() for name, check in self.laws.items()},
            "avo": None if self.avo is None else _plain(self.avo),
            "cluster": describe_cluster(self.middle),
            "clusters": [describe_cluster(one) for one in self.clusters],
            "draws": self.draws,
        }


def built(log: Trace, used: Trace, model: Model, draws: FloatArray, seen: Seen) -> dict[str, Any]:
    """What every fit of a model holds of the log and of the draws.

    Args:
        log: The log.
        used: Its first commits, by which it is compared.
        model: The model.
        draws: (count, p) values.
        seen: Columns of times that the log has.
    """
    clusters = [model.cluster(row) for row in draws[:KEPT]]
    return {
        "workers": log.workers,
        "commits": len(log),
        "seconds": log.seconds,
        "stages": {},
        "slots": clusters[0].server.slots,
        "separate": not clusters[0].server.atomic,
        "log": compared_statistics(used, seen),
        "checked": len(used),
        "priors": {name: _ends(model, name) for name in model.names},
        "draws": draws,
        "clusters": clusters,
        "seen": seen,
    }


def beginning(log: Trace, commits: int) -> Trace:
    """The first commits of a log, with all their columns."""
    if commits >= len(log):
        return log
    columns = {name: column[:commits] for name, column in log.to_columns().items()}
    return Trace.from_columns(columns, workers=log.workers)


def untold(hidden: Sequence[str], widths: Mapping[str, float]) -> list[str]:
    """Sentences about parameters that the log hardly tells."""
    return [
        f"The log hardly tells {name}: its interval is {widths[name]:.2f} times as wide as that of the prior."
        for name in hidden
    ]


def require_enough(log: Trace) -> None:
    """Refuse a log whose statistics say nothing of its workers.

    Raises:
        ValueError: With the number of commits that are needed.
    """
    least = LEAST_PER_WORKER * log.workers
    if len(log) < least:
        raise ValueError(
            f"`log` must have {least} commits or more, {LEAST_PER_WORKER} for each worker; got {len(log)}. Record more."
        )


def require_workers(log: Trace, model: Model) -> None:
    """Refuse a model of clusters of another size.

    Raises:
        ValueError: With both numbers.
    """
    if model.workers != log.workers:
        raise ValueError(f"`model` must build clusters of {log.workers} workers, as the log has; got {model.workers}.")


def _ends(model: Model, name: str) -> tuple[float, float]:
    prior = model.prior[name]
    return (float("nan"), float("nan")) if name in model.times else (prior.low, prior.high)


def _plain(avo: Avo) -> dict[str, Any]:
    return {**vars(avo), "history": avo.history._asdict()}


def compared_statistics(trace: Trace, seen: Seen) -> dict[str, float]:
    """What `ModelFit.check` compares; of commits, only their order and times count, as logs have them."""
    alone = Trace.from_commits(trace.worker, trace.commit_time, workers=trace.workers, start=0.0)
    others = {name: value for name, value in summaries(trace, seen).items() if name.endswith(ENDINGS) and name != CYCLE}
    kept = {name: value for name, value in others.items() if not name.startswith(("gap,", "share", "staleness,"))}
    return {**summary(alone), **{f"{name} (log)": value for name, value in kept.items()}}


def read_model_fit(found: Mapping[str, Any]) -> ModelFit:
    """What `as_json` gave, from a file.

    Raises:
        KeyError: If something is missing.
        ValueError: If a cluster has parts of the user's own.
    """
    return ModelFit(**fields_of(found))


READERS[KIND] = read_model_fit


def fields_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a `ModelFit`, from a file."""
    same = ("workers", "commits", "seconds", "slots", "separate", "log", "checked", "method", "seed", "widths")
    avo = found.get("avo")
    return {
        **{name: found[name] for name in same},
        "stages": {},
        "hidden": tuple(found["hidden"]),
        "notes": tuple(found["notes"]),
        "found": {name: Parameter(**one) for name, one in found["parameters"].items()},
        "priors": {name: tuple(ends) for name, ends in found["priors"].items()},
        "draws": np.array(found["draws"], np.float64),
        "middle": rebuild_cluster(found["cluster"]),
        "clusters": [rebuild_cluster(one) for one in found["clusters"]],
        "seen": tuple(found["seen"]),
        "laws": {name: Check(**one) for name, one in found.get("laws", {}).items()},
        "avo": None if avo is None else _avo(avo),
    }


def _avo(found: Mapping[str, Any]) -> Avo:
    history = History(*(np.array(found["history"][name], np.float64) for name in History._fields))
    mean, sd = (np.array(found[name], np.float64) for name in ("mean", "sd"))
    return Avo(mean, sd, history, found["version"], found["entropy"])


def require_repeatable(model: Model) -> None:
    """Refuse a model whose clusters are no function of the parameters, or that no file could hold.

    Raises:
        ValueError: With the remedy.
    """
    middle = model.at(np.full(len(model.prior), 0.5))
    first, second = model.cluster(middle), model.cluster(middle)
    require_described(first)
    if describe_cluster(first) != describe_cluster(second):
        remedy = "Draw nothing at random in it: what is unknown belongs in `prior`."
        raise ValueError(f"`build` must give the same cluster for the same values; two calls gave two. {remedy}")


def require_described(cluster: Cluster) -> None:
    """Refuse a cluster that no file could hold.

    Raises:
        ValueError: If it has parts of the user's own.
    """
    try:
        rebuild_cluster(describe_cluster(cluster))
    except NotByName as error:
        raise ValueError(f"`build` must make clusters of the library's own parts: {error}.") from error


def _with_workers(cluster: Cluster, workers: int) -> Cluster:
    workers = require_integer("workers", workers, least=1, remedy="Use one worker or more.")
    if workers == cluster.workers:
        return cluster
    network = replace(cluster.network, latency=_repeated(cluster.network.latency, workers))
    return replace(cluster, workers=workers, compute=_repeated(cluster.compute, workers), network=network)


def _repeated(laws: Any, workers: int) -> Any:
    return [laws[i % len(laws)] for i in range(workers)] if isinstance(laws, tuple) else laws
