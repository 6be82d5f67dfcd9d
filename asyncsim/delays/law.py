"""What every law of delays offers, and what the laws share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim.checks import require_not_negative, require_positive

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


@dataclass(frozen=True)
class OfMean:
    """A law that is given by its mean, in seconds, and whatever a subclass adds."""

    mean: float
    in_seconds: ClassVar[tuple[str, ...]] = ("mean",)

    def __post_init__(self) -> None:
        keep_positive(self, mean="Give the mean delay in seconds.")


@dataclass(frozen=True)
class OfMeanAndCv(OfMean):
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
    """Return `value` if it is a law of delays.

    Raises:
        ValueError: If it is not, because it lacks a member of `Delay`.
    """
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
