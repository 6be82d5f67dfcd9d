"""Maximum likelihood: what the `fit` of every law shares."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.delays._law import FloatArray

LEAST = 2  # durations: one alone has no spread
EQUAL = 1e-9  # relative spread below which durations differ by rounding only
SMALLEST = 1e-300  # probability of outlasting a censored duration, so that its logarithm is finite
PRECISION = 1e-6  # of the coordinates and of the log-likelihood: far below a standard error
MOST_STEPS = 4000
MANY = 2000  # durations, of which a start is found for a fit to more
NEARBY = 0.02  # of a coordinate: how far the maximum of many durations is from that of `MANY`, roughly


def log_likelihood(law: Any, durations: ArrayLike, censored: ArrayLike = ()) -> float:
    """Σ log f(duration) + Σ log P(delay > censored).

    Args:
        law: A law with `log_density` and `cdf`.
        durations: (jobs,) measured, in seconds.
        censored: (others,) how long jobs had lasted that had not ended yet, in seconds.

    Returns:
        The logarithm of the likelihood; minus infinity if the law cannot produce the durations.

    Raises:
        ValueError: If the law has no density, because some of its delays have a probability above 0.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> log_likelihood(Exponential(mean=1.0), [1.0, 2.0], censored=[3.0])
        -6.0
    """
    if not hasattr(law, "log_density"):
        raise ValueError(f"`law` must have a density; got {law!r}. Give a law of `asyncsim.delays` that has one.")
    outlasted = np.maximum(1 - law.cdf(np.asarray(censored, np.float64)), SMALLEST)
    return float(law.log_density(np.asarray(durations, np.float64)).sum() + np.log(outlasted).sum())


def observed(
    durations: ArrayLike, censored: ArrayLike, *, law: str, positive: bool = False, spread: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Durations and censored ones as arrays, if the law can have produced them."""
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


def thinned(durations: FloatArray, censored: FloatArray) -> tuple[FloatArray, FloatArray]:
    """At most `MANY` durations, every so many of the sorted ones, and as large a share of the censored ones."""
    if len(durations) <= MANY:
        return durations, censored
    step = len(durations) / MANY
    return tuple(np.sort(one)[np.arange(step / 2, len(one), step).astype(int)] for one in (durations, censored))


def maximise(
    build: Callable[[FloatArray], Any], start: Any, durations: FloatArray, censored: FloatArray, *, near: bool = False
) -> Any:
    """The law of highest likelihood among those that `build` makes of coordinates without bounds, from a start on."""
    from scipy.optimize import minimize

    def loss(coordinates: FloatArray) -> float:
        try:
            value = -log_likelihood(build(coordinates), durations, censored)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.inf  # the law refuses such arguments
        return value if math.isfinite(value) else math.inf

    options = {"xatol": PRECISION, "fatol": PRECISION, "maxiter": MOST_STEPS, "adaptive": len(start) > 2}
    if near:
        options["initial_simplex"] = start + NEARBY * np.eye(len(start) + 1, len(start), k=-1)
    with np.errstate(all="ignore"):
        found = minimize(loss, np.asarray(start, np.float64), method="Nelder-Mead", options=options)
    return build(found.x)


def gamma_shape(excess: float) -> float:
    """The shape k of highest likelihood: log k - ψ(k) = log(mean) - mean of the logarithms, which is `excess`."""
    from scipy.optimize import brentq
    from scipy.special import digamma

    root: Any = brentq(lambda log_k: log_k - digamma(math.exp(log_k)) - excess, -20.0, 30.0, xtol=1e-13)
    return math.exp(root)


def probability(coordinate: float) -> float:
    """From a coordinate without bounds to (0, 1)."""
    return 0.5 * (1 + math.tanh(coordinate / 2))


def coordinate_of(share: float) -> float:
    """The inverse of `probability`."""
    return math.log(share) - math.log1p(-share)


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be numbers; got {values!r}. Give seconds.") from error
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
