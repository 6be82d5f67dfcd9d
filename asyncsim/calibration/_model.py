"""A model to be fitted: a cluster as a function of parameters, and their priors. And the model once it is fitted."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from asyncsim import theory
from asyncsim._checks import brief, did_you_mean, require_count, require_integer
from asyncsim._metrics import counted
from asyncsim.calibration._priors import LogUniform, Prior, Uniform
from asyncsim.calibration._statistics import Check, Columns, summaries, summary
from asyncsim.calibration._transforms import IDENTITY, LEVEL, LOG, LOGIT, RATIO_RANGE, Axis, FloatArray, Transform
from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.cluster.protocols import Asynchronous
from asyncsim.components import Component, NotRebuilt, describe, from_description
from asyncsim.components._checked import checked
from asyncsim.components._digest import hash_of
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.delays._per_worker import expand
from asyncsim.trace import Trace

Build = Callable[[Mapping[str, float]], Cluster]
MOST_TIMES_WORKERS = 3  # times the log's number of workers: the largest cluster that is simulated unasked
LEAST_LARGEST = 4  # workers of that cluster
LEAST_PER_WORKER = 60  # commits of a simulation
LEAST_COMMITS = 2000
WARM_UP = 0.2  # share of the commits that do not count
DIGEST_CLUSTERS = 64  # clusters, drawn from the prior, whose descriptions identify a model
MOST_CLUSTERS = 300  # of the posterior, that `sample` gives and files hold
ENDINGS = ("cv", "%", "autocorrelation")  # statistics of `summaries` that are compared, with those of `summary`
NO_CLASSES = "needs a fit that distinguishes classes of workers, and this one has none"
LADDER = "Give whole numbers, the larger one last."


class Parameter(NamedTuple):
    """One parameter of the model.

    Attributes:
        estimate: The value of highest likelihood, or NaN if it is not identifiable from the log. By "npe" it is the
            median of the posterior. Where no duration depends on a model's parameter, it is the median of the prior.
        low, high: Ends of the 90 % interval. One of them is the estimate where this is the shortest or longest
            duration itself. Where AIC chose the law, the intervals of mean and cv count the other families too, by
            Akaike weights, and those of the chosen law's own arguments do not.
        method: "likelihood", "not observed", "npe" (of a model), or "likelihood of whole jobs", where network, queue
            and service may be in the jobs, because the log identifies none of them.
        identifiable: Whether the log identifies it, because its interval spans less than a factor of ten. Of a model:
            because the interval is at most half as wide as that of the prior. An interval of width 0 identifies
            nothing: the law assumes the value, as an exponential one the cv 1, or the prior excludes the log.
    """

    estimate: float
    low: float
    high: float
    method: str
    identifiable: bool


class Parameters(dict[str, Parameter]):
    """Name -> parameter. An unknown name is refused with the nearest one."""

    def __missing__(self, name: str) -> Parameter:
        hint = did_you_mean(str(name), self)
        raise KeyError(f"`parameters` has no {name!r}; it has {', '.join(self)}.{hint}")


class Evidence(Component):
    """The evidence for or against a fit."""

    # "law of compute" and the like -> distance of the durations from it. Empty without a likelihood.
    laws: Mapping[str, Check]
    # For a `Model`: name -> width of the interval over that of the prior, in the coordinate in which it is fitted, 1
    # where the log says nothing. Above one half, the parameter is not identifiable.
    widths: Mapping[str, float] = field(default_factory=dict)
    # For "npe": name -> share of 90 % intervals that held the truth, on simulations that were held back, before the
    # level of the intervals was corrected by it.
    coverage: Mapping[str, float] = field(default_factory=dict)
    held_back: int = 0  # number of these
    simulations: int = 0  # number of all from which the posterior was learned


class FittedCluster(Component):
    """A fitted model of clusters, which can simulate other numbers of workers."""

    varied: ClassVar[str] = "workers"  # the argument of which `what_if` tries several values
    labels: ClassVar[Mapping[str, str]] = {"throughput": "commits per second", "staleness": "mean staleness, versions"}
    script: ClassVar[str] = "Simulate more workers"

    def ladder(self, workers: int) -> list[int]:
        """Return the numbers of workers to be simulated for this log."""
        return ladder(1, max(MOST_TIMES_WORKERS * workers, LEAST_LARGEST))

    def size(self, commits: int, workers: int) -> str:
        """Say the size of the log in words."""
        return f"{counted(commits, 'commit', ',')} by {counted(workers, 'worker', ',')}"

    def simulated(self, cluster: Cluster, steps: int | None, seed: int) -> dict[str, float]:
        """Simulate one run, and return its throughput and mean staleness."""
        commits = max(LEAST_COMMITS, LEAST_PER_WORKER * cluster.workers) if steps is None else steps
        trace = simulate(cluster, commits=commits, seed=seed)
        begin = int(WARM_UP * commits)
        rate = (commits - 1 - begin) / (trace.commit_time[-1] - trace.commit_time[begin])
        return {"throughput": float(rate), "staleness": float(trace.staleness[begin:].mean())}

    def cluster(self, workers: int) -> Cluster:
        """Return the fitted cluster, with some number of workers."""
        raise NotImplementedError

    def joined_by(self, workers: int, add: Mapping[str, int]) -> "FittedCluster":
        """Return the model of a cluster of some workers and further ones of the classes that the fit distinguishes."""
        del workers, add
        raise ValueError(f"`add` {NO_CLASSES}: its model says which law each worker has. Ask for `workers` instead.")

    def predicted(self, workers: Any) -> dict[str, float]:
        """Predict commits per second and staleness in the long run, NaN where no closed form is known."""
        cluster = self.cluster(workers)
        return {"throughput": _predict_throughput(cluster), "staleness": cluster.workers - 1.0}


def _predict_throughput(cluster: Cluster) -> float:
    """Predict commits per second in the long run, NaN where no closed form is known."""
    latency, server = expand(cluster.network.latency, 1)[0].mean, cluster.server
    means = [law.mean for law in cluster.laws]
    if server.is_instant:
        return float(sum(1 / (mean + 2 * latency) for mean in means))
    if not isinstance(server.service, Exponential) or len(set(means)) > 1:
        return float("nan")
    delays = [Constant(means[0]), Constant(2 * latency)]
    return theory.mean_value_analysis(
        workers=cluster.workers, service=server.service, delays=delays, slots=server.slots
    ).throughput


@checked
def ladder(
    least: Annotated[int, require_integer, LADDER],
    most: int,
    steps: Annotated[int, require_count, "1 gives the first alone."] = 6,
) -> list[int]:
    """List whole numbers from one to another, evenly.

    Args:
        least: The first number.
        most: The last number.
        steps: Number of numbers, at least 1. If some are equal after rounding, they count once.

    Example:
        >>> ladder(1, 40), ladder(12, 12)
        ([1, 9, 17, 24, 32, 40], [12])
    """
    last = require_integer("most", most, least=least, remedy=LADDER)
    return sorted({round(n) for n in np.linspace(least, last, steps).tolist()})


def _require_function(name: str, value: Any) -> Any:
    if not callable(value):
        raise ValueError(f"`{name}` must be a function of name -> value; got {brief(value)}. Give a lambda.")
    return value


def _require_priors(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping) or not value:
        remedy = 'Give {"mean": LogUniform(0.01, 100)}.'
        raise ValueError(f"`{name}` must be a mapping from names to priors; got {brief(value)}. {remedy}")
    return value


@checked
@dataclass(frozen=True)
class Model:
    """A cluster as a function of its unknown numbers, and a prior of each.

    Args:
        build: Function of name -> value that returns an `asyncsim.Cluster` with the log's number of workers.
        prior: Name -> `LogUniform(low, high)` or `Uniform(low, high)`.
        times: Names of the parameters that are times, if no other parameter has a unit. Then only their ratios matter,
            so priors are read in units of the log's mean time from one commit of a worker to its next, and a stored
            estimator serves logs on any scale.

    Raises:
        ValueError: If an argument does not fit, or the middle of the prior gives no asynchronous cluster.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> model = Model(
        ...     lambda p: Cluster(workers=12, compute=Gamma(p["mean"], p["cv"])),
        ...     prior={"mean": LogUniform(0.01, 100), "cv": Uniform(0.05, 1.5)},
        ... )
        >>> model.cluster([1.0, 0.5])
        Cluster(12 workers, Gamma(mean=1.0, cv=0.5))
    """

    build: Annotated[Build, _require_function]
    prior: Annotated[Mapping[str, Prior], _require_priors]
    times: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, prior in self.prior.items():
            if not isinstance(prior, Prior):
                remedy = "Give LogUniform(low, high) or Uniform(low, high)."
                raise ValueError(f"`prior` of {name!r} must be a distribution; got {brief(prior)}. {remedy}")
        object.__setattr__(self, "prior", dict(self.prior))
        object.__setattr__(self, "times", tuple(self.times))
        for name in self.times:
            if name not in self.prior:
                hint = did_you_mean(name, self.prior, quote="")
                raise ValueError(f"`times` must be names of `prior`; got {brief(name)}.{hint or ' Leave it out.'}")
        self.middle()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(self.prior)

    @property
    def workers(self) -> int:
        """Number of workers of its clusters."""
        return self.middle().workers

    def at(self, shares: FloatArray, cycle: float = 1.0) -> FloatArray:
        """Return the (…, p) values below which these shares of the prior lie.

        Args:
            shares: (…, p) shares, each between 0 and 1.
            cycle: The unit of `times`, in seconds.
        """
        columns = [
            prior.quantile(shares[..., i]) * (cycle if name in self.times else 1.0)
            for i, (name, prior) in enumerate(self.prior.items())
        ]
        return np.stack(columns, axis=-1)

    def values_at(self, share: float, cycle: float = 1.0) -> dict[str, float]:
        """Return the values, by name, below which a share of the prior lies."""
        return dict(zip(self.names, self.at(np.full(len(self.prior), share), cycle).tolist(), strict=True))

    def middle(self, cycle: float = 1.0) -> Cluster:
        """Build the cluster of the medians of the prior."""
        return self.cluster(self.values_at(0.5, cycle).values())

    def cluster(self, values: Any) -> Cluster:
        """Build the cluster of some values, in the order of `names`.

        Raises:
            ValueError: If `build` fails, or gives anything but an asynchronous cluster.
        """
        values = [float(value) for value in values]
        named = dict(zip(self.names, values, strict=True))
        try:
            cluster = self.build(named)
        except (Exception, SystemExit) as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            what = f"{kind}{str(error).rstrip('.')}. Narrow the prior to values that it takes, or mend it."
            if isinstance(error, KeyError) and error.args:
                hint = did_you_mean(str(error.args[0]), named, quote="")
                what = f"it asks for {error.args[0]!r}, which `prior` has not.{hint}"
            raise ValueError(f"`build` fails at {self.in_words(values)}: {what}") from error
        if not isinstance(cluster, Cluster) or cluster.protocol != Asynchronous():
            kind = type(cluster).__name__ if not isinstance(cluster, Cluster) else repr(cluster.protocol)
            raise ValueError(f"`build` must give an asynchronous asyncsim.Cluster; got {kind}. Return one.")
        return cluster

    def in_words(self, values: Any) -> str:
        """List some values with their names, as errors quote them."""
        return ", ".join(f"{name}={value:.4g}" for name, value in zip(self.names, values, strict=True))

    def digest(self) -> str:
        """Hash the priors and some clusters that it builds, whatever its code looks like."""
        shares = np.random.default_rng(0).random((DIGEST_CLUSTERS, len(self.prior)))
        clusters = [describe(self.cluster(values)) for values in self.at(shares)]
        priors = [[name, type(prior).__name__, prior.low, prior.high] for name, prior in self.prior.items()]
        return hash_of([priors, list(self.times), clusters])

    def to_coordinates(self, values: FloatArray, cycle: Any = 1.0) -> FloatArray:
        """Convert (…, p) values to coordinates with nearly normal errors. `cycle`, (…), is the unit of `times`."""
        return np.stack([self.axis(name, cycle).to(values[..., i]) for i, name in enumerate(self.prior)], axis=-1)

    def from_coordinates(self, coordinates: FloatArray, cycle: float = 1.0) -> FloatArray:
        """Convert (…, p) coordinates to values, or to the nearest ones within the prior."""
        columns = [self.axis(name, cycle).back(coordinates[..., i]) for i, name in enumerate(self.prior)]
        return np.stack(columns, axis=-1)

    def allows(self, coordinates: FloatArray) -> Any:
        """Return, (…), whether coordinates are of values within the prior, where a model's `times` may have any."""
        axes = [self.axis(name, 1.0) for name in self.prior]
        inside = [(axis.low <= x) & (x <= axis.high) for axis, x in zip(axes, coordinates.T, strict=True)]
        return np.all(inside, axis=0).T

    def is_probability(self, name: str) -> bool:
        """Return whether a parameter is fitted as a logit, which has no end where the probability has."""
        return _transform(self.prior[name]) is LOGIT

    def axis(self, name: str, cycle: Any, natural: Collection[str] = ()) -> Axis:
        """Return the coordinate of a parameter: a logarithm or a logit, unless it is one of the `natural` ones.

        Args:
            name: Name of the parameter.
            cycle: The unit of `times`, in seconds.
            natural: Names of the parameters that stay as they are.
        """
        prior = self.prior[name]
        transform = IDENTITY if name in natural else _transform(prior)
        centre, low, high = (
            float(transform.to(prior.quantile(share))) for share in (0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2)
        )
        is_time = name in self.times
        ends = (prior.low / RATIO_RANGE, prior.high * RATIO_RANGE) if is_time else (prior.low, prior.high)
        return Axis(name, transform, cycle if is_time else 1.0, centre, high - low, ends)


@checked
def default_model(workers: Annotated[int, require_count, "Give that of the log."]) -> Model:
    """Return the model of a log of commits alone: equal workers with gamma compute times, exponential latency each
    way, and a server that takes a constant time, one commit after another.

    Times are in units of the log's own scale, so one estimator serves all logs with this number of workers and commits.

    Args:
        workers: Number of workers in the log, at least 1.

    Example:
        >>> default_model(12).cluster([0.8, 0.3, 0.05, 0.01])
        Cluster(12 workers, Gamma(mean=0.8, cv=0.3), Network(latency=Exponential(mean=0.05)), \
Server(service=Constant(value=0.01)))
    """
    prior = {
        "compute.mean": LogUniform(0.1, 1.0),
        "compute.cv": Uniform(0.03, 1.5),
        "network.latency.mean": LogUniform(1e-3, 0.3),
        "server.service.mean": LogUniform(1e-3 / workers, 1.0 / workers),
    }
    times = ("compute.mean", "network.latency.mean", "server.service.mean")
    return Model(_DefaultBuild(workers), prior, times)


@dataclass(frozen=True)
class _DefaultBuild:
    """A class at module level, which travels to other processes without cloudpickle."""

    workers: int

    def __call__(self, p: Mapping[str, float]) -> Cluster:
        return Cluster(
            self.workers,
            Gamma(p["compute.mean"], p["compute.cv"]),
            network=Network(latency=Exponential(p["network.latency.mean"])),
            server=Server(service=Constant(p["server.service.mean"])),
        )


def _transform(prior: Prior) -> Transform:
    """Return the coordinate in which a parameter is fitted."""
    if prior.low > 0:
        return LOG
    return LOGIT if prior.low == 0 and prior.high <= 1 else IDENTITY


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


class Clusters(FittedCluster):
    """A user's `Model` as it was fitted: the cluster of the estimates, and those of draws of the parameters."""

    middle: Cluster  # of the estimates
    clusters: tuple[Cluster, ...]  # of the first draws
    values: Mapping[str, Sequence[float]]  # name -> draws of the parameter
    rows: Mapping[str, tuple[Any, ...]]  # name -> the fields of its `Parameter`
    priors: Mapping[str, tuple[float, float] | None]  # ends, or None for a time of a model that fits ratios only
    columns: Columns  # of times, that the log has
    mixed: tuple[str, ...] = ()  # "compute", where commits come in turn and it may contain a wait

    stages: ClassVar[Mapping[str, Any]] = {}  # of laws that AIC chooses
    jointly = True  # a check compares all statistics together as well

    @classmethod
    def of(cls, model: Model, parameters: Mapping[str, Parameter], draws: FloatArray, columns: Columns) -> "Clusters":
        """Build the clusters of a posterior or a likelihood of a model."""
        priors = {name: None if name in model.times else (prior.low, prior.high) for name, prior in model.prior.items()}
        middle = model.cluster([parameter.estimate for parameter in parameters.values()])
        clusters = tuple(map(model.cluster, draws[:MOST_CLUSTERS]))
        values = dict(zip(model.names, draws.T.tolist(), strict=True))
        rows = {name: tuple(parameter) for name, parameter in parameters.items()}
        return cls(middle, clusters, values, rows, priors, columns)

    def unidentified(self) -> "Clusters":
        """Return the same clusters, of which the log identifies no parameter."""
        rows = {name: tuple(Parameter(*row)._replace(identifiable=False)) for name, row in self.rows.items()}
        return replace(self, rows=rows, mixed=("compute",))

    @cached_property
    def draws(self) -> FloatArray:
        """(count, p) draws of the parameters."""
        return np.stack(list(self.values.values()), axis=1)

    @cached_property
    def parameters(self) -> Parameters:
        """Name -> `Parameter`."""
        return Parameters({name: Parameter(*row) for name, row in self.rows.items()})

    @property
    def hidden(self) -> tuple[str, ...]:
        """Parameters that are not identifiable from the log."""
        return tuple(name for name, parameter in self.parameters.items() if not parameter.identifiable)

    @property
    def shows_service(self) -> bool:
        """Whether the log shows service, which limits more workers."""
        return "serve_time" in self.columns

    def cluster(self, workers: int) -> Cluster:
        """Return the cluster of the estimates, with some number of workers."""
        return _with_workers(self.middle, workers)

    def sample(self, generator: np.random.Generator, count: int, workers: int) -> list[Cluster]:
        """Return the clusters of draws in random order, each again only when all have been returned."""
        rounds = -(-count // len(self.clusters))
        order = np.concatenate([generator.permutation(len(self.clusters)) for _ in range(rounds)])[:count]
        return [_with_workers(self.clusters[i], workers) for i in order]

    def statistics(self, trace: Trace) -> dict[str, float]:
        """Compute the statistics by which logs are compared, where of commits only order and times count."""
        alone = Trace.from_commits(trace.worker, trace.commit_time, workers=trace.workers, start=0.0)
        statistics = summary(alone)
        for name, value in summaries(trace, self.columns).items():
            if name.endswith(ENDINGS) and not name.startswith(("gap,", "share", "staleness,")):
                statistics[f"{name} (log)"] = value
        return statistics

    def in_words(self) -> str:
        """List the parameters that are identified, with their estimates."""
        identified = {name: parameter for name, parameter in self.parameters.items() if parameter.identifiable}
        return ", ".join(f"{name} {parameter.estimate:.3g}" for name, parameter in identified.items())


def _with_workers(cluster: Cluster, workers: int) -> Cluster:
    """Change the number of workers, where more of them repeat the first ones in order."""
    count = require_count("workers", workers, remedy="Use one worker or more.")
    # Where it is None, one step as it was simulated. A scenario whose rule has a window refuses it.
    steps = 1 if cluster.local_steps is None else cluster.local_steps
    if count == cluster.workers:
        return replace(cluster, local_steps=steps)
    compute, local_steps, latency = (
        [each[i % len(each)] for i in range(count)] if isinstance(each, tuple) else each
        for each in (cluster.compute, steps, cluster.network.latency)
    )
    network = replace(cluster.network, latency=latency)
    return replace(cluster, workers=count, compute=compute, local_steps=local_steps, network=network)
