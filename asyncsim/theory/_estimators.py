"""Momentum measured from runs: three regressions, one of which does not work and stands here as a warning."""

from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray
from asyncsim.theory._parameters import Kappa, Workers, require_whole
from asyncsim.theory._stationary import exponential_limit, exponential_noise_floor


class MomentumEstimate(NamedTuple):
    """Coefficients of Δ_{t+1} = momentum · Δ_t - step · g_t.

    Attributes:
        momentum: Of the last displacement, 1 - 1/n for n equal exponential workers.
        step: Of the gradient, in the unit of x over that of the gradients given, η/n for the same.
    """

    momentum: float
    step: float


@checked
def averaged_momentum(x: ArrayLike, gradients: ArrayLike) -> MomentumEstimate:
    """Estimate momentum and step by regression on means of many runs from one start (consistent in the number of runs).

    The mean over runs of Δ_{t+1} is regressed on those of Δ_t and g_t, Δ_t = x_t - x_{t-1}. The error is that of the
    means, the noise over the root of the number of runs: omit the commits at which the means have died away.

    Args:
        x: (runs, T) central variable x_0, x_1, … of each run, one coordinate.
        gradients: (runs, T) ∇L(x_t), without noise, at the same central variables (not where workers read).

    Raises:
        ValueError: If the shapes differ, are not two-dimensional, or there are fewer than four commits.

    Example:
        >>> from asyncsim.theory import expected_path
        >>> x = expected_path(lambda x: x, 1.0, workers=4, learning_rate=0.5, commits=50)[None]
        >>> estimate = averaged_momentum(x, x)
        >>> round(estimate.momentum, 6), round(estimate.step, 6)
        (0.75, 0.125)
    """
    x, gradients = _check(x, gradients, dimensions=(2,), least=4)
    response, regressors = _regression(x.mean(axis=0), gradients.mean(axis=0), skip=1)
    return _estimate(np.linalg.lstsq(regressors, response, rcond=None)[0])


@checked
def least_squares_momentum(x: ArrayLike, gradients: ArrayLike) -> MomentumEstimate:
    """Estimate momentum by ordinary least squares on single runs: badly attenuated, see `attenuated_momentum`.

    Δ_t is one worker's noisy message, not a measurement of the mean that has the memory, so the coefficient comes out
    at about a tenth of the true one. Kept to show this, and because other single-run estimators are ratios of the same
    noisy increments. Arguments as in `instrumental_momentum`, whose rows of `x` are used together, not averaged.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.cumsum(rng.normal(size=1000))  # nothing is remembered
        >>> abs(least_squares_momentum(x, 0 * x).momentum) < 0.1
        True
    """
    x, gradients = _check(x, gradients, dimensions=(1, 2), least=4)
    response, regressors = _regression(x, gradients, skip=1)
    return _estimate(np.linalg.lstsq(regressors, response, rcond=None)[0])


@checked
def instrumental_momentum(
    x: ArrayLike,
    gradients: ArrayLike,
    *,
    lags: Annotated[int, partial(require_whole, least=2), "Two coefficients need two instruments."],
) -> MomentumEstimate:
    """Estimate momentum and step from single runs by two-stage least squares (consistent in the number of commits).

    The residual Δ_{t+1} - (1 - 1/n)Δ_t + (η/n)g_t of equal exponential workers is uncorrelated with everything known
    at commit t - 1, for any loss: x_{t-1}, …, x_{t-lags} are instruments. For other laws that is not exact.

    Args:
        x: (T,) or (runs, T) central variable of stationary or transient runs, one coordinate.
        gradients: ∇L(x_t), of the same shape.
        lags: Number of instruments, at least 2. More of them scatter less, up to about twice the number of workers,
            but pull the estimate towards least squares unless the runs are long: eight are a safe choice.

    Raises:
        ValueError: If the shapes differ, `lags` is below 2, or there are not more commits than `lags` + 3.

    Example:
        >>> from asyncsim.theory import expected_path
        >>> x = expected_path(lambda x: x, 1.0, workers=4, learning_rate=0.5, commits=50)
        >>> round(instrumental_momentum(x, x, lags=2).momentum, 6)
        0.75

    References:
        Sargan 1958, "The estimation of economic relationships using instrumental variables".
    """
    x, gradients = _check(x, gradients, dimensions=(1, 2), least=lags + 4)
    response, regressors = _regression(x, gradients, skip=lags)
    last = x.shape[-1] - 1
    instruments = np.stack([x[..., lags - lag : last - lag].ravel() for lag in range(1, lags + 1)], axis=1)
    fitted = instruments @ np.linalg.lstsq(instruments, regressors, rcond=None)[0]
    return _estimate(np.linalg.solve(fitted.T @ regressors, fitted.T @ response))


@checked
def attenuated_momentum(kappa: Kappa, workers: Workers) -> MomentumEstimate:
    """Return the limit of `least_squares_momentum` on a noisy quadratic, for equal exponential workers (exact).

    With a = Var x, d = a/(1 + n ηh), b = (1 + ηh)d (stationary E x y_w = b, E y_v y_w = d) the second moments are
    E Δ_t² = 2 ηh b, E Δ_t x_t = ηh b, E Δ_{t+1} x_t = -ηh b and E Δ_{t+1}Δ_t = (ηh)² ((1 - 1/n)d - b/n).
    The coefficients solve the normal equations, and the noise variance cancels. Arguments as in
    `exponential_noise_floor`.

    Returns:
        The estimate for gradients multiplied by the step size, so that the true `step` is 1/n.

    Raises:
        ValueError: If an argument is out of range, or ηh is beyond the stability limit.

    Example:
        The true momentum is 0.875:

        >>> round(attenuated_momentum(0.2, workers=8).momentum, 4)
        0.1117
    """
    a = exponential_noise_floor(kappa, workers)
    if not np.isfinite(a):
        raise ValueError(
            f"`kappa` must be below the stability limit {exponential_limit(workers):.6g}; got {checks.brief(kappa)}."
        )
    d = a / (1 + workers * kappa)
    b = (1 + kappa) * d
    normal = np.array([[2 * kappa * b, kappa * b], [kappa * b, a]])
    carried = kappa**2 * ((1 - 1 / workers) * d - b / workers)
    momentum, slope = np.linalg.solve(normal, [carried, -kappa * b])
    return MomentumEstimate(float(momentum), float(-slope / kappa))


def _regression(x: FloatArray, gradients: FloatArray, skip: int) -> tuple[FloatArray, FloatArray]:
    """Return Δ_{t+1}, and Δ_t and g_t in columns, for t = skip … T - 2, with runs one after another."""
    displacement = np.diff(x)
    response, before = displacement[..., skip:], displacement[..., skip - 1 : -1]
    return response.ravel(), np.stack([before.ravel(), gradients[..., skip:-1].ravel()], axis=1)


def _estimate(coefficients: NDArray[Any]) -> MomentumEstimate:
    return MomentumEstimate(float(coefficients[0]), float(-coefficients[1]))


def _check(x: ArrayLike, gradients: ArrayLike, dimensions: tuple[int, ...], least: int) -> tuple[FloatArray, ...]:
    values = np.asarray(checks.require_all_finite("x", x), float)
    slopes = np.asarray(checks.require_all_finite("gradients", gradients), float)
    if values.ndim not in dimensions or values.shape[-1] < least:
        kind = " or ".join({1: "(commits,)", 2: "(runs, commits)"}[number] for number in dimensions)
        raise ValueError(
            f"`x` must have the shape {kind} with at least {checks.brief(least)} commits; got {values.shape}."
        )
    if slopes.shape != values.shape:
        raise ValueError(f"`gradients` must have the shape of `x`, {values.shape}; got {slopes.shape}.")
    return values, slopes
