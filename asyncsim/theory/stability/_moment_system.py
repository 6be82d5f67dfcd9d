"""The stationary second moments of one cluster and rule, as a function of κ, and where they cease to exist."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from asyncsim.delays import Delay, FloatArray
from asyncsim.theory._numerics import root_between
from asyncsim.theory.stability import _second_moments as second_moments
from asyncsim.theory.stability._phases import classes_of, configurations, is_phase_type, number_of, refuse
from asyncsim.theory.stability._second_moments import Moments, linear_rule

DENSE = 600  # unknowns up to which a dense solve is faster than a sparse one
MOST_UNKNOWNS = 10_000  # a sparse solve takes a second or two there, and a limit about fifteen solves
MOST_PER_CONFIGURATION = 1000  # one event is a matrix of this order: 40 workers that all differ


class MomentSystem:
    """The equation 0 = L(κ) M + N of the stationary moments M; exact."""

    def __init__(self, laws: Sequence[Delay], momentum: float, where: str) -> None:
        classes = classes_of(laws)
        rule = linear_rule(1.0, momentum, where)
        phases = sum(len(law.rate) for law, _ in classes)
        self.momentum = momentum
        self.where = where
        self.shape = (len(rule.e), len(rule.f), phases)
        self.width = second_moments.size(*self.shape)
        states = number_of(classes)
        if states * self.width > MOST_UNKNOWNS or self.width > MOST_PER_CONFIGURATION:
            raise ValueError(
                f"`workers` and `compute` need {states * self.width} moments, {self.width} for each configuration of "
                f"phases; at most {MOST_UNKNOWNS} and {MOST_PER_CONFIGURATION} are solved for. "
                "Use fewer workers, phases or different laws, or estimate with `lyapunov_exponent`."
            )
        self.chain = configurations(classes)
        self.counts = np.array(self.chain.counts, float)
        # Every entry of the rule is linear in κ, so L is a parabola in κ: three values give it everywhere.
        below, constant, above = (self._generator(kappa) for kappa in (-1.0, 0.0, 1.0))
        self.constant = constant
        self.linear = (above - below) / 2
        self.square = (above + below) / 2 - constant
        self.noise = self._noise()

    def solve(self, kappa: float) -> Moments | None:
        """The stationary moments in units of the raw update's noise variance; None if they do not exist."""
        moments = self._solution(kappa)
        # A stationary equation may have a solution beyond the limit too, but no covariance solves it there.
        return moments if second_moments.possible(moments, self.counts) else None

    @cached_property
    def limit(self) -> float:
        """The largest κ below which the second moments stay bounded, to about 12 digits."""
        low = (1 - self.momentum) / (16 * self.counts[0].sum())  # well below every limit, yet far from rounding
        while self.solve(2 * low) is not None:
            low *= 2
        return root_between(self._margin, low, 2 * low)

    def _margin(self, kappa: float) -> float:
        """1 / Var x, which passes smoothly through zero at the limit; beyond it, the sign is forced."""
        moments = self._solution(kappa)
        margin = 1 / self.variance(moments)
        if np.isnan(margin):
            return 0.0  # exactly at the limit
        return margin if second_moments.possible(moments, self.counts) else -abs(margin)

    def _solution(self, kappa: float) -> Moments:
        matrix = self.constant + kappa * self.linear + kappa * kappa * self.square
        return second_moments.unpack(_solve(matrix, -self.noise).reshape(-1, self.width), *self.shape)

    def _generator(self, kappa: float) -> Any:
        rule = linear_rule(kappa, self.momentum, self.where)
        blocks: dict[tuple[int, int], FloatArray] = {}
        matrices: dict[tuple[int, int, int, bool], FloatArray] = {}
        for event in self.chain.events:
            among = self.chain.counts[event.before][event.source]
            kind = (event.source, event.target, among, event.commits)
            if kind not in matrices:
                matrices[kind] = second_moments.event_matrix(*kind[:3], rule if event.commits else None, self.shape)
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
                added[event.after] += weight * second_moments.noise_of_commit(event.target, rule, self.shape)
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
    """The system of these workers, kept because a curve in κ asks for it many times."""
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
    """The solution of a linear equation; NaN if the matrix is singular."""
    from scipy.sparse.linalg import splu

    try:
        return np.linalg.solve(matrix, right) if isinstance(matrix, np.ndarray) else splu(matrix).solve(right)
    except (np.linalg.LinAlgError, RuntimeError):  # what either raises for a singular matrix
        return np.full_like(right, np.nan)
