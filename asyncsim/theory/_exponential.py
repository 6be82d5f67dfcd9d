"""Equal workers with exponential compute times, alone or K at a time: second moments of SGD in closed form."""

import math
from typing import Annotated

import numpy as np

from asyncsim._component import not_negative
from asyncsim.delays import FloatArray
from asyncsim.theory._arguments import Commits, K, Kappa, Workers, require_k


def exponential_limit(workers: Workers, k: K = 1) -> float:
    """The ηh, step size times curvature, above which E x² grows without bound: (1 + √(1 + 8n)) / (2n) (exact).

    It is about √(2/n) for many workers. With K > 1 it is the positive root of 2K + ηh (2eK - 2n + K) = e (ηh)² with
    e = 2n(n - K) / (K(2n - K - 1)): a version is then the mean of the first K different workers' gradients. These wait
    for one another and read the new version, whereas the others go on with their older ones ("k_async").

    Assumptions: one-dimensional quadratic (or one eigenvalue), n equal exponential workers that read just after their
    own commit. A single run can look stable up to a larger ηh, with rare and huge excursions.

    Args:
        workers: n.
        k: K from 1 to n.

    Raises:
        ValueError: If K is not in 1 … n.

    Example:
        >>> [round(exponential_limit(workers=8, k=k), 6) for k in (1, 4, 8)]
        [0.566391, 2.223537, 2.0]

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race" (the protocol).
    """
    require_k(k, workers)
    e, b = _coefficients(workers, k)
    # The root in the form that does not divide by e, which is 0 for K = n, and both terms are positive for b < 0.
    root = math.sqrt(b * b + 8 * k * e)
    return (b + root) / (2 * e) if b > 0 else 4 * k / (root - b)


def exponential_noise_floor(kappa: Kappa, workers: Workers, k: K = 1) -> float:
    """Stationary Var x = (1 + n ηh) / (ηh (2 + ηh - n (ηh)²)) per unit of one raw update's variance (exact).

    With K gradients per version and e as in `exponential_limit`, whose assumptions hold,
    Var x = (1 + e ηh) / (ηh [2K + ηh (2eK - 2n + K) - e (ηh)²]). The noise is additive and independent from gradient to
    gradient. K = n gives 1 / (n ηh (2 - ηh)), synchronous SGD with n times the batch. Other arguments as in
    `exponential_limit`.

    Args:
        kappa: ηh, the step size times the curvature, no unit.

    Returns:
        The variance over η²σ², σ² the variance of one worker's gradient, infinite from `exponential_limit` on.

    Example:
        >>> round(exponential_noise_floor(0.1, workers=8), 6)
        8.910891
    """
    if kappa >= exponential_limit(workers, k):
        return math.inf
    e, b = _coefficients(workers, k)
    return (1 + e * kappa) / (kappa * (2 * k + b * kappa - e * kappa**2))


def _coefficients(n: int, k: int) -> tuple[float, float]:
    e = 2 * n * (n - k) / (k * (2 * n - k - 1)) if k < n else 0.0
    return e, 2 * e * k - 2 * n + k


def exponential_kinetic_energy(kappa: Kappa, workers: Workers) -> float:
    """Stationary ½E(θ_{t+1} - s_t)² = n (1 + ηh) / (2 + ηh - n (ηh)²) per unit of the raw update's variance (exact).

    It tends to n/2 for small ηh: the energy of asynchrony grows with the number of workers. Assumptions, arguments
    and infinity as in `exponential_noise_floor`.

    Example:
        >>> exponential_kinetic_energy(1e-9, workers=8)
        4.000000002
    """
    n = workers
    return n * (1 + kappa) / (2 + kappa - n * kappa**2) if kappa < exponential_limit(n) else math.inf


def exponential_moments(
    kappa: Kappa,
    workers: Workers,
    commits: Commits,
    start: float = 1.0,
    noise: Annotated[float, not_negative("Give a standard deviation.")] = 0.0,
) -> FloatArray:
    """E x_t² after t = 0, 1, … commits from a common start, stable or not (exact, by the step of `error_curve`).

    Other arguments as in `exponential_noise_floor`.

    Args:
        commits: T.
        start: x_0, which every worker has read.
        noise: s, standard deviation of the noise part of a raw update.

    Returns:
        (T + 1,) second moments, in the unit of x squared.

    Example:
        Sequential SGD halves x, and a quarter of x² is left:

        >>> exponential_moments(0.5, workers=1, commits=2).tolist()
        [1.0, 0.25, 0.0625]
    """
    step, moments = moments_step(kappa, workers, 1, noise**2), np.append(np.full(4, start * start), 1.0)
    path = [moments[0]]
    for _ in range(commits):
        moments = step @ moments
        path.append(moments[0])
    return np.array(path)


def moments_step(kappa: float, n: int, k: int, noise: float) -> FloatArray:
    """The matrix of one step of K gradients on (E x², E x y_w, E y_w², E y_v y_w, 1), y_w read by worker w."""
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
