"""A model to be fitted: a cluster as a function of parameters, and their priors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from asyncsim import theory
from asyncsim._checks import brief, did_you_mean, require_count, require_integer
from asyncsim._metrics import counted
from asyncsim._priors import LogUniform, Prior, Uniform
from asyncsim.calibration._transforms import FAR, IDENTITY, LEVEL, LOG, LOGIT, Axis, FloatArray, Transform
from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.cluster.protocols import Asynchronous
from asyncsim.components._checked import checked
from asyncsim.components._description import describe, hash_of
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.delays._per_worker import expand

Build = Callable[[Mapping[str, float]], Cluster]
BEYOND = 3  # times the log's number of workers: the largest cluster that is simulated unasked
LEAST_LARGEST = 4  # workers of that cluster
LEAST_PER_WORKER = 60  # commits of a simulation
LEAST_COMMITS = 2000
WARM_UP = 0.2  # share of the commits that do not count
TOLD_APART = 64  # clusters, drawn from the prior, by which a model is known again
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
            because the interval is at most half as wide as that of the prior.
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


class FittedCluster:
    """A fitted model of clusters, which can simulate other numbers of workers."""

    varied: ClassVar[str] = "workers"  # the argument of which `what_if` tries several values
    shown: ClassVar[Mapping[str, str]] = {"throughput": "commits per second", "staleness": "mean staleness, versions"}
    script: ClassVar[str] = "Simulate more workers"

    def ladder(self, workers: int) -> list[int]:
        """Numbers of workers to be simulated for this log."""
        return ladder(1, max(BEYOND * workers, LEAST_LARGEST))

    def size(self, commits: int, workers: int) -> str:
        """The size of the log in words."""
        return f"{counted(commits, 'commit', ',')} by {counted(workers, 'worker', ',')}"

    def simulated(self, cluster: Cluster, steps: int | None, seed: int) -> dict[str, float]:
        """Throughput and mean staleness of one run."""
        commits = max(LEAST_COMMITS, LEAST_PER_WORKER * cluster.workers) if steps is None else steps
        trace = simulate(cluster, commits=commits, seed=seed)
        begin = int(WARM_UP * commits)
        rate = (commits - 1 - begin) / (trace.commit_time[-1] - trace.commit_time[begin])
        return {"throughput": float(rate), "staleness": float(trace.staleness[begin:].mean())}

    def cluster(self, workers: int) -> Cluster:
        """The fitted cluster, with some number of workers."""
        raise NotImplementedError

    def predicted(self, workers: Any) -> dict[str, float]:
        """Commits per second and staleness in the long run, or NaN where no closed form is known."""
        cluster, throughput = self.cluster(workers), float("nan")
        latency = expand(cluster.network.latency, 1)[0].mean
        means = [law.mean for law in cluster.laws]
        if cluster.server.is_instant:
            throughput = float(sum(1 / (mean + 2 * latency) for mean in means))
        elif isinstance(cluster.server.service, Exponential) and len(set(means)) == 1:
            delays = [Constant(means[0]), Constant(2 * latency)]
            service, slots = cluster.server.service, cluster.server.slots
            throughput = theory.mean_value_analysis(
                workers=cluster.workers, service=service, delays=delays, slots=slots
            ).throughput
        return {"throughput": throughput, "staleness": cluster.workers - 1.0}


@checked
def ladder(
    least: Annotated[int, require_integer, LADDER],
    most: int,
    steps: Annotated[int, require_count, "1 gives the first alone."] = 6,
) -> list[int]:
    """Whole numbers from one to another, evenly.

    Args:
        least: The first number.
        most: The last number.
        steps: Number of numbers, at least 1. If some are equal after rounding, they count once.

    Example:
        >>> ladder(1, 40), ladder(12, 12)
        ([1, 9, 17, 24, 32, 40], [12])
    """
    most = require_integer("most", most, least=least, remedy=LADDER)
    return sorted({round(n) for n in np.linspace(least, most, steps).tolist()})


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise ValueError(f"`{name}` must be a function of name -> value; got {brief(value)}. Give a lambda.")
    return value


def _priors(name: str, value: Any) -> Any:
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

    build: Annotated[Build, _function]
    prior: Annotated[Mapping[str, Prior], _priors]
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
        """(…, p) values below which these shares of the prior lie, with `cycle` as the unit of `times`, in seconds."""
        columns = [
            prior.quantile(shares[..., i]) * (cycle if name in self.times else 1.0)
            for i, (name, prior) in enumerate(self.prior.items())
        ]
        return np.stack(columns, axis=-1)

    def values_at(self, share: float, cycle: float = 1.0) -> dict[str, float]:
        """Name -> the value below which a share of the prior lies."""
        return dict(zip(self.names, self.at(np.full(len(self.prior), share), cycle).tolist(), strict=True))

    def middle(self, cycle: float = 1.0) -> Cluster:
        """The cluster of the medians of the prior."""
        return self.cluster(self.values_at(0.5, cycle).values())

    def cluster(self, values: Any) -> Cluster:
        """The cluster of some values, in the order of `names`.

        Raises:
            ValueError: If `build` fails, or gives anything but an asynchronous cluster.
        """
        values = [float(value) for value in values]
        given = dict(zip(self.names, values, strict=True))
        try:
            made = self.build(given)
        except (Exception, SystemExit) as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            what = f"{kind}{str(error).rstrip('.')}. Narrow the prior to values that it takes, or mend it."
            if isinstance(error, KeyError) and error.args:
                hint = did_you_mean(str(error.args[0]), given, quote="")
                what = f"it asks for {error.args[0]!r}, which `prior` has not.{hint}"
            raise ValueError(f"`build` fails at {self.in_words(values)}: {what}") from error
        if not isinstance(made, Cluster) or made.protocol != Asynchronous():
            found = type(made).__name__ if not isinstance(made, Cluster) else repr(made.protocol)
            raise ValueError(f"`build` must give an asynchronous asyncsim.Cluster; got {found}. Return one.")
        return made

    def in_words(self, values: Any) -> str:
        """Some values with their names, as errors quote them."""
        return ", ".join(f"{name}={value:.4g}" for name, value in zip(self.names, values, strict=True))

    def digest(self) -> str:
        """Hash of the priors and of some clusters that it builds, whatever its code looks like."""
        shares = np.random.default_rng(0).random((TOLD_APART, len(self.prior)))
        clusters = [describe(self.cluster(values)) for values in self.at(shares)]
        priors = [[name, type(one).__name__, one.low, one.high] for name, one in self.prior.items()]
        return hash_of([priors, list(self.times), clusters])

    def to_coordinates(self, values: FloatArray, cycle: Any = 1.0) -> FloatArray:
        """(…, p) values as coordinates in which errors are nearly normal, with `cycle`, (…), as the unit of `times`."""
        return np.stack([self.axis(name, cycle).to(values[..., i]) for i, name in enumerate(self.prior)], axis=-1)

    def from_coordinates(self, coordinates: FloatArray, cycle: float = 1.0) -> FloatArray:
        """(…, p) the values of coordinates, or the nearest within the prior."""
        columns = [self.axis(name, cycle).back(coordinates[..., i]) for i, name in enumerate(self.prior)]
        return np.stack(columns, axis=-1)

    def allows(self, coordinates: FloatArray) -> Any:
        """(…) whether coordinates are those of values within the prior, where a model's `times` may have any."""
        axes = [self.axis(name, 1.0) for name in self.prior]
        return np.all([(one.low <= x) & (x <= one.high) for one, x in zip(axes, coordinates.T, strict=True)], axis=0).T

    def is_probability(self, name: str) -> bool:
        """Whether a parameter is fitted as a logit, which has no end where the probability has."""
        return _transform(self.prior[name]) is LOGIT

    def axis(self, name: str, cycle: Any, natural: Collection[str] = ()) -> Axis:
        """The coordinate of a parameter: a logarithm or a logit, unless it is one of the `natural` ones.

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
        ends = (prior.low / FAR, prior.high * FAR) if is_time else (prior.low, prior.high)
        return Axis(name, transform, cycle if is_time else 1.0, centre, high - low, ends)


@checked
def default_model(workers: Annotated[int, require_count, "Give that of the log."]) -> Model:
    """The model of a log of commits alone: equal workers with gamma compute times, exponential latency each way,
    and a server that takes a constant time, one commit after another.

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
    """The coordinate in which a parameter is fitted."""
    if prior.low > 0:
        return LOG
    return LOGIT if prior.low == 0 and prior.high <= 1 else IDENTITY
