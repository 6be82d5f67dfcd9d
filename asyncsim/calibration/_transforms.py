"""Parameters and arguments of laws as coordinates in which errors are nearly normal, and back."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from asyncsim import delays
from asyncsim.delays import FloatArray


class Transform(NamedTuple):
    """The functions from a bounded value to a coordinate without bounds, and back."""

    to: Callable[[Any], Any]
    back: Callable[[Any], Any]


LEVEL = 0.9  # of the intervals
NORMAL = 1.6448536269514722  # quantile of the standard normal at their upper end
HALF = 0.5  # of the prior's width: a parameter with a wider interval is not identifiable
RATIO_RANGE = np.exp(20.0)  # how many times beyond its prior a time may be of which only ratios count
TINY = 1e-12  # no value closer to a bound is distinguished from it

LOG = Transform(lambda value: np.log(np.maximum(value, TINY)), np.exp)
LOGIT = Transform(
    lambda p: np.log(np.maximum(p, TINY)) - np.log(np.maximum(1 - p, TINY)), lambda x: 1 / (1 + np.exp(-x))
)
LOG_ABOVE_ONE = Transform(lambda value: np.log(np.maximum(value - 1, TINY)), lambda x: 1 + np.exp(x))
IDENTITY = Transform(lambda value: value, lambda x: x)
# The error of an argument that is the shortest or longest duration is not normal, but exponential and of order 1/n.
LEAST = Transform(float, float)
MOST = Transform(float, float)
FIXED = Transform(float, float)  # an argument without error


class Family(NamedTuple):
    """One family of laws."""

    law: Any  # its class, which fits durations
    names: tuple[str, ...]  # of the arguments, with the place inside the law: "law.mean"
    kinds: tuple[Transform, ...]  # how each becomes a coordinate
    build: Callable[..., Any]  # the law with these arguments
    values: Callable[[Any], Sequence[float]]  # the arguments of a law
    edge: Callable[[Any], float] = lambda law: math.nan


def _family_of(
    law: Any,
    edge: Callable[[Any], float] = lambda law: math.nan,
    build: Callable[..., Any] | None = None,
    **kinds: Transform,
) -> Family:
    """Return a family whose arguments are plain numbers."""
    names = tuple(kinds)
    return Family(law, names, tuple(kinds.values()), build or law, lambda law: [getattr(law, n) for n in names], edge)


FAMILIES: dict[str, Family] = {
    "constant": _family_of(delays.Constant, value=FIXED),
    "uniform": _family_of(delays.Uniform, lambda law: 1 / (law.high - law.low), low=LEAST, high=MOST),
    "exponential": _family_of(delays.Exponential, mean=LOG),
    "shifted_exponential": _family_of(delays.ShiftedExponential, lambda law: 1 / law.tail, shift=LEAST, tail=LOG),
    "gamma": _family_of(delays.Gamma, mean=LOG, cv=LOG),
    "erlang": _family_of(
        delays.Erlang, build=lambda mean, shape: delays.Erlang(mean, round(shape)), mean=LOG, shape=FIXED
    ),
    "lognormal": _family_of(delays.LogNormal, mean=LOG, cv=LOG),
    "half_normal": _family_of(
        delays.HalfNormal, lambda law: math.sqrt(2 / math.pi) / law.spread, base=LEAST, spread=LOG
    ),
    "weibull": _family_of(delays.Weibull, mean=LOG, shape=LOG),
    "pareto": _family_of(delays.Pareto, lambda law: law.shape / law.minimum, minimum=LEAST, shape=LOG_ABOVE_ONE),
    "hyperexponential": Family(
        delays.HyperExponential,
        ("probabilities[0]", "means[0]", "means[1]"),
        (LOGIT, LOG, LOG),
        lambda p, first, second: delays.HyperExponential((p, 1 - p), (first, second)),
        lambda law: [law.probabilities[0], *law.means],
    ),
    "straggler": Family(
        delays.Straggler,
        ("law.mean", "law.cv", "probability", "factor"),
        (LOG, LOG, LOGIT, LOG_ABOVE_ONE),
        lambda mean, cv, p, factor: delays.Straggler(delays.Gamma(mean, cv), p, factor),
        lambda law: [law.law.mean, law.law.cv, law.probability, law.factor],
    ),
}


def degrees(name: str) -> int:
    """Count the degrees of freedom of a family's likelihood ratio: two for each argument that is an end (Hogg 1956)."""
    # By AIC with one for each argument, an exponential law would lose to a shifted one in 37 % of logs instead of 14 %.
    kinds = FAMILIES[name].kinds
    ends = sum(kind is LEAST or kind is MOST for kind in kinds)
    return sum(kind is not FIXED for kind in kinds) + ends + (name in ("constant", "erlang"))


def values_of(name: str, law: Any) -> list[float]:
    """Return the arguments of a law, in the order of its family."""
    return [float(value) for value in FAMILIES[name].values(law)]


def build_law(name: str, values: Sequence[float]) -> Any:
    """Build the law of a family with these arguments."""
    return FAMILIES[name].build(*map(float, values))


@dataclass(frozen=True, eq=False)
class Axis:
    """One coordinate, (transform(value / unit) - centre) / span: widths of the prior's middle 90 % from its median."""

    name: str
    transform: Transform
    unit: Any  # seconds, of a model's `times`, or (logs,) of several logs
    centre: float
    span: float
    ends: tuple[float, float]  # least and greatest value, in units

    def to(self, value: Any) -> Any:
        """Convert values to coordinates."""
        return (self.transform.to(value / self.unit) - self.centre) / self.span

    def back(self, x: Any) -> Any:
        """Convert coordinates to values within the ends."""
        inside = self.transform.back(self.centre + self.span * np.minimum(np.maximum(x, self.low), self.high))
        least, most = self.ends  # Rounding must not miss them.
        value = np.where(x <= self.low, least, np.where(x >= self.high, most, np.clip(inside, least, most)))
        return self.unit * (value if np.ndim(x) else float(value))

    @cached_property
    def low(self) -> float:
        """Coordinate of the least value."""
        return float((self.transform.to(np.float64(self.ends[0])) - self.centre) / self.span)

    @cached_property
    def high(self) -> float:
        """Coordinate of the greatest value."""
        return float((self.transform.to(np.float64(self.ends[1])) - self.centre) / self.span)


class Frame:
    """Axes of the parameters that are sought, and the values of the others, in the model's order of names."""

    def __init__(self, axes: Sequence[Axis], names: Sequence[str], others: Mapping[str, float]) -> None:
        self.axes = tuple(axes)
        self.names = tuple(names)
        self.others = dict(others)
        self.low = np.array([axis.low for axis in axes])
        self.high = np.array([axis.high for axis in axes])

    def to(self, values: Mapping[str, float]) -> FloatArray:
        """Convert values by name to (axes,) coordinates."""
        return np.array([axis.to(values[axis.name]) for axis in self.axes])

    def values(self, x: FloatArray) -> dict[str, float]:
        """Convert coordinates to the values of all parameters by name."""
        sought = {axis.name: axis.back(place) for axis, place in zip(self.axes, x, strict=True)}
        return {name: sought[name] if name in sought else self.others[name] for name in self.names}
