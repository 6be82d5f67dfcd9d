"""Laws whose tails are not exponential: from the half-normal and log-normal laws to Weibull's and Pareto's."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief, require_not_negative, require_positive
from asyncsim.components._checked import checked
from asyncsim.delays._law import Fitted, FloatArray, Law, OfMean, OfMeanAndCv, from_zero, maximise

# A Weibull law of shape 0.1 has a cv of 430. With a smaller shape, no sample that fits in memory shows its mean.
_LEAST_WEIBULL_SHAPE = 0.1
APERY = 1.2020569031595942  # ζ(3)


@dataclass(frozen=True)
class LogNormal(OfMeanAndCv):
    """Log-normal delays: log(delay) is normal with variance σ² = log(1 + cv²) and mean log(mean) - σ²/2.

    `fit` gives the mean and the standard deviation of the logarithms.

    Args:
        mean: Mean delay (of the delay, not of its logarithm), in seconds, positive.
        cv: Coefficient of variation, standard deviation over mean, positive.

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
        """Return Φ((log t - μ) / σ) for t > 0, else 0, with the shape of `t`."""
        from scipy.special import ndtr

        location, spread = self._location_and_spread()
        with np.errstate(divide="ignore"):  # log 0 = -inf is intended: Φ(-inf) = 0
            return ndtr((np.log(from_zero(t)) - location) / spread)

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return log Φ((μ - log t) / σ) for t > 0, else 0, with the shape of `t`."""
        from scipy.special import log_ndtr

        location, spread = self._location_and_spread()
        with np.errstate(divide="ignore"):
            return log_ndtr((location - np.log(from_zero(t))) / spread)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return -((log t - μ) / σ)² / 2 - log(σ t √(2π)) for t > 0, else minus infinity, with the shape of `t`."""
        location, spread = self._location_and_spread()
        t = np.asarray(t, dtype=np.float64)
        logs = np.log(np.where(t > 0, t, 1.0))
        values = -0.5 * ((logs - location) / spread) ** 2 - logs - math.log(spread * math.sqrt(2 * math.pi))
        return np.where(t > 0, values, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return exp(μ + σ Φ⁻¹(p)), for `p` in [0, 1), with the shape of `p`."""
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
        base: The shortest delay, in seconds, at least 0.
        spread: Standard deviation of the normal variable z, in seconds, positive.

    Example:
        >>> law = HalfNormal(base=1.0, spread=0.5)
        >>> round(law.mean, 4), round(law.variance, 4)
        (1.3989, 0.0908)
    """

    base: Annotated[float, require_not_negative, "Give the shortest delay in seconds."]
    spread: Annotated[float, require_positive, "Use `Constant` for delays without spread."]
    _durations: ClassVar[dict[str, Any]] = {"law": "a half-normal law", "positive": False}
    in_seconds: ClassVar[tuple[str, ...]] = ("base", "spread")

    @classmethod
    def like(cls, mean: float, variance: float) -> dict[str, float]:
        """Return arguments of this mean and variance, with less spread where delays would be negative."""
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
        """Return erf((t - base) / (spread √2)) for t > base, else 0, with the shape of `t`."""
        from scipy.special import erf

        return erf(from_zero(np.asarray(t) - self.base) / (self.spread * math.sqrt(2)))

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return log(2 Φ((base - t) / spread)) for t > base, else 0, with the shape of `t`."""
        from scipy.special import log_ndtr

        return math.log(2) + log_ndtr(-from_zero(np.asarray(t) - self.base) / self.spread)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return log(√(2/π) / spread) - ((t - base) / spread)² / 2 for t >= base, else -∞, with the shape of `t`."""
        above = (np.asarray(t, dtype=np.float64) - self.base) / self.spread
        return np.where(above >= 0, math.log(math.sqrt(2 / math.pi) / self.spread) - above * above / 2, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return base - spread Φ⁻¹((1 - p) / 2), for `p` in [0, 1), with the shape of `p`."""
        from scipy.special import ndtri

        # Of the two equal forms, Φ⁻¹((1 + p) / 2) would round to infinity for the largest p below 1.
        return self.base - self.spread * ndtri((1 - np.asarray(p, dtype=np.float64)) / 2)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self.base + self.spread * np.abs(generator.standard_normal(size))


@dataclass(frozen=True)
class Weibull(OfMean):
    """P(delay > t) = exp(-(t / scale)^shape), with scale = mean / Γ(1 + 1/shape).

    A shape of 1 is the exponential law. With a smaller one, a job that has run for long will run for longer still.

    `fit` solves Σ t^k log t / Σ t^k - 1/k = mean of log(duration), with sums over the censored times too.

    Args:
        mean: Mean delay, in seconds, positive.
        shape: Exponent of the tail, at least 0.1.

    Example:
        >>> law = Weibull(mean=2.0, shape=1.0)
        >>> round(law.variance, 9)
        4.0
    """

    shape: Annotated[float, require_positive, "1 is the exponential law."]
    _durations: ClassVar[dict[str, Any]] = {"law": "a Weibull law"}

    def check(self) -> None:
        """Refuse a shape with which almost all delays are 0."""
        if self.shape < _LEAST_WEIBULL_SHAPE:
            raise ValueError(
                f"`shape` must be at least {_LEAST_WEIBULL_SHAPE}; got {brief(self.shape)}. Almost all delays would "
                "be 0: use `Pareto` for a heavy tail."
            )

    @classmethod
    @checked
    def from_cv(cls, mean: float, cv: float) -> "Weibull":
        """Return the law with this mean and coefficient of variation, at most 430. A cv of 1 is the exponential law.

        Example:
            >>> round(Weibull.from_cv(mean=1.0, cv=1.0).shape, 9)
            1.0
        """
        from scipy.optimize import brentq

        law = OfMeanAndCv(mean, cv)  # checks both
        most = 1 / _LEAST_WEIBULL_SHAPE
        ratio = math.log1p(law.cv * law.cv)
        if ratio > _log_moment_ratio(most):
            raise ValueError(f"`cv` must be at most 430; got {law.cv!r}. Use `Pareto` for a heavy tail.")
        if law.cv < SERIES:  # the root is nearly cv √6 / π
            root: Any = brentq(lambda x: _log_moment_ratio(x) - ratio, law.cv / 2, law.cv, xtol=1e-15 * law.cv)
        else:
            root = brentq(lambda x: _log_moment_ratio(x) - ratio, 0.0, most)
        return cls(law.mean, 1 / root)

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        from scipy.optimize import brentq

        unended = unended[unended > 0]
        longest = max(measured.max(), unended.max(initial=0.0))
        logs = np.log(np.concatenate([measured, unended]) / longest)
        mean_log = float(logs[: len(measured)].mean())

        def slope(log_shape: float) -> float:  # 0 where the likelihood is highest, with the best scale for each shape
            shape = math.exp(log_shape)
            weights = np.exp(shape * logs)
            return float((weights * logs).sum() / weights.sum()) - 1 / shape - mean_log

        root: Any = brentq(slope, math.log(_LEAST_WEIBULL_SHAPE) - 3, 25.0, xtol=1e-13)
        shape = math.exp(root)
        scale = longest * float(np.exp(shape * logs).sum() / len(measured)) ** (1 / shape)
        return cls(scale * math.gamma(1 + 1 / shape), shape)

    @property
    def scale(self) -> float:
        """mean / Γ(1 + 1/shape), which a share 1/e of all delays exceeds."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    @property
    def variance(self) -> float:
        """mean² (Γ(1 + 2/shape) / Γ(1 + 1/shape)² - 1)."""
        relative = max(math.expm1(_log_moment_ratio(1 / self.shape)), 0.0)
        return self.mean * self.mean * relative if relative else 0.0  # where the mean's square may be infinite

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return 1 - exp(-(t / scale)^shape) for t > 0, else 0, with the shape of `t`."""
        with np.errstate(over="ignore"):  # far beyond the scale the probability is 1
            return -np.expm1(-((from_zero(t) / self.scale) ** self.shape))

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return -(t / scale)^shape for t > 0, else 0, with the shape of `t`."""
        with np.errstate(over="ignore"):
            return -((from_zero(t) / self.scale) ** self.shape)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return log(shape / scale) + (shape - 1) log(t / scale) - (t / scale)^shape for t >= 0, else -infinity."""
        from scipy.special import xlogy

        t = np.asarray(t, dtype=np.float64)
        part = np.maximum(t, 0.0) / self.scale
        values = math.log(self.shape / self.scale) + xlogy(self.shape - 1, part) - part**self.shape
        return np.where(t >= 0, values, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return scale · (-log(1 - p))^(1/shape), for `p` in [0, 1), with the shape of `p`."""
        return self.scale * (-np.log1p(-np.asarray(p, dtype=np.float64))) ** (1 / self.shape)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self.scale * generator.weibull(self.shape, size)


@dataclass(frozen=True)
class Pareto(Law, Fitted):
    """P(delay > t) = (minimum / t)^shape for t above the minimum: the heaviest tail here.

    The mean is minimum · shape / (shape - 1). The variance is infinite if shape <= 2, and the mean over a simulation
    then converges more slowly than with the square root of its length.

    `fit` gives the shortest duration, and shape = number / Σ log(time / minimum), with the censored times too.

    Args:
        minimum: The shortest delay, in seconds, positive.
        shape: Exponent of the tail, above 1, where the mean is finite.

    Example:
        >>> Pareto(minimum=1.0, shape=3.0).mean, Pareto(minimum=1.0, shape=2.0).variance
        (1.5, inf)
    """

    minimum: Annotated[float, require_positive, "Give the shortest delay in seconds."]
    shape: Annotated[float, require_positive, "Use 2.5 for a finite variance."]
    in_seconds: ClassVar[tuple[str, ...]] = ("minimum",)
    _durations: ClassVar[dict[str, Any]] = {"law": "a Pareto law"}

    def check(self) -> None:
        """Refuse a shape with which the mean is infinite."""
        if self.shape <= 1:
            remedy = "Use 1.5 for a tail of infinite variance."
            raise ValueError(
                f"`shape` must be above 1, or the mean would be infinite; got {brief(self.shape)}. {remedy}"
            )

    @classmethod
    @checked
    def from_cv(cls, mean: float, cv: float) -> "Pareto":
        """Return the law with this mean and this coefficient of variation, and so with a shape above 2.

        Example:
            >>> law = Pareto.from_cv(mean=3.0, cv=3 ** -0.5)
            >>> round(law.minimum, 9), round(law.shape, 9)
            (2.0, 3.0)
        """
        law = OfMeanAndCv(mean, cv)  # checks both
        shape = 1 + math.hypot(1.0, 1 / law.cv)
        return cls(law.mean * (1 - 1 / shape), shape)

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        minimum = float(measured.min())
        times = np.maximum(np.concatenate([measured, unended]), minimum)
        return cls(minimum, len(measured) / float(np.log(times / minimum).sum()))

    @property
    def mean(self) -> float:
        """minimum · shape / (shape - 1)."""
        return self.minimum * (self.shape / (self.shape - 1))

    @property
    def variance(self) -> float:
        """minimum² shape / ((shape - 1)² (shape - 2)), infinite if shape <= 2."""
        if self.shape <= 2:
            return math.inf
        excess = self.minimum / (self.shape - 1)
        return excess * excess * (self.shape / (self.shape - 2))

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return 1 - (minimum / t)^shape for t > minimum, else 0, with the shape of `t`."""
        later = np.maximum(np.asarray(t, dtype=np.float64), self.minimum)
        return 1 - (self.minimum / later) ** self.shape

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return -shape · log(t / minimum) for t > minimum, else 0, with the shape of `t`."""
        return -self.shape * np.log(np.maximum(np.asarray(t, dtype=np.float64) / self.minimum, 1.0))

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return log(shape / minimum) - (shape + 1) log(t / minimum) for t >= minimum, else minus infinity."""
        ratio = np.asarray(t, dtype=np.float64) / self.minimum
        values = math.log(self.shape / self.minimum) - (self.shape + 1) * np.log(np.maximum(ratio, 1.0))
        return np.where(ratio >= 1, values, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return minimum · (1 - p)^(-1/shape), for `p` in [0, 1), with the shape of `p`."""
        return self.minimum * (1 - np.asarray(p, dtype=np.float64)) ** (-1 / self.shape)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self.minimum * (1 + generator.pareto(self.shape, size))


SERIES = 1e-4  # below which the difference of logarithms is rounding, and three terms of its series have 12 digits


def _log_moment_ratio(x: float) -> float:
    """Return the logarithm of E[t²] / E[t]² of the Weibull law with shape 1 / x."""
    if x < SERIES:  # Σ_k (-x)^k ζ(k) (2^k - 2) / k
        return x * x * (math.pi**2 / 6 - 2 * APERY * x + 7 / 2 * math.pi**4 / 90 * x * x)
    return math.lgamma(1 + 2 * x) - 2 * math.lgamma(1 + x)
