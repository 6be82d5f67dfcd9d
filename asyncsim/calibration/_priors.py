"""Distributions of a parameter that nobody knows, from which a random search or a calibration draws it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks


@dataclass(frozen=True)
class Prior:
    """Base class of the distributions: a range, and SciPy's distribution over it."""

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, float(checks.require_all_finite(name, getattr(self, name))))
        if self.low >= self.high:
            raise ValueError(f"`high` must be greater than `low`, here {self.low:g}; got {self.high:g}. Exchange them.")

    @cached_property
    def distribution(self) -> Any:
        """A frozen distribution of `scipy.stats`, with its density."""
        raise NotImplementedError

    def quantile(self, share: ArrayLike) -> NDArray[np.float64]:
        """Return the value, of any shape, below which a share of the probability lies."""
        return self.distribution.ppf(share)

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw (count,) independent values."""
        return self.distribution.rvs(count, random_state=rng)


class Uniform(Prior):
    """Every value between `low` and `high` is as likely as any other.

    Args:
        low, high: Least and largest value.

    Raises:
        ValueError: If the range is empty or not finite.

    Example:
        >>> Uniform(0.0, 2.0).quantile([0.25, 0.5]).tolist()
        [0.5, 1.0]
    """

    @cached_property
    def distribution(self) -> Any:
        from scipy.stats import uniform

        return uniform(self.low, self.high - self.low)


class LogUniform(Prior):
    """Every order of magnitude between `low` and `high` is as likely as any other: for step sizes and times.

    Args:
        low, high: Least and largest value, both positive.

    Raises:
        ValueError: If the range is empty, not finite or not positive.

    Example:
        >>> LogUniform(0.01, 1.0).quantile([0.0, 0.5, 1.0]).round(6).tolist()
        [0.01, 0.1, 1.0]
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require_positive("low", self.low, remedy="A logarithm needs a positive range.")

    @cached_property
    def distribution(self) -> Any:
        from scipy.stats import loguniform

        return loguniform(self.low, self.high)
