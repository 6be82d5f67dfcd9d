"""Delay laws: how long a worker takes for one job.

A law knows its mean, variance and distribution function and can draw from itself, so that every simulation
has a prediction to stand beside. A law of your own is any object with the four members of `Delay`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim.checks import require_not_negative, require_positive

FloatArray = NDArray[np.float64]


@runtime_checkable
class Delay(Protocol):
    """What a law of delays must offer; times are in simulated seconds.

    `sample` must draw one delay after another: two calls of sizes a and b give what one call of size a + b
    gives. Delays are finite and not negative; `simulate` refuses any other by worker, value and time.

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
        """Variance of the delay, in seconds squared."""
        ...

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Probability that a delay is at most `t`; any shape, the result has the same."""
        ...

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        ...


@dataclass(frozen=True)
class Constant:
    """Every delay is `value`: equal workers then commit in an exact round robin.

    Args:
        value: The delay, in seconds; 0 is allowed.

    Raises:
        ValueError: If `value` is negative, NaN or infinite.

    Example:
        >>> law = Constant(2.0)
        >>> law.mean, law.variance
        (2.0, 0.0)
    """

    value: float

    def __post_init__(self) -> None:
        _set(self, "value", require_not_negative, "Give the delay in seconds.")

    @property
    def mean(self) -> float:
        """The value itself."""
        return self.value

    @property
    def variance(self) -> float:
        """Zero."""
        return 0.0

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """1 where t >= value, else 0; the shape of `t`."""
        return np.where(np.asarray(t) >= self.value, 1.0, 0.0)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` delays, shape (size,); the generator is left as it was."""
        del generator  # Unused.
        return np.full(size, self.value, dtype=np.float64)


@dataclass(frozen=True)
class Uniform:
    """Delays spread evenly over [low, high]: mean (low + high) / 2, variance (high - low)² / 12.

    Args:
        low: The shortest delay, in seconds.
        high: The longest delay, in seconds; equal to `low` gives a constant.

    Raises:
        ValueError: If a bound is negative, NaN or infinite, or if `low` exceeds `high`.

    Example:
        >>> law = Uniform(0.5, 1.5)
        >>> law.mean, float(law.cdf(0.75))
        (1.0, 0.25)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        _set(self, "low", require_not_negative, "Give the shortest delay in seconds.")
        _set(self, "high", require_not_negative, "Give the longest delay in seconds.")
        if self.low > self.high:
            raise ValueError(f"`low` must not exceed `high`; got {self.low!r} > {self.high!r}. Swap the two.")

    @property
    def mean(self) -> float:
        """(low + high) / 2."""
        return self.low + (self.high - self.low) / 2

    @property
    def variance(self) -> float:
        """(high - low)² / 12."""
        return (self.high - self.low) * (self.high - self.low) / 12

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """(t - low) / (high - low), cut to [0, 1]; the shape of `t`."""
        if self.low == self.high:
            return Constant(self.low).cdf(t)
        return np.clip((np.asarray(t, dtype=np.float64) - self.low) / (self.high - self.low), 0.0, 1.0)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.uniform(self.low, self.high, size)


@dataclass(frozen=True)
class Exponential:
    """Memoryless delays: P(delay <= t) = 1 - exp(-t / mean), variance mean².

    Equal exponential workers give a geometric staleness, P(τ = k) = (1/n)(1 - 1/n)^k.

    Args:
        mean: Mean delay, in seconds.

    Raises:
        ValueError: If `mean` is not finite and positive.

    Example:
        >>> Exponential(mean=2.0).variance
        4.0

    References:
        Mitliagkas, Zhang, Hadjis and Ré 2016, "Asynchrony begets momentum" (the staleness).
    """

    mean: float

    def __post_init__(self) -> None:
        _set(self, "mean", require_positive, "Give the mean delay in seconds.")

    @property
    def variance(self) -> float:
        """The mean squared."""
        return self.mean * self.mean

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """1 - exp(-t / mean) for t > 0, else 0; the shape of `t`."""
        return -np.expm1(-_from_zero(t) / self.mean)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.exponential(self.mean, size)


@dataclass(frozen=True)
class Gamma:
    """Gamma delays with shape 1 / cv² and scale mean · cv²; `cv=1` is the exponential law.

    Args:
        mean: Mean delay, in seconds.
        cv: Coefficient of variation, standard deviation over mean.

    Raises:
        ValueError: If an argument is not finite and positive.

    Example:
        >>> law = Gamma(mean=2.0, cv=0.5)
        >>> law.variance
        1.0

    References:
        Ali, Siegel, Maheswaran, Hensgen and Ali 2000, "Task execution time modeling for heterogeneous
        computing systems".
    """

    mean: float
    cv: float

    def __post_init__(self) -> None:
        _set(self, "mean", require_positive, "Give the mean delay in seconds.")
        _set(self, "cv", require_positive, "Use `Constant` for delays without spread.")

    @property
    def variance(self) -> float:
        """(mean · cv)²."""
        return (self.mean * self.cv) * (self.mean * self.cv)

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Regularised lower incomplete gamma function P(shape, t / scale); the shape of `t`."""
        from scipy.special import gammainc

        shape, scale = self._shape_and_scale()
        return gammainc(shape, _from_zero(t) / scale)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.gamma(*self._shape_and_scale(), size)

    def _shape_and_scale(self) -> tuple[float, float]:
        return 1 / self.cv / self.cv, self.mean * self.cv * self.cv


@dataclass(frozen=True)
class LogNormal:
    """Log-normal delays: log(delay) is normal with variance σ² = log(1 + cv²) and mean log(mean) - σ²/2.

    Args:
        mean: Mean delay (of the delay, not of its logarithm), in seconds.
        cv: Coefficient of variation, standard deviation over mean.

    Raises:
        ValueError: If an argument is not finite and positive.

    Example:
        >>> law = LogNormal(mean=2.0, cv=0.5)
        >>> law.variance
        1.0
    """

    mean: float
    cv: float

    def __post_init__(self) -> None:
        _set(self, "mean", require_positive, "Give the mean delay in seconds.")
        _set(self, "cv", require_positive, "Use `Constant` for delays without spread.")

    @property
    def variance(self) -> float:
        """(mean · cv)²."""
        return (self.mean * self.cv) * (self.mean * self.cv)

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Φ((log t - μ) / σ) for t > 0, else 0; the shape of `t`."""
        from scipy.special import ndtr

        location, spread = self._location_and_spread()
        with np.errstate(divide="ignore"):  # log 0 = -inf is meant: Φ(-inf) = 0
            return ndtr((np.log(_from_zero(t)) - location) / spread)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.lognormal(*self._location_and_spread(), size)

    def _location_and_spread(self) -> tuple[float, float]:
        variance = math.log1p(self.cv * self.cv)
        return math.log(self.mean) - variance / 2, math.sqrt(variance)


def _set(law: object, name: str, require: Callable[..., float], remedy: str) -> None:
    """Check an argument of a frozen law and keep it as a float, so that 1 and 1.0 are one law."""
    object.__setattr__(law, name, require(name, getattr(law, name), remedy=remedy))


def _from_zero(t: ArrayLike) -> FloatArray:
    """`t` with negative times moved to 0, where the distribution functions above are 0 too."""
    return np.maximum(np.asarray(t, dtype=np.float64), 0.0)
