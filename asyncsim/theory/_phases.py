"""Compute-time laws as chains of exponential phases, and the Markov chain of which phases the workers are in."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim import delays
from asyncsim._checks import brief
from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._mixture import Mixed
from asyncsim.theory._numerics import ways

IntArray = NDArray[np.int64]
WHOLE = 1e-9  # 1 / cv² of a gamma law counts as a whole number within this relative error, so that cv = 3 ** -0.5 works


@dataclass(frozen=True)
class Phases:
    """A law as a chain of exponential phases."""

    start: FloatArray  # (m,) probability of starting a job in each phase
    rate: FloatArray  # (m,) rate at which each phase ends
    move: FloatArray  # (m, m) probability of going on in another phase; the rest is the end of the job


def in_turn(laws: Sequence[tuple[Delay, int]]) -> bool:
    """Return whether workers commit in an exact round robin: equal constants, or one worker alone."""
    (law, count), *others = laws
    return not others and (count == 1 or isinstance(law, delays.Constant))


def stages_of(law: Delay) -> int:
    """Return the number of equal exponential stages in a row that a law is, or 0 if it is not such a law."""
    if isinstance(law, delays.Gamma):
        shape = 1 / law.cv / law.cv
        return round(shape) if shape > 0.5 and abs(shape - round(shape)) < WHOLE * shape else 0
    if isinstance(law, delays.Erlang):
        return law.shape
    return 1 if isinstance(law, delays.Exponential) else 0


def count_phases(law: Delay) -> int:
    """Return the number of phases of a law, without making them. An error if it has none."""
    if isinstance(law, Mixed):
        return sum(count_phases(part) for probability, part in law.components if probability)
    count = stages_of(law)
    if not count:
        raise ValueError(
            f"`compute` has no closed form; got {brief(law)}. There are results for equal `Constant` laws, and for "
            "`Exponential`, `Erlang`, `Gamma` with whole 1 / cv², `HyperExponential` and mixtures of these in any "
            "combination; `lyapunov_exponent` estimates by simulation."
        )
    return count


def phases_of(law: Delay) -> Phases:
    """Return the law as a chain of phases: stages in a row, or a mixture of such chains."""
    if isinstance(law, Mixed):
        parts = [(probability, phases_of(part)) for probability, part in law.components if probability]
        sizes = np.cumsum([0, *(len(part.rate) for _, part in parts)])
        move = np.zeros((sizes[-1], sizes[-1]))
        for first, last, (_, part) in zip(sizes[:-1], sizes[1:], parts, strict=True):
            move[first:last, first:last] = part.move
        start = np.concatenate([probability * part.start for probability, part in parts])
        return Phases(start=start, rate=np.concatenate([part.rate for _, part in parts]), move=move)
    count = count_phases(law)
    return Phases(start=np.eye(count)[0], rate=np.full(count, count / law.mean), move=np.eye(count, k=1))


class Event(NamedTuple):
    """One of `among` workers leaves phase `source` for phase `target`, in all states with so many there."""

    source: int
    target: int
    among: int
    commits: bool
    rate: float  # rate of all `among` workers together
    before: IntArray  # states in which it may happen
    after: IntArray  # states to which it leads, in the same order


class Configurations(NamedTuple):
    """The Markov chain of the number of workers in each phase."""

    counts: IntArray  # (states, m) number of workers in each of the m phases
    events: list[Event]  # transitions from one to another
    probability: FloatArray  # (states,) stationary probability, in time
    commit_rate: FloatArray  # (states,) commits a second in each state


def number_of(classes: Sequence[tuple[int, int]]) -> float:
    """Count the configurations: Π C(n_g + m_g - 1, m_g - 1) over the classes of equal workers with m phases."""
    return math.prod(ways(count + phases - 1, count) for phases, count in classes)


def configurations(classes: Sequence[tuple[Phases, int]]) -> Configurations:
    """Return every configuration and event of independent workers in classes of equal laws (exact)."""
    parts = [list(compositions(count, len(law.rate))) for law, count in classes]
    counts = np.array([[n for part in choice for n in part] for choice in product(*parts)])
    index = {tuple(state): number for number, state in enumerate(counts.tolist())}
    events, commit_rate = [], np.zeros(len(counts))
    for source, target, rate, commits in _phase_moves(classes):
        for among in np.unique(counts[:, source][counts[:, source] > 0]).tolist():
            before = np.flatnonzero(counts[:, source] == among)
            moved = counts[before]  # a copy, because `before` is an array of indices
            moved[:, source] -= 1
            moved[:, target] += 1
            after = np.array([index[tuple(state)] for state in moved.tolist()])
            events.append(Event(source, target, among, commits, among * rate, before, after))
            commit_rate[before] += among * rate * commits
    return Configurations(counts, events, _stationary(counts, classes), commit_rate)


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield each way to write `total` as an ordered sum of `parts` whole numbers: the gaps between `parts` - 1 bars."""
    if parts == 1:
        yield (total,)
        return
    last = total + parts - 1
    for bars in combinations(range(last), parts - 1):
        yield tuple(after - before - 1 for before, after in pairwise((-1, *bars, last)))


def _phase_moves(classes: Sequence[tuple[Phases, int]]) -> Iterator[tuple[int, int, float, bool]]:
    """Yield (source, target, rate of one worker, whether it commits), with the phases numbered through the classes."""
    first = 0
    for law, _ in classes:
        phases = range(len(law.rate))
        for source, target in product(phases, phases):
            ends = (1 - law.move[source].sum()) * law.start[target]
            for probability, commits in ((law.move[source, target], False), (ends, True)):
                if probability > 0:
                    yield first + source, first + target, law.rate[source] * probability, commits
        first += len(law.rate)


def _stationary(counts: IntArray, classes: Sequence[tuple[Phases, int]]) -> FloatArray:
    """Return the stationary law, multinomial in each class, from the mean time that a job spends in each phase."""
    shares = []
    for law, _ in classes:
        seconds = np.linalg.solve(np.eye(len(law.rate)) - law.move.T, law.start) / law.rate
        shares.append(seconds / seconds.sum())
    orders = sum(math.lgamma(count + 1) for _, count in classes)
    factorials = np.array([[math.lgamma(number + 1) for number in state] for state in counts.tolist()])
    return np.exp(orders + (counts * np.log(np.concatenate(shares)) - factorials).sum(axis=1))
