"""Mean and variance of staleness without its distribution, and what an adaptive step size makes of it."""

from collections.abc import Sequence

import numpy as np

from asyncsim.checks import require_integer
from asyncsim.delays import Delay, Exponential, FloatArray
from asyncsim.delays.per_worker import Group, groups, one_law_per_worker
from asyncsim.theory.laws import integrated_cdf, quantile
from asyncsim.theory.staleness import is_round_robin, require_no_atoms


def staleness_mean(*, workers: int) -> float:
    """Mean staleness over all commits of asynchronous workers: n - 1, for any compute laws.

    Exact in the long run: at every commit n - 1 other gradients are under way, and a gradient is counted at
    exactly τ commits. Holds for unequal and dependent delays and for any server that handles a commit and the
    following read as one event; a worker that is idle before its read lowers it (`separate_pull_staleness_mean`).

    Args:
        workers: Number of workers n, at least 1.

    Returns:
        The mean, in commits.

    Raises:
        ValueError: If `workers` is not an integer of at least 1.

    Example:
        >>> staleness_mean(workers=20)
        19.0

    References:
        Koloskova, Stich and Jaggi 2022, "Sharper convergence guarantees for asynchronous SGD" (mean delay and
        concurrency).
    """
    return float(require_integer("workers", workers, least=1, remedy="Use one worker or more.") - 1)


def worker_staleness(*, compute: Delay | Sequence[Delay], workers: int) -> FloatArray:
    """Mean staleness of each worker's commits: E τ_i = m_i (R - 1/m_i), R = Σ_w 1/m_w commits per second.

    Exact in the long run for any independent delays with means m_i, atoms or not; zero-time server. Weighted by
    the shares of the commits, (1/m_i) / R, the means average n - 1.

    Args:
        compute: One law for all workers, or a sequence of one law per worker; times in seconds.
        workers: Number of workers n, at least 1.

    Returns:
        Means in commits, shape (n,).

    Raises:
        ValueError: If an argument does not fit, or a mean is not finite and positive.

    Example:
        >>> from asyncsim.delays import Constant
        >>> worker_staleness(compute=[Constant(1.0), Constant(1.0), Constant(4.0)], workers=3).tolist()
        [1.25, 1.25, 8.0]
    """
    groups(compute, workers)  # refuses means that are not finite and positive
    means = np.array([law.mean for law in one_law_per_worker(compute, workers)])
    return means * np.sum(1 / means) - 1


def staleness_mean_from_start(*, workers: int, commits: int) -> float:
    """Mean staleness of the first N commits of equal exponential workers: (n - 1) (1 - n (1 - (1 - 1/n)^N) / N).

    Exact: all workers read version 0 at time 0, and E τ_k = (n - 1) (1 - (1 - 1/n)^k) for commit k = 0, 1, ...;
    zero-time server. For other laws there is no such result.

    Args:
        workers: Number of workers n, at least 1.
        commits: Number of commits N, at least 1.

    Returns:
        The mean, in commits.

    Raises:
        ValueError: If an argument is not an integer of at least 1.

    Example:
        >>> round(staleness_mean_from_start(workers=10, commits=60), 3)
        7.503
    """
    workers = require_integer("workers", workers, least=1, remedy="Use one worker or more.")
    commits = require_integer("commits", commits, least=1, remedy="Average over one commit or more.")
    return (workers - 1) * (1 - workers * (1 - (1 - 1 / workers) ** commits) / commits)


def staleness_variance(compute: Delay | Sequence[Delay], workers: int) -> float:
    """Exact stationary variance of the staleness of one commit, over all commits.

    Var τ = Σ_i p_i E τ_i² - (n - 1)²  with, X_i a compute time of worker i and N_w an equilibrium renewal count,

        Var τ_i = Σ_{w≠i} E Var N_w(X_i) + (R - 1/m_i)² Var X_i

    Equal laws: (n - 1) E Var N(X) + (n - 1)² cv²; equal exponential laws: n (n - 1); one constant: 0.
    Assumptions and numerical accuracy as in `staleness_pmf` (relative error of some 1e-6).

    Args:
        compute: One law for all workers, or a sequence of one law per worker; times in seconds.
        workers: Number of workers n, at least 1.

    Returns:
        The variance, in commits squared; infinite if that of a compute law is.

    Raises:
        ValueError: As `staleness_pmf`.

    Example:
        >>> from asyncsim.delays import Exponential, Gamma
        >>> round(staleness_variance(compute=Exponential(3.0), workers=16), 6)
        240.0
        >>> round(staleness_variance(compute=Gamma(mean=1.0, cv=0.25), workers=16), 2)
        17.36

    References:
        Cox 1962, "Renewal Theory", section 4.5 (the variance of a renewal count).
    """
    laws = groups(compute, workers)
    if workers == 1 or is_round_robin(laws):
        return 0.0
    if all(isinstance(group.law, Exponential) for group in laws):
        return 2 * sum(group.workers / group.share for group in laws) - 3 * workers + 1 - (workers - 1) ** 2
    if not np.isfinite([group.law.variance for group in laws]).all():
        return float("inf")
    require_no_atoms(laws)
    return _renewal_variance(laws, workers)


def _renewal_variance(laws: tuple[Group, ...], workers: int) -> float:
    from asyncsim.theory.quadrature import quadrature
    from asyncsim.theory.renewal import count_variance

    rule = quadrature(laws, max(float(quantile(group.law, 1 - 1e-9)) for group in laws))
    # Row i, column w: E Var N_w(X_i).
    counting = rule.weights @ np.array([count_variance(group.law, rule.x) for group in laws]).T
    total = -float((workers - 1) ** 2)
    for own, group in enumerate(laws):
        others = np.array([other.workers for other in laws]) - (np.arange(len(laws)) == own)
        rate = sum(count / other.law.mean for count, other in zip(others, laws, strict=True))
        variance = others @ counting[own] + rate**2 * group.law.variance
        total += group.workers * group.share * (variance + (rate * group.law.mean) ** 2)
    return float(total)


def staleness_variance_small_cv(*, compute: Delay, workers: int) -> float:
    """Approximate variance for a small cv: (n - 1)² cv² + (n - 1) (E|X - X'| / m - cv²), X and X' two delays.

    Within some 3 % for cv <= 0.5 and n = 16, better for smaller cv and larger n; equal workers, assumptions as in
    `staleness_pmf`. It shows why nearly regular workers have a nearly regular staleness; `staleness_variance` is
    exact.

    Args:
        compute: The law of all workers, in seconds.
        workers: Number of workers n, at least 1.

    Returns:
        The approximate variance, in commits squared.

    Raises:
        ValueError: If the law has cv > 0.5, where the approximation is poor.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> round(staleness_variance_small_cv(compute=Gamma(mean=1.0, cv=0.25), workers=16), 2)
        17.32
    """
    groups(compute, workers)
    spread = compute.variance / compute.mean**2
    if spread > 0.25:
        raise ValueError(
            f"`compute` must have a coefficient of variation of at most 0.5; got {compute!r}. Use `staleness_variance`."
        )
    return (workers - 1) ** 2 * spread + (workers - 1) * (_mean_difference(compute) / compute.mean - spread)


def _mean_difference(law: Delay) -> float:
    """E|X - X'| = 2 ∫ F (1 - F) dt."""
    edges = np.unique(quantile(law, np.linspace(0, 1, 1025)[1:-1]))
    edges = np.concatenate([[0.0], edges, quantile(law, 1 - np.logspace(-4, -13, 40))])
    return 2 * float(integrated_cdf(lambda t: law.cdf(t) * (1 - law.cdf(t)), np.unique(edges))[-1])
