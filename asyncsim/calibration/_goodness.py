"""Do durations follow the fitted laws, and are they independent of each other and of time?"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration._choose import Group
from asyncsim.calibration._stages import Stage
from asyncsim.calibration._statistics import Check
from asyncsim.calibration._terms import Term, pieces
from asyncsim.calibration._transforms import FloatArray
from asyncsim.cluster import Cluster
from asyncsim.trace._statistics import kolmogorov_distance

MOST_CENSORED = 0.03  # of the durations
MOST_DURATIONS = 2000  # of which replicates are made, because distances fall with the root of their number
BOOTSTRAPPED = 200  # replicates of a distance
LEAST_JUDGED = 20  # durations, from which a law is judged
LEAST_COMPARED = 5  # of a worker
FLAGGED = 4.0  # standard errors from which a trend or a dependence is said


def positions(stage: Stage, groups: tuple[Group, ...]) -> FloatArray:
    """(jobs,) cdf of each duration by its worker's law: uniform if the laws are right."""
    found = np.empty(len(stage.durations))
    for group in groups:
        mine = np.isin(stage.worker, group.workers)
        found[mine] = group.estimate.law.cdf(stage.durations[mine])
    return found


def law_check(stage: Stage, groups: tuple[Group, ...], seed: int) -> Check | None:
    """Kolmogorov and Smirnov's distance from the chosen laws. None for constants, or if many durations are censored."""
    from scipy.linalg import block_diag

    constant = any(group.estimate.family == "constant" for group in groups)
    if constant or len(stage.censored) > MOST_CENSORED * len(stage.durations):
        return None  # jobs that ended are the shorter ones, so that their distribution is not that of the law
    places, scores = [], []
    for group in groups:
        mine = np.sort(stage.durations[np.isin(stage.worker, group.workers)])
        places.append(group.estimate.law.cdf(mine))
        scores.append(group.estimate.scores(mine))
    place, count = np.concatenate(places), len(stage.durations)
    rows = np.linspace(0, count - 1, min(count, MOST_DURATIONS)).astype(int)
    share = len(rows) / count
    covariance: Any = block_diag(*[group.estimate.covariance for group in groups]) / share
    whole: Any = block_diag(*scores)
    generator = np.random.default_rng([seed, 1])
    (distances,) = _replicates([place[rows]], [whole[rows]], covariance, generator)
    return _judged(kolmogorov_distance(place), [one * math.sqrt(share) for one in distances])


def _judged(distance: float, distances: list[float]) -> Check:
    """A distance among others, where the largest of many nearly normal deviations has a nearly normal logarithm."""
    from scipy.stats import norm

    logs = np.log(distances)
    p_value = float(norm.sf((np.log(distance) - float(logs.mean())) / float(logs.std(ddof=1))))
    return Check(distance, float(np.mean(distances)), float(np.std(distances, ddof=1)), p_value)


def dependences(stage: Stage, groups: tuple[Group, ...], when: FloatArray) -> list[str]:
    """Sentences about a trend, or about slow periods: long jobs that follow long ones."""
    from scipy.stats import norm, rankdata

    if any(group.estimate.family == "constant" for group in groups):
        return []
    ranks = rankdata(positions(stage, groups))
    scores = norm.ppf((ranks - 0.5) / len(ranks))
    found = []
    time = (when - when.mean()) / (when.std() or 1.0)
    slope = float((scores * time).mean())
    if abs(slope) * np.sqrt(len(scores)) > FLAGGED:
        half = np.median(when)
        early, late = stage.durations[when <= half].mean(), stage.durations[when > half].mean()
        found.append(
            f"Computing took {early:.3g} s on average in the first half and {late:.3g} s in the second: it has a trend."
        )
        scores = scores - slope * time
    pairs = _successive(scores, stage.worker, when)
    if len(pairs[0]) > 2:
        correlation = float(np.corrcoef(*pairs)[0, 1])
        if correlation * np.sqrt(len(pairs[0])) > FLAGGED:
            found.append(
                f"Slow jobs follow slow ones (correlation {correlation:.2f} of a worker's successive jobs): there are "
                "slow periods, which independent durations lack."
            )
    return found


def _successive(scores: FloatArray, worker: NDArray[np.int32], when: FloatArray) -> tuple[FloatArray, FloatArray]:
    order = np.lexsort((when, worker))
    same = worker[order][1:] == worker[order][:-1]
    return scores[order][:-1][same], scores[order][1:][same]


def by_worker(term: Term, cluster: Cluster, of: str) -> list[FloatArray]:
    """For each worker, `of` its law ("cdf" or "log_density") at its durations."""
    found: list[FloatArray] = [np.zeros(0)] * cluster.workers
    for piece in pieces(term, cluster):
        if len(piece.durations):
            values = np.asarray(getattr(piece.law, of)(piece.durations), np.float64)
            lengths = [len(term.durations[w]) for w in piece.workers]
            for w, mine in zip(piece.workers, np.split(values, np.cumsum(lengths)[:-1]), strict=True):
                found[w] = mine
    return found


def law_checks(
    terms: Sequence[Term], cluster: Cluster, scores: Sequence[FloatArray], covariance: FloatArray, seed: int
) -> dict[str, Check]:
    """Name of a term -> Kolmogorov and Smirnov's distance of its durations from the laws."""
    positions = [np.concatenate(by_worker(term, cluster, "cdf")) for term in terms]
    distances = _replicates(positions, scores, covariance, np.random.default_rng([seed, 7]))
    return {
        term.name: _judged(kolmogorov_distance(place), found)
        for term, place, found in zip(terms, positions, distances, strict=True)
        if len(place) >= LEAST_JUDGED and sum(map(len, term.censored)) <= MOST_CENSORED * len(place)
    }


def _replicates(
    positions: Sequence[FloatArray],
    scores: Sequence[FloatArray],
    covariance: FloatArray,
    generator: np.random.Generator,
) -> list[list[float]]:
    """Distances of samples from laws fitted to them, for each part of the data: Gaussian multipliers of each duration.

    Args:
        positions: For each part, (jobs,) cdf of the durations.
        scores: For each part, (jobs, k) derivatives of the log-density by the fitted coordinates.
        covariance: (k, k) of these coordinates.
        generator: Generator of the multipliers.
    """
    orders = [np.argsort(place) for place in positions]
    paths = [np.cumsum(score[order], axis=0) / len(order) for score, order in zip(scores, orders, strict=True)]
    distances: list[list[float]] = [[] for _ in positions]
    for _ in range(BOOTSTRAPPED):
        weights = [generator.standard_normal(len(place)) for place in positions]
        moved = sum((weight @ score for weight, score in zip(weights, scores, strict=True)), np.zeros(len(covariance)))
        for i, (place, order) in enumerate(zip(positions, orders, strict=True)):
            mine = weights[i][order]
            after = np.cumsum(mine) - place[order] * mine.sum() - len(order) * (paths[i] @ (covariance @ moved))
            distances[i].append(float(max(np.abs(after).max(), np.abs(after - mine).max())) / len(order))
    return distances


def unequal_workers(term: Term, cluster: Cluster) -> float:
    """p-value of Kruskal and Wallis: whether all workers are as slow, in relation to their laws, as each other."""
    from scipy.stats import kruskal

    parts = [mine for mine in by_worker(term, cluster, "cdf") if len(mine) >= LEAST_COMPARED]
    if len(parts) < 2 or np.ptp(np.concatenate(parts)) == 0:
        return 1.0
    found: Any = kruskal(*parts)
    return float(found.pvalue)
