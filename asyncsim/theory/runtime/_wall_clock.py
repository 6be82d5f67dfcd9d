"""Expected error against wall-clock time on a quadratic, without simulating."""

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import require_not_negative
from asyncsim.delays import FloatArray
from asyncsim.theory._arguments import Protocol, checked_kappa, checked_protocol, checked_rate


def error_curve(
    seconds: ArrayLike,
    *,
    workers: int,
    kappa: float,
    rate: float,
    noise: float = 0.0,
    start: float = 1.0,
    protocol: str = "async",
    k: int | None = None,
) -> FloatArray:
    """Exact E x² of the central variable at given times: one dimension, gradient h x, exponential compute times.

    One step of the server, of K gradients, changes the second moments linearly. With κ = η h, p = K/n, y_w the
    parameter that worker w holds, a = E x², b = E x y_w, c = E y_w², d = E y_v y_w (v ≠ w):

        "async", "k_async":  a' = a - 2κ b + κ² (c + (K - 1) d)/K + noise/K,   b' = p a' + (1 - p)(b - κ d),
                             c' = p a' + (1 - p) c,
                             d' = [K (K-1) a' + 2K (n-K)(b - κ d) + (n-K)(n-K-1) d] / (n (n-1))
        "sync", "k_sync", "k_batch_sync":  a' = (1 - κ)² a + noise/K

    A step is complete after K exponential stages, which are independent of who takes part, so that moments and
    stages together obey one linear differential equation: its matrix exponential is the answer. In d dimensions,
    add the curves of the Hessian's eigenvalues. Assumptions: equal workers that all read `start` at time 0;
    gradient noise independent of everything, of constant variance; zero-time server; step size η on the mean of
    the K gradients.

    Args:
        seconds: Times, not negative, in any order, shape (times,).
        workers: Number of workers n, at least 1.
        kappa: Step size times curvature, no unit.
        rate: λ, gradients per second and worker.
        noise: Variance of the noise in one raw update, η² σ², in units of x².
        start: x at time 0.
        protocol: One of the names above.
        k: K, gradients per step; None for "async" and "sync".

    Returns:
        E x² at every time, shape (times,).

    Raises:
        ValueError: If an argument is out of range, or the protocol is "k_batch_async", for which there is no result.

    Example:
        >>> times = [0.25, 1.0, 16.0]
        >>> error_curve(times, workers=8, kappa=0.1, rate=1.0, noise=0.0025).round(4).tolist()
        [0.6693, 0.1486, 0.0223]
        >>> error_curve(times, workers=8, kappa=0.1, rate=1.0, noise=0.0025, protocol="sync").round(3).tolist()
        [1.0, 0.995, 0.325]

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race" (bounds for the
        same trade-off).
    """
    step = checked_protocol(protocol, workers, k)
    kappa = checked_kappa(kappa)
    rate = checked_rate(rate)
    noise = require_not_negative("noise", noise, remedy="Give the variance of one raw update.")
    times = np.asarray(seconds, dtype=np.float64)
    if times.ndim != 1 or not (np.isfinite(times) & (times >= 0)).all():
        raise ValueError(f"`seconds` must be a list of finite times of at least 0; got {seconds!r}. Give one or more.")
    moments = _one_step(step, kappa, noise)
    return _evolved(moments, rate * _stage_rates(step), times, start)


def _one_step(step: Protocol, kappa: float, noise: float) -> FloatArray:
    """The matrix of one step on (a, b, c, d, 1), or on (a, 1) where all gradients are fresh."""
    if step.name == "k_batch_async":
        raise ValueError(
            "`protocol` must be 'async', 'k_async' or a synchronous one for an exact curve; got 'k_batch_async'. "
            "Simulate and replay this one."
        )
    if step.name not in ("async", "k_async"):
        return np.array([[(1 - kappa) ** 2, noise / step.k], [0.0, 1.0]])
    n, k = step.workers, step.k
    a, b, c, d, one = np.eye(5)
    mixed = b - kappa * d
    p = k / n
    after = a - 2 * kappa * b + kappa**2 * (c + (k - 1) * d) / k + noise / k * one
    pairs = max(n * (n - 1), 1)  # with one worker there is no d, and its row is multiplied by 0
    both, one_of_two, neither = k * (k - 1) / pairs, 2 * k * (n - k) / pairs, (n - k) * (n - k - 1) / pairs
    return np.array(
        [
            after,
            p * after + (1 - p) * mixed,
            p * after + (1 - p) * c,
            both * after + one_of_two * mixed + neither * d,
            one,
        ]
    )


def _stage_rates(step: Protocol) -> FloatArray:
    """Rates of the K stages of one step, in gradients per second of one worker."""
    if step.name == "k_batch_sync":
        return np.full(step.k, float(step.workers))
    return step.workers - np.arange(step.k, dtype=np.float64)


def _evolved(moments: FloatArray, rates: FloatArray, times: FloatArray, start: float) -> FloatArray:
    """Moments of (stage, state) follow one linear equation; E x² is the sum over the stages."""
    from scipy.sparse import coo_array, eye_array, kron
    from scipy.sparse.linalg import expm_multiply

    stages, width = len(rates), len(moments)
    stage = np.arange(stages)
    waiting = coo_array((-rates, (stage, stage)), (stages, stages))
    onward = coo_array((rates[:-1], (stage[1:], stage[:-1])), (stages, stages))
    complete = coo_array((rates[-1:], (stage[:1], stage[-1:])), (stages, stages))
    generator = (kron(waiting + onward, eye_array(width)) + kron(complete, moments)).tocsr()
    state = np.zeros(stages * width)
    state[:width] = start**2
    state[width - 1] = 1.0
    order, squares, before = np.argsort(times), np.empty(len(times)), 0.0
    for index in order:
        state = expm_multiply(generator * (times[index] - before), state)
        before, squares[index] = times[index], state[::width].sum()
    return squares
