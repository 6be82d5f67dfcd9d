"""Laws made of a normal variable: its exponential, and its absolute value on top of a base."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._component import not_negative, positive
from asyncsim.delays._law import Fitted, FloatArray, Law, OfMeanAndCv, from_zero, maximise


@dataclass(frozen=True)
class LogNormal(OfMeanAndCv):
    """Log-normal delays: log(delay) is normal with variance σ² = log(1 + cv²) and mean log(mean) - σ²/2.

    `fit` gives the mean and the standard deviation of the logarithms.

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

    name: ClassVar[str] = "lognormal"
    _durations: ClassVar[dict[str, Any]] = {"law": "a log-normal law"}

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        logs = np.log(measured)

        def build(x: FloatArray) -> Self:
            variance = math.exp(2 * x[1])
            return cls(math.exp(x[0] + variance / 2), math.sqrt(math.expm1(variance)))

        start = np.array([logs.mean(), math.log(logs.std())])
        return maximise(build, start, measured, unended) if len(unended) else build(start)

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Φ((log t - μ) / σ) for t > 0, else 0, with the shape of `t`."""
        from scipy.special import ndtr

        location, spread = self._location_and_spread()
        with np.errstate(divide="ignore"):  # log 0 = -inf is intended: Φ(-inf) = 0
            return ndtr((np.log(from_zero(t)) - location) / spread)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """-((log t - μ) / σ)² / 2 - log(σ t √(2π)) for t > 0, else minus infinity, with the shape of `t`."""
        location, spread = self._location_and_spread()
        t = np.asarray(t, dtype=np.float64)
        logs = np.log(np.where(t > 0, t, 1.0))
        values = -0.5 * ((logs - location) / spread) ** 2 - logs - math.log(spread * math.sqrt(2 * math.pi))
        return np.where(t > 0, values, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """exp(μ + σ Φ⁻¹(p)), for `p` in [0, 1), with the shape of `p`."""
        from scipy.special import ndtri

        location, spread = self._location_and_spread()
        return np.exp(location + spread * ndtri(p))

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.lognormal(*self._location_and_spread(), size)

    def _location_and_spread(self) -> tuple[float, float]:
        variance = math.log1p(self.cv * self.cv)
        return math.log(self.mean) - variance / 2, math.sqrt(variance)


@dataclass(frozen=True)
class HalfNormal(Law, Fitted):
    """base + |z| with z normal of mean 0 and standard deviation `spread`.

    The mean is base + spread √(2/π), the variance spread² (1 - 2/π).

    `fit` gives the shortest duration, and the root mean square of the excess over it.

    Args:
        base: The shortest delay, in seconds.
        spread: Standard deviation of the normal variable z, in seconds.

    Raises:
        ValueError: If `base` is negative, `spread` is not positive, or one of them is not finite.

    Example:
        >>> law = HalfNormal(base=1.0, spread=0.5)
        >>> round(law.mean, 4), round(law.variance, 4)
        (1.3989, 0.0908)
    """

    base: Annotated[float, not_negative("Give the shortest delay in seconds.")]
    spread: Annotated[float, positive("Use `Constant` for delays without spread.")]
    _durations: ClassVar[dict[str, Any]] = {"law": "a half-normal law", "positive": False}
    in_seconds: ClassVar[tuple[str, ...]] = ("base", "spread")

    @classmethod
    def like(cls, mean: float, variance: float) -> dict[str, float]:
        """Mean and spread, which is reduced where delays would be negative."""
        above = min(math.sqrt(variance / (math.pi / 2 - 1)), mean)  # mean of the law above its base
        return {"base": mean - above, "spread": above * math.sqrt(math.pi / 2)} if variance else {}

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        base = float(measured.min())
        spread = math.sqrt(float(((measured - base) ** 2).mean()))
        if not len(unended):
            return cls(base, spread)
        return maximise(lambda x: cls(base, math.exp(x[0])), [math.log(spread)], measured, unended)

    @property
    def mean(self) -> float:
        """base + spread √(2/π)."""
        return self.base + self.spread * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> float:
        """spread² (1 - 2/π)."""
        return self.spread * self.spread * (1 - 2 / math.pi)

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """erf((t - base) / (spread √2)) for t > base, else 0, with the shape of `t`."""
        from scipy.special import erf

        return erf(from_zero(np.asarray(t) - self.base) / (self.spread * math.sqrt(2)))

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """log(√(2/π) / spread) - ((t - base) / spread)² / 2 for t >= base, else -infinity, with the shape of `t`."""
        above = (np.asarray(t, dtype=np.float64) - self.base) / self.spread
        return np.where(above >= 0, math.log(math.sqrt(2 / math.pi) / self.spread) - above * above / 2, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """base - spread Φ⁻¹((1 - p) / 2), for `p` in [0, 1), with the shape of `p`."""
        from scipy.special import ndtri

        # Of the two equal forms, Φ⁻¹((1 + p) / 2) would round to infinity for the largest p below 1.
        return self.base - self.spread * ndtri((1 - np.asarray(p, dtype=np.float64)) / 2)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self.base + self.spread * np.abs(generator.standard_normal(size))
