"""Exponential laws: memoryless, and memoryless on top of a shortest delay."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.delays import _fitting as fitting
from asyncsim.delays._law import FloatArray, Law, OfMean, from_zero, keep_not_negative, keep_positive


@dataclass(frozen=True)
class Exponential(OfMean):
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

    @classmethod
    def fit(cls, durations: ArrayLike, censored: ArrayLike = ()) -> "Exponential":
        """Maximum likelihood, the sum of all times, censored ones too, over the number of durations.

        Args:
            durations: (jobs,) measured, in seconds.
            censored: (others,) how long jobs had lasted that had not ended yet, in seconds.

        Raises:
            ValueError: If there are no durations, all are 0, or one is negative or not finite.

        Example:
            >>> Exponential.fit([1.0, 2.0], censored=[3.0])
            Exponential(mean=3.0)
        """
        measured, unended = fitting.observed(durations, censored, law="an exponential law", spread=False)
        return cls(float(measured.sum() + unended.sum()) / len(measured))

    @property
    def variance(self) -> float:
        """The mean squared."""
        return self.mean * self.mean

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """1 - exp(-t / mean) for t > 0, else 0; the shape of `t`."""
        return -np.expm1(-from_zero(t) / self.mean)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """-log(mean) - t / mean for t >= 0, else minus infinity; the shape of `t`."""
        t = np.asarray(t, dtype=np.float64)
        return np.where(t >= 0, -np.log(self.mean) - t / self.mean, -np.inf)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """-mean · log(1 - p), for `p` in [0, 1); the shape of `p`."""
        return -self.mean * np.log1p(-np.asarray(p, dtype=np.float64))

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return generator.exponential(self.mean, size)


@dataclass(frozen=True)
class ShiftedExponential(Law):
    """An exponential part on top of a fixed one: mean shift + tail, variance tail².

    Args:
        shift: The shortest delay, in seconds; 0 gives the exponential law.
        tail: Mean of the exponential part, in seconds.

    Raises:
        ValueError: If `shift` is negative, `tail` is not positive, or one of them is not finite.

    Example:
        >>> law = ShiftedExponential(shift=1.0, tail=0.5)
        >>> law.mean, law.variance
        (1.5, 0.25)

    References:
        Lee, Lam, Pedarsani, Papailiopoulos and Ramchandran 2018, "Speeding up distributed machine learning
        using codes" (as a model of workers).
    """

    shift: float
    tail: float
    in_seconds: ClassVar[tuple[str, ...]] = ("shift", "tail")

    def __post_init__(self) -> None:
        keep_not_negative(self, shift="Give the shortest delay in seconds.")
        keep_positive(self, tail="Use `Constant` for delays without spread.")

    @classmethod
    def like(cls, mean: float, variance: float) -> dict[str, float]:
        """Mean and spread; a spread with which delays would be negative is reduced."""
        tail = min(math.sqrt(variance), mean)
        return {"shift": mean - tail, "tail": tail} if variance else {}

    @classmethod
    def fit(cls, durations: ArrayLike, censored: ArrayLike = ()) -> "ShiftedExponential":
        """Maximum likelihood: the shift is the shortest duration, the tail what is longer, over their number.

        Args:
            durations: (jobs,) measured, in seconds.
            censored: (others,) how long jobs had lasted that had not ended yet, in seconds.

        Raises:
            ValueError: If there are fewer than two, all are equal, or one is negative or not finite.

        Example:
            >>> ShiftedExponential.fit([1.0, 2.0, 3.0])
            ShiftedExponential(shift=1.0, tail=1.0)
        """
        measured, unended = fitting.observed(durations, censored, law="a shifted exponential law")
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
        """1 - exp(-(t - shift) / tail) for t > shift, else 0; the shape of `t`."""
        return -np.expm1(-from_zero(np.asarray(t) - self.shift) / self.tail)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """-log(tail) - (t - shift) / tail for t >= shift, else minus infinity; the shape of `t`."""
        return Exponential(self.tail).log_density(np.asarray(t, dtype=np.float64) - self.shift)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """shift - tail · log(1 - p), for `p` in [0, 1); the shape of `p`."""
        return self.shift - self.tail * np.log1p(-np.asarray(p, dtype=np.float64))

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self.shift + generator.exponential(self.tail, size)
