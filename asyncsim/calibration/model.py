"""What is to be fitted: how a cluster is made of numbers, and what is known of these beforehand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.calibration.coordinates import FloatArray
from asyncsim.checks import did_you_mean, require_integer
from asyncsim.cluster import Cluster, Network, Server
from asyncsim.cluster.protocols import Asynchronous
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.priors import LogUniform, Prior, Uniform
from asyncsim.scenario.fingerprint import describe_cluster, digest

Build = Callable[[Mapping[str, float]], Cluster]
TOLD_APART = 64  # clusters, drawn from the prior, by which a model is known again


@dataclass(frozen=True)
class Model:
    """A cluster as a function of its unknown numbers, and a prior of each.

    Args:
        build: Called with name -> value; gives an `asyncsim.Cluster` with the log's number of workers.
        prior: Name -> `LogUniform(low, high)` or `Uniform(low, high)`.
        times: Names of the parameters that are times, if these are all that have a unit. Then only their ratios
            matter: priors are read in units of the log's mean time from one commit of a worker to its next, and an
            estimator that is kept serves logs on any scale.

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

    build: Build
    prior: Mapping[str, Prior]
    times: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not callable(self.build):
            raise ValueError(f"`build` must be a function of name -> value; got {self.build!r:.60}. Give a lambda.")
        if not isinstance(self.prior, Mapping) or not self.prior:
            remedy = 'Give {"mean": LogUniform(0.01, 100)}.'
            raise ValueError(f"`prior` must be a mapping from names to priors; got {self.prior!r:.60}. {remedy}")
        for name, prior in self.prior.items():
            if not isinstance(prior, Prior):
                remedy = "Give LogUniform(low, high) or Uniform(low, high)."
                raise ValueError(f"`prior` of {name!r} must be a distribution; got {prior!r:.60}. {remedy}")
        object.__setattr__(self, "times", tuple(self.times))
        for name in self.times:
            if name not in self.prior:
                hint = did_you_mean(name, self.prior, quote="")
                raise ValueError(f"`times` must be names of `prior`; got {name!r}.{hint or ' Leave it out.'}")
        self.cluster(self.at(np.full(len(self.prior), 0.5)))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return tuple(self.prior)

    @property
    def workers(self) -> int:
        """Number of workers of its clusters."""
        return self.cluster(self.at(np.full(len(self.prior), 0.5))).workers

    def at(self, shares: FloatArray) -> FloatArray:
        """(…, p) values below which these shares of the prior lie."""
        columns = [prior.quantile(shares[..., i]) for i, prior in enumerate(self.prior.values())]
        return np.stack(columns, axis=-1)

    def cluster(self, values: Any) -> Cluster:
        """The cluster of some values, in the order of `names`.

        Raises:
            ValueError: If `build` fails, or gives anything but an asynchronous cluster.
        """
        given = dict(zip(self.names, map(float, values), strict=True))
        try:
            made = self.build(given)
        except (Exception, SystemExit) as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            what = f"{kind}{str(error).rstrip('.')}. Narrow the prior to values that it takes, or mend it."
            if isinstance(error, KeyError) and error.args:
                hint = did_you_mean(str(error.args[0]), given, quote="")
                what = f"it asks for {error.args[0]!r}, which `prior` has not.{hint}"
            raise ValueError(f"`build` fails at {_in_words(given)}: {what}") from error
        if not isinstance(made, Cluster) or made.protocol != Asynchronous():
            found = type(made).__name__ if not isinstance(made, Cluster) else repr(made.protocol)
            raise ValueError(f"`build` must give an asynchronous asyncsim.Cluster; got {found}. Return one.")
        return made

    def in_words(self, values: Any) -> str:
        """Some values with their names, as errors quote them."""
        return _in_words(dict(zip(self.names, map(float, values), strict=True)))

    def digest(self) -> str:
        """Hash of the priors and of some clusters that it builds, whatever its code looks like."""
        shares = np.random.default_rng(0).random((TOLD_APART, len(self.prior)))
        clusters = [describe_cluster(self.cluster(values)) for values in self.at(shares)]
        priors = [[name, type(one).__name__, one.low, one.high] for name, one in self.prior.items()]
        return digest([priors, list(self.times), clusters])

    def to_coordinates(self, values: FloatArray, cycle: FloatArray) -> FloatArray:
        """(…, p) values as coordinates in which errors are nearly normal: logarithms, or logits of probabilities.

        Args:
            values: (…, p).
            cycle: (…) the unit of times, for a model that names them.
        """
        columns = []
        for i, (name, prior) in enumerate(self.prior.items()):
            value = values[..., i] / (cycle if name in self.times else 1.0)
            columns.append(_COORDINATES[_kind(prior)][0](value))
        return np.stack(columns, axis=-1)

    def from_coordinates(self, coordinates: FloatArray, cycle: float = 1.0) -> FloatArray:
        """The other way round, for one log."""
        columns = []
        for i, (name, prior) in enumerate(self.prior.items()):
            value = _COORDINATES[_kind(prior)][1](coordinates[..., i])
            columns.append(value * (cycle if name in self.times else 1.0))
        return np.stack(columns, axis=-1)

    def kind(self, name: str) -> str:
        """In what coordinate a parameter is fitted: "log", "logit" or "identity"."""
        return _kind(self.prior[name])

    def within(self, values: FloatArray) -> FloatArray:
        """(…, p) the nearest values within the prior; those of a model's `times` may have any."""
        columns = [
            values[..., i] if name in self.times else np.clip(values[..., i], prior.low, prior.high)
            for i, (name, prior) in enumerate(self.prior.items())
        ]
        return np.stack(columns, axis=-1)

    def allows(self, values: FloatArray) -> Any:
        """(…) whether values lie within the prior; those of a model's `times` may have any."""
        inside = np.ones(values.shape[:-1], np.bool_)
        for i, (name, prior) in enumerate(self.prior.items()):
            if name not in self.times:
                inside &= (values[..., i] >= prior.low) & (values[..., i] <= prior.high)
        return inside


def default_model(workers: int) -> Model:
    """What is assumed of a log of commits alone: equal workers with gamma compute times, exponential latency each way,
    and a server that takes a constant time, one commit after another.

    Times are in units of the log's own scale, so that one estimator serves every log of so many workers and commits.

    Example:
        >>> default_model(12).cluster([0.8, 0.3, 0.05, 0.01])
        Cluster(12 workers, Gamma(mean=0.8, cv=0.3), Network(latency=Exponential(mean=0.05)), \
Server(service=Constant(value=0.01)))
    """
    workers = require_integer("workers", workers, least=1, remedy="Give that of the log.")
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


def _kind(prior: Prior) -> str:
    """In what coordinate a parameter is fitted."""
    if prior.low > 0:
        return "log"
    return "logit" if prior.low == 0 and prior.high <= 1 else "identity"


TINY = 1e-12  # a probability closer to 0 or 1 is not told from it
_COORDINATES: dict[str, tuple[Any, Any]] = {
    "log": (np.log, np.exp),
    "logit": (
        lambda p: np.log(np.maximum(p, TINY)) - np.log(np.maximum(1 - p, TINY)),
        lambda x: 1 / (1 + np.exp(-x)),
    ),
    "identity": (lambda value: value, lambda x: x),
}


def transforms(kind: str) -> tuple[Any, Any]:
    """From values to coordinates of a kind, and back."""
    return _COORDINATES[kind]


def _in_words(given: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in given.items())
