"""Stability limit, noise floor and kinetic energy of any cluster: by the result that holds for it.

Where workers take turns, everything is linear. Otherwise the answers follow from the stationary second moments of a
linear rule on a quadratic. Equal exponential workers, alone or K at a time, have closed forms. In general, workers in
one exponential phase are exchangeable. So two kinds of moments suffice for every configuration of phases: V = E uu' of
u = (z, u_1, …, u_m), the sums u_φ = Σ_w s_w over the workers w in phase φ, and C_φ = E Σ_w s_w s_w'. One of n workers
in φ has E s_w u' = E u_φ u'/n. Together they obey a linear differential equation.
"""

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np

from asyncsim._checks import brief
from asyncsim.components._checked import checked
from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._per_worker import counted_laws, require_mean
from asyncsim.theory._constant_delay import SMALL_STEP, constant_delay_limit, constant_delay_moments
from asyncsim.theory._numerics import TURN, require_finite, require_size, root_between
from asyncsim.theory._parameters import (
    Commits,
    K,
    Kappa,
    Momentum,
    Where,
    Workers,
    require_k,
    require_momentum,
    require_scale_or_zero,
)
from asyncsim.theory._phases import IntArray, configurations, count_phases, in_turn, number_of, phases_of

MOST_UNKNOWNS = 10_000  # a sparse solve takes a second or two there, and a limit about fifteen solves
MOST_PER_CONFIGURATION = 1000  # one event is a matrix of this order: 40 workers that all differ


@checked
def stability_limit(
    workers: Workers, compute: Delay | Sequence[Delay], momentum: Momentum = 0.0, where: Where = "none"
) -> float:
    """Return the ηh, step size times curvature, above which asynchronous SGD is unstable in mean square (exact).

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
    laws = tuple(counted_laws(compute, workers))
    momentum, where = require_momentum(momentum, where)
    if in_turn(laws):
        return constant_delay_limit(workers - 1, momentum, where)
    return moment_system(laws, momentum, where).limit


@checked
def noise_floor(
    kappa: Kappa, workers: Workers, compute: Delay | Sequence[Delay], momentum: Momentum = 0.0, where: Where = "none"
) -> float:
    """Return the stationary variance of x at a commit, per unit of the variance of a raw update's noise (exact).

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
    return _variance_and_energy(kappa, workers, compute, momentum, where)[0]


@checked
def kinetic_energy(
    kappa: Kappa, workers: Workers, compute: Delay | Sequence[Delay], momentum: Momentum = 0.0, where: Where = "none"
) -> float:
    """Return stationary E_k = ½E(θ_{t+1} - s_t)² of a coordinate, per unit of a raw update's noise variance (exact).

    s_t is where the committing worker took its gradient, so that this is the recorded "energy_central", per coordinate
    and over η²σ². Equal exponentials: n(1 + ηh) / (2 + ηh - n (ηh)²), which tends to n/2 for small ηh.
    Assumptions, arguments and infinity as in `noise_floor`.

    Example:
        >>> from asyncsim import delays
        >>> round(kinetic_energy(0.5, workers=4, compute=delays.Exponential(1.0)), 9)
        4.0

    References:
        Hermans and Louppe 2018, equation (11).
    """
    return _variance_and_energy(kappa, workers, compute, momentum, where)[1]


def _variance_and_energy(
    kappa: float, workers: int, compute: Delay | Sequence[Delay], momentum: float, where: str
) -> tuple[float, float]:
    """Return `noise_floor` and `kinetic_energy`, which are moments of the same system."""
    laws = tuple(counted_laws(compute, workers))
    momentum, where = require_momentum(momentum, where)
    if in_turn(laws):
        return constant_delay_moments(kappa, workers - 1, momentum, where)
    system = moment_system(laws, momentum, where)
    # Below this step rounding spoils the equation. There Var x is proportional to 1/ηh, and E_k is constant.
    solved = max(kappa, SMALL_STEP * system.limit)
    moments = system.solve(solved) if kappa < system.limit else None
    if moments is None:
        return math.inf, math.inf
    return system.variance(moments[0]) * (solved / kappa), system.kinetic_energy(*moments, solved)


@checked
def exponential_limit(workers: Workers, k: K = 1) -> float:
    """Return the ηh, step size times curvature, above which E x² grows without bound: (1 + √(1 + 8n)) / (2n) (exact).

    It is about √(2/n) for many workers. With K > 1 it is the positive root of 2K + ηh (2eK - 2n + K) = e (ηh)² with
    e = 2n(n - K) / (K(2n - K - 1)): a version is then the mean of the first K different workers' gradients. These wait
    for one another and read the new version, whereas the others go on with their older ones ("k_async").

    Assumptions: one-dimensional quadratic (or one eigenvalue), n equal exponential workers that read just after their
    own commit. A single run can look stable up to a larger ηh, with rare and huge excursions.

    Args:
        workers: n.
        k: K from 1 to n.

    Raises:
        ValueError: If K is not in 1 … n.

    Example:
        >>> [round(exponential_limit(workers=8, k=k), 6) for k in (1, 4, 8)]
        [0.566391, 2.223537, 2.0]

    References:
        Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018, "Slow and stale gradients can win the race" (the protocol).
    """
    require_k(k, workers)
    e, b = _coefficients(workers, k)
    # The root in the form that does not divide by e, which is 0 for K = n, and both terms are positive for b < 0.
    root = math.sqrt(b * b + 8 * k * e)
    return (b + root) / (2 * e) if b > 0 else 4 * k / (root - b)


@checked
def exponential_noise_floor(kappa: Kappa, workers: Workers, k: K = 1) -> float:
    """Return the stationary Var x = (1 + n ηh) / (ηh (2 + ηh - n (ηh)²)) per unit of one raw update's variance (exact).

    With K gradients per version and e as in `exponential_limit`, whose assumptions hold,
    Var x = (1 + e ηh) / (ηh [2K + ηh (2eK - 2n + K) - e (ηh)²]). The noise is additive and independent from gradient to
    gradient. K = n gives 1 / (n ηh (2 - ηh)), synchronous SGD with n times the batch. Other arguments as in
    `exponential_limit`.

    Args:
        kappa: ηh, the step size times the curvature, no unit.

    Returns:
        The variance over η²σ², σ² the variance of one worker's gradient, infinite from `exponential_limit` on.

    Example:
        >>> round(exponential_noise_floor(0.1, workers=8), 6)
        8.910891
    """
    if kappa >= exponential_limit(workers, k):
        return math.inf
    e, b = _coefficients(workers, k)
    return (1 + e * kappa) / (kappa * (2 * k + b * kappa - e * kappa**2))


def _coefficients(n: int, k: int) -> tuple[float, float]:
    e = 2 * n * (n - k) / (k * (2 * n - k - 1)) if k < n else 0.0
    return e, 2 * e * k - 2 * n + k


@checked
def exponential_kinetic_energy(kappa: Kappa, workers: Workers) -> float:
    """Return stationary ½E(θ_{t+1} - s_t)² = n (1 + ηh) / (2 + ηh - n (ηh)²) per unit of an update's variance (exact).

    It tends to n/2 for small ηh: the energy of asynchrony grows with the number of workers. Assumptions, arguments
    and infinity as in `exponential_noise_floor`.

    Example:
        >>> exponential_kinetic_energy(1e-9, workers=8)
        4.000000002
    """
    n = workers
    return n * (1 + kappa) / (2 + kappa - n * kappa**2) if kappa < exponential_limit(n) else math.inf


@checked
def exponential_moments(
    kappa: Kappa,
    workers: Workers,
    commits: Commits,
    start: float = 1.0,
    noise: Annotated[float, require_scale_or_zero, "Give a standard deviation."] = 0.0,
) -> FloatArray:
    """Return E x_t² after t = 0, 1, … commits from a common start, stable or not (exact, by the step of `error_curve`).

    Other arguments as in `exponential_noise_floor`.

    Args:
        commits: T.
        start: x_0, which every worker has read.
        noise: s, standard deviation of the noise part of a raw update.

    Returns:
        (T + 1,) second moments, in the unit of x squared.

    Example:
        Sequential SGD halves x, and a quarter of x² is left:

        >>> exponential_moments(0.5, workers=1, commits=2).tolist()
        [1.0, 0.25, 0.0625]
    """
    require_size(f"`commits` = {brief(commits)}", commits, "Ask for fewer commits.", operations=commits * float(TURN))
    step, moments = moments_step(kappa, workers, 1, noise**2), np.append(np.full(4, start * start), 1.0)
    path = [moments[0]]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(commits):
            moments = step @ moments
            path.append(moments[0])
    return require_finite(f"`kappa` = {kappa:g}", np.array(path), "It diverges: use a smaller step or fewer commits.")


def moments_step(kappa: float, n: int, k: int, noise: float) -> FloatArray:
    """Return the matrix of one step of K gradients on (E x², E x y_w, E y_w², E y_v y_w, 1), y_w read by worker w."""
    a, b, c, d, constant = np.eye(5)
    mixed = b - kappa * d
    p = k / n
    after = a - 2 * kappa * b + kappa**2 * (c + (k - 1) * d) / k + noise / k * constant
    pairs = max(n * (n - 1), 1)  # one worker has no d, and its row is multiplied by 0
    both, one_of_two, neither = k * (k - 1) / pairs, 2 * k * (n - k) / pairs, (n - k) * (n - k - 1) / pairs
    return np.array(
        [
            after,
            p * after + (1 - p) * mixed,
            p * after + (1 - p) * c,
            both * after + one_of_two * mixed + neither * d,
            constant,
        ]
    )


class LinearRule(NamedTuple):
    """One commit by worker w, with the noise ξ of its gradient: z⁺ = F z + G s_w + e ξ and s_w⁺ = J z + K s_w + f ξ."""

    F: FloatArray  # (p, p)
    G: FloatArray  # (p, q)
    J: FloatArray  # (q, p)
    K: FloatArray  # (q, q)
    e: FloatArray  # (p,)
    f: FloatArray  # (q,)


def linear_rule(kappa: float, momentum: float, where: str) -> LinearRule:
    """Return asynchronous SGD on a one-dimensional quadratic, in terms of ηh = step size times curvature."""
    gain, mu = -kappa, momentum
    parts = {
        "none": ([[1]], [[gain]], [[1]], [[gain]], [1], [1]),
        "server": ([[1, mu], [0, mu]], [[gain], [gain]], [[1, mu]], [[gain]], [1, 1], [1]),
        "worker": ([[1]], [[gain, mu]], [[1], [0]], [[gain, mu], [gain, mu]], [1], [1, 1]),
    }
    return LinearRule(*(np.array(part, np.float64) for part in parts[where]))


Shape = tuple[int, int, int]  # p, q and the number of phases m: u has the order p + m·q


def size(p: int, q: int, phases: int) -> int:
    """Return the number of moments of one configuration, where each symmetric pair counts once."""
    order = p + phases * q
    return order * (order + 1) // 2 + phases * (q * (q + 1) // 2)


def pack(V: FloatArray, C: FloatArray) -> FloatArray:
    """Pack the upper triangles of V (rows, order, order) and of C (rows, m, q, q) in an array of shape (rows, size)."""
    parts = (matrices[(..., *np.triu_indices(matrices.shape[-1]))] for matrices in (V, C))
    return np.concatenate([part.reshape(len(V), -1) for part in parts], axis=1)


def unpack(flat: FloatArray, shape: Shape) -> tuple[FloatArray, FloatArray]:
    """Undo `pack`."""
    p, q, phases = shape
    order = p + phases * q
    cut = order * (order + 1) // 2
    return _symmetric(flat[:, :cut], order), _symmetric(flat[:, cut:].reshape(len(flat), phases, -1), q)


def _symmetric(upper: FloatArray, order: int) -> FloatArray:
    whole = np.zeros((*upper.shape[:-1], order, order))
    row, column = np.triu_indices(order)
    whole[..., column, row] = upper
    whole[..., row, column] = upper
    return whole


def phase(number: int, shape: Shape) -> slice:
    """Return the place of a phase's sum in u."""
    p, q, _ = shape
    return slice(p + number * q, p + (number + 1) * q)


def with_one(V: FloatArray, C: FloatArray, source: int, among: int, shape: Shape) -> FloatArray:
    """Return the second moments of (u, s_w) for one of `among` workers in a phase, all of whom are alike."""
    cross = V[:, phase(source, shape)] / among
    return np.block([[V, np.swapaxes(cross, -1, -2)], [cross, C[:, source] / among]])


def event_effect(
    source: int, target: int, among: int, rule: LinearRule | None, shape: Shape
) -> tuple[FloatArray, FloatArray]:
    """Return how moments change when one of `among` workers changes its phase, and commits if there is a rule.

    A matrix on packed moments, and what the commit's noise of unit variance adds to them.
    """
    count = size(*shape)
    # Every row but the last has one moment of 1 and no noise. The last has no moments, only the noise.
    V, C = unpack(np.eye(count + 1, count), shape)
    alone = np.eye(count + 1)[-1][:, None, None]
    before, (p, q, _) = with_one(V, C, source, among, shape), shape
    forms = np.eye(before.shape[-1])  # (z, u_1, …, u_m, s_w) as linear forms in themselves
    u, z, mover = forms[:-q].copy(), forms[:p], forms[-q:]
    after, added = mover, np.zeros(len(u))
    if rule is not None:
        u[:p], after = rule.F @ z + rule.G @ mover, rule.J @ z + rule.K @ mover
        added[:p], added[phase(target, shape)] = rule.e, rule.f
    u[phase(source, shape)] -= mover
    u[phase(target, shape)] += after
    f = added[phase(target, shape)]
    C[:, source] -= C[:, source] / among
    C[:, target] += after @ before @ after.T + alone * np.outer(f, f)
    rows = pack(u @ before @ u.T + alone * np.outer(added, added), C)
    return rows[:-1].T, rows[-1]


def possible(V: FloatArray, C: FloatArray, counts: IntArray, tolerance: float = 1e-9) -> bool:
    """Return whether these can be moments at all: every covariance that they imply is positive semi-definite."""
    rows, phases, q, _ = C.shape
    sums = V[:, -phases * q :, -phases * q :].reshape(rows, phases, q, phases, q)
    each = np.arange(phases)  # picks the diagonal blocks, which the advanced index moves to the front
    deviations = counts[..., None, None] * C - np.moveaxis(sums[:, each, :, each], 0, 1)  # from the mean of a phase
    scale = np.abs(V).max()
    return bool(np.isfinite(scale) and all(np.linalg.eigvalsh(m).min() >= -tolerance * scale for m in (V, deviations)))


class MomentSystem:
    """The equation 0 = L(ηh) M + N of the stationary moments M (exact)."""

    def __init__(self, laws: Sequence[tuple[Delay, int]], momentum: float, where: str) -> None:
        for law, _ in laws:
            require_mean(law)
        sizes = [(count_phases(law), count) for law, count in laws]  # workers with equal laws
        rule = linear_rule(1.0, momentum, where)
        phases = sum(number for number, _ in sizes)
        self.momentum = momentum
        self.where = where
        self.shape = (len(rule.e), len(rule.f), phases)
        self.width = size(*self.shape)
        needed = number_of(sizes) * self.width
        if needed > MOST_UNKNOWNS + 0.5 or self.width > MOST_PER_CONFIGURATION:
            raise ValueError(
                f"`workers` and `compute` need {needed:.6g} moments, {self.width} for each configuration of "
                f"phases; at most {MOST_UNKNOWNS} and {MOST_PER_CONFIGURATION} are solved for. "
                "Use fewer workers, phases or different laws, or estimate with `lyapunov_exponent`."
            )
        self.chain = configurations([(phases_of(law), count) for law, count in laws])
        self.counts = self.chain.counts
        # Every entry of the rule is linear in ηh, so L is a parabola in ηh: three values give it everywhere.
        (below, _), (self.constant, self.noise), (above, _) = map(self._equation, (-1.0, 0.0, 1.0))
        self.linear = (above - below) / 2
        self.square = (above + below) / 2 - self.constant

    def solve(self, kappa: float) -> tuple[FloatArray, FloatArray] | None:
        """Return the stationary V and C in units of the raw update's noise variance, or None if they do not exist."""
        V, C = self._solution(kappa)
        # A stationary equation may have a solution beyond the limit too, but no covariance solves it there.
        return (V, C) if possible(V, C, self.counts) else None

    @cached_property
    def limit(self) -> float:
        """The largest ηh below which the second moments stay bounded, to about 12 digits."""
        low = (1 - self.momentum) / (16 * self.counts[0].sum())  # well below every limit, yet far from rounding
        while self.solve(2 * low) is not None:
            low *= 2
        try:
            return root_between(self._margin, low, 2 * low)
        except ValueError:  # the first step size is no longer far from rounding
            raise ValueError(f"`momentum` = {self.momentum} is too close to 1 for the limit. Use less.") from None

    def _margin(self, kappa: float) -> float:
        """Return 1 / Var x, which passes smoothly through zero at the limit. Beyond it, the sign is forced."""
        V, C = self._solution(kappa)
        margin = 1 / self.variance(V)
        if np.isnan(margin):
            return 0.0  # exactly at the limit
        return margin if possible(V, C, self.counts) else -abs(margin)

    def _solution(self, kappa: float) -> tuple[FloatArray, FloatArray]:
        """Solve the linear equation. NaN if its matrix is singular."""
        from scipy.sparse.linalg import splu

        matrix = self.constant + kappa * self.linear + kappa * kappa * self.square
        try:
            solution = splu(matrix).solve(-self.noise)
        except RuntimeError:  # the matrix is singular
            solution = np.full_like(self.noise, np.nan)
        return unpack(solution.reshape(-1, self.width), self.shape)

    def _equation(self, kappa: float) -> tuple[Any, FloatArray]:
        """Return L(ηh), sparse, and N: each kind of event does the same to the moments of every configuration."""
        from scipy.sparse import coo_array, eye_array, kron

        rule, states = linear_rule(kappa, self.momentum, self.where), len(self.counts)
        parts = []
        noise, same = np.zeros((states, self.width)), eye_array(self.width)
        for event in self.chain.events:
            commit = rule if event.commits else None
            moved, added = event_effect(event.source, event.target, event.among, commit, self.shape)
            rate = np.full(len(event.before), event.rate)
            parts.append(kron(coo_array((rate, (event.after, event.before)), (states, states)), moved, "coo"))
            parts.append(kron(coo_array((-rate, (event.before, event.before)), (states, states)), same, "coo"))
            noise[event.after] += np.outer(rate * self.chain.probability[event.before], added)
        values, *places = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "row", "col"))
        matrix = coo_array((values, places), (states * self.width,) * 2)  # equal places add up
        return matrix.tocsc(), noise.ravel()

    def variance(self, V: FloatArray) -> float:
        """Return the variance of x averaged over commits (not over time: with several phases the two differ)."""
        rate, probability = self.chain.commit_rate, self.chain.probability
        return float(rate @ V[:, 0, 0] / (rate @ probability))

    def kinetic_energy(self, V: FloatArray, C: FloatArray, kappa: float) -> float:
        """Return ½E(θ_{t+1} - s)² averaged over commits."""
        rule, (p, q, _), total = linear_rule(kappa, self.momentum, self.where), self.shape, 0.0
        way = np.zeros(V.shape[-1] + q)  # θ_{t+1} - s = way·(u, s_w) + noise
        way[:p], way[-q:] = rule.F[0], rule.G[0] - np.eye(q)[0]
        for event in self.chain.events:
            if event.commits:
                moments = with_one(V[event.before], C[event.before], event.source, event.among, self.shape)
                noise = rule.e[0] ** 2 * self.chain.probability[event.before]
                total += event.rate * float((way @ moments @ way + noise).sum())
        return float(0.5 * total / (self.chain.commit_rate @ self.chain.probability))


moment_system = lru_cache(maxsize=64)(MomentSystem)  # a curve in ηh needs the same system many times
