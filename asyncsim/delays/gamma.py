"""Gamma laws: by their coefficient of variation, or as Erlang's sum of equal exponential stages."""

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.checks import require_integer
from asyncsim.delays.law import FloatArray, OfMean, OfMeanAndCv, from_zero

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

    def _above_zero(self) -> float:
        """Probability of a delay above the smallest normal float, P ≈ shape·log(scale / float) for a small shape."""
        return (math.log(self.mean) + 2 * math.log(self.cv) - math.log(sys.float_info.min)) / self.cv / self.cv

    def _shape_and_scale(self) -> tuple[float, float]:
        return 1 / self.cv / self.cv, self.mean * self.cv * self.cv


@dataclass(frozen=True)
class Erlang(OfMean, _GammaFamily):
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

    @property
    def variance(self) -> float:
        """mean² / shape."""
        return self.mean * self.mean / self.shape

    def _shape_and_scale(self) -> tuple[float, float]:
        return float(self.shape), self.mean / self.shape
