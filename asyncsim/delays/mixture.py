"""Laws that draw each delay from one of several laws: mixtures, stragglers, the hyper-exponential."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.checks import require_not_negative, require_positive
from asyncsim.delays.exponential import Exponential
from asyncsim.delays.law import Delay, FloatArray, keep_positive, require_law
from asyncsim.delays.scaling import Scaled, scaled


class Mixed(ABC):
    """What follows from the components, which are pairs of a probability and a law.

    Every delay takes its own random numbers from the generator, one delay after another, so that drawing in
    blocks changes nothing. If all components have a quantile function, these are two uniform numbers per delay:
    one chooses the component, the other is its p. Otherwise a uniform number chooses and the component draws,
    one delay at a time, about ten times as slowly.
    """

    @property
    @abstractmethod
    def components(self) -> tuple[tuple[float, Delay], ...]:
        """Probability and law of each component."""

    @property
    def mean(self) -> float:
        """Σ p · mean."""
        return sum(p * law.mean for p, law in self._leaves)

    @property
    def variance(self) -> float:
        """Σ p · (variance + (mean - overall mean)²)."""
        mean = self.mean
        return sum(p * (law.variance + (law.mean - mean) * (law.mean - mean)) for p, law in self._leaves)

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Σ p · cdf; the shape of `t`."""
        return np.asarray(sum(p * law.cdf(t) for p, law in self._leaves))

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        laws: list[Any] = [law for _, law in self._leaves]
        bounds = np.cumsum([p for p, _ in self._leaves])[:-1]  # where in [0, 1] one law ends and the next begins
        if not all(_has_quantile(law) for law in laws):
            draws = (laws[_choose(bounds, generator.random())].sample(generator, 1)[0] for _ in range(size))
            return np.fromiter(draws, dtype=np.float64, count=size)
        choice, p = generator.random((size, 2)).T
        which = _choose(bounds, choice)
        delays = np.empty(size)
        for index, law in enumerate(laws):
            mine = which == index
            delays[mine] = law.quantile(p[mine])
        return delays

    @cached_property
    def _leaves(self) -> list[tuple[float, Delay]]:
        """Probabilities and laws that can occur, with mixtures among them resolved into their components."""
        return [(p, law) for p, law in _flattened(self) if p > 0]  # 0 times an infinite variance would be NaN


@dataclass(frozen=True)
class Mixture(Mixed):
    """Each delay is drawn from one of the laws, law k with probability `weights[k]`.

    Args:
        weights: Probability of each law; they sum to 1 (kept as a tuple).
        laws: The laws (kept as a tuple); mixtures among them are allowed.

    Raises:
        ValueError: If the weights are negative or do not sum to 1, if one of `laws` is not a law of delays, or if
            there are not as many weights as laws.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> law = Mixture(weights=(0.75, 0.25), laws=(Constant(1.0), Exponential(mean=3.0)))
        >>> law.mean, law.variance
        (1.5, 3.0)
    """

    weights: Sequence[float]
    laws: Sequence[Delay]
    in_seconds: ClassVar[tuple[str, ...]] = ("laws",)

    def __post_init__(self) -> None:
        laws = tuple(require_law("laws", law) for law in _listed(self.laws))
        _keep_components(self, "weights", "laws", laws)

    @property
    def components(self) -> tuple[tuple[float, Delay], ...]:
        """Probability and law of each component."""
        return tuple(zip(self.weights, self.laws, strict=True))


@dataclass(frozen=True)
class HyperExponential(Mixed):
    """Each delay is exponential, its mean `means[k]` with probability `probabilities[k]`: a cv of at least 1.

    Args:
        probabilities: Probability of each mean; they sum to 1 (kept as a tuple).
        means: Means of the exponential laws, in seconds (kept as a tuple).

    Raises:
        ValueError: If the probabilities are negative or do not sum to 1, if a mean is not finite and positive,
            or if there are not as many probabilities as means.

    Example:
        >>> law = HyperExponential(probabilities=(0.5, 0.5), means=(1.0, 3.0))
        >>> law.mean, law.variance
        (2.0, 6.0)
    """

    probabilities: Sequence[float]
    means: Sequence[float]
    in_seconds: ClassVar[tuple[str, ...]] = ("means",)

    def __post_init__(self) -> None:
        means = tuple(require_positive("means", mean, remedy="Give them in seconds.") for mean in _listed(self.means))
        _keep_components(self, "probabilities", "means", means)

    @property
    def components(self) -> tuple[tuple[float, Delay], ...]:
        """Probability and exponential law of each mean."""
        return tuple((p, Exponential(mean)) for p, mean in zip(self.probabilities, self.means, strict=True))


@dataclass(frozen=True)
class Straggler(Mixed):
    """Some jobs take `factor` times as long: mean law.mean · (1 + probability · (factor - 1)).

    Args:
        law: Law of the delays, and of the slow ones before they are multiplied by `factor`.
        probability: Probability that a job is slow, in [0, 1].
        factor: How many times as long a slow job takes, positive.

    Raises:
        ValueError: If `law` is not a law of delays, `probability` is outside [0, 1], or `factor` is not finite and
            positive.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> round(Straggler(Gamma(mean=1.0, cv=0.3), probability=0.05, factor=10.0).mean, 9)
        1.45
    """

    law: Delay
    probability: float
    factor: float
    in_seconds: ClassVar[tuple[str, ...]] = ("law",)

    def __post_init__(self) -> None:
        require_law("law", self.law)
        object.__setattr__(self, "probability", _probability("probability", self.probability))
        keep_positive(self, factor="10 makes a slow job ten times as long.")

    @property
    def components(self) -> tuple[tuple[float, Delay], ...]:
        """The law itself and the slow one."""
        return (1 - self.probability, self.law), (self.probability, scaled(self.law, self.factor))


def _flattened(law: Delay) -> list[tuple[float, Delay]]:
    if not isinstance(law, Mixed):
        return [(1.0, law)]
    return [(p * inner, leaf) for p, part in law.components for inner, leaf in _flattened(part)]


def _has_quantile(law: Any) -> bool:
    while isinstance(law, Scaled):
        law = law.law
    return hasattr(law, "quantile")


def _choose(bounds: FloatArray, uniform: Any) -> Any:
    return np.searchsorted(bounds, uniform, side="right")


def _keep_components(law: Any, shares: str, others: str, values: tuple[Any, ...]) -> None:
    """Check the probabilities of a frozen law, and keep them and what they belong to as tuples."""
    probabilities = _probabilities(shares, getattr(law, shares))
    if len(probabilities) != len(values):
        raise ValueError(
            f"`{shares}` and `{others}` must be as many; got {len(probabilities)} and {len(values)}. "
            "Give one of each per law."
        )
    object.__setattr__(law, shares, probabilities)
    object.__setattr__(law, others, values)


def _probability(name: str, value: object) -> float:
    probability = require_not_negative(name, value, remedy="Give a probability, from 0 to 1.")
    if probability > 1:
        raise ValueError(f"`{name}` must be at most 1; got {value!r}. Give a probability, from 0 to 1.")
    return probability


def _probabilities(name: str, values: object) -> tuple[float, ...]:
    probabilities = tuple(_probability(name, value) for value in _listed(values))
    if not math.isclose(math.fsum(probabilities), 1.0, rel_tol=1e-9):
        raise ValueError(f"`{name}` must sum to 1; got {probabilities}. Divide them by their sum.")
    return probabilities


def _listed(values: Any) -> tuple[Any, ...]:
    many = values.ndim if isinstance(values, np.ndarray) else isinstance(values, Sequence)
    return tuple(values) if many else (values,)
