"""What every law of delays offers, and what the laws share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import require_not_negative, require_positive
from asyncsim._families import Named

FloatArray = NDArray[np.float64]


@runtime_checkable
class Delay(Protocol):
    """What a law of delays must offer; times are in simulated seconds.

    `sample` must draw one delay after another: two calls of sizes a and b give what one call of size a + b
    gives. Delays are finite and not negative; `simulate` refuses others, naming worker, value and time.

    Two more members are optional. `quantile(p)` inverts `cdf`: a mixture draws a block at once if all its laws have
    it, and otherwise one delay at a time. `in_seconds` names the arguments of a dataclass that are times, so that
    `scaled` can multiply them.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Coin:
        ...     mean = 1.5
        ...     variance = 0.25
        ...
        ...     def cdf(self, t):
        ...         return 0.5 * (np.asarray(t) >= 1) + 0.5 * (np.asarray(t) >= 2)
        ...
        ...     def sample(self, generator, size):
        ...         return generator.integers(1, 3, size).astype(float)
        >>> isinstance(Coin(), Delay)
        True
    """

    @property
    def mean(self) -> float:
        """Expected delay."""
        ...

    @property
    def variance(self) -> float:
        """Variance of the delay, in seconds squared; infinity if it is not finite."""
        ...

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Probability that a delay is at most `t`; the shape of `t`, which may be any."""
        ...

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        ...


class Law(Named, family="delays"):
    """Base class of laws that the command line knows by name; see `Delay` for what else a law must have."""

    @classmethod
    def like(cls, mean: float, variance: float) -> dict[str, float]:
        """Arguments with which a law of this class takes the place of one with such a mean and variance.

        An argument that mean and variance do not determine is left out, such as `cv` if the variance is 0 or infinite.
        """
        cv = math.sqrt(variance) / mean if 0 < variance < math.inf else None
        from_cv = getattr(cls, "from_cv", None)
        values = {"mean": mean, "cv": cv} if from_cv is None or cv is None else vars(from_cv(mean, cv))
        has = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if name in has and value is not None}


def arguments_like(kind: type[Law], law: "Delay | Sequence[Delay]") -> dict[str, float]:
    """Arguments with which another law keeps the mean and the spread of a law, or the averages of several."""
    laws = law if isinstance(law, Sequence) else (law,)
    mean = sum(one.mean for one in laws) / len(laws)
    variance = sum(getattr(one, "variance", math.inf) for one in laws) / len(laws)  # `VariableSpeed` has none
    return kind.like(mean, variance)


@dataclass(frozen=True)
class OfMean(Law, abstract=True):
    """A law that is given by its mean, in seconds, and whatever a subclass adds."""

    mean: float
    in_seconds: ClassVar[tuple[str, ...]] = ("mean",)

    def __post_init__(self) -> None:
        keep_positive(self, mean="Give the mean delay in seconds.")


@dataclass(frozen=True)
class OfMeanAndCv(OfMean, abstract=True):
    """A law that is given by its mean, in seconds, and its coefficient of variation."""

    cv: float

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_positive(self, cv="Use `Constant` for delays without spread.")

    @property
    def variance(self) -> float:
        """(mean · cv)²."""
        return (self.mean * self.cv) * (self.mean * self.cv)


def keep_positive(law: object, /, **remedies: str) -> None:
    """Check arguments of a frozen law and keep them as floats, so that 1 and 1.0 are one law; `name=remedy`."""
    _keep(law, require_positive, remedies)


def keep_not_negative(law: object, /, **remedies: str) -> None:
    """As `keep_positive`, with 0 allowed."""
    _keep(law, require_not_negative, remedies)


def require_law(name: str, value: object) -> Delay:
    """Return `value` if it is a law of delays."""
    if not isinstance(value, Delay):
        raise ValueError(
            f"`{name}` must be a law of delays; got {value!r}. "
            "Use one of `asyncsim.delays`, for example `Constant(1.0)`."
        )
    return value


def from_zero(t: ArrayLike) -> FloatArray:
    """`t` with negative times replaced by 0, where the distribution functions of most laws are 0 as well."""
    return np.maximum(np.asarray(t, dtype=np.float64), 0.0)


def _keep(law: object, require: Callable[..., float], remedies: dict[str, str]) -> None:
    for name, remedy in remedies.items():
        object.__setattr__(law, name, require(name, getattr(law, name), remedy=remedy))
