"""Expected seconds per step of the server, and what waiting for the slowest costs."""

from asyncsim.checks import require_positive
from asyncsim.delays import Delay, Exponential
from asyncsim.delays.per_worker import groups
from asyncsim.theory.order_statistics import expected_order_statistic
from asyncsim.theory.protocols import checked_step


def round_time(workers: int, k: int | None = None, rate: float = 1.0, protocol: str = "sync") -> float:
    """Exact expected seconds per step of the server, for equal exponential workers and a zero-time server.

    "sync":                             H_n / λ,  H_n = 1 + 1/2 + ... + 1/n
    "k_sync", "k_async":                (H_n - H_{n-K}) / λ
    "k_batch_sync", "k_batch_async":    K / (n λ)
    "async":                            1 / (n λ)

    Assumptions: independent delays of mean 1/λ; a step takes K gradients, those of K distinct workers unless the
    name says batch; the workers that a synchronous step leaves behind are cancelled. By memorylessness, waiting
    for K of n workers takes as long whether the others are fresh or half done.

    Args:
        workers: Number of workers n, at least 1.
        rate: λ, gradients per second and worker.
        protocol: One of the names above.
        k: Gradients a step K; left out for "async" and "sync".

    Returns:
        Seconds.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> round(round_time(workers=16, k=4, rate=1.0, protocol="k_sync"), 5)
        0.27752

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """
    step = checked_step(protocol, workers, k)
    law = Exponential(1 / require_positive("rate", rate, remedy="Give gradients per second and worker."))
    if step.protocol in ("k_batch_sync", "k_batch_async", "async"):
        return step.k * law.mean / step.workers
    return expected_order_statistic(law, k=step.k, n=step.workers)


def round_time_of_law(*, compute: Delay, workers: int, protocol: str, k: int | None = None) -> float:
    """Exact expected seconds per step of the server for equal workers of any compute law, zero-time server.

    "sync":           E X_{n:n}, the slowest of n
    "k_sync":         E X_{K:n}, the K-th of n
    "k_batch_async":  K m / n,  m the mean
    "async":          m / n

    "k_async" and "k_batch_sync" have no such form: the workers that wait, or start again, differ in age
    (`round_time` has both for exponential laws; for laws that are new better than used E X_{K:n} is an upper bound
    of "k_async"). Assumptions otherwise as in `round_time`.

    Args:
        compute: The law of all workers, in seconds.
        workers: Number of workers n, at least 1.
        protocol: One of the names above.
        k: Gradients a step K; left out for "async" and "sync".

    Returns:
        Seconds.

    Raises:
        ValueError: If an argument does not fit, or the protocol is one of the two without a form.

    Example:
        >>> from asyncsim.delays import Uniform
        >>> round_time_of_law(compute=Uniform(1.0, 3.0), workers=3, protocol="sync")
        2.5

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """
    step = checked_step(protocol, workers, k)
    groups(compute, 1)
    if step.protocol in ("async", "k_batch_async"):
        return step.k * compute.mean / step.workers
    if step.protocol in ("sync", "k_sync"):
        return expected_order_statistic(compute, k=step.k, n=step.workers)
    raise ValueError(
        f"`protocol` must be 'sync', 'k_sync', 'k_batch_async' or 'async' for a general law; got {protocol!r}. "
        "Use `round_time` for exponential laws, or simulate."
    )


def asynchronous_speed_up(*, compute: Delay, workers: int) -> float:
    """Steps per second of asynchronous workers over those of synchronous ones: n E X_{n:n} / E X.

    A synchronous step applies n gradients at once: in gradients per second the ratio is this divided by n. Exact
    for equal workers of any law, zero-time server; n H_n ~ n ln n for the exponential law, n for a constant.

    Args:
        compute: The law of all workers, in seconds.
        workers: Number of workers n, at least 1.

    Returns:
        The ratio, at least n.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> from asyncsim.delays import Constant
        >>> asynchronous_speed_up(compute=Constant(2.0), workers=8)
        8.0

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race".
    """
    synchronous = round_time_of_law(compute=compute, workers=workers, protocol="sync")
    return synchronous / round_time_of_law(compute=compute, workers=workers, protocol="async")
