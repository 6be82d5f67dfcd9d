"""Predictions for Gradient Energy Matching: limits, and a mean field on a constant gradient."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._per_worker import require_mean
from asyncsim.theory._numerics import integrals, root_between
from asyncsim.theory._parameters import Momentum, Workers

CELLS = 1000  # cells of an integral over a distribution function


def _clamp(name: str, value: Any) -> float:
    if not checks.is_number(value) or not value > 0:
        remedy = "The script's is 5; `math.inf` means no clamp."
        raise ValueError(f"`{name}` must be positive; got {checks.brief(value)}. {remedy}")
    return value


Cap = Annotated[float, _clamp]


@checked
def gem_velocity(*, workers: Workers, compute: Delay, momentum: Momentum = 0.9, cap: Cap = 5.0) -> float:
    """Return how far GEM moves the central variable in a mean worker cycle on a constant gradient (approximate).

    Mean field: with X the compute time over its mean and M = 1/(1 - μ) the proxy's velocity, the velocity r solves
    r = n E min((M - rX)_+, cap), as if the others moved the central variable by rX while a worker computes. It
    stands for the variant "script" with κ = 1.

    Measured error for μ = 0.9, cap 5 and n from 5 to 100: low by 1 to 4 %. Without a cap ("script" without its upper
    clamp) it is off by up to 9 %, and for shifts that do not count the worker's own last update by up to 29 %: do not
    use it there. A round robin with an inactive cap gives nM/(n + 1), which is exact.

    Args:
        workers: n.
        compute: The law of every worker.
        momentum: μ in [0, 1) of the proxy.
        cap: Upper clamp of π, 5 in the authors' script and infinite for no clamp.

    Returns:
        r in units of one raw update |Δθ|. The proxy covers M. r > M means more energy than the proxy's.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> round(gem_velocity(workers=10, compute=Exponential(1.0)), 2)
        17.4

    References:
        Hermans and Louppe 2018, Algorithm 1. The mean field is derived here.
    """
    goal = 1 / (1 - momentum)
    mean, most = require_mean(compute), min(goal, cap)

    def excess(r: float) -> float:  # E min((M - rX)_+, cap) is the integral of P(rX < v) from M - cap to M, u = M - v
        return workers * _integral(lambda u: compute.cdf(mean * (goal - u) / r), 0.0, most, jump=goal - r) - r

    return root_between(excess, 1e-9 * most, workers * most)


@checked
def gem_energy_ratio(*, workers: Workers, compute: Delay, momentum: Momentum = 0.9, cap: Cap = 5.0) -> float:
    """Return E_k(central) / E_k(proxy) under GEM on a constant gradient (approximate).

    E min(max(M, rX), rX + cap)² / M² with r from `gem_velocity`, whose assumptions hold. The displacement is that of
    the script's π, from the worker's last pull to the end of its commit. The recorded "energy_central" begins at the
    read, one own update later, and is smaller, the more so the fewer the workers. Random compute times make the ratio
    exceed 1, because GEM cannot brake: a worker that finds the central variable further away than M commits nothing,
    and the energy is that of the others.

    Measured error for μ = 0.9, cap 5 and n from 5 to 100: low by 3 to 5 % for exponential times, by 10 to 12 % for
    gamma times with cv = 0.25.

    Arguments, errors and reference as in `gem_velocity`.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> round(gem_energy_ratio(workers=10, compute=Exponential(1.0)), 2)
        6.26
    """
    goal = 1 / (1 - momentum)
    r = gem_velocity(workers=workers, compute=compute, momentum=momentum, cap=cap)

    def beyond(t: FloatArray) -> FloatArray:  # P(rX > t)
        return 1 - compute.cdf(compute.mean * t / r)

    # h = min(max(M, rX), rX + cap) grows with X, and E h² is the integral of 2t P(h > t).
    square = min(goal, cap) ** 2
    if cap < goal:
        square += _integral(lambda t: 2 * (t + cap) * beyond(t), 0.0, goal - cap, jump=r)
    shift = r * r * (1 + compute.variance / compute.mean**2)  # E (rX)²
    square += shift - _integral(lambda t: 2 * t * beyond(t), 0.0, goal, jump=r)
    return float(square / goal**2)


@checked
def gem_round_robin_scaling(*, workers: Workers, momentum: Momentum = 0.9, kappa: float = 1.0) -> float:
    """Return the mean π of GEM on a constant gradient under round robin without a clamp, κ / ((1 - μ)(n + 1)) (exact).

    The n + 1 last commits, the worker's own previous one among them, add up to the proxy's velocity. The pattern within
    these n + 1 commits depends on the start and is neutrally stable. Only its mean is fixed. The variants "paper" and
    "script" with π inside its clamp, moments at their stationary value.

    Other arguments as in `gem_velocity`.

    Args:
        kappa: Amplification κ of the proxy.

    Example:
        >>> round(gem_round_robin_scaling(workers=4), 6)
        2.0
    """
    return float(checks.require_all_not_negative("kappa", kappa)) * (1 / (1 - momentum)) / (workers + 1)


@checked
def gem_single_worker_limit(momentum: Momentum = 0.9) -> float:
    """Return the ηh, step size times curvature, above which GEM with one worker diverges, 2(1 + μ²)/(1 + μ) (exact).

    For the variant "script" on a quadratic. At the limit x, x, -x, -x, … is a periodic orbit, in which every second
    update is clamped to 0 and |m| = ηh x(1 + μ)/(1 + μ²) = 2x. In simulation no smaller step was unstable, for μ from
    0.1 to 0.95, although windows of stability recur at larger ones. A round robin of n ≥ 2 workers has the same limit
    within 0.003 (n up to 30 and μ = 0.9), and a random order a smaller one: see `almost_sure_limit`.

    Arguments as in `gem_velocity`.

    Example:
        >>> round(gem_single_worker_limit(0.9), 4)
        1.9053
    """
    return 2 * (1 + momentum**2) / (1 + momentum)


@checked
def signed_gem_limit(momentum: Momentum = 0.9) -> float:
    """Return the step size times curvature above which signed GEM diverges on a quadratic, 2(1 + μ) (exact).

    Each commit of the variant "signed" with κ = 1 turns the central variable into the committing worker's own
    sequential momentum SGD, for any number of workers and any schedule: the limit is the proxy's, and so is the noise
    floor, `proxy_noise_floor`. Perfect matching averages nothing over workers.

    Arguments as in `gem_velocity`.

    Example:
        >>> signed_gem_limit(0.5)
        3.0
    """
    return 2 * (1 + momentum)


def _integral(function: Callable[[FloatArray], FloatArray], low: float, high: float, jump: float) -> float:
    """Integrate by Gauss-Legendre in cells, one of which ends where a constant law jumps."""
    edges = np.sort(np.append(np.linspace(low, high, CELLS + 1), np.clip(jump, low, high)))
    return float(integrals(function, edges)[-1])
