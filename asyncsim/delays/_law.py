"""The interface of laws of delays, and what many share: the settings `mean` and `cv`, scaling, maximum likelihood."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks
from asyncsim._checks import require_count, require_not_negative, require_positive
from asyncsim.components._checked import Checked, checked, require_decorated, require_kind
from asyncsim.components._families import Named, by_name
from asyncsim.components._parse import parse_law
from asyncsim.components._settings import mean_of

FloatArray = NDArray[np.float64]
AnyLaw = TypeVar("AnyLaw")  # a `Delay` or a `VariableSpeed`

LEAST = 2  # least number of durations, because one alone has no spread
EQUAL = 1e-9  # relative spread below which durations differ by rounding only
SMALLEST = 1e-300  # probability of a delay at which the cdf of a law of a user has rounded to 1
PRECISION = 1e-6  # of the coordinates and of the log-likelihood, far below a standard error
MOST_STEPS = 4000
MANY = 2000  # A fit to more durations starts from the fit to this many of them.
NEARBY = 0.02  # rough distance, in a coordinate, between the maximum of all durations and that of `MANY`


@runtime_checkable
class Delay(Protocol):
    """The interface of a law of delays. Times are in simulated seconds.

    `sample` must draw one delay after another, so that two calls of sizes a and b give the same as one call of size
    a + b. Delays are finite and not negative. `simulate` refuses others, naming worker, value and time.

    Four more members are optional. `quantile(p)` inverts `cdf`: a mixture draws a block at once if all its laws have
    it, and otherwise one delay at a time. `in_seconds` names the arguments of a dataclass that are times, so that
    `scaled` can multiply them. `log_density(t)` is the logarithm of the density, which likelihoods need.
    `log_survival(t)` is log P(delay > t). Without it, a likelihood takes log(1 - cdf) for unfinished jobs, which rounds
    in the far tail: below about log(1e-16) = -37 it jumps to log(1e-300) = -691.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Coin:
        ...     mean = 1.5
        ...     variance = 0.25
        ...
        ...     def cdf(self, t):
        ...         return 0.5 * (np.asarray(t) >= 1) + 0.5 * (np.asarray(t) >= 2)
        ...
        ...     def sample(self, generator, size):
        ...         return generator.integers(1, 3, size).astype(float)
        >>> isinstance(Coin(), Delay)
        True
    """

    @property
    def mean(self) -> float:
        """Expected delay."""
        ...

    @property
    def variance(self) -> float:
        """Variance of the delay, in seconds squared, or infinity."""
        ...

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return the probability that a delay is at most `t`, which may have any shape."""
        ...

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        ...


def leave_out_masked(name: str, values: Any) -> Any:
    """Return durations without masked ones, which nobody measured."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.compressed() if values.ndim == 1 else values.data
    return require_kind(name, values, ArrayLike)


Durations = Annotated[ArrayLike, leave_out_masked]


class Law(Named, family="delays", members=Delay, example="Constant(1.0)"):
    """Base class of laws that the command line knows by name. See `Delay` for the other members of a law."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a class that is no dataclass yet."""
        require_decorated(cls)
        new: Any = super().__new__  # that of a class whose annotations check arguments, or Python's, which takes none
        return new(cls) if new is object.__new__ else new(cls, *args, **kwargs)

    _durations: ClassVar[dict[str, Any]] = {}  # arguments of `observed`: which durations the law can have produced

    @classmethod
    @checked
    def fit(cls, durations: Durations, censored: Durations = ()) -> Self:
        """Fit the law to measured durations by maximum likelihood.

        Args:
            durations: (jobs,) measured durations, in seconds: two or more, unless the law has no spread. Masked ones
                are left out.
            censored: (others,) times that unfinished jobs have lasted so far, in seconds.

        Returns:
            The law of this class with the highest likelihood.

        Raises:
            NotImplementedError: If the class does not say how it is fitted.
            ValueError: If there are too few durations, all are equal, one is negative, not finite, or 0 for a law that
                never is, or the best arguments are out of range.

        Example:
            >>> from asyncsim.delays import Gamma
            >>> law = Gamma.fit([1.0, 2.0, 3.0])
            >>> law.mean, round(law.cv, 3)
            (2.0, 0.431)
        """
        return cls._fit(*observed(durations, censored, **{"law": f"the law {cls.__name__}", **cls._durations}))

    @classmethod
    def _fit(cls, measured: FloatArray, unended: FloatArray) -> Self:
        """Fit checked durations, and the times that censored jobs have lasted."""
        raise NotImplementedError(
            f"{cls.__name__} does not say how it is fitted. Write a class method `_fit(measured, unended)` that "
            "returns the law of highest likelihood, from durations and the times that unfinished jobs have lasted."
        )

    @classmethod
    def like(cls, mean: float, variance: float) -> dict[str, float]:
        """Return the arguments with which a law of this class takes the place of one with such a mean and variance.

        An argument that mean and variance do not determine is left out, such as `cv` if the variance is 0 or infinite.
        """
        cv = math.sqrt(variance) / mean if 0 < variance < math.inf else None
        from_cv = getattr(cls, "from_cv", None)
        values = {"mean": mean, "cv": cv} if from_cv is None or cv is None else vars(from_cv(mean, cv))
        has = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if name in has and value is not None}

    @classmethod
    def carried(cls, law: "Delay | Sequence[Delay]") -> dict[str, float]:
        """Return arguments with which a law of this class keeps mean and spread of a law, or averages of several."""
        laws = law if isinstance(law, Sequence) else (law,)
        mean = sum(member.mean for member in laws) / len(laws)
        variance = sum(getattr(member, "variance", math.inf) for member in laws) / len(laws)  # `VariableSpeed` has none
        return cls.like(mean, variance)

    @staticmethod
    def with_mean(name: str, law: Any, mean: Any) -> Any:
        """Return the law of a field with another mean, or a constant law if there is none or it is always 0.

        Args:
            name: Name of the field, for messages.
            law: The law, or one for each worker, or None.
            mean: The mean in seconds; or a law, a law for each worker, None or the text of a law, which take its place.
        """
        if isinstance(mean, str):
            return parse_law(mean, name)
        # The field's own check refuses these, if need be.
        if mean is None or isinstance(mean, Delay | list | tuple):
            return mean
        seconds, present = checks.require_not_negative(name, mean, remedy="Give a mean in seconds."), mean_of(law)
        if not present or not seconds:
            return by_name("delays", "constant")(seconds)
        factor = seconds / present
        return (
            tuple(scaled(worker_law, factor) for worker_law in law) if isinstance(law, tuple) else scaled(law, factor)
        )


class Fitted(Checked):
    """Base class, next to `Law`, of laws whose annotations check their arguments."""


@dataclass(frozen=True)
class OfMean(Law, Fitted, named=False):
    """A law that is given by its mean, in seconds, and the arguments of its subclass."""

    mean: Annotated[float, require_positive, "Give the mean delay in seconds."]
    in_seconds: ClassVar[tuple[str, ...]] = ("mean",)


@dataclass(frozen=True)
class OfMeanAndCv(OfMean, named=False):
    """A law that is given by its mean, in seconds, and its coefficient of variation."""

    cv: Annotated[float, require_positive, "Use `Constant` for delays without spread."]

    def check(self) -> None:
        """Refuse a cv that under- or overflows in the arguments of draws, whose values would be NaN or infinite."""
        square = self.cv * self.cv
        if not all(sys.float_info.min <= number <= sys.float_info.max for number in (square, self.mean * square)):
            raise ValueError(
                f"`cv` must have a square that is a floating-point number, also times the mean; got {self.cv!r} with a "
                f"mean of {self.mean!r}. Use `Constant` for delays without spread, and at most 10 000 otherwise."
            )

    @property
    def variance(self) -> float:
        """(mean · cv)²."""
        return (self.mean * self.cv) * (self.mean * self.cv)


def require_law(name: str, value: Any) -> Delay:
    """Return `value` if it is a law of delays."""
    # `Law` comes first, because the check against the protocol computes mean and variance.
    if not isinstance(value, (Law, Delay)):
        raise ValueError(
            f"`{name}` must be a law of delays; got {checks.brief(value)}. "
            "Use one of `asyncsim.delays`, for example `Constant(1.0)`."
        )
    return value  # type: ignore[return-value]


@dataclass(frozen=True)
class Scaled(Checked):
    """shift + scale · (a delay of `law`): mean shift + scale · mean, variance scale² · variance.

    Args:
        law: The law of the delays before scaling.
        scale: Factor of its delays, positive.
        shift: Constant that is added to each, in seconds, at least 0.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> law = Scaled(Gamma(mean=1.0, cv=0.5), scale=2.0, shift=3.0)
        >>> law.mean, law.variance
        (5.0, 1.0)
    """

    law: Annotated[Delay, require_law]
    scale: Annotated[float, require_positive, "Use `Constant` for delays without spread."]
    shift: Annotated[float, require_not_negative, "Give the seconds that are added to each delay."] = 0.0
    in_seconds: ClassVar[tuple[str, ...]] = ("scale", "shift")

    @property
    def mean(self) -> float:
        """shift + scale · mean of the law."""
        return self.shift + self.scale * self.law.mean

    @property
    def variance(self) -> float:
        """scale² · variance of the law."""
        return self.scale * self.scale * self.law.variance

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return the law's cdf at (t - shift) / scale, with the shape of `t`."""
        return self.law.cdf((np.asarray(t, dtype=np.float64) - self.shift) / self.scale)

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return the law's log P(delay > x) at x = (t - shift) / scale, with the shape of `t`."""
        return log_outlasted(self.law, (np.asarray(t, dtype=np.float64) - self.shift) / self.scale)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return the law's logarithm of the density at (t - shift) / scale, less log(scale), with the shape of `t`."""
        inner = require_density(self.law)
        return inner.log_density((np.asarray(t, dtype=np.float64) - self.shift) / self.scale) - np.log(self.scale)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return shift + scale · quantile of the law, which must have one, with the shape of `p`."""
        inner: Any = self.law
        return self.shift + self.scale * inner.quantile(p)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self.shift + self.scale * np.asarray(self.law.sample(generator, size), dtype=np.float64)

    def sum_of(self, count: int) -> "Scaled":
        """Return the law of a sum of delays: the law's sum, scaled, and `count` shifts."""
        return replace(self, law=sum_of(self.law, count), shift=count * self.shift)


@checked
def scaled(law: AnyLaw, factor: Annotated[float, require_positive, "2 makes every delay twice as long."]) -> AnyLaw:
    """Return the law of delays `factor` times as long, of the same family if scaling stays in it.

    It scales the arguments of every law of the library, of `VariableSpeed`, and of any dataclass whose `in_seconds`
    names the arguments that are times. Any other law becomes a `Scaled` one.

    Args:
        law: The law to scale.
        factor: Factor of its delays, positive: 2 is half as fast.

    Returns:
        The scaled law.

    Example:
        >>> from asyncsim.delays import Gamma, Mixture, Uniform
        >>> scaled(Gamma(mean=1.0, cv=0.3), 2.0)
        Gamma(mean=2.0, cv=0.3)
        >>> scaled(Mixture(weights=(0.5, 0.5), laws=(Uniform(0.0, 1.0), Uniform(2.0, 3.0))), 2.0).laws
        (Uniform(low=0.0, high=2.0), Uniform(low=4.0, high=6.0))
    """
    names = getattr(law, "in_seconds", None)
    if names is None:
        return Scaled(require_law("law", law), factor)  # type: ignore[return-value]
    return replace(law, **{name: _times(getattr(law, name), factor) for name in names})  # type: ignore[type-var]


@dataclass(frozen=True)
class Sum(Checked):
    """The sum of `count` independent delays of `law`: mean count · mean, variance count · variance.

    It has moments and samples, but no distribution function, since only some families are closed under sums: `sum_of`
    gives their law instead. Theory that needs the distribution therefore refuses it.

    Args:
        law: The law of one delay.
        count: Number of delays, at least 1.

    Example:
        >>> from asyncsim.delays import LogNormal
        >>> law = Sum(LogNormal(mean=2.0, cv=0.5), count=4)
        >>> law.mean, law.variance
        (8.0, 4.0)
    """

    law: Annotated[Delay, require_law]
    count: Annotated[int, require_count, "Give the number of delays."]
    in_seconds: ClassVar[tuple[str, ...]] = ("law",)

    @property
    def mean(self) -> float:
        """count · mean of the law."""
        return self.count * self.law.mean

    @property
    def variance(self) -> float:
        """count · variance of the law."""
        return self.count * self.law.variance

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Refuse, since the distribution of the sum has no closed form."""
        raise ValueError(
            f"`law` must have a distribution function here; a sum of {self.count} delays of {self.law!r:.60} has none "
            "in closed form. Use a constant, exponential, Erlang or gamma law, or measure by simulation."
        )

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent sums, shape (size,)."""
        delays = np.asarray(self.law.sample(generator, size * self.count), dtype=np.float64)
        return delays.reshape(size, self.count).sum(axis=1)


@checked
def sum_of(law: Any, count: Annotated[int, require_count, "Give the number of delays."]) -> Any:
    """Return the law of the sum of independent delays, as of the local steps of a job.

    The mean is count · m, and the coefficient of variation cv / √count. The law is exact for constant, exponential,
    shifted exponential, Erlang and gamma delays, and their `Scaled` ones, of which one draw is enough for any `count`.
    A `VariableSpeed` sums its work. A `ByJob` stays as it is, because its times are those of whole jobs. All other laws
    become a `Sum`, which draws each delay and has moments, but no distribution function.

    Args:
        law: A law of delays, or a `VariableSpeed`.
        count: Number of delays, at least 1.

    Returns:
        The law of the sum; `law` itself for one delay.

    Raises:
        ValueError: If `law` is no law, or `count` is no integer of at least 1.

    Example:
        >>> from asyncsim.delays import Exponential, Gamma
        >>> sum_of(Gamma(mean=1.0, cv=0.5), 25)
        Gamma(mean=25.0, cv=0.1)
        >>> sum_of(Exponential(mean=0.1), 40)
        Erlang(mean=4.0, shape=40)
    """
    if count == 1:
        return law
    closed_form = getattr(law, "sum_of", None)
    return Sum(require_law("law", law), count) if closed_form is None else closed_form(count)


def _times(value: Any, factor: float) -> Any:
    """Multiply a time, a law, or a tuple of either by the factor."""
    if isinstance(value, tuple):
        return tuple(_times(item, factor) for item in value)
    # Numbers are sorted out first: fits scale them often, and the check against a protocol is slow.
    if isinstance(value, float) or not isinstance(value, Delay):
        return factor * value
    return scaled(value, factor)


def from_zero(t: ArrayLike) -> FloatArray:
    """Replace negative times by 0, where the distribution functions of most laws are 0 as well."""
    return np.maximum(np.asarray(t, dtype=np.float64), 0.0)


@checked
def log_likelihood(law: Any, durations: ArrayLike, censored: ArrayLike = ()) -> float:
    """Return Σ log f(duration) + Σ log P(delay > censored).

    Args:
        law: A law with `log_density` and `cdf`, and if possible with `log_survival` (see `Delay`).
        durations: (jobs,) measured, in seconds.
        censored: (others,) times that unfinished jobs have lasted so far, in seconds.

    Returns:
        The logarithm of the likelihood, or minus infinity if the law cannot produce the durations or the times of
        unfinished jobs.

    Raises:
        ValueError: If the law has no density, because some of its delays have a probability above 0.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> log_likelihood(Exponential(mean=1.0), [1.0, 2.0], censored=[3.0])
        -6.0
    """
    densities = require_density(law).log_density(np.asarray(durations, np.float64))
    return float(densities.sum() + log_outlasted(law, censored).sum())


def require_density(law: Any) -> Any:
    """Return the law, which may be a part of another one, if it has a density."""
    if not hasattr(law, "log_density"):
        raise ValueError(
            f"`law` must have a density; got {checks.brief(law)}. Give a law of `asyncsim.delays` that has one."
        )
    return law


def log_outlasted(law: Any, censored: ArrayLike) -> FloatArray:
    """Return log P(delay > censored), by the cdf for a law of a user that has no `log_survival`."""
    times = np.asarray(censored, np.float64)
    if hasattr(law, "log_survival"):
        return law.log_survival(times)
    # A cdf that has rounded to 1 does not say how improbable longer delays are, nor whether they are impossible.
    return np.log(np.maximum(1 - law.cdf(times), SMALLEST))


def observed(
    durations: ArrayLike, censored: ArrayLike, law: str, *, positive: bool = True, spread: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return durations and censored ones as arrays, or refuse those that the law cannot have produced."""
    measured = _numbers("durations", durations)
    least = LEAST if spread else 1
    if len(measured) < least:
        remedy = "Measure more jobs."
        raise ValueError(f"`durations` must be at least {least} for {law}; got {len(measured)}. {remedy}")
    if positive and (measured == 0).any():
        place = int((measured == 0).argmax())
        remedy = "Leave such jobs out, or fit `Exponential` or `Uniform`, which can be short of any limit."
        raise ValueError(f"`durations` must be positive, as {law} never is 0; entry {place} is 0.0. {remedy}")
    if spread and measured.max() - measured.min() <= EQUAL * measured.max():
        value = float(measured[0])
        raise ValueError(f"`durations` must differ for {law}; all are {value:g}. Use `Constant({value:g})`.")
    return measured, _numbers("censored", censored)


def thin(durations: FloatArray, censored: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pick at most `MANY` durations, evenly from the sorted ones, and as large a share of the censored ones."""
    if len(durations) <= MANY:
        return durations, censored
    step = len(durations) / MANY
    subset, unended = (np.sort(x)[np.arange(step / 2, len(x), step).astype(int)] for x in (durations, censored))
    return subset, unended


def maximise(
    build: Callable[[FloatArray], Any], start: Any, durations: FloatArray, censored: FloatArray, *, near: bool = False
) -> Any:
    """Search, from a start on, for the law of highest likelihood that `build` makes of coordinates without bounds."""
    from scipy.optimize import minimize

    def loss(coordinates: FloatArray) -> float:
        try:
            value = -log_likelihood(build(coordinates), durations, censored)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.inf  # the law refuses such arguments
        return value if math.isfinite(value) else math.inf

    # Nelder and Mead's search needs no derivatives, and bears the infinite loss of arguments that a law refuses.
    options = {"xatol": PRECISION, "fatol": PRECISION, "maxiter": MOST_STEPS, "adaptive": len(start) > 2}
    if near:
        options["initial_simplex"] = start + NEARBY * np.eye(len(start) + 1, len(start), k=-1)
    with np.errstate(all="ignore"):
        result = minimize(loss, np.asarray(start, np.float64), method="Nelder-Mead", options=options)
    return build(result.x)


def gamma_shape(excess: float) -> float:
    """Return the likeliest shape k: log k - ψ(k) = log(mean) - mean of the logarithms, which is `excess`."""
    from scipy.optimize import brentq
    from scipy.special import digamma

    root: Any = brentq(lambda log_k: log_k - digamma(math.exp(log_k)) - excess, -20.0, 30.0, xtol=1e-13)
    return math.exp(root)


def probability(coordinate: float) -> float:
    """Map a coordinate without bounds to (0, 1)."""
    return 0.5 * (1 + math.tanh(coordinate / 2))


def coordinate_of(share: float) -> float:
    """Undo `probability`."""
    return math.log(share) - math.log1p(-share)


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    numbers = checks.require_array(name, values).astype(np.float64)
    if numbers.ndim != 1:
        raise ValueError(f"`{name}` must be a list of numbers; got shape {numbers.shape}. Give one per job.")
    bad = ~(np.isfinite(numbers) & (numbers >= 0))
    if bad.any():
        place = int(bad.argmax())
        remedy = "Leave such jobs out."
        raise ValueError(
            f"`{name}` must be finite and not negative; entry {place} is {numbers[place].item()}. {remedy}"
        )
    return numbers
