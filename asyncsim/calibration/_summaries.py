"""A trace as a row of statistics, from which a neural posterior infers the cluster.

Times are in units of the mean time from one commit of a worker to its next, and most are logarithms, so that all but
the first do not depend on the clock's unit.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from asyncsim.calibration._stages import ROUNDING
from asyncsim.calibration._transforms import FloatArray
from asyncsim.trace import Trace
from asyncsim.trace._infer_columns import previous_own_row
from asyncsim.trace._statistics import previous_commit

VERSION = 1  # of these statistics: simulations kept by another version are not used
COLUMNS = ("start_time", "finish_time", "arrive_time", "serve_time", "commit_time")
SHORTEST = 1e-6  # of a cycle, the least duration that counts, because no logarithm of 0 is finite
CYCLES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
GAPS = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
STALENESS = (0.05, 0.25, 0.5, 0.75, 0.95)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
STAGE = (0.02, 0.25, 0.5, 0.75, 0.98)
CYCLE = "log of the cycle"  # the one that depends on the unit of time

Seen = tuple[str, ...]


def seen_columns(trace: Trace) -> Seen:
    """The columns of times that a log really has, because they differ from those by which missing ones are filled."""
    rounding = ROUNDING * trace.seconds
    seen: list[str] = []
    before = previous_commit(trace)
    for name in COLUMNS[:-1]:
        column = getattr(trace, name)
        if (column - before > rounding).any() and (trace.commit_time - column > rounding).any():
            seen.append(name)
            before = column
    return (*seen, COLUMNS[-1])


def summaries(trace: Trace, seen: Seen) -> dict[str, float]:
    """Name -> statistic, as far as some columns of times determine them."""
    cycle = trace.workers * trace.seconds / len(trace)
    found = {CYCLE: float(np.log(cycle))}
    found |= dict(_of_commits(trace, cycle))
    before, name_before = previous_commit(trace), "previous commit"
    if len(seen) > 1:
        for name in seen:
            column = getattr(trace, name)
            found |= dict(_of_durations(f"{name_before} to {name}", (column - before) / cycle, STAGE))
            before, name_before = column, name
    return found


def _of_commits(trace: Trace, cycle: float) -> Iterator[tuple[str, float]]:
    before, rows = previous_own_row(trace.worker), np.arange(len(trace))
    again = before >= 0
    own = (trace.commit_time - previous_commit(trace))[again] / cycle
    gaps = np.diff(trace.commit_time) * trace.workers / cycle
    staleness = (rows - before)[again] - 1.0
    yield from _of_durations("inter-commit time", own, CYCLES)
    yield from _of_durations("gap", gaps, GAPS)
    yield "gap, autocorrelation", _autocorrelation(np.log(np.maximum(gaps, SHORTEST)))
    ordered = np.argsort(trace.worker[again], kind="stable")
    yield "inter-commit time, autocorrelation", _autocorrelation(np.log(np.maximum(own[ordered], SHORTEST)))
    for share, value in zip(STALENESS, np.quantile(staleness, STALENESS), strict=True):
        yield f"staleness, {100 * share:g} %", float(value) / trace.workers
    yield "staleness, log of the sd", float(np.log(staleness.std() / trace.workers + 1e-3))
    yield "staleness, autocorrelation", _autocorrelation(staleness)
    if trace.workers > 1:
        counts = np.bincount(trace.worker, minlength=trace.workers)
        shares = np.log((np.sort(counts) + 0.5) * trace.workers / len(trace))
        for share, value in zip(SHARES, np.quantile(shares, SHARES), strict=True):
            yield f"share of a worker, {100 * share:g} %", float(value)


def _of_durations(name: str, durations: FloatArray, shares: tuple[float, ...]) -> Iterator[tuple[str, float]]:
    """Logarithms of mean, geometric mean, spread and quantiles."""
    durations = np.maximum(durations, SHORTEST)
    mean, logs = float(durations.mean()), np.log(durations)
    yield f"{name}, mean", float(np.log(mean))
    yield f"{name}, mean of the logarithm", float(logs.mean())
    yield f"{name}, cv", float(np.log(durations.std() / mean + 1e-5))
    yield f"{name}, sd of the logarithm", float(np.log(logs.std() + 1e-5))
    yield f"{name}, mean over geometric mean", float(np.log(np.log(mean) - logs.mean() + 1e-9))
    for share, value in zip(shares, np.quantile(logs, shares), strict=True):
        yield f"{name}, {100 * share:g} %", float(value)


def _autocorrelation(values: Any) -> float:
    """Of successive values; 0 where they do not vary."""
    away = values - values.mean()
    square = float(away @ away)
    return float(away[1:] @ away[:-1]) / square if square > ROUNDING * len(values) * float(values @ values) else 0.0
