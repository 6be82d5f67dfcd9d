"""Stationary staleness of asynchronous workers whose server takes no time, with or without a gap before the commit."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief
from asyncsim.components._checked import checked
from asyncsim.delays import Delay, Exponential, FloatArray, Scaled
from asyncsim.delays._per_worker import Group, groups
from asyncsim.theory._generating_function import (
    count_tails,
    count_variance,
    invert,
    longest_time,
    make_quadrature,
    staleness_transform,
    transform_at_nodes,
)
from asyncsim.theory._heterogeneous import commit_shares
from asyncsim.theory._numerics import gauss, has_atoms, quantile, require_size
from asyncsim.theory._parameters import Size, Workers, require_count

_FirstCommits = Annotated[int, require_count, "Average over one commit or more."]


@checked
def staleness_pmf(compute: Delay | Sequence[Delay], workers: Workers, size: Size) -> FloatArray:
    """Return the exact distribution of the staleness of one commit, P(τ = 0), ..., P(τ = size - 1).

    equal exponential laws:   P(τ = k) = (1/n) (1 - 1/n)^k
    exponential laws:         P(τ = k) = Σ_i p_i² (1 - p_i)^k, p_i = rate_i / Σ rates
    equal constant laws:      τ = n - 1, from the second round on
    any laws without atoms:   P(τ = k) = Σ_i p_i ∫ F_i(dx) P(Σ_{w≠i} N_w(x) = k),
                              p_i = (1/m_i) / Σ_w 1/m_w, N_w an equilibrium renewal count of F_w

    Assumptions: asynchronous workers that never wait, independent delays, a server that takes no time, a commit and the
    following read in one instant, and stationary times, that is, long after the common start (about 1/cv² rounds for a
    small coefficient of variation cv). The first three lines are exact up to rounding. The fourth is evaluated
    numerically, with absolute errors of about 1e-9 per value for light tails and at most 1e-6 in all for heavy ones.
    Its cost grows as the number of distinct laws times `size` times √n: a thousand equal workers take less than a
    second, a heavy tail with a large `size` takes several.

    Args:
        compute: One law for all workers, or a sequence of one law per worker, in seconds.
        workers: Number of workers n, at least 1.
        size: Number of probabilities, at least 1. The mean of τ is n - 1, so for exponential laws 10 n omit little.

    Returns:
        Probabilities, shape (size,). The remaining mass lies beyond.

    Raises:
        ValueError: If an argument is out of range, a law has atoms, because commits then keep the phase in which they
            started (unless all workers share one constant), or a tail is too heavy for the lattice.

    Example:
        >>> from asyncsim.delays import Constant, Exponential, Gamma
        >>> staleness_pmf(compute=Exponential(2.0), workers=4, size=3).tolist()
        [0.25, 0.1875, 0.140625]
        >>> staleness_pmf(compute=Constant(2.0), workers=3, size=4).tolist()
        [0.0, 0.0, 1.0, 0.0]
        >>> staleness_pmf(compute=Gamma(mean=1.0, cv=0.5), workers=4, size=5).round(3).tolist()
        [0.06, 0.153, 0.223, 0.222, 0.153]

    References:
        Mitliagkas, Zhang, Hadjis and Ré 2016, "Asynchrony begets momentum" (exponential laws).
        Cox 1962, "Renewal Theory" (equilibrium counts).
    """
    laws = groups(compute, workers)
    require_size(f"`size` = {brief(size)}", float(size) * len(laws), "Ask for fewer probabilities.")
    if workers == 1 or is_round_robin(laws):
        return np.where(np.arange(size) == workers - 1, 1.0, 0.0)
    if all(isinstance(group.law, Exponential) for group in laws):
        share = np.array([group.share for group in laws])
        weight = share**2 * [group.workers for group in laws]
        return weight @ np.power(1 - share[:, None], np.arange(size, dtype=np.float64))
    require_no_atoms(laws)
    return invert(lambda z: staleness_transform(laws, z, size), size)


@checked
def staleness_limit_cdf(ratio: ArrayLike, *, compute: Delay) -> FloatArray:
    """Return the limit of many equal workers' P(τ / (n - 1) <= ratio): F(ratio · m), F the compute law and m its mean.

    Exact as n -> ∞, approximate for finite n: staleness scaled to mean 1 has the law of a compute time scaled to
    mean 1. Assumptions as in `staleness_pmf`.

    Args:
        ratio: τ / (n - 1), no unit, of any shape, which is that of the probabilities.
        compute: The law of all workers.

    Raises:
        ValueError: If the law has atoms, or its mean is not finite and positive.

    Example:
        >>> from asyncsim.delays import Uniform
        >>> staleness_limit_cdf([0.5, 1.0, 1.5], compute=Uniform(0.0, 4.0)).tolist()
        [0.25, 0.5, 0.75]
    """
    laws = groups(compute, 1)
    require_no_atoms(laws)
    return compute.cdf(np.asarray(ratio, dtype=np.float64) * compute.mean)


def require_no_atoms(laws: tuple[Group, ...]) -> None:
    """Refuse laws with atoms: single delays of positive probability."""
    for group in laws:
        if has_atoms(group.law):
            raise ValueError(
                f"`compute` must have no atoms, unless all workers share one constant; got {brief(group.law)}. "
                "`staleness_mean` and `worker_staleness` hold for every law; simulate to get the rest."
            )


def is_round_robin(laws: tuple[Group, ...]) -> bool:
    """Return whether all workers share one constant."""
    return len(laws) == 1 and laws[0].law.variance == 0


@checked
def staleness_mean(*, workers: Workers, commits: _FirstCommits | None = None) -> float:
    """Return the mean staleness, in commits, over all commits of asynchronous workers: n - 1, for any compute laws.

    Exact in the long run: at every commit n - 1 other gradients are under way, and a gradient is counted at
    exactly τ commits. Holds for unequal and dependent delays and for any server that handles a commit and the
    following read as one event. A worker that is idle before its read lowers it (`separate_pull_staleness_mean`).

    Over the first N commits of equal exponential workers, who all read version 0 at time 0, it is
    (n - 1) (1 - n (1 - (1 - 1/n)^N) / N), because E τ_k = (n - 1) (1 - (1 - 1/n)^k) for commit k = 0, 1, ….

    Args:
        workers: Number of workers n, at least 1.
        commits: Number of first commits N, for exponential workers only, by default all in the long run.

    Example:
        >>> staleness_mean(workers=20), round(staleness_mean(workers=10, commits=60), 3)
        (19.0, 7.503)

    References:
        Koloskova, Stich and Jaggi 2022, "Sharper convergence guarantees for asynchronous SGD" (mean delay and
        concurrency).
    """
    mean = float(workers - 1)
    if commits is None:
        return mean
    return mean * (1 - workers * (1 - (1 - 1 / workers) ** commits) / commits)


@checked
def worker_staleness(*, compute: Delay | Sequence[Delay], workers: Workers) -> FloatArray:
    """Return each worker's mean staleness, shape (n,): E τ_i = m_i (R - 1/m_i), R = Σ_w 1/m_w commits per second.

    Exact in the long run for any independent delays with means m_i, atoms or not, and a zero-time server. Weighted by
    the shares of the commits, (1/m_i) / R, the means average n - 1. Arguments as in `staleness_pmf`.

    Raises:
        ValueError: If an argument is out of range, or a mean is not finite and positive.

    Example:
        >>> from asyncsim.delays import Constant
        >>> worker_staleness(compute=[Constant(1.0), Constant(1.0), Constant(4.0)], workers=3).tolist()
        [1.25, 1.25, 8.0]
    """
    return 1 / commit_shares(compute=compute, workers=workers) - 1


@checked
def staleness_variance(compute: Delay | Sequence[Delay], workers: Workers) -> float:
    """Return the exact stationary variance of the staleness of one commit, over all commits.

    Var τ = Σ_i p_i E τ_i² - (n - 1)² where, with X_i a compute time of worker i and N_w an equilibrium renewal count,

        Var τ_i = Σ_{w≠i} E Var N_w(X_i) + (R - 1/m_i)² Var X_i

    Equal laws: (n - 1) E Var N(X) + (n - 1)² cv²; equal exponential laws: n (n - 1); one constant: 0. For cv <= 0.5 the
    first term is about (n - 1) (E|X - X'| / m - cv²), so that nearly regular workers have a nearly regular staleness.
    Assumptions, arguments and errors as in `staleness_pmf`, and numerical accuracy (relative error of about 1e-6, and
    1e-5 for cv >= 10).

    Returns:
        The variance, in commits squared, infinite if that of a compute law is.

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
    longest = max(float(quantile(group.law, 1 - 1e-9)) for group in laws)
    quadrature = make_quadrature(laws, longest)
    variances = np.array([count_variance(group.law, np.append(quadrature.x, longest)) for group in laws])
    # Row i, column w: E Var N_w(X_i). Beyond the longest time, Var N_w grows by σ_w²/m_w³ per second.
    growth = np.array([group.law.variance / group.law.mean**3 for group in laws])
    beyond = np.array([1 - group.law.cdf(longest) for group in laws])
    within = quadrature.weights @ quadrature.x + longest * beyond
    excess = np.maximum([group.law.mean for group in laws] - within, 0.0)  # E (X_i - longest)⁺
    counting = quadrature.weights @ variances[:, :-1].T + np.outer(beyond, variances[:, -1]) + np.outer(excess, growth)
    total = -float((workers - 1) ** 2)
    for index, group in enumerate(laws):
        others = np.array([other.workers for other in laws]) - (np.arange(len(laws)) == index)
        rate = sum(count / other.law.mean for count, other in zip(others, laws, strict=True))
        variance = others @ counting[index] + rate**2 * group.law.variance
        total += group.workers * group.share * (variance + (rate * group.law.mean) ** 2)
    return float(total)


@checked
def mean_rescaling(*, compute: Delay | Sequence[Delay], workers: Workers) -> float:
    """Return the exact stationary E[1 / (τ + 1)] in (0, 1], the mean factor of the rule "adaptive staleness".

    equal exponential laws:  ln n / (n - 1)
    exponential laws:        Σ_i p_i · p_i ln(1 / p_i) / (1 - p_i), p_i = rate_i / Σ rates
    one constant:            1 / n
    any laws without atoms:  ∫_0^1 E z^τ dz by quadrature

    So the n commits of one round add up to about ln n single steps with exponential laws, and to one single step in a
    round robin. Assumptions, numerical accuracy, arguments and errors as in `staleness_pmf`.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> round(mean_rescaling(compute=Exponential(1.0), workers=10), 5)
        0.25584
        >>> mean_rescaling(compute=Constant(1.0), workers=10)
        0.1

    References:
        Hermans and Louppe 2018, "Gradient energy matching for distributed asynchronous gradient descent" (the
        baseline whose factor this is).
    """
    laws = groups(compute, workers)
    if workers == 1 or is_round_robin(laws):
        return 1 / workers
    if all(isinstance(group.law, Exponential) for group in laws):
        shares = [(group.workers, group.share) for group in laws]
        return float(sum(workers * (-share * share * np.log(share) / (1 - share)) for workers, share in shares))
    require_no_atoms(laws)
    # With many workers E z^τ differs from 0 only near z = 1, towards which the panels are halved 20 times.
    edges = np.concatenate([[0.0], 1 - 0.5 ** np.arange(1, 21), [1.0]])
    z, weights = gauss(edges, 12)
    return float(
        np.outer(np.diff(edges), weights).ravel() @ staleness_transform(laws, z.ravel(), max_staleness=60 * workers)
    )


@checked
def gap_staleness_mean(*, compute: Delay | Sequence[Delay], workers: Workers, pull_to_commit: Delay) -> float:
    """Return the mean staleness with a gap, in commits: n - 1 + g with g = Σ_i p_i Σ_{w≠i} d / (m_w + d).

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


@checked
def gap_staleness_pmf(*, compute: Delay, workers: Workers, pull_to_commit: Delay, size: Size) -> FloatArray:
    """Return the distribution of the staleness of equal workers with a gap, P(τ = 0), ..., P(τ = size - 1).

    P(τ = k) = ∫ F_{X+2d}(dx) P(Σ_{w<n} N_w(x) = k), N_w equilibrium renewal counts of law F_{X+d}, for compute times
    X and a constant time d from pull to commit: from a worker's pull to its next commit it takes d, X and again d, and
    the others commit every X + d. Exact under the assumptions of `gap_staleness_mean`, evaluated
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
    require_size(f"`size` = {brief(size)}", 2 * size, "Ask for fewer probabilities.")
    if workers == 1:
        return np.where(np.arange(size) == 0, 1.0, 0.0)
    cycle, windows = _cycle_and_window(compute, workers, pull_to_commit)
    quadrature = make_quadrature(windows, longest_time(windows))
    tails = [count_tails(cycle, quadrature.x, max_terms=size)]
    return invert(lambda z: transform_at_nodes(windows, quadrature, tails, z), size)


@checked
def gap_staleness_variance(*, compute: Delay, workers: Workers, pull_to_commit: Delay) -> float:
    """Return equal workers' staleness variance with a gap, in commits²: (n - 1) E Var N(W) + ((n - 1) / c)² Var X.

    W = X + 2d is the time since the previous pull, N an equilibrium renewal count of the cycles X + d, and c their
    mean. Assumptions and arguments as in `gap_staleness_pmf`.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> round(gap_staleness_variance(compute=Exponential(1.0), workers=3, pull_to_commit=Constant(0.5)), 3)
        3.099
    """
    if workers == 1:
        return 0.0
    cycle, windows = _cycle_and_window(compute, workers, pull_to_commit)
    quadrature = make_quadrature(windows, longest_time(windows))
    counting = float(quadrature.weights[0] @ count_variance(cycle, quadrature.x))
    return (workers - 1) * counting + ((workers - 1) / cycle.mean) ** 2 * compute.variance


def _cycle_and_window(compute: Delay, workers: int, pull_to_commit: Delay) -> tuple[Delay, tuple[Group, ...]]:
    """Return the law of a worker's cycle, and that of the time from the pull for one commit to the next commit."""
    require_no_atoms(groups(compute, workers))
    if pull_to_commit.variance:
        raise ValueError(
            f"`pull_to_commit` must be constant; got {brief(pull_to_commit)}. `gap_staleness_mean` holds for every "
            "law; simulate to get the rest."
        )
    seconds = pull_to_commit.mean
    return Scaled(compute, 1.0, seconds), (Group(Scaled(compute, 1.0, 2 * seconds), workers, 1 / workers),)
