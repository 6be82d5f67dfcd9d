"""Statistics of a log, and whether a fitted cluster produces such a log.

`summary` uses the commits and their times alone, which every log has. `summaries` uses all columns of times that a log
has. A neural posterior is conditioned on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from asyncsim.calibration._transforms import FloatArray
from asyncsim.components import Component
from asyncsim.trace import Trace
from asyncsim.trace._columns import previous_own_row
from asyncsim.trace._presence import Presence
from asyncsim.trace._statistics import previous_commit

ROUNDING = 1e-9  # of the length of the log: durations below it are differences of equal times
CONSTANT = 1e-6  # relative spread of durations that differ by rounding only
REPLICATES = 32  # logs with which a log is compared, before it is simulated thousands of times or a what-if is answered
REFUTING_P_VALUE = 1e-3  # the least p-value, times the number of statistics, below which the model did not make the log
SUSPECT_P_VALUE = 0.05  # the least p-value, times the number of statistics, below which the model is flagged
PER_DIRECTION = 3  # replicates, at least, by which the spread in a direction is known
TINY = 1e-12
COLLINEAR = 1e-6  # of the largest spread: directions in which nothing varies
LEAST_SPREAD = 1e-9  # relative to the mean: statistics that never vary are compared to rounding
VERSION = 1  # of these statistics: stored simulations of another version are not used
MOST_CHECKED = 10_000  # commits of the logs that are simulated for comparison
COLUMNS = ("start_time", "finish_time", "arrive_time", "serve_time", "commit_time")
SHORTEST = 1e-6  # of a cycle, the least duration that counts, because no logarithm of 0 is finite
CYCLES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
GAPS = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
STALENESS = (0.05, 0.25, 0.5, 0.75, 0.95)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
STAGE = (0.02, 0.25, 0.5, 0.75, 0.98)
CYCLE = "log of the cycle"  # the one that depends on the unit of time
Columns = tuple[str, ...]  # names of columns of times


def unit_of(statistic: str) -> str:
    """Return the unit of a statistic of `summary` or `summaries`, in words, empty for a number without one."""
    name = statistic.removesuffix(" (log)")
    if name != statistic and not name.endswith("autocorrelation"):
        return "logarithm" if name.endswith("cv") else "logarithm of a time over a worker's mean cycle"
    if name.startswith("gap,") and name.endswith("%"):
        return "mean gaps"
    if name.startswith("inter-commit time,"):
        return "s" if name.endswith("median") else "medians" if name.endswith("%") else ""
    units = {"throughput": "commits/s", "staleness": "versions", "sd of staleness": "versions"}
    return (units | {"group_staleness": "versions", "steps_per_second": "steps/s"}).get(name, "")


class Check(Component):
    """One statistic of the log, and its prediction by the fitted model.

    Attributes:
        log: Its value in the log.
        mean, sd: Mean and standard deviation over logs that clusters drawn from the fit produce.
        p_value: Probability that one of these is as far from their mean as the log is (t distribution, two-sided).
    """

    log: float
    mean: float
    sd: float
    p_value: float


class Checks(dict[str, Check]):
    """Statistic -> check, as `Fit.check` returns it."""

    @property
    def suspect(self) -> tuple[str, ...]:
        """Statistics of which the p-value, times the number of all, is below 0.05 (Bonferroni)."""
        return tuple(name for name, check in self.items() if check.p_value * len(self) < SUSPECT_P_VALUE)

    @property
    def refuted(self) -> tuple[str, ...]:
        """Statistics of which it is below 0.001, so that the model cannot have produced them."""
        return tuple(name for name, check in self.items() if check.p_value * len(self) < REFUTING_P_VALUE)

    @property
    def fits(self) -> bool:
        """Whether the model may have produced the log."""
        return not self.suspect

    def __repr__(self) -> str:
        worst = min(self, key=lambda name: self[name].p_value)
        verdict = f"does not fit: {', '.join(self.suspect)}" if self.suspect else "fits"
        return f"Checks({len(self)} statistics, {verdict}; least p-value {self[worst].p_value:.2g}, of {worst})"


def shorten(log: Trace, commits: int = MOST_CHECKED) -> Trace:
    """Cut a log after its first commits, with all its columns."""
    if commits >= len(log):
        return log
    return with_columns(log, _rows(log, slice(commits)), range(log.workers), start=None)


def _rows(log: Trace, rows: slice) -> dict[str, Any]:
    """Return some rows of a log, in which workers keep their numbers although some may not occur."""
    columns = log.to_columns() | {"worker": log.worker}
    return {name: column[rows] for name, column in columns.items() if name != "local_steps"}


def with_columns(log: Trace, columns: Mapping[str, Any], workers: Sequence[int], *, start: float | None) -> Trace:
    """Return a log of other rows or times, whose workers are these of the log, with all that the log says of them."""
    return replace(
        Trace.from_columns(columns, len(workers), start=start),
        names=tuple(log.names[worker] for worker in workers) if log.names else (),
        notes=log.notes,
        derived=log.derived,
        local_steps=None if log.local_steps is None else log.local_steps[list(workers)],
    )


def steady_part(log: Trace, present: Presence, least: int) -> Trace:
    """Return the longest part of a log without pauses in which as many as ever are there, or all if it is too short.

    A part that does not begin with the log begins with jobs under way, of which it has the rest. `present` is of the
    log as it was read, where a worker that took the place of another has a number of its own.
    """
    seen = np.isfinite(present.first)
    come = np.sort(np.where(present.late, present.first, 0.0)[seen])
    gone = np.sort(np.where(present.left, present.last, log.seconds)[seen])
    edges = np.unique(np.concatenate([[0.0, log.seconds], come, gone, present.pauses.ravel()]))
    if len(edges) < 2:  # No time passes.
        return log
    begins, ends = edges[:-1], edges[1:]
    middle = (begins + ends) / 2
    is_pause = np.searchsorted(present.pauses.ravel(), middle) % 2 == 1  # Nobody is there in a pause.
    workers = np.where(is_pause, 0, np.searchsorted(come, middle) - np.searchsorted(gone, middle))
    first = np.where(begins == 0, 0, np.searchsorted(log.commit_time, begins, side="right"))
    last = np.searchsorted(log.commit_time, ends, side="right")
    commits = np.where(workers == workers.max(initial=0), last - first, 0)
    longest = int(np.argmax(commits))
    rows, begin = slice(int(first[longest]), int(first[longest] + commits[longest])), float(begins[longest])
    if rows == slice(0, len(log)) or commits[longest] < least:
        return log
    columns = _rows(log, rows)
    if not begin:
        return with_columns(log, columns, range(log.workers), start=begin)
    # Versions count from the first row of the part.
    times = {name: np.maximum(columns[name], begin) for name in ("read_time", *COLUMNS)}
    return with_columns(log, {"worker": columns["worker"], **times}, range(log.workers), start=begin)


def summary(trace: Trace) -> dict[str, float]:
    """Compute the statistics that are compared: of commits and their times alone, which every log has."""
    gaps = np.diff(trace.commit_time)
    times, rows = cycles(trace), np.bincount(trace.worker, minlength=trace.workers)
    middle = (float(np.median(times)) or float(times.mean()) or 1.0) if len(times) else 1.0
    mean_gap = float(gaps.mean()) or 1.0
    statistics = {
        "throughput": len(trace) / trace.seconds,
        "staleness": float(trace.staleness.mean()),
        "sd of staleness": float(trace.staleness.std()),
        "inter-commit time, median": middle,
        **_quantiles("inter-commit time", times, (0.1, 0.9), middle),
        **_quantiles("gap", gaps, (0.05, 0.5, 0.95), mean_gap),
    }
    if trace.workers > 1:
        statistics["largest share"] = float(rows.max()) / len(trace)
        statistics["smallest share"] = float(rows.min()) / len(trace)
    return statistics


def cycles(trace: Trace) -> FloatArray:
    """Return the times between successive commits of each worker."""
    return (trace.commit_time - previous_commit(trace))[previous_own_row(trace.worker) >= 0]


def compare_statistics(log: dict[str, float], replicates: Sequence[dict[str, float]]) -> Checks:
    """Compute two-sided p-values of the log among the replicates."""
    from scipy.stats import t

    count = len(replicates)
    checks = Checks()
    for name, value in log.items():
        values = np.array([statistics[name] for statistics in replicates])
        mean, sd = float(values.mean()), float(values.std(ddof=1))
        error = max(sd, LEAST_SPREAD * abs(mean)) * np.sqrt(1 + 1 / count)
        p_value = float(2 * t.sf(abs(value - mean) / error, count - 1)) if error else float(value == mean)
        checks[name] = Check(value, mean, sd, p_value)
    return checks


def compare_jointly(log: dict[str, float], replicates: Sequence[dict[str, float]]) -> Check:
    """Compute Hotelling's T² of all statistics at once, over the directions in which the replicates spread."""
    from scipy.stats import t

    count = len(replicates)
    values = np.array([[statistics[name] for name in log] for statistics in replicates])
    difference = np.array(list(log.values())) - values.mean(axis=0)
    spread = values.std(axis=0, ddof=1)
    varies = spread > LEAST_SPREAD * np.abs(values.mean(axis=0))
    centred = (values - values.mean(axis=0))[:, varies] / spread[varies]
    rotated, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    used = min(int((sizes > COLLINEAR * sizes.max(initial=0.0)).sum()), count // PER_DIRECTION)
    if not used:
        return Check(0.0, 0.0, 0.0, 1.0)
    scores = directions[:used] @ (difference[varies] / spread[varies]) * np.sqrt(count - 1) / sizes[:used]
    square = float(scores @ scores)
    # The T² of each replicate among the others follows from all of them by the formula for a row that is left out.
    within = (count - 1) * (rotated[:, :used] ** 2).sum(axis=1)
    divisor = np.maximum(1 - count * within / (count - 1) ** 2, TINY)
    squares = count**2 * (count - 2) / (count - 1) ** 3 * within / divisor
    logs = np.log(squares)
    error = float(logs.std(ddof=1)) * np.sqrt(1 + 1 / count)
    p_value = float(t.sf((np.log(max(square, TINY)) - logs.mean()) / error, count - 1))
    return Check(square, float(squares.mean()), float(squares.std(ddof=1)), p_value)


def takes_time(trace: Trace, durations: FloatArray) -> bool:
    """Return whether some of these durations in a log are more than differences of equal times."""
    return bool((durations > ROUNDING * trace.seconds).any())


def recorded_columns(trace: Trace) -> Columns:
    """Return the columns of times that a log recorded and that differ from those before and after them."""
    recorded: list[str] = []
    before = previous_commit(trace)
    for name in COLUMNS[:-1]:
        column = getattr(trace, name)
        # Files that do not say what was derived, and data frames, have starts that stand for missing ones.
        derived = name in trace.derived or (name == "start_time" and not takes_time(trace, column - trace.begin_time))
        if not derived and takes_time(trace, column - before) and takes_time(trace, trace.commit_time - column):
            recorded.append(name)
            before = column
    return (*recorded, COLUMNS[-1])


def summaries(trace: Trace, columns: Columns) -> dict[str, float]:
    """Compute the statistics, by name, that some columns of times determine."""
    cycle = trace.workers * trace.seconds / len(trace)
    before = previous_own_row(trace.worker)
    again = before >= 0
    times, gaps = cycles(trace) / cycle, np.diff(trace.commit_time) * trace.workers / cycle
    by_worker = times[np.argsort(trace.worker[again], kind="stable")]
    staleness = (np.arange(len(trace)) - before)[again] - 1.0
    statistics = {
        CYCLE: float(np.log(cycle)),
        **_of_durations("inter-commit time", times, CYCLES),
        **_of_durations("gap", gaps, GAPS),
        "gap, autocorrelation": _autocorrelation(np.log(np.maximum(gaps, SHORTEST))),
        "inter-commit time, autocorrelation": _autocorrelation(np.log(np.maximum(by_worker, SHORTEST))),
        **_quantiles("staleness", staleness, STALENESS, trace.workers),
        "staleness, log of the sd": float(np.log(staleness.std() / trace.workers + 1e-3)),
        "staleness, autocorrelation": _autocorrelation(staleness),
    }
    if trace.workers > 1:
        counts = np.bincount(trace.worker, minlength=trace.workers)
        shares = np.log((np.sort(counts) + 0.5) * trace.workers / len(trace))
        statistics |= _quantiles("share of a worker", shares, SHARES)
    last, name_of_last = previous_commit(trace), "previous commit"
    for name in columns if len(columns) > 1 else ():
        column = getattr(trace, name)
        statistics |= _of_durations(f"{name_of_last} to {name}", (column - last) / cycle, STAGE)
        last, name_of_last = column, name
    return statistics


def _of_durations(name: str, durations: FloatArray, shares: tuple[float, ...]) -> dict[str, float]:
    """Compute logarithms of mean, geometric mean, spread and quantiles."""
    positive = np.maximum(durations, SHORTEST)
    mean, logs = float(positive.mean()), np.log(positive)
    return {
        f"{name}, mean": float(np.log(mean)),
        f"{name}, mean of the logarithm": float(logs.mean()),
        f"{name}, cv": float(np.log(positive.std() / mean + 1e-5)),
        f"{name}, sd of the logarithm": float(np.log(logs.std() + 1e-5)),
        f"{name}, mean over geometric mean": float(np.log(np.log(mean) - logs.mean() + 1e-9)),
        **_quantiles(name, logs, shares),
    }


def _quantiles(name: str, values: Any, shares: tuple[float, ...], unit: float = 1.0) -> dict[str, float]:
    pairs = zip(shares, np.quantile(values, shares).tolist(), strict=True)
    return {f"{name}, {100 * share:g} %": value / unit for share, value in pairs}


def _autocorrelation(values: Any) -> float:
    """Compute the correlation of successive values, 0 where they do not vary."""
    centred = values - values.mean()
    square = float(centred @ centred)
    return (
        float(centred[1:] @ centred[:-1]) / square if square > ROUNDING * len(values) * float(values @ values) else 0.0
    )
