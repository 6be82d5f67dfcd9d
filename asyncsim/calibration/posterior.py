"""What a calibration by simulation found: draws from a neural posterior, and the clusters that they build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.predictive import Checks, compared, summary
from asyncsim.calibration.result import READERS, Calibration, Parameter, Parameters
from asyncsim.calibration.summaries import CYCLE, Seen, summaries
from asyncsim.checks import require_integer
from asyncsim.cluster import Cluster, simulate
from asyncsim.scenario.fingerprint import describe_cluster
from asyncsim.scenario.rebuild import NotByName, rebuild_cluster
from asyncsim.trace import Trace

KEPT = 300  # clusters from the posterior that `sample` gives and files hold
ENDINGS = ("cv", "%", "autocorrelation")  # statistics of `summaries` that are compared, beside those of `summary`


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Posterior(Calibration):
    """A `Calibration` by simulation: parameters are those of a model, and samples are from a neural posterior.

    Attributes:
        found: Name -> `Parameter`.
        widths: Name -> width of the interval over that of the prior's, in the coordinate in which it is fitted: 1
            where the log says nothing. Above one half, the parameter is not identifiable.
        coverage: Name -> share of 90 % intervals that held the truth, on simulations that were held back, before the
            level of the intervals was corrected by it.
        held_back: How many these were.
        simulations: On how many the posterior was learned.
        priors: Name -> (low, high) of the prior; NaN for a time of a model that fits ratios only.
        draws: (count, p) values from the posterior.
        middle: The cluster of the estimates.
        clusters: Those of the first draws.
        seen: Columns of times that the log has.
    """

    found: Mapping[str, Parameter] = field(default_factory=dict)
    widths: Mapping[str, float] = field(default_factory=dict)
    coverage: Mapping[str, float] = field(default_factory=dict)
    held_back: int = 0
    simulations: int = 0
    priors: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    draws: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    middle: Cluster
    clusters: Sequence[Cluster] = ()
    seen: Seen = ("commit_time",)

    def __repr__(self) -> str:
        told = [f"{name} {one.estimate:.3g}" for name, one in self.found.items() if one.identifiable]
        hidden = f"; not told: {', '.join(self.hidden)}" if self.hidden else ""
        by = f"by {self.simulations:,} simulations"
        return f"Posterior({self.workers} workers, {self.commits:,} commits, {by}: {', '.join(told)}{hidden})"

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
        """Name -> `Parameter`, by the model's own names: median and 90 % interval of the posterior."""
        return Parameters(self.found)

    def sample(self, count: int, seed: int | None = None, workers: int | None = None) -> list[Cluster]:
        """Clusters drawn from the posterior: 300 different ones, and beyond that again from these.

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

    def check(self, count: int = 64) -> Checks:
        """Predictive p-values: statistics of the log among those of logs that clusters from the posterior produce.

        Throughput, staleness, shares and inter-commit times, and the quantiles of whatever stages the log shows.

        Args:
            count: How many logs are simulated, each of as many commits as were used.

        Returns:
            Statistic -> `Check`; `.fits` says whether the model may have produced the log.

        Raises:
            ValueError: If `count` is below 8.
        """
        count = require_integer("count", count, least=8, remedy="64 tell p-values apart.")
        if count not in self._kept:
            replicates = [
                compared_statistics(simulate(cluster, commits=self.checked, seed=self.seed + i), self.seen)
                for i, cluster in enumerate(self.sample(count, seed=self.seed + 1))
            ]
            self._kept[count] = compared(dict(self.log), replicates)
        return self._kept[count]

    def as_json(self) -> dict[str, Any]:
        """As plain data, for `save`."""
        return {
            **super().as_json(),
            "widths": self.widths,
            "coverage": self.coverage,
            "held_back": self.held_back,
            "simulations": self.simulations,
            "priors": self.priors,
            "seen": self.seen,
            "cluster": describe_cluster(self.middle),
            "clusters": [describe_cluster(one) for one in self.clusters],
            "draws": self.draws,
        }


def compared_statistics(trace: Trace, seen: Seen) -> dict[str, float]:
    """What `Posterior.check` compares; of commits, only their order and times count, as logs have them."""
    alone = Trace.from_commits(trace.worker, trace.commit_time, workers=trace.workers, start=0.0)
    others = {name: value for name, value in summaries(trace, seen).items() if name.endswith(ENDINGS) and name != CYCLE}
    kept = {name: value for name, value in others.items() if not name.startswith(("gap,", "share", "staleness,"))}
    return {**summary(alone), **{f"{name} (log)": value for name, value in kept.items()}}


def read_posterior(found: Mapping[str, Any]) -> Posterior:
    """What `as_json` gave, from a file.

    Raises:
        KeyError: If something is missing.
        ValueError: If a cluster has parts of the user's own.
    """
    return Posterior(
        workers=found["workers"],
        commits=found["commits"],
        seconds=found["seconds"],
        stages={},
        slots=found["slots"],
        separate=found["separate"],
        hidden=tuple(found["hidden"]),
        notes=tuple(found["notes"]),
        log=found["log"],
        checked=found["checked"],
        method=found["method"],
        seed=found["seed"],
        found={name: Parameter(**one) for name, one in found["parameters"].items()},
        widths=found["widths"],
        coverage=found["coverage"],
        held_back=found["held_back"],
        simulations=found["simulations"],
        priors={name: tuple(ends) for name, ends in found["priors"].items()},
        draws=np.array(found["draws"], np.float64),
        middle=rebuild_cluster(found["cluster"]),
        clusters=[rebuild_cluster(one) for one in found["clusters"]],
        seen=tuple(found["seen"]),
    )


READERS["npe"] = read_posterior


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
