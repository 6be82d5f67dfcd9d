"""A fitted law and how sure one is of it: the normal approximation of its likelihood."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from asyncsim.calibration.coordinates import (
    ABOVE_ONE,
    CLASSES,
    FAMILIES,
    FIXED,
    LEAST,
    MOST,
    FloatArray,
    degrees,
    law_of,
    values_of,
)
from asyncsim.delays import Delay, log_likelihood, scaled

LEAST_INFORMATION = 0.04  # per coordinate: a standard error of 5 in a logarithm says that nothing is known
STEP = 0.05  # of a finite difference, in rough standard errors
MOST_STEP = 0.02
SLOPE_STEP = 1e-4  # of a coordinate, for derivatives of mean and cv
EXTREME = 30.0  # a coordinate beyond it is at a bound, as that of a probability of 0
DRAWS = 2000  # from which intervals are read: their ends move by 3 % of a standard error


@dataclass(frozen=True, eq=False)
class Estimate:
    """One law of one stage, fitted to some jobs.

    Attributes:
        family: Its name in `coordinates.FAMILIES`.
        values: Its arguments, in the order of the family.
        covariance: (k, k) of the estimated coordinates, from the observed information.
        jobs: How many durations it was fitted to.
        log_likelihood: Of the durations, censored ones included.
    """

    family: str
    values: tuple[float, ...]
    covariance: FloatArray
    jobs: int
    log_likelihood: float

    @cached_property
    def law(self) -> Delay:
        """The law itself."""
        return law_of(self.family, self.values)

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 k - 2 log L, with k as `coordinates.degrees` counts it."""
        return 2 * degrees(self.family) - 2 * self.log_likelihood

    @property
    def names(self) -> tuple[str, ...]:
        """Of the arguments."""
        return FAMILIES[self.family].names

    def draw(self, generator: np.random.Generator, count: int) -> list[Delay]:
        """Laws that the durations speak for as well: arguments drawn from the approximation of their likelihood."""
        kinds, family = FAMILIES[self.family].kinds, FAMILIES[self.family]
        regular = _regular(self.family)
        centre = np.array([kinds[i].to(self.values[i]) for i in regular])
        moved = self._moved(generator, count)
        away = generator.exponential(size=(count, len(kinds))) / (self.jobs * family.edge(self.law))
        laws = []
        for row in range(count):
            values = list(self.values)
            for place, i in enumerate(regular):
                values[i] = kinds[i].back(min(float(centre[place] + moved[row, place]), EXTREME))
            for i, kind in enumerate(kinds):
                if kind is LEAST:
                    values[i] = max(values[i] - float(away[row, i]), 0.0 if self.family != "pareto" else values[i] / 2)
                elif kind is MOST:
                    values[i] += float(away[row, i])
            laws.append(_admissible(self.family, values, self.law))
        if not self._has_derived_moments:
            return laws
        means = self._log_linear(moved)[:, 0].tolist()
        return [scaled(law, mean / law.mean) for law, mean in zip(laws, means, strict=True)]

    def draw_moments(self, generator: np.random.Generator, count: int) -> FloatArray:
        """(count, 2) means and cvs of such laws; those of mixtures by the delta method.

        Where the durations hardly tell some arguments of a mixture, because its components are nearly alike, the ridge
        of the likelihood is curved. Along its tangent mean and cv, which the durations do tell, would go anywhere.
        """
        if self._has_derived_moments:
            return self._log_linear(self._moved(generator, count))
        return np.array([moments(law) for law in self.draw(generator, count)])

    @property
    def _has_derived_moments(self) -> bool:
        """Whether the mean is no argument, but follows from arguments with normal errors."""
        return "mean" not in self.names and LEAST not in FAMILIES[self.family].kinds

    def _moved(self, generator: np.random.Generator, count: int) -> FloatArray:
        """(count, k) normal errors of the coordinates."""
        if not len(self.covariance):
            return np.zeros((count, 0))
        return generator.multivariate_normal(np.zeros(len(self.covariance)), self.covariance, count, method="eigh")

    def _log_linear(self, moved: FloatArray) -> FloatArray:
        """(count, 2) means and cvs, of which the logarithms are linear in the coordinates."""
        kinds, slopes = FAMILIES[self.family].kinds, []
        for i in _regular(self.family):
            ends = []
            for side in (-1, 1):
                values = list(self.values)
                values[i] = kinds[i].back(kinds[i].to(values[i]) + side * SLOPE_STEP)
                ends.append(np.log(moments(law_of(self.family, values))))
            slopes.append((ends[1] - ends[0]) / (2 * SLOPE_STEP))
        return np.asarray(np.exp(np.log(moments(self.law)) + moved @ np.array(slopes)), np.float64)


def moments(law: Delay) -> tuple[float, float]:
    """Mean and cv.

    Example:
        >>> moments(law_of("gamma", [2.0, 0.5]))
        (2.0, 0.5)
    """
    return law.mean, math.sqrt(law.variance) / law.mean if law.mean else 0.0


def estimate(
    family: str, durations: FloatArray, censored: Sequence[float] | FloatArray = (), law: Delay | None = None
) -> Estimate:
    """A law fitted by maximum likelihood, with the covariance of its coordinates.

    Args:
        family: Name in `coordinates.FAMILIES`.
        durations: (jobs,) seconds.
        censored: (others,) seconds that jobs had lasted which had not ended.
        law: The law, if it has been fitted already.

    Raises:
        ValueError: If the law cannot be fitted to these durations.

    Example:
        >>> found = estimate("exponential", np.array([1.0, 2.0, 3.0]))
        >>> found.law, [[round(value, 3) for value in row] for row in found.covariance.tolist()]
        (Exponential(mean=2.0), [[0.333]])
    """
    censored = np.asarray(censored, np.float64)
    law = CLASSES[family].fit(durations, censored) if law is None else law
    values = values_of(family, law)
    if family == "constant":
        return Estimate(family, tuple(values), np.zeros((0, 0)), len(durations), math.inf)
    covariance = np.asarray(np.linalg.inv(_information(family, values, durations, censored)), np.float64)
    likelihood = log_likelihood(law, durations, censored)
    return Estimate(family, tuple(values), covariance, len(durations), likelihood)


def _regular(family: str) -> list[int]:
    """Places of the arguments whose errors are normal in their coordinates."""
    kinds = FAMILIES[family].kinds
    return [i for i, kind in enumerate(kinds) if kind not in (LEAST, MOST, FIXED) or kind is ABOVE_ONE]


def _information(family: str, values: list[float], durations: FloatArray, censored: FloatArray) -> FloatArray:
    """(k, k) second derivatives of -log L, in the coordinates with normal errors, by central differences."""
    kinds, regular = FAMILIES[family].kinds, _regular(family)
    centre = np.array([kinds[i].to(values[i]) for i in regular])
    step = min(STEP / math.sqrt(max(len(durations), 1)) * 5, MOST_STEP)

    def loss(x: FloatArray) -> float:
        moved = list(values)
        for place, i in enumerate(regular):
            moved[i] = kinds[i].back(float(x[place]))
        return -log_likelihood(_admissible(family, moved, law_of(family, values)), durations, censored)

    size = len(regular)
    found, unit = np.zeros((size, size)), np.eye(size) * step
    with np.errstate(all="ignore"):
        for i in range(size):
            for j in range(i + 1):
                corners = [loss(centre + a * unit[i] + b * unit[j]) * a * b for a in (1, -1) for b in (1, -1)]
                found[i, j] = found[j, i] = sum(corners) / (4 * step * step)
    values_, vectors = np.linalg.eigh(np.where(np.isfinite(found), found, 0.0))
    return (vectors * np.maximum(values_, LEAST_INFORMATION)) @ vectors.T


def _admissible(family: str, values: Sequence[float], otherwise: Any) -> Any:
    """The law, or another where it refuses its arguments (a shape below its bound, far from the estimate)."""
    try:
        return law_of(family, values)
    except (ValueError, OverflowError, ZeroDivisionError):
        return otherwise
