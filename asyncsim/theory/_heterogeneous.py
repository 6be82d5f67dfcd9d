"""Workers whose quadratics differ: by how much, and where a rule that counts commits comes to rest.

Worker w has L_w(x) = ½ Σ h_w (x - m_w)², commits a share p_w of all gradients, and the mean of the workers' losses is
least at m* = Σ h_w m_w / Σ h_w. Asynchronous SGD sums commits, so that its mean in the long run solves
Σ p_w h_w (E s_w - m_w) = 0, with s_w the value that worker w reads. (In any run the updates add up to how far θ has
moved: N commits leave (θ_0 - θ_N)/(η N) for the mean of h_w (s_w - m_w) over them.) For small steps all workers read
about the same: x = Σ p_w h_w m_w / Σ p_w h_w.

With exponential compute times and no network this can be made exact for any step size at which the mean is stable.
Then the value that a commit of worker w finds does not depend on w, so that E s_w = E θ - η h_w (E s_w - m_w), that is
E s_w = (E θ + η h_w m_w)/(1 + η h_w): the weights become p_w h_w/(1 + η h_w). Where all h_w are alike, neither η nor
h matters, and E θ = Σ p_w m_w.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._per_worker import groups, one_law_per_worker
from asyncsim.theory._numerics import require_size
from asyncsim.theory._parameters import Workers


@checked
def commit_shares(*, compute: Delay | Sequence[Delay], workers: Workers) -> FloatArray:
    """Return each worker's share of commits in the long run: p_w = (1/m_w) / Σ_v 1/m_v, m_w mean seconds per commit.

    Exact for asynchronous workers who never wait, with any laws: then a worker's commits are a renewal process. A wait
    that is the same for all, such as a network's mean latency, belongs into the laws' means.

    Args:
        compute: One law for all workers, or a sequence of one law per worker.
        workers: Number of workers n, at least 1.

    Raises:
        ValueError: If an argument is out of range, or a mean is not finite and positive.

    Example:
        A worker that takes half the time has twice the commits.

        >>> from asyncsim.delays import Exponential
        >>> commit_shares(compute=[Exponential(1.0), Exponential(2.0)], workers=2).round(3).tolist()
        [0.667, 0.333]
    """
    require_size(f"`workers` = {checks.brief(workers)}", workers, "Ask about fewer workers.")
    groups(compute, workers)  # refuses means that are not finite and positive
    rates = 1 / np.array([law.mean for law in one_law_per_worker(compute, workers)])
    return rates / rates.sum()


@checked
def heterogeneity(eigenvalues: ArrayLike, minima: ArrayLike) -> float:
    """Return ζ², the mean over workers of ‖∇L_w(x) - ∇L(x)‖², for quadratics that differ in where they are least.

    The same for all x: ζ² = (1/n) Σ_w Σ_i h_i² (m_{w,i} - m̄_i)².

    Args:
        eigenvalues: h, shape (d,).
        minima: m, shape (workers, d), or (workers,) with one eigenvalue.

    Raises:
        ValueError: If the numbers are not finite or shapes do not match.

    Example:
        >>> heterogeneity([2.0], [0.0, 4.0])
        16.0
    """
    h = np.atleast_1d(np.asarray(checks.require_all_not_negative("eigenvalues", eigenvalues), float))
    m = np.asarray(checks.require_all_finite("minima", minima), float)
    m = m[:, None] if m.ndim == 1 and len(h) == 1 else m
    if h.ndim != 1 or m.ndim != 2 or m.shape[1] != len(h):
        raise ValueError(f"`minima` must have shape (workers, {len(h)}), one row per worker; got {np.shape(minima)}.")
    return float(np.mean(np.sum(np.square(h * (m - m.mean(axis=0))), axis=1)))


@checked
def weighted_minimum(
    minima: ArrayLike, weights: ArrayLike, *, curvatures: ArrayLike = 1.0, learning_rate: float = 0.0
) -> FloatArray:
    """Return the point where SGD comes to rest on average if worker w's gradients are a share `weights[w]` of them all.

    x = Σ_w a_w m_w / Σ_w a_w, coordinate by coordinate, with a_w = p_w h_w / (1 + η h_w). With η = 0 it holds for small
    steps in any cluster, else it is exact for `rules.Downpour` and exponential compute times without a network.

    Args:
        minima: m, where each worker's loss is least, shape (workers, d) or (workers,).
        weights: p, shape (workers,): shares of the commits (`commit_shares`), or equal ones for a rule that counts
            workers alike.
        curvatures: h, a scalar, (d,) or (workers, d).
        learning_rate: Step size η.

    Returns:
        x, shape (d,).

    Raises:
        ValueError: If the numbers are not finite, weights are negative or all 0, or shapes do not match.

    Example:
        Two fast workers want 0, and a slow one with an eighth of the commits wants 8.

        >>> weighted_minimum([0.0, 0.0, 8.0], [7 / 16, 7 / 16, 1 / 8]).tolist()
        [1.0]
    """
    m = np.atleast_1d(np.asarray(checks.require_all_finite("minima", minima), float))
    m = m[:, None] if m.ndim == 1 else m
    if np.ndim(minima) not in (1, 2):
        raise ValueError(f"`minima` must have shape (workers,) or (workers, d); got {np.shape(minima)}.")
    p = np.asarray(checks.require_all_not_negative("weights", np.asarray(weights, float)), float)
    if p.shape != m.shape[:1] or not p.sum() > 0:
        raise ValueError(
            f"`weights` must be one number per worker, here {len(m)}, not all 0; got {checks.brief(weights)}."
        )
    h = np.asarray(checks.require_all_not_negative("curvatures", curvatures), float)
    try:
        h = np.broadcast_to(h, m.shape)
    except ValueError:
        raise ValueError(
            f"`curvatures` must be a scalar, or have shape {m.shape[1:]} or {m.shape}; got shape {h.shape}."
        ) from None
    counted = p[:, None] * h / (1 + checks.require_all_not_negative("learning_rate", learning_rate) * h)
    if not (counted.sum(axis=0) > 0).all():
        raise ValueError("`curvatures` must be positive in every coordinate for some worker that counts; got only 0.")
    return (counted * m).sum(axis=0) / counted.sum(axis=0)
