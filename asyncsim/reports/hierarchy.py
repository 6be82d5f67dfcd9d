"""Predictions for a `Hierarchy` beside what a simulation measures: staleness, pushes, and their share of commits."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from asyncsim import theory
from asyncsim.cluster import Hierarchy
from asyncsim.delays import Exponential
from asyncsim.delays._per_worker import expand
from asyncsim.reports.rollouts import Prediction
from asyncsim.trace import Trace
from asyncsim.trace._columns import IntColumn
from asyncsim.trace._variables import changes_of

__all__ = ["commits_since_read", "measured_of_hierarchy", "predictions_of_hierarchy"]

CONSERVED = "conservation, any law: each holds one read"


def commits_since_read(trace: Trace) -> IntColumn:
    """Count the commits of others to the same variable between each row's read and its commit, without merges.

    Example:
        >>> import asyncsim as asim
        >>> region = asim.Cluster(workers=3, compute=asim.delays.Constant(1.0))
        >>> trace = asim.simulate(asim.Hierarchy([region, region]), seconds=9.0)
        >>> commits_since_read(trace)[trace.from_variable < 0].tolist()[-6:]
        [2, 2, 2, 2, 2, 2]
    """
    changes, commits = changes_of(trace), trace.staleness.copy()
    for variable in range(trace.variables):
        rows = np.flatnonzero(trace.variable == variable)
        is_mixing = changes.position[changes.first[variable] : changes.first[variable + 1]] % 2 == 0
        mixings = np.append(0, np.cumsum(is_mixing))
        commits[rows] -= mixings[trace.version[rows]] - mixings[trace.read_version[rows]]
    return commits


def measured_of_hierarchy(hierarchy: Hierarchy, trace: Trace, warm_up: int) -> dict[str, float]:
    """Measure a trace after some rows: mean staleness at both levels, rates, and the share of commits in pushes."""
    counts = np.arange(len(trace)) >= warm_up
    pushes = trace.from_variable >= 0
    seconds = trace.seconds - (trace.commit_time[warm_up - 1] if warm_up else 0.0)
    stale = commits_since_read(trace)
    regions = range(len(hierarchy.regions))
    by_region = {f"staleness_in_region_{r}": stale[counts & ~pushes & (trace.variable == r)] for r in regions}
    # Commits after the last push have had no chance to be in one.
    last = np.flatnonzero(pushes)[-1] if pushes.any() else 0
    reported = trace.reported[counts & ~pushes & (np.arange(len(trace)) < last)]
    values = by_region | {"staleness_of_pushes": trace.staleness[counts & pushes], "reported_share": reported}
    means = {name: float(each.mean()) if len(each) else float("nan") for name, each in values.items()}
    rates = {"commits_per_second": counts & ~pushes, "pushes_per_second": counts & pushes}
    return means | {name: float(np.count_nonzero(rows) / seconds) for name, rows in rates.items()}


def predictions_of_hierarchy(hierarchy: Hierarchy) -> dict[str, list[Prediction]]:
    """Return name of a measured number -> predictions, of the results whose assumptions this hierarchy meets."""
    predicted: dict[str, list[Prediction]] = {}
    for name, prediction in _predictions(hierarchy):
        predicted.setdefault(name, []).append(prediction)
    return predicted


def _predictions(hierarchy: Hierarchy) -> Iterator[tuple[str, Prediction]]:
    for number, region in enumerate(hierarchy.regions):
        yield f"staleness_in_region_{number}", Prediction(region.workers - 1.0, "=", CONSERVED)
    yield "staleness_of_pushes", Prediction(len(hierarchy.regions) - 1.0, "=", CONSERVED)
    rates = [_rate(region) for region in hierarchy.regions]
    if not all(rates) or hierarchy.network.limits_bytes:
        return
    instant = all(region.network.is_instant for region in hierarchy.regions)
    exact = instant and all(isinstance(law, Exponential) for region in hierarchy.regions for law in region.laws)
    relation = "=" if exact else "≈"
    yield "commits_per_second", Prediction(sum(rates), "=", "each worker's mean cycle")
    trips = [2 * law.mean for law in expand(hierarchy.network.latency, len(rates))]
    count = hierarchy.commits_per_push
    pushes = [theory.push_rate(count, rate, trip) for rate, trip in zip(rates, trips, strict=True)]
    yield "pushes_per_second", Prediction(sum(pushes), relation, "1/(K/λ + D) of each region")
    shares = [rate * theory.reported_share(count, rate, trip) for rate, trip in zip(rates, trips, strict=True)]
    yield "reported_share", Prediction(sum(shares) / sum(rates), relation, "K/(K + λ·D), weighted by commits")


def _rate(region: Any) -> float:
    """Compute a region's commits per second, or 0 if a server or a link makes workers wait for each other."""
    if not region.server.is_instant or region.network.limits_bytes:
        return 0.0
    ways = [2 * law.mean for law in expand(region.network.latency, region.workers)]
    return sum(1 / (law.mean + both) for law, both in zip(region.laws, ways, strict=True))
