"""The equations of the mean over many runs: asynchrony as momentum, and staleness as a convolution kernel."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from asyncsim import _checks as checks
from asyncsim import delays
from asyncsim.components._checked import checked
from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._per_worker import one_law_per_worker
from asyncsim.theory._numerics import TURN, require_finite, require_size
from asyncsim.theory._parameters import Commits, K, Kappa, Momentum, Where, Workers, require_k, require_momentum

DIVERGES = "The mean diverges: use a smaller step or fewer commits."
MASS_TOLERANCE = 1e-6  # deviation from 1 of the sum of a distribution, whose tail may have been cut off


@checked
def implicit_momentum(workers: Workers, k: K = 1, worker_momentum: Momentum = 0.0) -> float:
    """Return the momentum that the mean of asynchronous SGD has: 1 - (1 - μ) K/n (exact).

    E Δ_{t+1} = [1 - (1 - μ) K/n] E Δ_t - (ηK/n) E ∇L(x_t), Δ_t = x_t - x_{t-1}, for any differentiable L. With
    exponential times the K workers that commit are a uniform draw, independent of the past. Each time a fraction K/n of
    the mean over the workers' next messages is therefore replaced. Nothing about staleness is assumed. From a common
    start with moments at rest E Δ_1 = -η ∇L(x_0), the whole of it and not a fraction K/n. E ∇L(x_t) is not ∇L(E x_t):
    for another loss than a quadratic, average the gradients over many runs.

    Momentum kept at the server does not fuse with it into one number: the factors per commit of E x_t on a quadratic
    are the roots of (z - 1)(z - μ)(z - 1 + 1/n) + (ηh/n) z², instead of (z - 1)(z - m) + (ηh/n) z with the momentum m.

    Args:
        workers: n equal workers with exponential compute times.
        k: K different workers whose messages are averaged into one version.
        worker_momentum: μ in [0, 1), in the moment that each worker keeps.

    Example:
        >>> implicit_momentum(8), implicit_momentum(8, k=2), implicit_momentum(8, worker_momentum=0.5)
        (0.875, 0.75, 0.9375)

    References:
        Mitliagkas, Zhang, Hadjis and Ré 2016, "Asynchrony begets momentum" (1 - 1/n, with independent staleness).
    """
    require_k(k, workers)
    return 1 - (1 - worker_momentum) * k / workers


@checked
def mean_stability_limit(*, workers: Workers, worker_momentum: Momentum = 0.0) -> float:
    """Return the ηh above which the *mean* of x grows, equal exponential workers: 4n - 2(1 - μ) (exact but not safe).

    Here ηh is the step size times the curvature. Averaged over runs, asynchrony looks like momentum 1 - (1 - μ)/n,
    which tolerates huge steps. Every single run diverges long before, see `almost_sure_limit`. It is here to show that
    stability of the mean is the wrong criterion. Arguments as in `implicit_momentum`.

    Example:
        >>> mean_stability_limit(workers=8)
        30.0
    """
    return 2 * workers * (1 + implicit_momentum(workers, worker_momentum=worker_momentum))


@checked
def expected_path(
    gradient: Callable[[FloatArray], ArrayLike],
    start: ArrayLike,
    *,
    workers: Workers,
    learning_rate: float,
    commits: Commits,
    k: K = 1,
    momentum: Momentum = 0.0,
    where: Where = "none",
) -> FloatArray:
    """Return E x_t of equal exponential workers from a common start: exact for a linear gradient, else approximate.

    H_0 = -η ∇L(x_0), H_t = m H_{t-1} - (ηK/n) ∇L(x_t) with m = `implicit_momentum`, and x_{t+1} = x_t + H_t, or with
    heavy ball μ at the server x_{t+1} = x_t + v_{t+1}, v_{t+1} = μ v_t + H_t. For a gradient that is not linear,
    ∇L(E x) stands for E ∇L(x). `implicit_momentum` says which relation stays exact.

    Other arguments as in `implicit_momentum`.

    Args:
        gradient: ∇L, of the central variable.
        start: x_0, any shape.
        learning_rate: η.
        commits: T versions.
        momentum: μ in [0, 1).
        where: Who keeps it: "server", "worker" or "none" (the default, for μ = 0).

    Example:
        >>> expected_path(lambda x: x, 1.0, workers=2, learning_rate=0.5, commits=3).tolist()
        [1.0, 0.5, 0.125, -0.09375]
    """
    momentum, where = require_momentum(momentum, where)
    decay = implicit_momentum(workers, k, momentum if where == "worker" else 0.0)
    server_momentum = momentum if where == "server" else 0.0
    x = np.asarray(checks.require_all_finite("start", start), float)
    _require_steps(commits, x.size)
    path, velocity = [x], np.zeros_like(x)
    message = -learning_rate * np.asarray(gradient(x), float)
    # An overflow is refused below as a divergence, with a remedy.
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(commits):
            velocity = server_momentum * velocity + message
            x = x + velocity
            path.append(x)
            message = decay * message - learning_rate * k / workers * np.asarray(gradient(x), float)
    return require_finite(f"`learning_rate` = {learning_rate:g}", np.stack(path), DIVERGES)


@checked
def expected_quadratic_path(
    kappa: Kappa, *, workers: Workers, compute: Delay | Sequence[Delay], commits: Commits, start: float = 1.0
) -> FloatArray:
    """Return E x_t on a quadratic from a common start, for exponential workers with any rates (exact).

    The mean of (x, y_1, …, y_n) is multiplied by Σ_w p_w A_w at each commit: worker w commits with probability
    p_w = λ_w / Σλ, moves x by -ηh y_w and reads the new x.

    Args:
        kappa: ηh, the step size times the curvature, no unit.
        workers: n.
        compute: One `Exponential` law for all workers, or a sequence of one per worker.
        commits: T.
        start: x_0.

    Raises:
        ValueError: If a law is not exponential, or an argument is out of range.

    Example:
        >>> law = delays.Exponential(1.0)
        >>> expected_quadratic_path(0.5, workers=2, compute=law, commits=3).tolist()
        [1.0, 0.5, 0.125, -0.09375]
    """
    require_size(
        f"`workers` = {checks.brief(workers)}", workers, "`expected_path` is for equal workers, and takes any number."
    )
    laws = one_law_per_worker(compute, workers)
    if not all(isinstance(law, delays.Exponential) for law in laws):
        raise ValueError(
            f"`compute` must be exponential; got {checks.brief(compute)}. `kernel_path` approximates other laws."
        )
    share = np.array([1 / law.mean for law in laws])
    share /= share.sum()
    _require_steps(commits, workers)
    x, read = float(start), np.full(workers, float(start))
    path = [x]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(commits):
            next_x = x - kappa * read  # (workers,) the next x, by the worker that commits
            x, read = float(share @ next_x), (1 - share) * read + share * next_x
            path.append(x)
    return require_finite(f"`kappa` = {kappa:g}", np.array(path), DIVERGES)


@checked
def kernel_path(pmf: ArrayLike, *, kappa: Kappa, commits: Commits, start: float = 1.0) -> FloatArray:
    """Return the mean path x_{t+1} = x_t - ηh Σ_k q_k x_{t-k} on a quadratic, x_{-k} = x_0 (exact in two cases only).

    It assumes that staleness is independent from commit to commit and of the iterates. For a round robin (q_{n-1} = 1)
    and for equal exponential workers (q_k = (1 - 1/n)^k / n) it is exact all the same. For other laws, staleness and
    iterate are correlated, and the error is 0.0003 to 0.002 of x_0 for equal gamma or hyper-exponential workers (n = 8,
    ηh = 0.1), and 0.01 for different exponential workers (n = 4, rates 1, 1, 2, 4, ηh = 0.3), for whom there is
    `expected_quadratic_path`.

    Other arguments as in `expected_quadratic_path`.

    Args:
        pmf: q, probabilities of the staleness 0, 1, …, or one observed in a trace. The sum must be 1 within 1e-6.

    Raises:
        ValueError: If `pmf` is not a distribution, or an argument is out of range.

    Example:
        >>> kernel_path([0.0, 1.0], kappa=0.5, commits=3).tolist()
        [1.0, 0.5, 0.0, -0.25]

    References:
        Mitliagkas, Zhang, Hadjis and Ré 2016, "Asynchrony begets momentum".
    """
    q = _distribution(pmf)
    _require_steps(commits, len(q))
    path = np.full(len(q) + commits, float(start))  # the first len(q) entries are x_{-k}
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(len(q) - 1, len(q) - 1 + commits):
            path[t + 1] = path[t] - kappa * (q @ path[t - len(q) + 1 : t + 1][::-1])
    return require_finite(f"`kappa` = {kappa:g}", path[len(q) - 1 :], DIVERGES)


@checked
def kernel_rate(pmf: ArrayLike, *, kappa: Kappa) -> float:
    """Return the factor per commit by which `kernel_path` decays or grows: its polynomial's largest root in modulus.

    It is z^{m+1} - z^m + ηh Σ_k q_k z^{m-k}, m the largest staleness. Exact for the recursion, hence approximate or
    exact for a cluster as `kernel_path` is. Cut a long tail where its mass is below 1e-6.

    Arguments, errors and reference as in `kernel_path`.

    Example:
        >>> round(kernel_rate([0.0, 1.0], kappa=0.25), 6)
        0.5
    """
    q = _distribution(pmf)
    require_size(f"`pmf` of {len(q)} probabilities", float(len(q)) ** 2, "Cut off its tail.")
    coefficients = np.append(1.0, kappa * q)  # of z^{m+1}, z^m, …, 1
    coefficients[1] -= 1
    return float(np.abs(np.roots(coefficients)).max(initial=0.0))


def _require_steps(commits: int, size: int) -> None:
    """Refuse paths of too many commits, each of which takes `size` numbers."""
    operations = commits * float(TURN + size)
    require_size(f"`commits` = {checks.brief(commits)}", commits, "Ask for fewer commits.", operations=operations)


def _distribution(pmf: ArrayLike) -> FloatArray:
    q = np.asarray(checks.require_all_not_negative("pmf", pmf), float)
    if q.ndim != 1 or abs(q.sum() - 1) > MASS_TOLERANCE:
        raise ValueError(f"`pmf` must be one-dimensional with sum 1; got shape {q.shape} and sum {q.sum():.6g}.")
    return q
