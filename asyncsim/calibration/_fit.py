"""The result of every calibration: model, cluster, parameters, sampled clusters, checks, and a file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from asyncsim._checks import brief, require_count, require_integer
from asyncsim._metrics import counted
from asyncsim.calibration._laws import NOT_OBSERVED, Laws
from asyncsim.calibration._model import FittedCluster, Model, Parameter, Parameters
from asyncsim.calibration._rollouts import FittedRollouts
from asyncsim.calibration._statistics import (
    REPLICATES,
    Check,
    Checks,
    Seen,
    compared,
    seen_columns,
    summaries,
    summary,
    together,
)
from asyncsim.calibration._transforms import LEVEL, FloatArray
from asyncsim.cluster import Cluster, Rollouts, simulate
from asyncsim.components import override
from asyncsim.components._description import NotRebuilt, describe, from_description
from asyncsim.files._atomic import require_format
from asyncsim.files._json import read_json, write_json
from asyncsim.trace import Trace

FORMAT, FORMAT_VERSION = "asyncsim calibration", 6
JUDGED = 64  # simulated logs by which a model is found not to fit
KEPT = 300  # clusters that `sample` gives and files hold
MOST = 3  # times the log's workers, up to which a server whose service it does not show is trusted to keep up
LEAST_MOST = 4  # workers, for whom it always is
MOST_CHECKED = 10_000  # commits of the logs that are simulated for comparison
QUEUE = ("throughput", "staleness", "sd of staleness", "gap")  # statistics in which one that is not modelled shows
ENDINGS = ("cv", "%", "autocorrelation")  # statistics of `summaries` that are compared, with those of `summary`


class Interval(NamedTuple):
    """A number of `Fit.what_if`: median of the simulations, and where 90 % of them lie."""

    median: float
    low: float
    high: float


class Log(NamedTuple):
    """The log that was fitted."""

    workers: int  # number of workers
    commits: int  # number of commits
    seconds: float  # its length
    seen: Seen  # columns of times that it has
    statistics: Mapping[str, float]  # name -> value of the statistics that `Fit.check` compares
    checked: int  # how many of its first commits they are of


class Evidence(NamedTuple):
    """The evidence for or against a fit."""

    laws: Mapping[str, Check]  # "law of compute" and the like -> distance of the durations from it, for the likelihood
    # For a `Model`: name -> width of the interval over that of the prior, in the coordinate in which it is fitted, 1
    # where the log says nothing. Above one half, the parameter is not identifiable.
    widths: Mapping[str, float] = {}
    # For "npe": name -> share of 90 % intervals that held the truth, on simulations that were held back, before the
    # level of the intervals was corrected by it.
    coverage: Mapping[str, float] = {}
    held_back: int = 0  # number of these
    simulations: int = 0  # number of all from which the posterior was learned


@dataclass(frozen=True, eq=False)
class Clusters(FittedCluster):
    """A user's `Model` as it was fitted: the cluster of the estimates, and those of draws of the parameters."""

    middle: Cluster  # of the estimates
    clusters: Sequence[Cluster]  # of the first draws
    draws: FloatArray  # (count, p) values of the parameters
    parameters: Parameters
    priors: Mapping[str, tuple[float, float]]  # ends, or NaN for a time of a model that fits ratios only
    seen: Seen  # columns of times that the log has

    mixed = ()
    stages: Any = field(default_factory=dict, init=False)  # of laws that AIC chooses
    jointly = True  # whether a check is of all statistics together as well

    @classmethod
    def of(cls, model: Model, parameters: Mapping[str, Parameter], draws: FloatArray, used: Trace) -> "Clusters":
        """From a posterior or a likelihood of a model."""
        priors = {
            name: (np.nan, np.nan) if name in model.times else (one.low, one.high) for name, one in model.prior.items()
        }
        middle, *clusters = map(model.cluster, [[one.estimate for one in parameters.values()], *draws[:KEPT]])
        return cls(middle, clusters, draws, Parameters(parameters), priors, seen_columns(used))

    @property
    def hidden(self) -> tuple[str, ...]:
        """Parameters that are not identifiable from the log."""
        return tuple(name for name, one in self.parameters.items() if not one.identifiable)

    @property
    def shows_service(self) -> bool:
        """Whether the log shows service, which limits more workers."""
        return "serve_time" in self.seen

    def cluster(self, workers: int) -> Cluster:
        """The cluster of the estimates, with some number of workers."""
        return _with_workers(self.middle, workers)

    def sample(self, generator: np.random.Generator, count: int, workers: int) -> list[Cluster]:
        """300 different clusters, and beyond that again from these."""
        rounds = -(-count // len(self.clusters))
        order = np.concatenate([generator.permutation(len(self.clusters)) for _ in range(rounds)])[:count]
        return [_with_workers(self.clusters[i], workers) for i in order]

    def statistics(self, trace: Trace) -> dict[str, float]:
        """The statistics by which logs are compared, where of commits only order and times count."""
        alone = Trace.from_commits(trace.worker, trace.commit_time, workers=trace.workers, start=0.0)
        found = summary(alone)
        for name, value in summaries(trace, self.seen).items():
            if name.endswith(ENDINGS) and not name.startswith(("gap,", "share", "staleness,")):
                found[f"{name} (log)"] = value
        return found

    def in_words(self) -> str:
        """The parameters that are identified."""
        return ", ".join(f"{name} {one.estimate:.3g}" for name, one in self.parameters.items() if one.identifiable)


KINDS = {"laws": Laws, "model": Clusters, "rollouts": FittedRollouts}  # in files
Fitted = Laws | Clusters | FittedRollouts


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A cluster model fitted to a log, with intervals for its parameters, as `calibrate` returns it.

    Attributes:
        method: "likelihood" or "npe".
        model: The model as it was fitted. Laws that AIC chose are in its `stages`.
        log: The log's size, columns and statistics.
        notes: Findings and warnings about the log, in sentences.
        evidence: Widths of intervals, coverage, distances from the laws.
        seed: Seed of all random draws.
    """

    method: str
    model: Laws | Clusters | FittedRollouts
    log: Log
    notes: tuple[str, ...]
    evidence: Evidence
    seed: int = 0
    _kept: dict[int, Checks] = field(default_factory=dict)

    def __repr__(self) -> str:
        hidden = f"; not identifiable: {', '.join(self.hidden)}" if self.hidden else ""
        way = counted(self.evidence.simulations, "simulation", ",") if self.evidence.simulations else self.method
        size = self.model.size(self.log.commits, self.workers)
        return f"Fit({size}, by {way}: {self.model.in_words()}{hidden})"

    @property
    def workers(self) -> int:
        """Number of workers of the log."""
        return self.log.workers

    @property
    def hidden(self) -> tuple[str, ...]:
        """Stages, or parameters of a `Model`, that are not identifiable from the log."""
        return self.model.hidden

    @property
    def draws(self) -> FloatArray:
        """(count, p) draws of the parameters of a `Model`, and none for laws that AIC chose."""
        return self.model.draws

    @property
    def mixed(self) -> tuple[str, ...]:
        """Stages whose durations are no draws of their law, because messages, queue and service are mixed in them."""
        return self.model.mixed

    @cached_property
    def parameters(self) -> Parameters:
        """Name -> `Parameter`: the arguments of each law and each stage's "mean" and "cv", or those of a `Model`."""
        return self.model.parameters

    @cached_property
    def cluster(self) -> Any:
        """The cluster of the estimates, or `asyncsim.Rollouts` if the log is of rollouts."""
        return self.with_workers(self.workers)

    def with_workers(self, workers: int) -> Any:
        """The same cluster with another number of workers.

        The first workers are those of the log. More of them repeat these in order, so that classes keep their shares.

        Raises:
            ValueError: If `workers` is not an integer of at least 1, or the log is of rollouts.
        """
        return self.model.cluster(workers)

    def sample(self, count: int, seed: int | None = None, workers: int | None = None) -> list[Any]:
        """Draw clusters that are plausible, given the log: from the likelihood's normal approximation or the posterior.

        Where AIC chose the laws, other families occur as often as their Akaike weights say. Of a `Model` 300 clusters
        are different, and further ones repeat these.

        Args:
            count: Number of clusters, at least 1.
            seed: Seed of the draws, by default that of the calibration.
            workers: Number of workers, by default as in the log.

        Raises:
            ValueError: If `count` or `workers` is not an integer of at least 1.
        """
        count = require_count("count", count, remedy="200 show a band.")
        generator = np.random.default_rng([self.seed if seed is None else seed, 2])
        return self.model.sample(generator, count, self.workers if workers is None else workers)

    def what_if(
        self, *, steps: int | None = None, draws: int = 16, seed: int = 0, **changes: Any
    ) -> dict[str, Interval]:
        """Simulate the fitted system with other arguments, such as `workers=40`, or `lead=4` of rollouts.

        Each draw of `sample` is simulated once, so that the intervals contain both the uncertainty of the fit and the
        randomness of a run of `steps`.

        Args:
            steps: Commits of each simulation, by default 60 a worker and at least 2000. The first fifth does not count.
                Of rollouts: steps of the trainer, by default 200. The first tenth does not count.
            draws: Number of simulations.
            seed: Seed of the draws and of the simulations.
            **changes: Arguments of `asyncsim.Cluster` and its parts, or of `asyncsim.Rollouts`. Without any, the system
                of the log is simulated.

        Returns:
            Name -> median, low and high, where the names are "throughput" (commits per second) and "staleness", or for
            rollouts those of `Rollouts.ledger(…).summary`.

        Raises:
            ValueError: If an argument does not fit, or the answer depends on a queue that the log does not show. Its
                columns may mix messages with queue and service. Or they show no service, although the log is not one of
                workers without a queue, or more than three times as many workers are asked for, whom a service too
                short to be seen may limit. The message names the needed columns. `with_workers` does not refuse.

        Example:
            >>> import asyncsim as asim
            >>> log = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=1000)
            >>> found = asim.calibrate(log, law="exponential").what_if(workers=8, draws=4)
            >>> round(found["throughput"].median), round(found["staleness"].median)
            (8, 7)
        """
        draws = require_count("draws", draws, remedy="16 show a band.")
        if steps is not None:
            steps = require_integer("steps", steps, least=2, remedy="Simulate 2 or more.")
        workers = changes.pop("workers", self.workers)
        self._require_answer(workers)
        rows = [
            self.model.simulated(override(one, **changes) if changes else one, steps, seed + number)
            for number, one in enumerate(self.sample(draws, seed=seed, workers=workers))
        ]
        shares = [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2]
        return {name: Interval(*np.quantile([row[name] for row in rows], shares).tolist()) for name in rows[0]}

    def _require_answer(self, workers: int) -> None:
        """Refuse a number of workers for which the answer depends on a queue that the log does not show."""
        workers = require_count("workers", workers, remedy="Use one worker or more.")
        if workers == self.workers or self.model.shows_service:
            return
        without = "upload" in self.model.stages or self.cluster.server.is_instant
        why = None
        if self.mixed:
            why = "its times from finish to commit mix messages, queue and service"
        elif without and workers > max(MOST * self.workers, LEAST_MOST):
            why = f"it shows no service, which may limit more than {MOST} times its {self.workers} workers"
        elif odd := [name for name in self.check(REPLICATES).refuted if name.startswith(QUEUE)]:
            why = f"the fit, whose queue it does not show, does not produce its {odd[0]}"
        if why is not None:
            remedy = "Log `arrive_time` and `serve_time`, or fit a `model` with a network and a server."
            raise ValueError(f"`workers` of {brief(workers)} cannot be answered from the log: {why}. {remedy}")

    def check(self, count: int = 64) -> Checks:
        """Compute predictive p-values: statistics of the log among those of logs that clusters of `sample` produce.

        The statistics are throughput, staleness, shares and inter-commit times. A `Model` adds the quantiles of the
        stages that the log shows, and all statistics together (Hotelling's T²). The likelihood adds the
        Kolmogorov-Smirnov distance of each stage's durations from the law. Rollouts have the mean staleness of groups,
        steps per second and the trainer's idle share. Every log begins like the simulated ones, at time 0 with all
        workers reading.

        Args:
            count: Number of simulated logs, each with the commits of the log (10 000 at most). Fewer than 64 are
                quicker, but if they speak against the model, 64 decide, as by default.

        Returns:
            Statistic -> `Check`, where `.fits` says whether the model may have produced the log.

        Raises:
            ValueError: If `count` is below 8.

        References:
            Gelman, Meng and Stern 1996, "Posterior predictive assessment of model fitness via realized discrepancies".
        """
        count = require_integer("count", count, least=8, remedy="64 resolve small p-values.")
        log = dict(self.log.statistics)
        for logs in (count, max(count, JUDGED)):
            if logs not in self._kept:
                replicates = [
                    self.model.statistics(simulate(cluster, commits=self.log.checked, seed=self.seed + i))
                    for i, cluster in enumerate(self.sample(logs, seed=self.seed + 1))
                ]
                all_at_once = {"all together": together(log, replicates)} if self.model.jointly else {}
                self._kept[logs] = Checks({**compared(log, replicates), **all_at_once, **self.evidence.laws})
            if self._kept[logs].fits:
                break
        return self._kept[logs]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, completely or not at all.

        Raises:
            OSError: If the file cannot be written.
        """
        content = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "kind": next(name for name, kind in KINDS.items() if type(self.model) is kind),
            "method": self.method,
            "parameters": self.parameters,
            **{name: getattr(self, name) for name in ("model", "log", "notes", "evidence", "seed")},
        }
        write_json(path, _plain(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Fit":
        """Read a file that `save` wrote.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it holds no calibration, or one of another version of asyncsim.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"`path` {str(path)!r} does not exist. Check the name.")
        found = read_json(path)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f"`path` {str(path)!r} holds no calibration. Write one by `Fit.save`.")
        require_format(f"`path` {str(path)!r}", found.get("version", 0), FORMAT_VERSION, "Calibrate again.")
        try:
            model = _made(KINDS[found["kind"]], found["model"])
            log, evidence = _made(Log, found["log"]), _made(Evidence, found["evidence"])
            fit = cls(found["method"], model, log, tuple(found["notes"]), evidence, found["seed"])
            fit.cluster  # noqa: B018 - its laws refuse wrong arguments
        except NotRebuilt:  # names the part of the user's own
            raise
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise ValueError(f"`path` {str(path)!r} is damaged: {error!r}. Calibrate again.") from error
        return fit


def fit_of(
    log: Trace, used: Trace, model: Fitted, notes: Sequence[str], method: str, evidence: Evidence, seed: int
) -> Fit:
    """The fit of a model to a log, whose first commits `used` a check compares, with notes on wide intervals."""
    facts = Log(log.workers, len(log), log.seconds, seen_columns(used), model.statistics(used), len(used))
    wide = [
        f"{name} is not identifiable from the log: its interval is {evidence.widths[name]:.2f} times as wide as that "
        "of the prior."
        for name in model.hidden
        if name in evidence.widths and model.parameters[name].method != NOT_OBSERVED
    ]
    return Fit(method, model, facts, (*notes, *wide), evidence, seed)


def beginning(log: Trace, commits: int = MOST_CHECKED) -> Trace:
    """The first commits of a log, with all their columns."""
    if commits >= len(log):
        return log
    columns = {name: column[:commits] for name, column in log.to_columns().items()}
    return Trace.from_columns(columns, workers=log.workers)


def require_model(log: Trace, model: Model) -> None:
    """Refuse a model of another size, whose clusters are no function of the parameters, or that no file could hold."""
    if model.workers != log.workers:
        raise ValueError(f"`model` must build clusters of {log.workers} workers, as the log has; got {model.workers}.")
    first, second = model.middle(), model.middle()
    try:
        from_description(describe(first))
    except NotRebuilt as error:
        raise ValueError(f"`build` must make clusters of the library's own parts: {error}.") from error
    if describe(first) != describe(second):
        remedy = "Draw nothing at random in it: unknown numbers belong in `prior`."
        raise ValueError(f"`build` must give the same cluster for the same values; two calls gave two. {remedy}")


def _with_workers(cluster: Cluster, workers: int) -> Cluster:
    workers = require_count("workers", workers, remedy="Use one worker or more.")
    if workers == cluster.workers:
        return cluster
    compute, latency = (
        [laws[i % len(laws)] for i in range(workers)] if isinstance(laws, tuple) else laws
        for laws in (cluster.compute, cluster.network.latency)
    )
    return replace(cluster, workers=workers, compute=compute, network=replace(cluster.network, latency=latency))


def _plain(value: Any) -> Any:
    """As plain data: clusters by their descriptions, other objects by their fields."""
    if isinstance(value, (Cluster, Rollouts)):
        return describe(value)
    if is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _made(kind: Any, data: Any) -> Any:
    """The value of a type, from the plain data of `_plain`."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in (Cluster, Rollouts):
        return from_description(data)
    if kind is float:
        return np.nan if data is None else float(data)
    if origin is np.ndarray:
        return np.array(data, np.float64)
    if origin is UnionType:  # with None
        return None if data is None else _made(inner[0], data)
    if origin in (dict, Mapping):
        return {name: _made(inner[1], one) for name, one in data.items()}
    if origin in (tuple, Sequence):
        every = inner if ... not in inner and origin is tuple else inner[:1] * len(data)
        return tuple(map(_made, every, data))
    if kind is Parameters:
        return Parameters(_made(dict[str, Parameter], data))
    hints = get_type_hints(kind)
    return kind(**{name: _made(hints[name], one) for name, one in data.items()}) if hints else data
