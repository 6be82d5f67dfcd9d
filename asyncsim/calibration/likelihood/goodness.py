"""Do durations follow the laws of a fitted model? Distances of their positions, with the fit accounted for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.laws.shape import MOST_CENSORED
from asyncsim.calibration.likelihood.terms import Term, pieces
from asyncsim.calibration.predictive import Check
from asyncsim.cluster import Cluster

REPLICATES = 200  # of the distance, under the model
LEAST = 20  # durations, from which a law is judged
LEAST_PER_WORKER = 5


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
    """Name of a term -> Kolmogorov and Smirnov's distance of its durations from the laws.

    That the laws were fitted to the same durations, and to those of other terms where these share parameters, makes the
    distance smaller. What it would be is drawn by a weighted bootstrap: each duration's influence on the empirical
    distribution, less that through the parameters, times an independent normal number.

    Args:
        terms: Of the likelihood.
        cluster: The fitted one.
        scores: For each term, (jobs, p) derivatives of the log-densities.
        covariance: (p, p) of the parameters.
        seed: Of the bootstrap.

    References:
        Kojadinovic and Yan 2012, "Goodness-of-fit testing based on a weighted bootstrap: A fast large-sample
        alternative to the parametric bootstrap".
    """
    generator = np.random.default_rng([seed, 7])
    positions = [np.concatenate(by_worker(term, cluster, "cdf")) for term in terms]
    orders = [np.argsort(place) for place in positions]
    paths = [np.cumsum(score[order], axis=0) / len(order) for score, order in zip(scores, orders, strict=True)]
    distances: list[list[float]] = [[] for _ in terms]
    for _ in range(REPLICATES):
        weights = [generator.standard_normal(len(place)) for place in positions]
        moved = sum((weight @ score for weight, score in zip(weights, scores, strict=True)), np.zeros(len(covariance)))
        for i, (place, order) in enumerate(zip(positions, orders, strict=True)):
            mine = weights[i][order]
            after = np.cumsum(mine) - place[order] * mine.sum() - len(order) * (paths[i] @ (covariance @ moved))
            distances[i].append(float(max(np.abs(after).max(), np.abs(after - mine).max())) / len(order))
    return {
        term.name: _check(positions[i][orders[i]], distances[i])
        for i, term in enumerate(terms)
        if len(positions[i]) >= LEAST and sum(map(len, term.censored)) <= MOST_CENSORED * len(positions[i])
    }


def _check(ordered: FloatArray, distances: list[float]) -> Check:
    """The largest of many nearly normal deviations has a nearly normal logarithm."""
    from scipy.stats import norm

    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
    logs = np.log(distances)
    p_value = float(norm.sf((np.log(distance) - float(logs.mean())) / float(logs.std(ddof=1))))
    return Check(distance, float(np.mean(distances)), float(np.std(distances, ddof=1)), p_value)


def unequal_workers(term: Term, cluster: Cluster) -> float:
    """p-value of Kruskal and Wallis: whether all workers are as slow, in relation to their laws, as each other."""
    from scipy.stats import kruskal

    parts = [mine for mine in by_worker(term, cluster, "cdf") if len(mine) >= LEAST_PER_WORKER]
    if len(parts) < 2 or np.ptp(np.concatenate(parts)) == 0:
        return 1.0
    found: Any = kruskal(*parts)
    return float(found.pvalue)
