"""Time complexities of methods whose workers take fixed, unequal times: orders of magnitude, not seconds to expect.

The orders hide constants that differ between methods, and they hold for the worst function of a class, in the
non-convex setting: L-smooth, f(x_0) - inf f <= Δ, gradient noise of variance at most σ², aim E|∇f|² <= ε.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from asyncsim._checks import require_positive
from asyncsim._component import not_negative, positive, whole
from asyncsim.delays import FloatArray

_Gap = Annotated[float, positive("Give smoothness times initial gap.")]
_Noise = Annotated[float, not_negative("Give the variance of a gradient.")]
_Accuracy = Annotated[float, positive("Give the squared gradient norm aimed at.")]
_Gradients = Annotated[int, whole(1, "Collect one gradient or more.")]


def minibatch_complexity(*, seconds: Sequence[float], gap: _Gap, noise: _Noise, accuracy: _Accuracy) -> float:
    """Order of the seconds of synchronous mini-batch SGD: max_i t_i (LΔ/ε + σ² LΔ / (n ε²)).

    An order, not a prediction in seconds. See the module for the setting. Every step waits for the slowest worker.

    Args:
        seconds: t_i, seconds per gradient of each worker, in any order, shape (n,).
        gap: L Δ, smoothness times initial gap.
        noise: σ², variance of a gradient.
        accuracy: ε, the squared gradient norm aimed at.

    Example:
        >>> round(minibatch_complexity(seconds=[1.0] * 50 + [1000.0] * 50, gap=1.0, noise=10.0, accuracy=0.1), 6)
        20000.0

    References:
        Tyurin and Richtárik 2023, "Optimal time complexities of parallel stochastic optimization methods under a
        fixed computation model".
    """
    tau = _sorted(seconds)
    return float(tau[-1] * _iterations(gap, noise, accuracy, np.array(len(tau))))


def rennala_complexity(*, seconds: Sequence[float], gap: _Gap, noise: _Noise, accuracy: _Accuracy) -> tuple[float, int]:
    """Optimal order of time, attained by Rennala SGD: min_m h_m (LΔ/ε + σ² LΔ / (m ε²)), 1/h_m = Σ_{i<=m} 1/t_i / m.

    The harmonic mean h_m is over the m fastest workers. An order, not a prediction in seconds. See the module for
    the setting. Never above `asynchronous_complexity`, or `minibatch_complexity`. Arguments, errors and reference as in
    `minibatch_complexity`.

    Returns:
        Seconds, up to a constant factor, and the minimising m, the number of workers worth using.

    Example:
        >>> order, useful = rennala_complexity(seconds=[1.0] * 50 + [1000.0] * 50, gap=1.0, noise=10.0, accuracy=0.1)
        >>> round(order, 6), useful
        (30.0, 50)
    """
    tau = _sorted(seconds)
    orders = _harmonic_means(tau) * _iterations(gap, noise, accuracy, np.arange(1, len(tau) + 1))
    return float(orders.min()), int(orders.argmin()) + 1


def asynchronous_complexity(*, seconds: Sequence[float], gap: _Gap, noise: _Noise, accuracy: _Accuracy) -> float:
    """Order of the best known upper bound for asynchronous SGD, in seconds: h_n (LΔ/ε + σ² LΔ / (n ε²)).

    Here 1/h_n = Σ_i 1/t_i / n. See the module for the setting, with step sizes that shrink with staleness. The formula
    is quoted, and neither derived nor checked against an experiment here.

    Arguments and errors as in `minibatch_complexity`.

    Example:
        >>> fast_and_slow = [1.0] * 50 + [1000.0] * 50
        >>> round(asynchronous_complexity(seconds=fast_and_slow, gap=1.0, noise=10.0, accuracy=0.1), 2)
        39.96

    References:
        Koloskova, Stich and Jaggi 2022, "Sharper convergence guarantees for asynchronous SGD".
        Mishchenko, Bach, Even and Woodworth 2022, "Asynchronous SGD beats minibatch SGD under arbitrary delays".
    """
    tau = _sorted(seconds)
    return float(_harmonic_means(tau)[-1] * _iterations(gap, noise, accuracy, np.array(len(tau))))


def collection_time(*, seconds: Sequence[float], gradients: _Gradients) -> float:
    """Exact seconds in which workers that all start at 0 finish S `gradients`: the least t with Σ_i ⌊t/t_i⌋ >= S.

    Args:
        seconds: t_i, fixed seconds per gradient of each worker, shape (n,).
        gradients: S, at least 1.

    Example:
        >>> collection_time(seconds=[1.0, 2.0], gradients=5)
        4.0
    """
    tau = _sorted(seconds)
    # Until the bound the i-th worker makes bound/t_i jobs, and the S-th of all their ends is the answer.
    jobs = np.floor(collection_bound(seconds=seconds, gradients=gradients) / tau * (1 + 1e-9)).astype(int)
    ends = np.concatenate([t * np.arange(1, count + 1) for t, count in zip(tau, jobs, strict=True)])
    return float(np.partition(ends, gradients - 1)[gradients - 1])


def collection_bound(*, seconds: Sequence[float], gradients: _Gradients) -> float:
    """Upper bound of `collection_time`: min_m (S + m - 1) / Σ_{i<=m} 1/t_i, over the m fastest workers.

    In time t they finish more than Σ_{i<=m} (t/t_i - 1) jobs, a whole number (so that m - 1 suffices where the usual
    statement has m). Attained by equal workers if n divides S + n - 1. Twice as long if each may first have to finish a
    stale job. Arguments as in `collection_time`, reference as in `minibatch_complexity`.

    Example:
        >>> round(collection_bound(seconds=[1.0, 2.0], gradients=5), 6)
        4.0
    """
    tau = _sorted(seconds)
    return float(np.min((gradients + np.arange(len(tau))) / np.cumsum(1 / tau)))


def _sorted(seconds: Sequence[float]) -> FloatArray:
    if not len(seconds):
        raise ValueError("`seconds` must have one time per worker; got an empty sequence. Use one worker or more.")
    return np.sort([require_positive("seconds", t, remedy="Give seconds per gradient.") for t in seconds])


def _harmonic_means(tau: FloatArray) -> FloatArray:
    """Of the m fastest workers, for m = 1..n."""
    return np.arange(1, len(tau) + 1) / np.cumsum(1 / tau)


def _iterations(gap: float, noise: float, accuracy: float, workers: np.ndarray) -> FloatArray:
    return gap / accuracy + noise * gap / (workers * accuracy**2)
