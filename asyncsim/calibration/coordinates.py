"""Laws as flat lists of numbers: names of the arguments, coordinates without bounds, and back."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim import delays
from asyncsim.delays.fitting import coordinate_of, probability

FloatArray = NDArray[np.float64]


class Kind(NamedTuple):
    """How an argument that is bounded becomes a coordinate that is not, and back."""

    to: Callable[[float], float]
    back: Callable[[float], float]


TINY = 1e-12  # nothing closer to a bound is told from it
POSITIVE = Kind(lambda value: math.log(max(value, TINY)), math.exp)
ABOVE_ONE = Kind(lambda value: math.log(max(value - 1, TINY)), lambda x: 1 + math.exp(x))
SHARE = Kind(lambda value: coordinate_of(min(max(value, TINY), 1 - TINY)), probability)
# An argument that is the shortest or longest duration: its error is not normal, but exponential and of order 1/n.
LEAST = Kind(float, float)
MOST = Kind(float, float)
FIXED = Kind(float, float)  # known without error


class Family(NamedTuple):
    """One family of laws.

    Attributes:
        names: Of the arguments, with the place inside the law: "law.mean".
        kinds: How each becomes a coordinate.
        build: The law with these arguments.
        values: The arguments of a law.
        edge: The density of a law at its shortest or longest duration, if one of its arguments is that.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    build: Callable[..., Any]
    values: Callable[[Any], Sequence[float]]
    edge: Callable[[Any], float] = lambda law: math.nan


def _named(build: Callable[..., Any], edge: Callable[[Any], float] = lambda law: math.nan, **kinds: Kind) -> Family:
    """A family whose arguments are plain numbers."""
    names = tuple(kinds)
    return Family(names, tuple(kinds.values()), build, lambda law: [getattr(law, name) for name in names], edge)


FAMILIES: dict[str, Family] = {
    "constant": _named(delays.Constant, value=FIXED),
    "uniform": _named(delays.Uniform, lambda law: 1 / (law.high - law.low), low=LEAST, high=MOST),
    "exponential": _named(delays.Exponential, mean=POSITIVE),
    "shifted_exponential": _named(delays.ShiftedExponential, lambda law: 1 / law.tail, shift=LEAST, tail=POSITIVE),
    "gamma": _named(delays.Gamma, mean=POSITIVE, cv=POSITIVE),
    "erlang": _named(lambda mean, shape: delays.Erlang(mean, round(shape)), mean=POSITIVE, shape=FIXED),
    "lognormal": _named(delays.LogNormal, mean=POSITIVE, cv=POSITIVE),
    "half_normal": _named(
        delays.HalfNormal, lambda law: math.sqrt(2 / math.pi) / law.spread, base=LEAST, spread=POSITIVE
    ),
    "weibull": _named(delays.Weibull, mean=POSITIVE, shape=POSITIVE),
    "pareto": _named(delays.Pareto, lambda law: law.shape / law.minimum, minimum=LEAST, shape=ABOVE_ONE),
    "hyperexponential": Family(
        ("probabilities[0]", "means[0]", "means[1]"),
        (SHARE, POSITIVE, POSITIVE),
        lambda p, first, second: delays.HyperExponential((p, 1 - p), (first, second)),
        lambda law: [law.probabilities[0], *law.means],
    ),
    "straggler": Family(
        ("law.mean", "law.cv", "probability", "factor"),
        (POSITIVE, POSITIVE, SHARE, ABOVE_ONE),
        lambda mean, cv, p, factor: delays.Straggler(delays.Gamma(mean, cv), p, factor),
        lambda law: [law.law.mean, law.law.cv, law.probability, law.factor],
    ),
}
CLASSES: dict[str, Any] = {
    "constant": delays.Constant,
    "uniform": delays.Uniform,
    "exponential": delays.Exponential,
    "shifted_exponential": delays.ShiftedExponential,
    "gamma": delays.Gamma,
    "erlang": delays.Erlang,
    "lognormal": delays.LogNormal,
    "half_normal": delays.HalfNormal,
    "weibull": delays.Weibull,
    "pareto": delays.Pareto,
    "hyperexponential": delays.HyperExponential,
    "straggler": delays.Straggler,
}


def degrees(name: str) -> int:
    """Degrees of freedom of a family: one for each argument that is estimated, two where it is an end of the durations.

    The likelihood ratio of an end is chi-squared with two, and by AIC with one, an exponential law would lose to a
    shifted one in 37 % of logs instead of 14 %.

    Example:
        >>> degrees("gamma"), degrees("straggler"), degrees("shifted_exponential")
        (2, 4, 3)

    References:
        Hogg 1956, "On the distribution of the likelihood ratio".
    """
    kinds = FAMILIES[name].kinds
    ends = sum(kind is LEAST or kind is MOST for kind in kinds)
    return sum(kind is not FIXED for kind in kinds) + ends + (name in ("constant", "erlang"))


def values_of(name: str, law: Any) -> list[float]:
    """The arguments of a law, in the order of its family.

    Example:
        >>> values_of("straggler", delays.Straggler(delays.Gamma(1.0, 0.5), 0.25, 4.0))
        [1.0, 0.5, 0.25, 4.0]
    """
    return [float(value) for value in FAMILIES[name].values(law)]


def law_of(name: str, values: Sequence[float]) -> Any:
    """The law of a family with these arguments.

    Example:
        >>> law_of("gamma", [1.0, 0.5])
        Gamma(mean=1.0, cv=0.5)
    """
    return FAMILIES[name].build(*values)
