"""Kinetic energy of plain asynchronous SGD against its proxy: the number of workers at which stability is lost."""

import math
from collections.abc import Sequence

from asyncsim.components._checked import checked
from asyncsim.delays import Delay
from asyncsim.theory._asynchronous import staleness_variance
from asyncsim.theory._parameters import Kappa, Momentum, Workers
from asyncsim.theory._stationary import kinetic_energy


@checked
def proxy_noise_floor(kappa: Kappa, momentum: Momentum) -> float:
    """Return the stationary Var x of sequential momentum SGD, (1 + μ) / ((1 - μ) ηh (2(1 + μ) - ηh)) (exact).

    Assumptions: a quadratic, additive noise independent from step to step; v ← μv - ηh x + ξ, x ← x + v.

    Args:
        kappa: ηh, the step size times the curvature, no unit.
        momentum: μ in [0, 1).

    Returns:
        The variance per unit of that of ξ, infinite from ηh = 2(1 + μ) on.

    Example:
        >>> round(proxy_noise_floor(0.1, momentum=0.9), 3)
        51.351
    """
    return proxy_kinetic_energy(kappa, momentum) * (1 + momentum) / kappa


@checked
def proxy_kinetic_energy(kappa: Kappa, momentum: Momentum) -> float:
    """Return stationary ½E v² of sequential momentum SGD, 1 / ((1 - μ)(2(1 + μ) - ηh)), per unit of Var ξ (exact).

    Assumptions, arguments and infinity as in `proxy_noise_floor`. For small ηh it is that of pure noise, which
    adds up to ½/(1 - μ²).

    Example:
        >>> round(proxy_kinetic_energy(0.1, momentum=0.9), 4)
        2.7027
    """
    margin = 2 * (1 + momentum) - kappa
    return 1 / ((1 - momentum) * margin) if margin > 0 else math.inf


@checked
def energy_ratio(
    kappa: Kappa, *, workers: Workers, compute: Delay | Sequence[Delay], momentum: Momentum = 0.9
) -> float:
    """Return E_k(central) / E_k(proxy) of plain asynchronous SGD in a stationary run on a quadratic (exact).

    `kinetic_energy` over `proxy_kinetic_energy`: at most 1 where condition (12) holds in the mean.

    Args:
        kappa: ηh, the step size times the curvature, no unit.
        workers: n.
        compute: One law for all workers, or a sequence of one law per worker, for which `stability_limit` has a result.
        momentum: μ in [0, 1) of the proxy.

    Returns:
        The ratio, infinite from `stability_limit` on, 0 or NaN where the proxy itself is unstable.

    Raises:
        ValueError: If an argument is out of range, or there is no result for these laws.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> round(energy_ratio(0.01, workers=10, compute=Exponential(1.0)), 3)
        1.905

    References:
        Hermans and Louppe 2018, equations (11), (12) and (15).
    """
    energy = kinetic_energy(kappa, workers=workers, compute=compute)
    proxy = proxy_kinetic_energy(kappa, momentum)
    return energy / proxy if math.isfinite(proxy) else (0.0 if math.isfinite(energy) else math.nan)


@checked
def drift_energy(*, workers: Workers, compute: Delay | Sequence[Delay]) -> float:
    """Return ½E(τ + 1)², the E_k of plain asynchronous SGD on a constant gradient g, per unit of (ηg)² (exact).

    Between a worker's read and the end of its commit the central variable makes τ + 1 equal steps: ½(n² + Var τ), which
    is n²/2 in a round robin and n(2n - 1)/2 for equal exponential workers. With ½/(1 - μ)² of the proxy
    (`proxy_drift_energy`) condition (12) holds up to n = 1/(1 - μ), or (1 + √(1 + 8/(1 - μ)²))/4 for the latter.
    Assumptions, numerical accuracy, arguments and errors as in `staleness_variance`.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> drift_energy(workers=10, compute=Exponential(1.0))
        95.0
    """
    return 0.5 * (workers**2 + staleness_variance(compute=compute, workers=workers))


@checked
def noise_energy(*, workers: Workers) -> float:
    """Return n/2, the E_k of plain asynchronous SGD on pure noise, per unit of the raw update's variance (exact).

    A displacement is a sum of τ + 1 independent updates, and E τ = n - 1 for workers that are never idle, whatever
    their laws. With ½/(1 - μ²) of the proxy (`proxy_noise_energy`) condition (12) holds up to n = 1/(1 - μ²).

    Args:
        workers: n.

    Example:
        >>> noise_energy(workers=10)
        5.0
    """
    return 0.5 * workers


@checked
def proxy_drift_energy(momentum: Momentum) -> float:
    """Return ½/(1 - μ)², the stationary energy of momentum SGD on a constant gradient g, per unit of (ηg)² (exact).

    Arguments as in `proxy_noise_floor`.

    Example:
        >>> round(proxy_drift_energy(0.9), 6)
        50.0
    """
    return 0.5 / (1 - momentum) ** 2


@checked
def proxy_noise_energy(momentum: Momentum) -> float:
    """Return ½/(1 - μ²), the stationary energy of momentum SGD on pure noise, per unit of an update's variance (exact).

    Arguments as in `proxy_noise_floor`.

    Example:
        >>> round(proxy_noise_energy(0.9), 4)
        2.6316
    """
    return 0.5 / (1 - momentum**2)


@checked
def most_workers_on_quadratic(kappa: Kappa, momentum: Momentum) -> float:
    """Return the n, a real number, up to which (12) holds in a stationary run of equal exponential workers (exact).

    n = P(2 + ηh) / (1 + ηh + P (ηh)²) with P the proxy's energy: where `energy_ratio` is 1. For ηh → 0 it is
    1/(1 - μ²), the number for pure noise. Arguments as in `proxy_noise_floor`.

    Returns:
        n, infinite where the proxy itself is unstable, below 1 where not even one worker obeys (12).

    Example:
        >>> round(most_workers_on_quadratic(0.01, momentum=0.9), 2)
        5.25
    """
    proxy = proxy_kinetic_energy(kappa, momentum)
    return proxy * (2 + kappa) / (1 + kappa + proxy * kappa**2) if math.isfinite(proxy) else math.inf
