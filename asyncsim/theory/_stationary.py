"""Stability limit, noise floor and kinetic energy of any cluster: answered by whichever result holds for it."""

import math
from collections.abc import Sequence

from asyncsim.delays import Delay
from asyncsim.delays._per_worker import one_law_per_worker
from asyncsim.theory._arguments import Kappa, momentum_and_place
from asyncsim.theory._constant_delay import constant_delay_limit, constant_delay_moments
from asyncsim.theory._moments import moment_system
from asyncsim.theory._phases import in_turn


def stability_limit(
    workers: int, compute: Delay | Sequence[Delay], momentum: float = 0.0, where: str = "none"
) -> float:
    """The ηh, step size times curvature, above which asynchronous SGD is unstable in mean square (exact).

    * Equal `Constant` laws, or one worker: `constant_delay_limit` with the delay n - 1.
    * Any mixture of `Exponential` laws and laws made of exponential phases: the ηh at which the closed linear system
      of second moments becomes singular. Equal exponential workers without momentum: (1 + √(1 + 8n)) / (2n).

    Assumptions: a quadratic (in d dimensions, for each eigenvalue of the Hessian), gradients read just after the
    worker's own commit, independent compute times. Between this limit and the almost-sure one, see `almost_sure_limit`,
    a single run mostly looks stable and makes rare, huge excursions.

    Args:
        workers: n.
        compute: One law for all workers, or a sequence of one law per worker.
        momentum: μ in [0, 1).
        where: Who keeps the momentum: "server" (heavy ball on the messages), "worker" (each its own moment) or "none"
            (the default, for μ = 0).

    Raises:
        ValueError: If an argument is out of range, or there is no result for these laws, or too many phases.

    Example:
        At equal mean staleness, random delays are far more stable than a round robin:

        >>> from asyncsim import delays
        >>> round(stability_limit(workers=16, compute=delays.Exponential(1.0)), 4)
        0.3862
        >>> round(stability_limit(workers=16, compute=delays.Constant(1.0)), 4)
        0.1013
        >>> round(stability_limit(workers=10, compute=delays.Exponential(1.0), momentum=0.9, where="worker"), 4)
        0.0881
    """
    laws = one_law_per_worker(compute, workers)
    momentum, where = momentum_and_place(momentum, where)
    if in_turn(laws):
        return constant_delay_limit(workers - 1, momentum, where)
    return moment_system(laws, momentum, where).limit


def noise_floor(
    kappa: Kappa, workers: int, compute: Delay | Sequence[Delay], momentum: float = 0.0, where: str = "none"
) -> float:
    """Stationary variance of x at a commit, per unit of the variance of a raw update's noise (exact).

    Equal constants: `constant_delay_moments`. Equal exponentials: (1 + n ηh) / (ηh (2 + ηh - n (ηh)²)). Laws of
    exponential phases, different workers, momentum: the closed linear system of second moments.

    Assumptions: those of `stability_limit`, and additive gradient noise, independent from commit to commit. The
    average is over commits, which differs from that over time unless the commits form a Poisson process. Other
    arguments and errors as in `stability_limit`.

    Args:
        kappa: ηh, the step size times the curvature, no unit.

    Returns:
        Var x over η²σ², with η the step size and σ² the noise variance of one gradient, infinite from
        `stability_limit` on.

    Example:
        >>> from asyncsim import delays
        >>> round(noise_floor(0.1, workers=8, compute=delays.Exponential(1.0)), 6)
        8.910891
        >>> noise_floor(0.6, workers=8, compute=delays.Exponential(1.0))
        inf
    """
    return _both(kappa, workers, compute, momentum, where)[0]


def kinetic_energy(
    kappa: Kappa, workers: int, compute: Delay | Sequence[Delay], momentum: float = 0.0, where: str = "none"
) -> float:
    """Stationary E_k = ½E(θ_{t+1} - s_t)² of a coordinate, per unit of the variance of a raw update's noise (exact).

    s_t is where the committing worker took its gradient, so that this is the recorded "energy_central", per coordinate
    and over η²σ². Equal exponentials: n(1 + ηh) / (2 + ηh - n (ηh)²), which tends to n/2 for small ηh.
    Assumptions, arguments and infinity as in `noise_floor`.

    Example:
        >>> from asyncsim import delays
        >>> kinetic_energy(0.5, workers=4, compute=delays.Exponential(1.0))
        4.0

    References:
        Hermans and Louppe 2018, equation (11).
    """
    return _both(kappa, workers, compute, momentum, where)[1]


def _both(
    kappa: float, workers: int, compute: Delay | Sequence[Delay], momentum: float, where: str
) -> tuple[float, float]:
    laws = one_law_per_worker(compute, workers)
    momentum, where = momentum_and_place(momentum, where)
    if in_turn(laws):
        return constant_delay_moments(kappa, workers - 1, momentum, where)
    system = moment_system(laws, momentum, where)
    moments = system.solve(kappa) if kappa < system.limit else None
    if moments is None:
        return math.inf, math.inf
    return system.variance(moments[0]), system.kinetic_energy(*moments, kappa)
