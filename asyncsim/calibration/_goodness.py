"""Tests of whether durations follow the fitted laws, and are independent of each other and of time."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsim.calibration._choose import Group, test_equality
from asyncsim.calibration._stages import Stage, evaluate_laws
from asyncsim.calibration._statistics import Check
from asyncsim.calibration._terms import Terms, pieces
from asyncsim.calibration._transforms import FloatArray
from asyncsim.cluster import Cluster
from asyncsim.trace._statistics import kolmogorov_distance

MOST_CENSORED = 0.03  # of the durations: jobs that ended are the shorter ones, which do not have the law
MOST_DURATIONS = 2000  # of which replicates are made, because distances fall with the root of their number
BOOTSTRAP_REPLICATES = 200  # replicates of a distance
LEAST_JUDGED = 20  # durations, from which a law is judged
LEAST_COMPARED = 5  # of a worker
LEAST_NOTED = 4.0  # standard errors, from which a note names a trend or a dependence


def law_check(stage: Stage, groups: tuple[Group, ...], seed: int) -> Check | None:
    """Measure Kolmogorov and Smirnov's distance from the laws, or None for constants and if many are censored."""
    from scipy.linalg import block_diag

    constant = any(group.estimate.family == "constant" for group in groups)
    if constant or len(stage.censored) > MOST_CENSORED * len(stage.durations):
        return None
    sorted_parts = [np.sort(stage.of(group.workers).durations) for group in groups]
    pairs = list(zip(groups, sorted_parts, strict=True))
    place = np.concatenate([group.estimate.law.cdf(mine) for group, mine in pairs])
    rows = np.linspace(0, len(place) - 1, min(len(place), MOST_DURATIONS)).astype(int)
    share = len(rows) / len(place)
    covariance: Any = block_diag(*[group.estimate.covariance for group in groups]) / share
    scores: Any = block_diag(*[group.estimate.scores(mine) for group, mine in pairs])
    (distances,) = _replicates([place[rows]], [scores[rows]], covariance, np.random.default_rng([seed, 1]))
    return _judge(place, [distance * math.sqrt(share) for distance in distances])


def law_checks(
    terms: Terms, cluster: Cluster, scores: Sequence[FloatArray], covariance: FloatArray, seed: int
) -> dict[str, Check]:
    """Measure Kolmogorov and Smirnov's distance of the durations of each term from the laws."""
    places = [evaluate_laws(stage, pieces(name, stage, cluster), "cdf") for name, stage in terms.items()]
    distances = _replicates(places, scores, covariance, np.random.default_rng([seed, 7]))
    return {
        name: _judge(place, replicates)
        for (name, stage), place, replicates in zip(terms.items(), places, distances, strict=True)
        if len(place) >= LEAST_JUDGED and len(stage.censored) <= MOST_CENSORED * len(place)
    }


def _judge(positions: FloatArray, distances: list[float]) -> Check:
    """Compare a distance with those of replicates."""
    from scipy.stats import norm

    # The largest of many nearly normal deviations has a nearly normal logarithm.
    distance, logs = kolmogorov_distance(positions), np.log(distances)
    p_value = float(norm.sf((np.log(distance) - float(logs.mean())) / float(logs.std(ddof=1))))
    return Check(distance, float(np.mean(distances)), float(np.std(distances, ddof=1)), p_value)


def _replicates(
    positions: Sequence[FloatArray],  # of each part, (jobs,) cdf of the durations
    scores: Sequence[FloatArray],  # of each part, (jobs, k) derivatives of the log-density by the fitted coordinates
    covariance: FloatArray,  # (k, k) of these
    generator: np.random.Generator,
) -> list[list[float]]:
    """Draw, for each part of the data, distances of samples from laws fitted to them, by Gaussian multipliers."""
    orders = [np.argsort(place) for place in positions]
    paths = [np.cumsum(score[order], axis=0) / len(order) for score, order in zip(scores, orders, strict=True)]
    distances: list[list[float]] = [[] for _ in positions]
    for _ in range(BOOTSTRAP_REPLICATES):
        weights = [generator.standard_normal(len(place)) for place in positions]
        moved = sum((weight @ score for weight, score in zip(weights, scores, strict=True)), np.zeros(len(covariance)))
        for i, (place, order) in enumerate(zip(positions, orders, strict=True)):
            mine = weights[i][order]
            after = np.cumsum(mine) - place[order] * mine.sum() - len(order) * (paths[i] @ (covariance @ moved))
            distances[i].append(float(max(np.abs(after).max(), np.abs(after - mine).max())) / len(order))
    return distances


def unequal_workers(name: str, stage: Stage, cluster: Cluster) -> float:
    """Test by Kruskal and Wallis whether all workers are equally slow, given their laws, and return the p-value."""
    many = np.flatnonzero(np.bincount(stage.worker) >= LEAST_COMPARED)
    compared = np.isin(stage.worker, many)
    positions = evaluate_laws(stage, pieces(name, stage, cluster), "cdf")[compared]
    return test_equality(positions, stage.worker[compared]) if len(many) > 1 and np.ptp(positions) else 1.0


def dependences(stage: Stage, groups: tuple[Group, ...], when: FloatArray) -> list[str]:
    """Write sentences about a trend, or about slow periods: long jobs that follow long ones."""
    from scipy.stats import norm, rankdata

    if any(group.estimate.family == "constant" for group in groups):
        return []
    laws = [(group.estimate.law, stage.of(group.workers)) for group in groups]
    ranks = rankdata(evaluate_laws(stage, laws, "cdf"))
    scores = norm.ppf((ranks - 0.5) / len(ranks))
    notes = []
    time = (when - when.mean()) / (when.std() or 1.0)
    slope = float((scores * time).mean())
    has_trend = abs(slope) * np.sqrt(len(scores)) > LEAST_NOTED
    if has_trend:
        half = np.median(when)
        early, late = stage.durations[when <= half].mean(), stage.durations[when > half].mean()
        notes.append(
            f"Computing took {early:.3g} s on average in the first half and {late:.3g} s in the second: it has a trend."
        )
    rest = scores - slope * time if has_trend else scores
    order = np.lexsort((when, stage.worker))
    same = stage.worker[order][1:] == stage.worker[order][:-1]
    if same.sum() > 2:
        correlation = float(np.corrcoef(rest[order][:-1][same], rest[order][1:][same])[0, 1])
        if correlation * np.sqrt(same.sum()) > LEAST_NOTED:
            notes.append(
                f"Slow jobs follow slow ones (correlation {correlation:.2f} of a worker's successive jobs): there are "
                "slow periods, which independent durations lack."
            )
    return notes
