"""Workers in an exact round robin: every gradient is n - 1 versions old, and all that is linear has an exact result."""

import math
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from asyncsim._checks import brief
from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray
from asyncsim.theory._numerics import require_size, root_between
from asyncsim.theory._parameters import Kappa, Momentum, Where, Workers, require_momentum, require_whole

DelayCount = Annotated[int, require_whole, "n workers in turn have the delay n - 1."]
Gap = Annotated[int, require_whole, "Count the commits of others between pull and commit."]
POINTS_PER_HALF_TURN = 64  # points for each half turn of z^n, between which a change of sign is looked for
# Rounding spoils the equations below this share of the limit, where ηh Var x and E_k are constant within 1e-7 or so.
SMALL_STEP = 1e-8
MOST_ROOTS = 64  # changes of sign that are refined, those with the least ηh


@checked
def constant_delay_limit(delay: DelayCount, momentum: Momentum = 0.0, where: Where = "none") -> float:
    """Return the largest ηh, step size times curvature, at which SGD with a constant delay is stable (exact).

    On a quadratic without momentum x_{t+1} = x_t - ηh x_{t-τ} is stable for 0 < ηh < 2 sin(π / (2(2τ + 1))). With heavy
    ball at the server (ηh)_max = 2 sin(ω/2) √(1 - 2μ cos ω + μ²), where (τ + ½)ω + atan2(μ sin ω, 1 - μ cos ω) = π/2.
    With the moments kept by the τ + 1 workers it is the least ηh = -(1 - 1/z)(z^{τ+1} - μ) > 0 on |z| = 1.

    Mean and mean-square limits are the same here, because nothing is random but the additive noise.

    Args:
        delay: τ, in versions.
        momentum: μ in [0, 1).
        where: Who keeps it: "none", "server" or "worker" (then in an exact round robin of τ + 1 workers).

    Example:
        >>> round(constant_delay_limit(10), 6), round(constant_delay_limit(10, momentum=0.9, where="server"), 6)
        (0.14946, 0.01139)

    References:
        Levin and May 1976, "A note on difference-delay equations". Kuruklis 1994, "The asymptotic stability of
        x_{n+1} - a x_n + b x_{n-k} = 0".
    """
    momentum, where = require_momentum(momentum, where)
    if delay == 0:
        return 2 * (1 + momentum)
    if where == "none":
        return 2 * math.sin(math.pi / (2 * (2 * delay + 1)))

    # The least ηh is the one at the first angle ω at which it is real, before (τ + 1/2) ω = π/2.
    def turned(logarithm: float) -> float:
        w = math.exp(logarithm)
        # The server's moment is one commit old, a worker's τ + 1 commits.
        inner = w if where == "server" else (delay + 1) * w
        angle = math.atan2(momentum * math.sin(inner), 1 - momentum * math.cos(inner))
        return (delay + 0.5) * w + angle - math.pi / 2

    last = math.pi / (2 * delay + 1)
    w = math.exp(root_between(turned, math.log(last) - 50, math.log(last)))
    inner = w if where == "server" else (delay + 1) * w
    return 2 * math.sin(w / 2) * math.sqrt((1 - momentum) ** 2 + 4 * momentum * math.sin(inner / 2) ** 2)


def _least_on_the_circle(kappa: Callable[[Any], Any], turns: int) -> float:
    """Return the least real ηh > 0 with a root at some e^{iw}. On the upper half circle ηh turns `turns` times."""
    require_size(f"`workers` with `gap`, {brief(turns - 1)},", POINTS_PER_HALF_TURN * turns, "Use fewer workers.")
    grid: Any = np.linspace(0, math.pi, POINTS_PER_HALF_TURN * turns + 1)[1:]
    values = kappa(grid)
    changes = np.flatnonzero(np.diff(np.sign(values.imag)))
    largest = np.maximum(values.real[changes], values.real[changes + 1])
    likely = changes[largest > 0][np.argsort(largest[largest > 0])[:MOST_ROOTS]]
    roots = [root_between(lambda w: kappa(w).imag, grid[i], grid[i + 1]) for i in likely]
    return min(value for root in [*roots, math.pi] if (value := float(kappa(root).real)) > 0)


@checked
def constant_gap_limit(workers: Workers, gap: Gap) -> float:
    """Return the largest stable ηh of workers that commit in turn and go on from their own values (exact).

    With ηh the step size times the curvature: a worker pulls, g commits of others follow, then it commits and goes on
    from its pulled parameters plus its own message (`Server(atomic=False, resume="own")`): x_k = θ_{k-n-g} - ηh
    x_{k-n}. It is the least ηh > 0 with a root of (z - 1)(z^{n+g} + ηh z^g) + ηh on |z| = 1. Without a gap it is
    `constant_delay_limit(n - 1)`. With one it lies above `constant_delay_limit(n - 1 + g)`, the limit of the same
    staleness without own values, because a worker has its own message before those g commits: by up to 12 % with 5
    workers, 5 % with 10, 2.4 % with 20 and 1 % with 50.

    Args:
        workers: n, at least 1.
        gap: g, from 0 to n - 1.

    Example:
        >>> [round(constant_gap_limit(workers=10, gap=gap), 5) for gap in (0, 2, 5)]
        [0.16516, 0.14149, 0.11372]
    """
    _require_gap(workers, gap)

    def kappa(w: Any) -> Any:
        z = np.exp(1j * w)
        return -(z - 1) * z ** (workers + gap) / ((z - 1) * z**gap + 1)

    return _least_on_the_circle(kappa, workers + gap + 1)


@checked
def constant_gap_rate(kappa: Kappa, workers: Workers, gap: Gap) -> float:
    """Return the factor per commit by which x decays or grows with a constant gap: the largest root's modulus (exact).

    Other arguments as in `constant_gap_limit`.

    Args:
        kappa: ηh, the step size times the curvature, no unit.

    Example:
        >>> constant_gap_rate(0.25, workers=2, gap=0) == constant_delay_rate(0.25, delay=1)
        True
    """
    _require_gap(workers, gap)
    _require_order(f"`workers` with `gap`, {workers + gap},", workers + gap + 1, "Use fewer workers.")
    behind = np.zeros(workers + gap + 1)
    behind[0], behind[workers] = 1, kappa
    coefficients = np.polymul([1, -1], behind)
    coefficients[-1] += kappa
    return float(np.abs(np.roots(coefficients)).max())


def _require_order(arguments: str, order: int, remedy: str) -> None:
    """Refuse matrices whose eigenvalues take too long."""
    require_size(arguments, float(order) ** 2, remedy, operations=100.0 * order**3)


def _require_gap(workers: int, gap: int) -> None:
    if gap >= workers:
        remedy = "A worker pulls after its own previous commit."
        raise ValueError(f"`gap` must be less than the number of workers, {workers}; got {brief(gap)}. {remedy}")


@checked
def constant_delay_rate(kappa: Kappa, delay: DelayCount, momentum: Momentum = 0.0, where: Where = "none") -> float:
    """Return the factor per commit by which x decays or grows with constant delay: the largest root's modulus (exact).

    The roots of z^{τ+1} - z^τ + ηh, of (z - 1)(z - μ) z^τ + ηh z with heavy ball at the server, and of
    (z - 1)(z^{τ+1} - μ) + ηh z with the moments kept by the workers. Per commit, not per second or worker step.

    Arguments and errors as in `constant_delay_limit`.

    Args:
        kappa: ηh, the step size times the curvature, no unit.

    Example:
        >>> round(constant_delay_rate(0.25, delay=1), 6)
        0.5
    """
    momentum, where = require_momentum(momentum, where)
    return float(np.abs(np.linalg.eigvals(_companion(kappa, delay, momentum, where)[0])).max())


@checked
def fastest_constant_delay(delay: DelayCount) -> tuple[float, float]:
    """Return ηh, step size times curvature, of fastest decay with constant delay, and the factor per commit (exact).

    Without momentum: τ^τ / (τ + 1)^{τ+1} and τ / (τ + 1), where the two real roots meet.

    Args:
        delay: τ, in versions.

    Example:
        >>> fastest_constant_delay(1)
        (0.25, 0.5)
    """
    return (delay / (delay + 1)) ** delay / (delay + 1), delay / (delay + 1)


@checked
def constant_delay_moments(
    kappa: Kappa, delay: DelayCount, momentum: Momentum = 0.0, where: Where = "none"
) -> tuple[float, float]:
    """Return Var x and E_k = ½E(x_{t+1} - x_{t-τ})² with constant delay, per unit of the raw update's variance (exact).

    Without momentum, and with ηh = 2 sin(ω/2):
    Var x = [1 + sin(τω) / cos(ω/2)] / (2 ηh [cos(τω) - sin(ω/2)]), E_k = (1 + ηh) Var x - (1 + (ηh)² Var x) / (2 ηh).
    With momentum the discrete Lyapunov equation is solved.

    Arguments and errors as in `constant_delay_rate`.

    Returns:
        (Var x, E_k), both infinite from the limit on.

    Example:
        >>> [round(value, 6) for value in constant_delay_moments(0.1, delay=7)]
        [11.510801, 7.086341]

    References:
        Küchler and Mensch 1992, "Langevin's stochastic differential equation extended by a time-delayed term", for
        the analogue in continuous time.
    """
    momentum, where = require_momentum(momentum, where)
    limit = constant_delay_limit(delay, momentum, where)
    if kappa >= limit:
        return math.inf, math.inf
    if kappa < SMALL_STEP * limit:
        variance, energy = constant_delay_moments(SMALL_STEP * limit, delay, momentum, where)
        return variance * (SMALL_STEP * limit / kappa), energy
    if where == "none":
        w = 2 * math.asin(kappa / 2)
        above, below = 1 + math.sin(delay * w) / math.cos(w / 2), math.cos(delay * w) - math.sin(w / 2)
        variance = above / below / (2 * kappa)
        return variance, (1 + kappa) * variance - (1 + kappa**2 * variance) / (2 * kappa)
    from scipy.linalg import LinAlgWarning, solve_discrete_lyapunov

    matrix, noise = _companion(kappa, delay, momentum, where)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        try:
            covariance = solve_discrete_lyapunov(matrix, np.outer(noise, noise))
        except LinAlgWarning:
            raise ValueError(
                f"`momentum` = {momentum} is too close to 1 for the moments, which are all rounding. Use less, or "
                "simulate."
            ) from None
    first, last = 0, delay + 1
    spread = covariance[first, first] - 2 * covariance[first, last] + covariance[last, last]
    return float(covariance[first, first]), float(spread / 2)


def _companion(kappa: float, delay: int, momentum: float, where: str) -> tuple[FloatArray, FloatArray]:
    """Return the matrix of one commit on (x_t, …, x_{t-τ-1}, m_t, …), and the vector with which the noise enters."""
    values, moments = delay + 2, delay + 1 if where == "worker" else 1
    _require_order(f"`delay` = {brief(delay)}", values + moments, "Use a smaller delay.")
    matrix, noise = np.zeros((values + moments,) * 2), np.zeros(values + moments)
    # The rows are x_t, x_{t-1}, … and from `values` on the moments, the newest first. x moves by the newest moment.
    matrix[values, delay] = -kappa
    matrix[values, -1] = momentum
    matrix[np.arange(1, values), np.arange(values - 1)] = 1
    matrix[np.arange(values + 1, values + moments), np.arange(values, values + moments - 1)] = 1
    matrix[0] = matrix[values]
    matrix[0, 0] += 1
    noise[[0, values]] = 1
    return matrix, noise
