"""Staleness where a worker pulls some time before it commits, and goes on from its pulled value plus its own message.

Between the pull for one commit and the next commit lie the time d to the former, the compute time X and the time d
between the next pull and its commit. Meanwhile each of the others commits at the renewals of X + d, in equilibrium:

    E z^τ = ∫ F_{X+2d}(dx) (E z^{N(x)})^{n-1},   N(x) an equilibrium renewal count of law F_{X+d}
"""

from collections.abc import Sequence

import numpy as np

from asyncsim.delays import Delay, FloatArray, Scaled
from asyncsim.delays._per_worker import Group, groups
from asyncsim.theory._arguments import Size, Workers
from asyncsim.theory._asynchronous import require_no_atoms
from asyncsim.theory._generating_function import (
    count_tails,
    count_variance,
    invert,
    longest_time,
    quadrature,
    transform_at_nodes,
)


def gap_staleness_mean(*, compute: Delay | Sequence[Delay], workers: Workers, pull_to_commit: Delay) -> float:
    """Mean staleness with a gap, in commits: n - 1 + g with g = Σ_i p_i Σ_{w≠i} d / (m_w + d).

    The gap g counts the commits of others between pull and commit. With m_w the mean compute times, d that from pull to
    commit, and p_i ∝ 1 / (m_i + d) the shares of the commits. With equal workers g = (n - 1) d / (m + d). Exact in the
    long run for independent delays of any law, for the workers of
    `Server(atomic=False, resume="own", pull_to_commit=…)` that never wait, without a network and with a server that
    takes no time. The first part is `staleness_mean`, and `trace.version - trace.pull_version` measures g.

    Args:
        compute: One law for all workers, or a sequence of one law per worker, in seconds.
        workers: Number of workers n, at least 1.
        pull_to_commit: Law of the seconds between pull and commit.

    Raises:
        ValueError: If an argument is out of range, or a mean is not finite and positive.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> gap_staleness_mean(compute=Exponential(1.0), workers=6, pull_to_commit=Constant(0.25))
        6.0
    """
    laws = groups(compute, workers)
    gap = pull_to_commit.mean
    rates = np.array([1 / (group.law.mean + gap) for group in laws])
    counts = np.array([group.workers for group in laws])
    total = counts @ rates
    between = counts @ (rates / total * gap * (total - rates))
    return float(workers - 1 + between)


def gap_staleness_pmf(*, compute: Delay, workers: Workers, pull_to_commit: Delay, size: Size) -> FloatArray:
    """Distribution of the staleness of equal workers with a gap, P(τ = 0), ..., P(τ = size - 1).

    P(τ = k) = ∫ F_{X+2d}(dx) P(Σ_{w<n} N_w(x) = k), N_w equilibrium renewal counts of law F_{X+d}, for compute times
    X and a constant time d from pull to commit. Exact under the assumptions of `gap_staleness_mean`, evaluated
    numerically with absolute errors of about 1e-7.

    Other arguments as in `gap_staleness_mean`.

    Args:
        compute: The law of all workers, without atoms, in seconds.
        pull_to_commit: A constant law: the seconds between pull and commit.
        size: Number of probabilities, at least 1.

    Raises:
        ValueError: If an argument is out of range, `compute` has atoms (constant compute times keep the phase in which
            the workers started), or `pull_to_commit` is not constant.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> laws = {"compute": Exponential(1.0), "pull_to_commit": Constant(0.5)}
        >>> gap_staleness_pmf(**laws, workers=3, size=5).round(3).tolist()
        [0.055, 0.201, 0.283, 0.213, 0.119]
    """
    if workers == 1:
        return np.where(np.arange(size) == 0, 1.0, 0.0)
    cycle, windows = _checked(compute, workers, pull_to_commit)
    rule = quadrature(windows, longest_time(windows))
    tails = [count_tails(cycle, rule.x, most=size)]
    return invert(lambda z: transform_at_nodes(windows, rule, tails, z), size)


def gap_staleness_variance(*, compute: Delay, workers: Workers, pull_to_commit: Delay) -> float:
    """Variance of the staleness of equal workers with a gap, in commits²: (n - 1) E Var N(W) + ((n - 1) / c)² Var X.

    W = X + 2d is the time since the previous pull, N an equilibrium renewal count of the cycles X + d, and c their
    mean. Assumptions and arguments as in `gap_staleness_pmf`.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> round(gap_staleness_variance(compute=Exponential(1.0), workers=3, pull_to_commit=Constant(0.5)), 3)
        3.099
    """
    if workers == 1:
        return 0.0
    cycle, windows = _checked(compute, workers, pull_to_commit)
    rule = quadrature(windows, longest_time(windows))
    counting = float(rule.weights[0] @ count_variance(cycle, rule.x))
    return (workers - 1) * counting + ((workers - 1) / cycle.mean) ** 2 * compute.variance


def _checked(compute: Delay, workers: int, pull_to_commit: Delay) -> tuple[Delay, tuple[Group, ...]]:
    """The law of a worker's cycle, and that of the time from the pull for one commit to the next commit."""
    require_no_atoms(groups(compute, workers))
    if pull_to_commit.variance:
        raise ValueError(
            f"`pull_to_commit` must be constant; got {pull_to_commit!r}. `gap_staleness_mean` holds for every law; "
            "simulate to get the rest."
        )
    seconds = pull_to_commit.mean
    return Scaled(compute, 1.0, seconds), (Group(Scaled(compute, 1.0, 2 * seconds), workers, 1 / workers),)
