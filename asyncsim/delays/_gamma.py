"""Exponential and gamma laws: memoryless, memoryless on top of a shortest delay, and sums of stages."""

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import require_count, require_not_negative, require_positive
from asyncsim.delays._law import (
    Fitted,
    FloatArray,
    Law,
    OfMean,
    OfMeanAndCv,
    Scaled,
    from_zero,
    gamma_shape,
    log_likelihood,
    maximise,
)


@dataclass(frozen=True)
class Exponential(OfMean):
    """Memoryless delays: P(delay <= t) = 1 - exp(-t / mean), variance mean².

    Equal exponential workers give a geometric staleness, P(τ = k) = (1/n)(1 - 1/n)^k.

    `fit` gives the sum of all times, censored ones too, over the number of durations.

    Args:
        mean: Mean delay, in seconds, positive.

    Example:
        >>> Exponential(mean=2.0).variance
        4.0

    References:
        Mitliagkas, Zhang, Hadjis and Ré 2016, "Asynchrony begets momentum" (the staleness).
    """

    _durations: ClassVar[dict[str, Any]] = {"law": "an exponential law", "positive": False, "spread": False}

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        return cls(float(measured.sum() + unended.sum()) / len(measured))

    @property
    def variance(self) -> float:
        """The mean squared."""
        return self.mean * self.mean

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return 1 - exp(-t / mean) for t > 0, else 0, with the shape of `t`."""
        return -np.expm1(-from_zero(t) / self.mean)

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return -t / mean for t > 0, else 0, with the shape of `t`."""
        return -from_zero(t) / self.mean

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return -log(mean) - t / mean for t >= 0, else minus infinity, with the shape of `t`."""
        t = np.asarray(t, dtype=np.float64)
        return np.where(t >= 0, -np.log(self.mean) - t / self.mean, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return -mean · log(1 - p), for `p` in [0, 1), with the shape of `p`."""
        return -self.mean * np.log1p(-np.asarray(p, dtype=np.float64))

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.exponential(self.mean, size)

    def sum_of(self, count: int) -> "Erlang":
        """Return the law of a sum of delays: Erlang, with `count` stages."""
        return Erlang(count * self.mean, count)


@dataclass(frozen=True)
class ShiftedExponential(Law, Fitted):
    """An exponential part on top of a fixed one: mean shift + tail, variance tail².

    `fit` gives the shortest duration, and the mean excess over it.

    Args:
        shift: The shortest delay, in seconds, at least 0, which gives the exponential law.
        tail: Mean of the exponential part, in seconds, positive.

    Example:
        >>> law = ShiftedExponential(shift=1.0, tail=0.5)
        >>> law.mean, law.variance
        (1.5, 0.25)

    References:
        Lee, Lam, Pedarsani, Papailiopoulos and Ramchandran 2018, "Speeding up distributed machine learning
        using codes" (as a model of workers).
    """

    shift: Annotated[float, require_not_negative, "Give the shortest delay in seconds."]
    tail: Annotated[float, require_positive, "Use `Constant` for delays without spread."]
    in_seconds: ClassVar[tuple[str, ...]] = ("shift", "tail")
    _durations: ClassVar[dict[str, Any]] = {"law": "a shifted exponential law", "positive": False}

    @classmethod
    def like(cls, mean: float, variance: float) -> dict[str, float]:
        """Return arguments of this mean and variance, with less spread where delays would be negative."""
        tail = min(math.sqrt(variance), mean)
        return {"shift": mean - tail, "tail": tail} if variance else {}

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        shift = float(measured.min())
        return cls(shift, float((measured - shift).sum() + from_zero(unended - shift).sum()) / len(measured))

    @property
    def mean(self) -> float:
        """Mean of the whole delay, shift + tail."""
        return self.shift + self.tail

    @property
    def variance(self) -> float:
        """The tail squared."""
        return self.tail * self.tail

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return 1 - exp(-(t - shift) / tail) for t > shift, else 0, with the shape of `t`."""
        return -np.expm1(-from_zero(np.asarray(t) - self.shift) / self.tail)

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return -(t - shift) / tail for t > shift, else 0, with the shape of `t`."""
        return -from_zero(np.asarray(t) - self.shift) / self.tail

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return -log(tail) - (t - shift) / tail for t >= shift, else minus infinity, with the shape of `t`."""
        return Exponential(self.tail).log_density(np.asarray(t, dtype=np.float64) - self.shift)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return shift - tail · log(1 - p), for `p` in [0, 1), with the shape of `p`."""
        return self.shift - self.tail * np.log1p(-np.asarray(p, dtype=np.float64))

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self.shift + generator.exponential(self.tail, size)

    def sum_of(self, count: int) -> Scaled:
        """Return the law of a sum of delays: a shifted Erlang law."""
        return Scaled(Erlang(count * self.tail, count), 1.0, count * self.shift)


FAR = 1e-100  # probability of longer delays, below which few terms of the continued fraction have all digits
TERMS = 20  # of the fraction, whose logarithm then differs from the exact one by rounding only
RAREST = 1e-6  # probability of a delay above 0: below it, a simulated cluster would stand still in time


def _log_far_tail(shape: float, ratio: FloatArray) -> FloatArray:
    """Compute log Q(shape, ratio) where Q is small (Abramowitz and Stegun 1964, 6.5.31, in its even part)."""
    from scipy.special import gammaln

    fraction = ratio + 2 * TERMS + 1 - shape
    for term in range(TERMS, 0, -1):
        fraction = ratio + 2 * term - 1 - shape - term * (term - shape) / fraction
    return shape * np.log(ratio) - ratio - gammaln(shape) - np.log(fraction)


class _GammaFamily(ABC):
    """A law that is given by its shape and its scale."""

    @abstractmethod
    def _shape_and_scale(self) -> tuple[float, float]: ...

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return the regularised lower incomplete gamma function P(shape, t / scale), with the shape of `t`."""
        from scipy.special import gammainc

        shape, scale = self._shape_and_scale()
        with np.errstate(over="ignore"):  # to infinity, where the function is 1
            return gammainc(shape, from_zero(t) / scale)

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return the logarithm of 1 - P(shape, t / scale), with the shape of `t`, at any distance."""
        from scipy.special import gammaincc

        shape, scale = self._shape_and_scale()
        with np.errstate(over="ignore", divide="ignore"):
            ratio = from_zero(t) / scale
            share = gammaincc(shape, ratio)
            logs, far = np.log(share), (share < FAR) & (ratio < np.inf)
        return np.where(far, _log_far_tail(shape, np.where(far, ratio, shape + 1)), logs) if far.any() else logs

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return (shape - 1) log t - t / scale - shape · log(scale) - log Γ(shape) for t >= 0, else minus infinity."""
        from scipy.special import gammaln, xlogy

        shape, scale = self._shape_and_scale()
        t = np.asarray(t, dtype=np.float64)
        later = np.maximum(t, 0.0)
        values = xlogy(shape - 1, later / scale) - later / scale - gammaln(shape) - math.log(scale)
        return np.where(t >= 0, values, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return the inverse of `cdf`, for `p` in [0, 1), with the shape of `p`."""
        from scipy.special import gammaincinv

        shape, scale = self._shape_and_scale()
        return scale * gammaincinv(shape, p)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.gamma(*self._shape_and_scale(), size)


@dataclass(frozen=True)
class Gamma(OfMeanAndCv, _GammaFamily):
    """Gamma delays with shape 1 / cv² and scale mean · cv². `cv=1` is the exponential law.

    `fit` solves log k - ψ(k) = log(mean) - mean of log(duration) for k = 1 / cv².

    Args:
        mean: Mean delay, in seconds, positive.
        cv: Coefficient of variation, standard deviation over mean, positive. It is refused if all delays would
            underflow to 0, but 10 000 is not too large.

    Example:
        >>> law = Gamma(mean=2.0, cv=0.5)
        >>> law.variance
        1.0

    References:
        Ali, Siegel, Maheswaran, Hensgen and Ali 2000, "Task execution time modeling for heterogeneous
        computing systems".
    """

    _durations: ClassVar[dict[str, Any]] = {"law": "a gamma law"}

    def check(self) -> None:
        """Refuse a cv with which all delays underflow."""
        # P(delay > the smallest normal float) ≈ shape·log(scale / float), for a small shape
        logs = math.log(self.mean) + 2 * math.log(self.cv) - math.log(sys.float_info.min)
        if self.cv > 1 and logs / self.cv / self.cv < RAREST:
            raise ValueError(
                f"`cv` must leave delays that are not all 0 as floating-point numbers; got {self.cv!r}, with "
                "which not one draw in a million is above 0. Give at most 10 000."
            )
        super().check()

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        mean = float(measured.mean())
        law = cls(mean, gamma_shape(math.log(mean) - float(np.log(measured).mean())) ** -0.5)
        if not len(unended):
            return law
        start = np.log([law.mean, law.cv])
        return maximise(lambda x: cls(math.exp(x[0]), math.exp(x[1])), start, measured, unended)

    def _shape_and_scale(self) -> tuple[float, float]:
        return 1 / self.cv / self.cv, self.mean * self.cv * self.cv

    def sum_of(self, count: int) -> "Gamma":
        """Return the law of a sum of delays: gamma, with cv / √count."""
        return Gamma(count * self.mean, self.cv / math.sqrt(count))


@dataclass(frozen=True)
class Erlang(OfMean, _GammaFamily, named=False):
    """A job of `shape` equal exponential stages, one after another: variance mean² / shape.

    It is the gamma law with cv = 1/√shape. One stage is the exponential law.

    `fit` compares the two whole numbers of stages next to the best gamma law.

    Args:
        mean: Mean of the whole delay, in seconds, positive.
        shape: Number of stages, an integer of at least 1.

    Example:
        >>> law = Erlang(mean=2.0, shape=4)
        >>> law.variance
        1.0
    """

    shape: Annotated[int, require_count, "Use `Gamma` for a shape between integers."]
    _durations: ClassVar[dict[str, Any]] = {"law": "an Erlang law"}

    def check(self) -> None:
        """Refuse stages whose mean underflows."""
        if self.shape > 1 and self.mean / self.shape < sys.float_info.min:
            raise ValueError(
                f"`shape` must leave stages whose mean is a floating-point number; got {self.shape!r} with a mean of "
                f"{self.mean!r}. Use `Constant` for delays without spread."
            )

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        best = Gamma.fit(measured, unended)
        least = max(1, math.floor(best.cv**-2))

        def law(shape: int) -> Self:
            if not len(unended):
                return cls(best.mean, shape)
            return maximise(lambda x: cls(math.exp(x[0]), shape), [math.log(best.mean)], measured, unended)

        return max(map(law, (least, least + 1)), key=lambda law: log_likelihood(law, measured, unended))

    @property
    def variance(self) -> float:
        """mean² / shape."""
        return self.mean * self.mean / self.shape

    def _shape_and_scale(self) -> tuple[float, float]:
        return float(self.shape), self.mean / self.shape

    def sum_of(self, count: int) -> "Erlang":
        """Return the law of a sum of delays: Erlang, with `count` times the stages."""
        return Erlang(count * self.mean, count * self.shape)
