"""How large a step may be: one question, answered by whichever result holds for the cluster."""

from collections.abc import Sequence

from asyncsim.delays import Delay
from asyncsim.delays.per_worker import one_law_per_worker
from asyncsim.theory import phase_type
from asyncsim.theory.constant_delay import constant_delay_limit
from asyncsim.theory.linear_rule import check_momentum
from asyncsim.theory.moment_system import moment_system
from asyncsim.theory.momentum import implicit_momentum


def stability_limit(
    workers: int, compute: Delay | Sequence[Delay], momentum: float = 0.0, where: str = "none"
) -> float:
    """The κ = step size times curvature from which asynchronous SGD is unstable in mean square; exact.

    * Equal `Constant` laws, or one worker: `constant_delay_limit` with the delay n - 1.
    * Any mixture of `Exponential` laws and laws made of exponential phases: the κ at which the closed linear system
      of second moments becomes singular. Equal exponential workers without momentum: (1 + √(1 + 8n)) / (2n).

    Assumptions: a quadratic (in d dimensions per eigenvalue of the Hessian), gradients read just after the worker's
    own commit, independent compute times. Between this limit and the almost-sure one, see `almost_sure_limit`, a
    single run mostly looks stable and makes rare, huge excursions.

    Args:
        workers: n.
        compute: A law, or a sequence with one a worker.
        momentum: μ in [0, 1).
        where: Who keeps the momentum: "server" (heavy ball on what arrives) or "worker" (each its own moment).

    Returns:
        The limit, without unit.

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
    momentum, where = check_momentum(momentum, where)
    if phase_type.in_turn(laws):
        return constant_delay_limit(workers - 1, momentum, where)
    return moment_system(laws, momentum, where).limit


def mean_stability_limit(*, workers: int, worker_momentum: float = 0.0) -> float:
    """The κ from which the *mean* of x grows, for equal exponential workers: 4n - 2(1 - μ); exact and no guide.

    Averaged over runs, asynchrony looks like momentum 1 - (1 - μ)/n, which bears huge steps; every single run
    diverges long before, see `almost_sure_limit`. It is here to show that stability of the mean is the wrong criterion.

    Args:
        workers: n.
        worker_momentum: μ in [0, 1), kept by each worker.

    Example:
        >>> mean_stability_limit(workers=8)
        30.0
    """
    return 2 * workers * (1 + implicit_momentum(workers, worker_momentum=worker_momentum))
