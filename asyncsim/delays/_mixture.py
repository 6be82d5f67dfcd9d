"""Laws that draw each delay from one of several laws: mixtures, stragglers, the hyper-exponential."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief, require_at_most, require_count, require_not_negative, require_positive
from asyncsim.components._checked import Check, Checked, checked
from asyncsim.delays._gamma import Exponential, Gamma
from asyncsim.delays._law import (
    EQUAL,
    Delay,
    Durations,
    FloatArray,
    Scaled,
    coordinate_of,
    gamma_shape,
    log_likelihood,
    log_outlasted,
    maximise,
    observed,
    probability,
    require_density,
    require_law,
    scaled,
    thin,
)

SLOW_SHARES = (0.03, 0.15)  # first guesses of the share of stragglers
LEAST_PER_COMPONENT = 10  # least number of durations
MOST_ROUNDS = 500  # rounds of expectation and maximisation
CONVERGED = 1e-9  # gain of the log-likelihood per duration below which rounds end


def _probability(name: str, value: object) -> float:
    remedy = "Give a probability, from 0 to 1."
    return require_at_most(name, require_not_negative(name, value, remedy=remedy), largest=1.0, remedy=remedy)


def _each(check: Check, name: str, values: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple of the values that a check returns."""
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, str) or not np.ndim(values):
        raise ValueError(f"`{name}` must be a sequence; got {brief(values)}. Give one for each law.")
    return tuple(check(name, value) for value in values)


class Mixed(Checked, ABC):
    """A law that is given by its components, pairs of a probability and a law."""

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
        """Return Σ p · cdf, with the shape of `t`."""
        return np.asarray(sum(p * law.cdf(t) for p, law in self._leaves))

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return log Σ p · P(delay > t), with the shape of `t`."""
        return np.logaddexp.reduce([math.log(p) + log_outlasted(law, t) for p, law in self._leaves], axis=0)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return log Σ p · density, if every component has one, with the shape of `t`."""
        laws: list[tuple[float, Any]] = list(self._leaves)
        with np.errstate(under="ignore"):
            densities = [math.log(p) + require_density(law).log_density(t) for p, law in laws]
            return np.logaddexp.reduce(densities, axis=0)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        laws: list[Any] = [law for _, law in self._leaves]
        bounds = np.cumsum([p for p, _ in self._leaves])[:-1]  # where in [0, 1] one law ends and the next begins
        # Without quantiles a draw may take any number of random numbers. Only one delay at a time, ten times as slow,
        # gives the same delays for any sizes of blocks.
        if not all(_has_quantile(law) for law in laws):
            draws = (
                laws[bounds.searchsorted(generator.random(), side="right")].sample(generator, 1)[0] for _ in range(size)
            )
            return np.fromiter(draws, dtype=np.float64, count=size)
        choice, p = generator.random((size, 2)).T
        which = bounds.searchsorted(choice, side="right")
        delays = np.empty(size)
        for index, law in enumerate(laws):
            mine = which == index
            delays[mine] = law.quantile(p[mine])
        return delays

    @cached_property
    def _leaves(self) -> list[tuple[float, Delay]]:
        """Probabilities and laws that can occur, with mixtures among them resolved into their components."""
        return [(p, law) for p, law in _flatten(self) if p > 0]  # 0 times an infinite variance would be NaN


@dataclass(frozen=True)
class Mixture(Mixed):
    """Each delay is drawn from one of the laws, law k with probability `weights[k]`.

    Args:
        weights: Probability of each law. They sum to 1 (kept as a tuple).
        laws: As many laws (kept as a tuple). Mixtures among them are allowed.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> law = Mixture(weights=(0.75, 0.25), laws=(Constant(1.0), Exponential(mean=3.0)))
        >>> law.mean, law.variance
        (1.5, 3.0)
    """

    weights: Annotated[Sequence[float], partial(_each, _probability)]
    laws: Annotated[Sequence[Delay], partial(_each, require_law)]
    in_seconds: ClassVar[tuple[str, ...]] = ("laws",)

    def check(self) -> None:
        """Refuse weights that are not one probability per law."""
        _require_distribution("weights", self.weights, "laws", self.laws)

    @classmethod
    @checked
    def fit(cls, durations: Durations, censored: Durations = (), *, components: int = 2) -> "Mixture":
        """Fit a mixture of gamma laws, by expectation and maximisation from equal shares of the sorted durations.

        Args:
            durations: (jobs,) measured durations, in seconds: positive, not all equal, ten or more for each law.
            censored: (others,) times that unfinished jobs have lasted so far, in seconds.
            components: Number of laws.

        Example:
            >>> fast, slow = Gamma(1.0, 0.1).quantile, Gamma(5.0, 0.1).quantile
            >>> shares = np.linspace(0.01, 0.99, 50)
            >>> law = Mixture.fit(np.concatenate([fast(shares), slow(shares)]))
            >>> [round(one.mean, 1) for one in law.laws], [round(weight, 2) for weight in law.weights]
            ([1.0, 5.0], [0.5, 0.5])
        """
        measured, unended = _check_many(durations, censored, "a mixture of gamma laws", components)
        logs = np.log(measured)

        def refit(weights: FloatArray, rest: FloatArray, law: Gamma) -> Gamma:
            ends = _expected(law, unended)
            whole = float(weights.sum() + rest.sum())
            mean = float(weights @ measured + rest @ ends[:, 0]) / whole
            excess = math.log(mean) - float(weights @ logs + rest @ ends[:, 1]) / whole
            return Gamma(mean, gamma_shape(max(excess, 1e-12)) ** -0.5)

        parts = [Gamma.fit(part) for part in _shares(measured, components)]
        return cls(*_improve(measured, unended, parts, refit))

    @property
    def components(self) -> tuple[tuple[float, Delay], ...]:
        """Probability and law of each component."""
        return tuple(zip(self.weights, self.laws, strict=True))


@dataclass(frozen=True)
class HyperExponential(Mixed):
    """Each delay is exponential, its mean `means[k]` with probability `probabilities[k]`: a cv of at least 1.

    Args:
        probabilities: Probability of each mean. They sum to 1 (kept as a tuple).
        means: As many means of exponential laws, in seconds, positive (kept as a tuple).

    Example:
        >>> law = HyperExponential(probabilities=(0.5, 0.5), means=(1.0, 3.0))
        >>> law.mean, law.variance
        (2.0, 6.0)
    """

    probabilities: Annotated[Sequence[float], partial(_each, _probability)]
    means: Annotated[Sequence[float], partial(_each, partial(require_positive, remedy="Give them in seconds."))]
    in_seconds: ClassVar[tuple[str, ...]] = ("means",)

    def check(self) -> None:
        """Refuse probabilities that are not one per mean."""
        _require_distribution("probabilities", self.probabilities, "means", self.means)

    @classmethod
    @checked
    def fit(cls, durations: Durations, censored: Durations = (), *, components: int = 2) -> "HyperExponential":
        """Fit the law by expectation and maximisation, with the arguments and errors of `Mixture.fit` and 0 allowed.

        Example:
            >>> law = HyperExponential((0.3, 0.7), (9.0, 1.0))
            >>> found = HyperExponential.fit(law.sample(np.random.default_rng(0), 20_000))
            >>> [round(mean) for mean in found.means], [round(p, 1) for p in found.probabilities]
            ([1, 9], [0.7, 0.3])
        """
        measured, unended = _check_many(durations, censored, "a hyper-exponential law", components, positive=False)

        def refit(weights: FloatArray, rest: FloatArray, law: Exponential) -> Exponential:
            unfinished = rest @ (unended + law.mean)  # memoryless: the rest is as long as a whole one
            return Exponential(float(weights @ measured + unfinished) / float(weights.sum() + rest.sum()))

        parts = [Exponential(float(part.mean()) or float(measured.mean())) for part in _shares(measured, components)]
        shares, laws = _improve(measured, unended, parts, refit)
        return cls(shares, [law.mean for law in laws])

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
        factor: Duration of a slow job relative to the others, positive: 5 takes five times as long.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> round(Straggler(Gamma(mean=1.0, cv=0.3), probability=0.05, factor=10.0).mean, 9)
        1.45
    """

    law: Annotated[Delay, require_law]
    probability: Annotated[float, _probability]
    factor: Annotated[float, require_positive, "10 makes a slow job ten times as long."]
    in_seconds: ClassVar[tuple[str, ...]] = ("law",)

    @classmethod
    @checked
    def fit(cls, durations: Durations, censored: Durations = ()) -> "Straggler":
        """Fit stragglers among jobs of a gamma law, from a few first guesses of how many jobs are slow.

        Arguments and errors are those of `Mixture.fit`, but it takes twenty durations or more.

        Example:
            >>> law = Straggler(Gamma(mean=1.0, cv=0.2), probability=0.1, factor=5.0)
            >>> found = Straggler.fit(law.sample(np.random.default_rng(0), 2000))
            >>> round(found.law.mean, 1), round(found.probability, 1), round(found.factor)
            (1.0, 0.1, 5)
        """
        measured, unended = _check_many(durations, censored, "a law with stragglers", 2)

        def build(x: FloatArray) -> "Straggler":
            return cls(Gamma(math.exp(x[0]), math.exp(x[1])), probability(x[2]), 1 + math.exp(x[3]))

        subset, unended_subset = thin(measured, unended)
        fits = []
        for share in SLOW_SHARES:
            cut = float(np.quantile(subset, 1 - share))
            usual = Gamma.fit(subset[subset <= cut])
            factor = float(subset[subset >= cut].mean()) / usual.mean
            start = [math.log(usual.mean), math.log(usual.cv), coordinate_of(share)]
            fits.append(maximise(build, [*start, math.log(max(factor - 1, 0.1))], subset, unended_subset))
        best = max(fits, key=lambda law: log_likelihood(law, subset, unended_subset))
        if subset is measured:
            return best
        start = [math.log(best.law.mean), math.log(best.law.cv), coordinate_of(best.probability)]
        # A factor may have become 1 by rounding, whose logarithm there is none.
        return maximise(build, [*start, math.log(max(best.factor - 1, 1e-9))], measured, unended, near=True)

    @property
    def components(self) -> tuple[tuple[float, Delay], ...]:
        """The law itself and the slow one."""
        return (1 - self.probability, self.law), (self.probability, scaled(self.law, self.factor))


def _flatten(law: Delay) -> list[tuple[float, Delay]]:
    if not isinstance(law, Mixed):
        return [(1.0, law)]
    return [(p * inner, leaf) for p, part in law.components for inner, leaf in _flatten(part)]


def _has_quantile(law: Any) -> bool:
    while isinstance(law, Scaled):
        law = law.law
    return hasattr(law, "quantile")


def _require_distribution(shares: str, probabilities: Sequence[float], others: str, values: Sequence[Any]) -> None:
    """Refuse probabilities that do not sum to 1, or are not one per law or mean."""
    if not math.isclose(math.fsum(probabilities), 1.0, rel_tol=1e-9):
        raise ValueError(f"`{shares}` must sum to 1; got {probabilities}. Divide them by their sum.")
    if len(probabilities) != len(values):
        raise ValueError(
            f"`{shares}` and `{others}` must be as many; got {len(probabilities)} and {len(values)}. "
            "Give one of each per law."
        )


def _check_many(
    durations: ArrayLike, censored: ArrayLike, law: str, components: int, *, positive: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Check durations as `observed` does, and that there are at least ten per component."""
    components = require_count("components", components, remedy="Two is usual.")
    measured, unended = observed(durations, censored, law, positive=positive)
    least = LEAST_PER_COMPONENT * components
    if len(measured) < least:
        remedy = "Measure more jobs, or fit a law with fewer arguments."
        raise ValueError(f"`durations` must be at least {least} for {law}; got {len(measured)}. {remedy}")
    return measured, unended


def _shares(durations: FloatArray, components: int) -> list[FloatArray]:
    """Divide the sorted durations into equal shares. A share without spread is replaced by all durations."""
    shares = np.array_split(np.sort(durations), components)
    return [part if part[-1] > part[0] * (1 + EQUAL) else durations for part in shares]


def _improve(
    durations: FloatArray,
    censored: FloatArray,
    laws: list[Any],
    refit: Callable[[FloatArray, FloatArray, Any], Any],  # shares of durations and of censored ones, present law
) -> tuple[list[float], list[Any]]:
    """Fit weights and laws by expectation and maximisation, in the order of means. `refit` is for one component."""
    weights = [1 / len(laws)] * len(laws)
    before = -math.inf
    with np.errstate(divide="ignore", under="ignore"):
        for _ in range(MOST_ROUNDS):
            done = np.stack([math.log(p) + law.log_density(durations) for p, law in zip(weights, laws, strict=True)])
            rest = np.stack([math.log(p) + law.log_survival(censored) for p, law in zip(weights, laws, strict=True)])
            total, outlasted = (np.logaddexp.reduce(logs, axis=0) for logs in (done, rest))
            likelihood = float(total.sum() + outlasted.sum())
            if likelihood - before <= CONVERGED * len(durations):
                break
            before = likelihood
            mine, unended = np.exp(done - total), np.exp(rest - outlasted)
            shares = (mine.sum(axis=1) + unended.sum(axis=1)) / (len(durations) + len(censored))
            if shares.min() * len(durations) < 1:  # a law that explains less than one job explains nothing
                break
            weights = (shares / shares.sum()).tolist()
            laws = [refit(mine[k], unended[k], law) for k, law in enumerate(laws)]
    order = np.argsort([law.mean for law in laws])
    return [weights[k] for k in order], [laws[k] for k in order]


def _expected(law: Gamma, beyond: FloatArray) -> FloatArray:
    """Return means of longer delays and of their logarithms, (censored, 2), by midpoints of a hundred quantiles."""
    from scipy.special import gammainccinv

    shape, scale = law._shape_and_scale()
    longer = np.maximum(np.exp(law.log_survival(beyond)), sys.float_info.min)[:, None]
    delays = np.maximum(scale * gammainccinv(shape, longer * (np.arange(100) + 0.5) / 100), beyond[:, None])
    return np.stack([delays.mean(axis=1), np.log(delays).mean(axis=1)], axis=1)
