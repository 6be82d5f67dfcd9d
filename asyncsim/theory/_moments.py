"""Stationary second moments of a linear rule on a quadratic, and the step size at which they cease to exist.

Workers in one exponential phase are exchangeable. So four kinds of moments suffice for every configuration of phases:
P = E zz', Q_φ = E Σ_w z s_w', C_φ = E Σ_w s_w s_w' over the workers w in phase φ, and D_φψ = E Σ s_v s_w' over
ordered pairs of different workers in φ and ψ. Together they obey a linear differential equation.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from asyncsim.delays import Delay, FloatArray
from asyncsim.theory._numerics import root_between
from asyncsim.theory._phases import classes_of, configurations, is_phase_type, number_of, refuse

DENSE = 600  # unknowns up to which a dense solve is faster than a sparse one
MOST_UNKNOWNS = 10_000  # a sparse solve takes a second or two there, and a limit about fifteen solves
MOST_PER_CONFIGURATION = 1000  # one event is a matrix of this order: 40 workers that all differ


class LinearRule(NamedTuple):
    """One commit by worker w, with the noise ξ of its gradient: z⁺ = F z + G s_w + e ξ and s_w⁺ = J z + K s_w + f ξ."""

    F: FloatArray  # (p, p)
    G: FloatArray  # (p, q)
    J: FloatArray  # (q, p)
    K: FloatArray  # (q, q)
    e: FloatArray  # (p,)
    f: FloatArray  # (q,)


def linear_rule(kappa: float, momentum: float, where: str) -> LinearRule:
    """Asynchronous SGD on a one-dimensional quadratic, in terms of ηh = step size times curvature."""
    one = np.ones(1)
    if where == "worker":
        return LinearRule(
            F=np.eye(1),
            G=np.array([[-kappa, momentum]]),
            J=np.array([[1.0], [0.0]]),
            K=np.array([[-kappa, momentum], [-kappa, momentum]]),
            e=one,
            f=np.ones(2),
        )
    if where == "server":
        return LinearRule(
            F=np.array([[1.0, momentum], [0.0, momentum]]),
            G=np.array([[-kappa], [-kappa]]),
            J=np.array([[1.0, momentum]]),
            K=np.array([[-kappa]]),
            e=np.ones(2),
            f=one,
        )
    return LinearRule(F=np.eye(1), G=np.array([[-kappa]]), J=np.eye(1), K=np.array([[-kappa]]), e=one, f=one)


class Moments(NamedTuple):
    """Moments with a leading axis (of configurations, or of basis vectors)."""

    P: FloatArray  # (…, p, p)
    Q: FloatArray  # (…, m, p, q)
    C: FloatArray  # (…, m, q, q)
    D: FloatArray  # (…, m, m, q, q)


def size(p: int, q: int, phases: int) -> int:
    """Size of the moments of one configuration, where each symmetric pair counts once."""
    order = p + phases * q
    return order * (order + 1) // 2 + phases * (q * (q + 1) // 2)


def pack(moments: Moments) -> FloatArray:
    """The moments as an array of shape (rows, size): the upper triangles of [[P, Q], [Q', D]] and of C."""
    upper, own = joined(moments), moments.C
    parts = upper[(slice(None), *np.triu_indices(upper.shape[-1]))], own[(..., *np.triu_indices(own.shape[-1]))]
    return np.concatenate([part.reshape(len(upper), -1) for part in parts], axis=1)


def unpack(flat: FloatArray, p: int, q: int, phases: int) -> Moments:
    """The inverse of `pack`."""
    rows, order = len(flat), p + phases * q
    cut = order * (order + 1) // 2
    whole = _symmetric(flat[:, :cut], order)
    C = _symmetric(flat[:, cut:].reshape(rows, phases, -1), q)
    Q = np.moveaxis(whole[:, :p, p:].reshape(rows, p, phases, q), 2, 1)
    D = np.moveaxis(whole[:, p:, p:].reshape(rows, phases, q, phases, q), 3, 2)
    return Moments(whole[:, :p, :p], Q, C, D)


def joined(moments: Moments) -> FloatArray:
    """[[P, Q], [Q', D]] of shape (rows, p + m·q, p + m·q)."""
    P, Q, _, D = moments
    rows, phases, p, q = Q.shape
    cross = np.moveaxis(Q, 1, 2).reshape(rows, p, phases * q)
    return np.block([[P, cross], [transpose(cross), np.moveaxis(D, 2, 3).reshape(rows, phases * q, phases * q)]])


def _symmetric(upper: FloatArray, order: int) -> FloatArray:
    whole = np.zeros((*upper.shape[:-1], order, order))
    row, column = np.triu_indices(order)
    whole[..., column, row] = upper
    whole[..., row, column] = upper
    return whole


def after_event(
    moments: Moments, source: int, target: int, among: int, rule: LinearRule | None
) -> tuple[Moments, Moments]:
    """One of `among` equal workers goes from phase `source` to `target`, and commits if a rule is given."""
    P, Q, C, D = (part.copy() for part in moments)
    own_q, own_c, others = Q[:, source] / among, C[:, source] / among, D[:, source] / among
    mover = Moments(P, own_q[:, None], own_c[:, None], others[:, None])
    Q[:, source] -= own_q
    C[:, source] -= own_c
    D[:, source] -= others
    D[:, :, source] -= transpose(others)
    if rule is not None:
        F, G, J, K = rule.F, rule.G, rule.J, rule.K
        with_server = F @ P + G @ transpose(own_q), F @ own_q + G @ own_c  # E z⁺z', E z⁺s_w'
        with_worker = J @ P + K @ transpose(own_q), J @ own_q + K @ own_c  # E s⁺z', E s⁺s_w'
        others = J @ Q + K @ others
        Q = F @ Q + G @ mover.D[:, 0]
        P = with_server[0] @ F.T + with_server[1] @ G.T
        own_q = with_server[0] @ J.T + with_server[1] @ K.T
        own_c = with_worker[0] @ J.T + with_worker[1] @ K.T
    Q[:, target] += own_q
    C[:, target] += own_c
    D[:, target] += others
    D[:, :, target] += transpose(others)
    return Moments(P, Q, C, D), mover


def event_matrix(
    source: int, target: int, among: int, rule: LinearRule | None, shape: tuple[int, int, int]
) -> FloatArray:
    """`after_event` as a matrix on packed moments, for (p, q, phases) = shape."""
    basis = unpack(np.eye(size(*shape)), *shape)
    return pack(after_event(basis, source, target, among, rule)[0]).T


def noise_of_commit(target: int, rule: LinearRule, shape: tuple[int, int, int]) -> FloatArray:
    """The contribution of one commit's noise to the packed moments, for noise of unit variance."""
    added = unpack(np.zeros((1, size(*shape))), *shape)
    added.P[0] = np.outer(rule.e, rule.e)
    added.Q[0, target] = np.outer(rule.e, rule.f)
    added.C[0, target] = np.outer(rule.f, rule.f)
    return pack(added)[0]


def transpose(matrices: FloatArray) -> FloatArray:
    """Every matrix of a stack transposed."""
    return np.swapaxes(matrices, -1, -2)


def possible(moments: Moments, counts: FloatArray, tolerance: float = 1e-9) -> bool:
    """Whether these can be moments at all: every covariance that they imply is positive semi-definite."""
    phases = np.arange(counts.shape[1])
    sums, own = moments.D.copy(), moments.D[:, phases, phases]
    sums[:, phases, phases] += moments.C
    whole = joined(moments._replace(D=sums))
    pairs = counts[:, :, None, None] - 1
    deviations = np.where(pairs > 0, moments.C - own / np.where(pairs > 0, pairs, 1), 0.0)
    scale = np.abs(whole).max()
    return bool(
        np.isfinite(scale) and all(np.linalg.eigvalsh(m).min() >= -tolerance * scale for m in (whole, deviations))
    )


class MomentSystem:
    """The equation 0 = L(ηh) M + N of the stationary moments M (exact)."""

    def __init__(self, laws: Sequence[Delay], momentum: float, where: str) -> None:
        classes = classes_of(laws)
        rule = linear_rule(1.0, momentum, where)
        phases = sum(len(law.rate) for law, _ in classes)
        self.momentum = momentum
        self.where = where
        self.shape = (len(rule.e), len(rule.f), phases)
        self.width = size(*self.shape)
        states = number_of(classes)
        if states * self.width > MOST_UNKNOWNS or self.width > MOST_PER_CONFIGURATION:
            raise ValueError(
                f"`workers` and `compute` need {states * self.width} moments, {self.width} for each configuration of "
                f"phases; at most {MOST_UNKNOWNS} and {MOST_PER_CONFIGURATION} are solved for. "
                "Use fewer workers, phases or different laws, or estimate with `lyapunov_exponent`."
            )
        self.chain = configurations(classes)
        self.counts = np.array(self.chain.counts, float)
        # Every entry of the rule is linear in ηh, so L is a parabola in ηh: three values give it everywhere.
        below, constant, above = (self._generator(kappa) for kappa in (-1.0, 0.0, 1.0))
        self.constant = constant
        self.linear = (above - below) / 2
        self.square = (above + below) / 2 - constant
        self.noise = self._noise()

    def solve(self, kappa: float) -> Moments | None:
        """The stationary moments in units of the raw update's noise variance. None if they do not exist."""
        moments = self._solution(kappa)
        # A stationary equation may have a solution beyond the limit too, but no covariance solves it there.
        return moments if possible(moments, self.counts) else None

    @cached_property
    def limit(self) -> float:
        """The largest ηh below which the second moments stay bounded, to about 12 digits."""
        low = (1 - self.momentum) / (16 * self.counts[0].sum())  # well below every limit, yet far from rounding
        while self.solve(2 * low) is not None:
            low *= 2
        return root_between(self._margin, low, 2 * low)

    def _margin(self, kappa: float) -> float:
        """1 / Var x, which passes smoothly through zero at the limit. Beyond it, the sign is forced."""
        moments = self._solution(kappa)
        margin = 1 / self.variance(moments)
        if np.isnan(margin):
            return 0.0  # exactly at the limit
        return margin if possible(moments, self.counts) else -abs(margin)

    def _solution(self, kappa: float) -> Moments:
        matrix = self.constant + kappa * self.linear + kappa * kappa * self.square
        return unpack(_solve(matrix, -self.noise).reshape(-1, self.width), *self.shape)

    def _generator(self, kappa: float) -> Any:
        rule = linear_rule(kappa, self.momentum, self.where)
        blocks: dict[tuple[int, int], FloatArray] = {}
        matrices: dict[tuple[int, int, int, bool], FloatArray] = {}
        for event in self.chain.events:
            among = self.chain.counts[event.before][event.source]
            kind = (event.source, event.target, among, event.commits)
            if kind not in matrices:
                matrices[kind] = event_matrix(*kind[:3], rule if event.commits else None, self.shape)
            into, out_of = (event.after, event.before), (event.before, event.before)
            blocks[into] = blocks.get(into, 0) + event.rate * matrices[kind]
            blocks[out_of] = blocks.get(out_of, 0) - event.rate * np.eye(self.width)
        return _assemble(blocks, len(self.counts), self.width)

    def _noise(self) -> FloatArray:
        rule = linear_rule(0.0, self.momentum, self.where)
        added = np.zeros((len(self.counts), self.width))
        for event in self.chain.events:
            if event.commits:
                weight = self.chain.probability[event.before] * event.rate
                added[event.after] += weight * noise_of_commit(event.target, rule, self.shape)
        return added.ravel()

    def variance(self, moments: Moments) -> float:
        """Variance of x averaged over commits (not over time: with several phases the two differ)."""
        rate, probability = self.chain.commit_rate, self.chain.probability
        return float(rate @ moments.P[:, 0, 0] / (rate @ probability))

    def kinetic_energy(self, moments: Moments, kappa: float) -> float:
        """½E(θ_{t+1} - s)² averaged over commits."""
        rule, total = linear_rule(kappa, self.momentum, self.where), 0.0
        ahead, behind = rule.F[0], rule.G[0] - np.eye(self.shape[1])[0]  # θ_{t+1} - s = ahead·z + behind·s_w + noise
        for event in self.chain.events:
            if event.commits:
                one = Moments(*(part[event.before : event.before + 1] for part in moments))
                among = self.chain.counts[event.before][event.source]
                q, c = one.Q[0, event.source] / among, one.C[0, event.source] / among
                square = ahead @ one.P[0] @ ahead + 2 * ahead @ q @ behind + behind @ c @ behind
                total += event.rate * (square + rule.e[0] ** 2 * self.chain.probability[event.before])
        return float(0.5 * total / (self.chain.commit_rate @ self.chain.probability))


def moment_system(laws: Sequence[Delay], momentum: float, where: str) -> MomentSystem:
    """The system of these workers, kept because a curve in ηh asks for it many times."""
    if not all(is_phase_type(law) for law in laws):
        refuse(laws)
    return _built(tuple(laws), momentum, where)


@lru_cache(maxsize=64)
def _built(laws: tuple[Delay, ...], momentum: float, where: str) -> MomentSystem:
    return MomentSystem(laws, momentum, where)


def _assemble(blocks: dict[tuple[int, int], FloatArray], rows: int, width: int) -> Any:
    """The matrix with these square blocks: dense if it is small, else sparse by columns."""
    if rows * width <= DENSE:
        dense = np.zeros((rows, width, rows, width))
        for (row, column), block in blocks.items():
            dense[row, :, column] = block
        return dense.reshape(rows * width, rows * width)
    from scipy.sparse import coo_array

    inside = {place: np.nonzero(block) for place, block in blocks.items()}
    row = np.concatenate([r * width + inside[r, c][0] for r, c in blocks])
    column = np.concatenate([c * width + inside[r, c][1] for r, c in blocks])
    value = np.concatenate([block[inside[place]] for place, block in blocks.items()])
    return coo_array((value, (row, column)), shape=(rows * width,) * 2).tocsc()


def _solve(matrix: Any, right: FloatArray) -> Any:
    """The solution of a linear equation. NaN if the matrix is singular."""
    from scipy.sparse.linalg import splu

    try:
        return np.linalg.solve(matrix, right) if isinstance(matrix, np.ndarray) else splu(matrix).solve(right)
    except (np.linalg.LinAlgError, RuntimeError):  # raised for a singular matrix
        return np.full_like(right, np.nan)
