"""Gamma laws: by their coefficient of variation, or as Erlang's sum of equal exponential stages."""

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import require_integer
from asyncsim.delays import _fitting as fitting
from asyncsim.delays._law import FloatArray, OfMean, OfMeanAndCv, from_zero

RAREST = 1e-6  # probability of a delay above 0: below it, a simulated cluster would stand still in time


class _GammaFamily(ABC):
    """What follows from the shape and the scale."""

    @abstractmethod
    def _shape_and_scale(self) -> tuple[float, float]: ...

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Regularised lower incomplete gamma function P(shape, t / scale); the shape of `t`."""
        from scipy.special import gammainc

        shape, scale = self._shape_and_scale()
        return gammainc(shape, from_zero(t) / scale)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """(shape - 1) log t - t / scale - shape · log(scale) - log Γ(shape) for t >= 0, else minus infinity."""
        from scipy.special import gammaln, xlogy

        shape, scale = self._shape_and_scale()
        t = np.asarray(t, dtype=np.float64)
        later = np.maximum(t, 0.0)
        values = xlogy(shape - 1, later / scale) - later / scale - gammaln(shape) - math.log(scale)
        return np.where(t >= 0, values, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Inverse of `cdf`, for `p` in [0, 1); the shape of `p`."""
        from scipy.special import gammaincinv

        shape, scale = self._shape_and_scale()
        return scale * gammaincinv(shape, p)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.gamma(*self._shape_and_scale(), size)


@dataclass(frozen=True)
class Gamma(OfMeanAndCv, _GammaFamily):
    """Gamma delays with shape 1 / cv² and scale mean · cv²; `cv=1` is the exponential law.

    Args:
        mean: Mean delay, in seconds.
        cv: Coefficient of variation, standard deviation over mean.

    Raises:
        ValueError: If an argument is not finite and positive, or cv is so large that all delays underflow to 0.

    Example:
        >>> law = Gamma(mean=2.0, cv=0.5)
        >>> law.variance
        1.0

    References:
        Ali, Siegel, Maheswaran, Hensgen and Ali 2000, "Task execution time modeling for heterogeneous
        computing systems".
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cv > 1 and self._above_zero() < RAREST:
            raise ValueError(
                f"`cv` must leave delays that are not all 0 as floating-point numbers; got {self.cv!r}, with which not "
                "one draw in a million is above 0. Give at most 10 000."
            )

    @classmethod
    def fit(cls, durations: ArrayLike, censored: ArrayLike = ()) -> "Gamma":
        """Maximum likelihood: log k - ψ(k) = log(mean) - mean of log(duration), with k = 1 / cv².

        Args:
            durations: (jobs,) measured, in seconds.
            censored: (others,) how long jobs had lasted that had not ended yet, in seconds.

        Raises:
            ValueError: If there are fewer than two, all are equal, or one is not positive and finite.

        Example:
            >>> law = Gamma.fit([1.0, 2.0, 3.0])
            >>> law.mean, round(law.cv, 3)
            (2.0, 0.431)
        """
        measured, unended = fitting.observed(durations, censored, law="a gamma law", positive=True)
        mean = float(measured.mean())
        law = cls(mean, fitting.gamma_shape(math.log(mean) - float(np.log(measured).mean())) ** -0.5)
        if not len(unended):
            return law
        start = np.log([law.mean, law.cv])
        return fitting.maximise(lambda x: cls(math.exp(x[0]), math.exp(x[1])), start, measured, unended)

    def _above_zero(self) -> float:
        """Probability of a delay above the smallest normal float, P ≈ shape·log(scale / float) for a small shape."""
        return (math.log(self.mean) + 2 * math.log(self.cv) - math.log(sys.float_info.min)) / self.cv / self.cv

    def _shape_and_scale(self) -> tuple[float, float]:
        return 1 / self.cv / self.cv, self.mean * self.cv * self.cv


@dataclass(frozen=True)
class Erlang(OfMean, _GammaFamily, abstract=True):
    """A job of `shape` equal exponential stages, one after another: variance mean² / shape.

    It is the gamma law with cv = 1/√shape; one stage is the exponential law.

    Args:
        mean: Mean of the whole delay, in seconds.
        shape: Number of stages, an integer of at least 1.

    Raises:
        ValueError: If `mean` is not finite and positive, or `shape` is not an integer of at least 1.

    Example:
        >>> law = Erlang(mean=2.0, shape=4)
        >>> law.variance
        1.0
    """

    shape: int

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = require_integer("shape", self.shape, least=1, remedy="Use `Gamma` for a shape between integers.")
        object.__setattr__(self, "shape", shape)

    @classmethod
    def fit(cls, durations: ArrayLike, censored: ArrayLike = ()) -> "Erlang":
        """Maximum likelihood among whole numbers of stages.

        Args:
            durations: (jobs,) measured, in seconds.
            censored: (others,) how long jobs had lasted that had not ended yet, in seconds.

        Raises:
            ValueError: If there are fewer than two, all are equal, or one is not positive and finite.

        Example:
            >>> Erlang.fit([1.0, 2.0, 3.0])
            Erlang(mean=2.0, shape=5)
        """
        measured, unended = fitting.observed(durations, censored, law="an Erlang law", positive=True)
        best = Gamma.fit(measured, unended)
        least = max(1, math.floor(best.cv**-2))
        laws = [cls(best.mean, shape) for shape in (least, least + 1)]
        if len(unended):
            laws = [_with_mean(cls, law, measured, unended) for law in laws]
        return max(laws, key=lambda law: fitting.log_likelihood(law, measured, unended))

    @property
    def variance(self) -> float:
        """mean² / shape."""
        return self.mean * self.mean / self.shape

    def _shape_and_scale(self) -> tuple[float, float]:
        return float(self.shape), self.mean / self.shape


def _with_mean(cls: type[Erlang], law: Erlang, durations: FloatArray, censored: FloatArray) -> Erlang:
    """The law with as many stages, and the mean of highest likelihood."""
    start = [math.log(law.mean)]
    return fitting.maximise(lambda x: cls(math.exp(x[0]), law.shape), start, durations, censored)
