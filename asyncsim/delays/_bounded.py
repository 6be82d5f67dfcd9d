"""Laws between two bounds: constant and uniform."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief, require_not_negative
from asyncsim.delays._law import EQUAL, Fitted, FloatArray, Law, maximise


@dataclass(frozen=True)
class Constant(Law, Fitted):
    """Every delay is `value`: with it, equal workers commit in an exact round robin.

    `fit` needs equal durations.

    Args:
        value: The delay, in seconds, at least 0.

    Example:
        >>> law = Constant(2.0)
        >>> law.mean, law.variance
        (2.0, 0.0)
    """

    value: Annotated[float, require_not_negative, "Give the delay in seconds."]
    in_seconds: ClassVar[tuple[str, ...]] = ("value",)
    _durations: ClassVar[dict[str, Any]] = {"law": "a constant law", "positive": False, "spread": False}

    @classmethod
    def like(cls, mean: float, variance: float) -> dict[str, float]:
        """Return the mean."""
        del variance  # A constant has none.
        return {"value": mean}

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        low, high = float(measured.min()), float(np.concatenate([measured, unended]).max())
        if high - low > EQUAL * high:
            remedy = "Fit another law, such as `Gamma`."
            raise ValueError(f"`durations` must be equal for a constant law; got {low:g} and {high:g}. {remedy}")
        return cls(float(measured.mean()) if low < high else low)

    @property
    def mean(self) -> float:
        """The value itself."""
        return self.value

    @property
    def variance(self) -> float:
        """Zero."""
        return 0.0

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return 1 where t >= value, else 0, with the shape of `t`."""
        return np.where(np.asarray(t) >= self.value, 1.0, 0.0)

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return 0 where t < value, else minus infinity, with the shape of `t`."""
        return np.where(np.asarray(t) >= self.value, -np.inf, 0.0)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return the value, for any `p` in [0, 1), with the shape of `p`."""
        return np.full(np.shape(p), self.value, dtype=np.float64)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` delays, shape (size,). The generator does not change."""
        del generator  # Unused.
        return np.full(size, self.value, dtype=np.float64)

    def sum_of(self, count: int) -> "Constant":
        """Return the law of a sum of delays: a constant as well."""
        return Constant(count * self.value)


@dataclass(frozen=True)
class Uniform(Law, Fitted):
    """Delays spread evenly over [low, high]: mean (low + high) / 2, variance (high - low)² / 12.

    `fit` gives the shortest and the longest duration, or a longer one if a censored one is longer.

    Args:
        low: The shortest delay, in seconds, at least 0.
        high: The longest delay, in seconds, at least `low`. If it equals `low`, the law is constant.

    Example:
        >>> law = Uniform(0.5, 1.5)
        >>> law.mean, float(law.cdf(0.75))
        (1.0, 0.25)
    """

    low: Annotated[float, require_not_negative, "Give the shortest delay in seconds."]
    high: Annotated[float, require_not_negative, "Give the longest delay in seconds."]
    in_seconds: ClassVar[tuple[str, ...]] = ("low", "high")
    _durations: ClassVar[dict[str, Any]] = {"law": "a uniform law", "positive": False}

    def check(self) -> None:
        """Refuse bounds in the wrong order."""
        if self.low > self.high:
            raise ValueError(f"`low` must not exceed `high`; got {brief(self.low)} > {self.high!r}. Swap the two.")

    @classmethod
    def like(cls, mean: float, variance: float) -> dict[str, float]:
        """Return arguments of this mean and variance, with less spread where delays would be negative."""
        half = min(math.sqrt(3 * variance), mean)
        return {"low": mean - half, "high": mean + half}

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        low, high = float(measured.min()), float(measured.max())
        if not (unended > low).any():
            return cls(low, high)
        least = max(high, float(unended.max()))
        # The likelihood (high - low)^-n Π (high - c) falls at the latest where high - low exceeds n times the rest.
        width = least - low
        return maximise(
            lambda x: cls(low, least + width * math.exp(x[0])), [-math.log(len(measured))], measured, unended
        )

    @property
    def mean(self) -> float:
        """(low + high) / 2."""
        return self.low + (self.high - self.low) / 2

    @property
    def variance(self) -> float:
        """(high - low)² / 12."""
        return (self.high - self.low) * (self.high - self.low) / 12

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return (t - low) / (high - low), cut to [0, 1], with the shape of `t`."""
        if self.low == self.high:
            return Constant(self.low).cdf(t)
        return np.clip((np.asarray(t, dtype=np.float64) - self.low) / (self.high - self.low), 0.0, 1.0)

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return log((high - t) / (high - low)) from `low` on, minus infinity from `high` on, else 0."""
        if self.low == self.high:
            return Constant(self.low).log_survival(t)
        with np.errstate(divide="ignore"):
            survival = (self.high - np.asarray(t, dtype=np.float64)) / (self.high - self.low)
            return np.log(np.clip(survival, 0.0, 1.0))

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return -log(high - low) from `low` to `high`, elsewhere minus infinity, with the shape of `t`."""
        t = np.asarray(t, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.where((t >= self.low) & (t <= self.high), -np.log(self.high - self.low), -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return low + (high - low) p, for `p` in [0, 1), with the shape of `p`."""
        return self.low + (self.high - self.low) * np.asarray(p, dtype=np.float64)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.uniform(self.low, self.high, size)
