"""The staleness of a cluster, predicted beside simulated, in numbers."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.checks import require_integer
from asyncsim.cluster import Cluster, simulate
from asyncsim.plots.staleness import total_variation
from asyncsim.reports.predictions import StalenessTheory, staleness_theory
from asyncsim.reports.warm_up import settling_commits
from asyncsim.trace import Trace

MOST_LEFT_OUT = 2_000_000  # commits of the common start
REACH = (6, 20)  # mean stalenesses that a distribution is computed for, at least and at most


class Summary(NamedTuple):
    """Four numbers that say what a distribution looks like; None where one is not known or not finite."""

    mean: float | None
    sd: float | None
    median: int | None
    p99: int | None


class Outcome(NamedTuple):
    """A cluster's staleness, simulated and predicted.

    Attributes:
        cluster: The cluster.
        trace: Its schedule, from the start.
        left_out: Commits at the start that do not count.
        known: What theory knows of the cluster.
        pmf: The predicted distribution, or None.
        numbers: Both in numbers, by name.
    """

    cluster: Cluster
    trace: Trace
    left_out: int
    known: StalenessTheory
    pmf: NDArray[np.float64] | None
    numbers: dict[str, Any]

    @property
    def staleness(self) -> NDArray[np.int32]:
        """That of the commits that count."""
        return self.trace.staleness[self.left_out :]


def find(cluster: Cluster, commits: int, seed: int) -> Outcome:
    """Simulate a cluster, leave out the start, and compare with theory.

    Args:
        cluster: The cluster.
        commits: Commits that count, at least 1; as many more as `settling_commits` says are simulated before them.
        seed: Of the simulation.
    """
    commits = require_integer("commits", commits, least=1, remedy="Ask for one commit or more.")
    settling = settling_commits(cluster)
    left_out = min(settling, MOST_LEFT_OUT)
    trace = simulate(cluster, commits=left_out + commits, seed=seed)
    staleness, known = trace.staleness[left_out:], staleness_theory(cluster)
    pmf = distribution(known, int(staleness.max()))
    if known.pmf is not None and pmf is None:
        known = known._replace(reason=f"the tail is too heavy for the distribution; the mean is {known.mean:.4g}")
    numbers = {
        "predicted": None if pmf is None else predicted_summary(known, pmf)._asdict(),
        "simulated": simulated_summary(staleness)._asdict(),
        "total_variation": None if pmf is None else total_variation(staleness, pmf),
        "total_variation_by_chance": None if pmf is None else by_chance(pmf, commits),
        "predicted_mean": known.mean,
        "assumption": known.reason,
        "workers": cluster.workers,
        "commits": commits,
        "left_out": left_out,
        "settling": settling,
        "seed": seed,
    }
    return Outcome(cluster, trace, left_out, known, pmf, numbers)


def distribution(known: StalenessTheory, longest: int) -> NDArray[np.float64] | None:
    """The predicted distribution: as far as the simulation got, within limits, and up to the 99 % quantile."""
    if known.pmf is None or known.mean is None:
        return None
    least, most = (math.ceil(reach * (known.mean + 1)) for reach in REACH)
    pmf = known.pmf(min(max(longest + 1, least), most))
    return known.pmf(most) if pmf is not None and pmf.sum() < 0.99 and len(pmf) < most else pmf


def simulated_summary(staleness: NDArray[np.int32]) -> Summary:
    """Of measured values; quantiles are values that occur.

    Example:
        >>> simulated_summary(np.array([0, 1, 1, 2], np.int32))
        Summary(mean=1.0, sd=0.7071067811865476, median=1, p99=2)
    """
    median, p99 = (int(value) for value in np.quantile(staleness, (0.5, 0.99), method="inverted_cdf"))
    return Summary(float(staleness.mean()), float(staleness.std()), median, p99)


def predicted_summary(known: StalenessTheory, pmf: NDArray[np.float64]) -> Summary:
    """Of a distribution; a quantile beyond its end is None, and so is an infinite standard deviation."""
    variance = math.inf if known.variance is None else known.variance()
    reached = np.searchsorted(np.cumsum(pmf), np.array([0.5, 0.99]) - 1e-9)
    median, p99 = (int(place) if place < len(pmf) else None for place in reached)
    return Summary(known.mean, math.sqrt(max(variance, 0.0)) if math.isfinite(variance) else None, median, p99)


def by_chance(pmf: NDArray[np.float64], commits: int) -> float:
    """Mean total variation between a distribution and as many independent values of it, roughly.

    Example:
        >>> round(by_chance(np.array([0.5, 0.5]), 10_000), 4)
        0.004
    """
    shares = np.append(pmf, max(0.0, 1 - float(pmf.sum())))
    return float(np.sqrt(2 * shares * (1 - shares) / (math.pi * commits)).sum() / 2)
