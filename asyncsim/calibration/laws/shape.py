"""Do the durations follow the fitted law, and are they independent of each other and of time?"""

import math

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration.coordinates import CLASSES, FloatArray
from asyncsim.calibration.laws.choose import Group
from asyncsim.calibration.laws.stages import Stage
from asyncsim.calibration.predictive import Check

REFITS = 100  # simulated samples, each fitted anew, behind a p-value of a law
KOLMOGOROV_MEAN = math.sqrt(math.pi / 2) * math.log(2)  # of the distance, times √n, in the limit
KOLMOGOROV_SD = math.sqrt(math.pi**2 / 12 - KOLMOGOROV_MEAN**2)
MOST_CENSORED = 0.03  # of the durations
MOST_DURATIONS = 2000  # of them
CLOSED = ("exponential", "gamma", "lognormal", "weibull", "shifted_exponential", "half_normal", "pareto", "uniform")
FLAGGED = 4.0  # standard errors from which a trend or a dependence is said


def positions(stage: Stage, groups: tuple[Group, ...], workers: int) -> FloatArray:
    """(jobs,) cdf of each duration by its worker's law: uniform if the laws are right."""
    found = np.empty(len(stage.durations))
    for group in groups:
        mine = np.isin(stage.worker, group.workers)
        found[mine] = group.estimate.law.cdf(stage.durations[mine])
    return found


def law_check(stage: Stage, groups: tuple[Group, ...], workers: int, seed: int) -> Check | None:
    """Kolmogorov and Smirnov's distance from the laws; None for constants, and where many are censored.

    For one law with a quick fit, the p-value counts that it was fitted: samples of the law are fitted in turn
    (Lilliefors). For others it does not, and is too large: it flags fewer.
    """
    from scipy import stats

    constant = any(group.estimate.family == "constant" for group in groups)
    if constant or len(stage.censored) > MOST_CENSORED * len(stage.durations):
        return None  # jobs that ended are the shorter ones, so that their distribution is not that of the law
    count = len(stage.durations)
    distance = _distance(positions(stage, groups, workers))
    first = groups[0].estimate
    family = first.family
    if len(groups) > 1 or family not in CLOSED:
        mean, sd = KOLMOGOROV_MEAN / np.sqrt(count), KOLMOGOROV_SD / np.sqrt(count)
        return Check(distance, mean, sd, float(stats.kstwo.sf(distance, count)))
    generator = np.random.default_rng([seed, 1])
    size = min(count, MOST_DURATIONS)
    distances = []
    for _ in range(REFITS):
        sample = first.law.sample(generator, size)
        distances.append(_distance(CLASSES[family].fit(sample).cdf(sample)) * np.sqrt(size / count))
    # Of the largest of many nearly normal deviations, so that its logarithm is nearly normal.
    logs = np.log(distances)
    p_value = float(stats.norm.sf((np.log(distance) - float(logs.mean())) / float(logs.std(ddof=1))))
    return Check(distance, float(np.mean(distances)), float(np.std(distances, ddof=1)), p_value)


def dependences(stage: Stage, groups: tuple[Group, ...], workers: int, when: FloatArray) -> list[str]:
    """Sentences about a trend, or about slow periods: long jobs that follow long ones.

    Args:
        stage: The durations, in the order of their worker's jobs.
        groups: Their laws.
        workers: Number of workers.
        when: (jobs,) seconds, the middle of each job.
    """
    from scipy.stats import norm, rankdata

    if any(group.estimate.family == "constant" for group in groups):
        return []
    ranks = rankdata(positions(stage, groups, workers))
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


def _distance(shares: FloatArray) -> float:
    ordered = np.sort(shares)
    count = len(ordered)
    steps = np.arange(count + 1) / count
    return float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))


def _successive(scores: FloatArray, worker: NDArray[np.int32], when: FloatArray) -> tuple[FloatArray, FloatArray]:
    order = np.lexsort((when, worker))
    same = worker[order][1:] == worker[order][:-1]
    return scores[order][:-1][same], scores[order][1:][same]
