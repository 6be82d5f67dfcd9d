"""Does a fitted cluster produce such a log? Statistics of the log beside those of clusters drawn from the fit."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asyncsim.calibration._transforms import FloatArray
from asyncsim.trace import Trace
from asyncsim.trace._infer_columns import previous_own_row

REPLICATES = 32  # logs with which a log is compared, before it is simulated thousands of times or a what-if is answered
SURE = 1e-3  # the least p-value, times the number of statistics, below which the model did not make the log
SUSPECT = 0.05  # the least p-value, times the number of statistics, below which the model is flagged
PER_DIRECTION = 3  # replicates, at least, by which the spread in a direction is known
TINY = 1e-12
COLLINEAR = 1e-6  # of the largest spread: directions in which nothing varies
LEAST_SPREAD = 1e-9  # relative to the mean: statistics that never vary are compared to rounding


class Check(NamedTuple):
    """One statistic of the log, and its prediction by the fitted model.

    Attributes:
        log: In the log.
        mean, sd: Over logs that clusters drawn from the fit produce.
        p_value: How likely these are to be as far from their mean as the log is: t distribution, two-sided.
    """

    log: float
    mean: float
    sd: float
    p_value: float


class Checks(dict[str, Check]):
    """Statistic -> check; the result of `Fit.check`."""

    @property
    def suspect(self) -> tuple[str, ...]:
        """Those of which the p-value, times the number of all, is below 0.05 (Bonferroni)."""
        return tuple(name for name, check in self.items() if check.p_value * len(self) < SUSPECT)

    @property
    def refuted(self) -> tuple[str, ...]:
        """Those of which it is below 0.001, so that the model cannot have produced them."""
        return tuple(name for name, check in self.items() if check.p_value * len(self) < SURE)

    @property
    def fits(self) -> bool:
        """Whether the model may have produced the log."""
        return not self.suspect

    def __repr__(self) -> str:
        worst = min(self, key=lambda name: self[name].p_value)
        verdict = f"does not fit: {', '.join(self.suspect)}" if self.suspect else "fits"
        return f"Checks({len(self)} statistics, {verdict}; least p-value {self[worst].p_value:.2g}, of {worst})"


def summary(trace: Trace) -> dict[str, float]:
    """The statistics that are compared: of commits and their times alone, which every log has."""
    gaps = np.diff(trace.commit_time)
    times, rows = cycles(trace), np.bincount(trace.worker, minlength=trace.workers)
    middle = float(np.median(times)) if len(times) else 1.0
    mean_gap = float(gaps.mean()) or 1.0
    found = {
        "throughput": len(trace) / trace.seconds,
        "staleness": float(trace.staleness.mean()),
        "sd of staleness": float(trace.staleness.std()),
        "inter-commit time, median": middle,
        "inter-commit time, 10 %": float(np.quantile(times, 0.1)) / middle,
        "inter-commit time, 90 %": float(np.quantile(times, 0.9)) / middle,
        "gap, 5 %": float(np.quantile(gaps, 0.05)) / mean_gap,
        "gap, 50 %": float(np.quantile(gaps, 0.5)) / mean_gap,
        "gap, 95 %": float(np.quantile(gaps, 0.95)) / mean_gap,
    }
    if trace.workers > 1:
        found["largest share"] = float(rows.max()) / len(trace)
        found["smallest share"] = float(rows.min()) / len(trace)
    return found


def cycles(trace: Trace) -> FloatArray:
    """Times between successive commits of a worker."""
    before = previous_own_row(trace.worker)
    return (trace.commit_time - trace.commit_time[before])[before >= 0]


def compared(log: dict[str, float], replicates: Sequence[dict[str, float]]) -> Checks:
    """Two-sided p-values of the log among the replicates."""
    from scipy.stats import t

    count = len(replicates)
    checks = Checks()
    for name, value in log.items():
        values = np.array([one[name] for one in replicates])
        mean, sd = float(values.mean()), float(values.std(ddof=1))
        error = max(sd, LEAST_SPREAD * abs(mean)) * np.sqrt(1 + 1 / count)
        p_value = float(2 * t.sf(abs(value - mean) / error, count - 1)) if error else float(value == mean)
        checks[name] = Check(value, mean, sd, p_value)
    return checks


def together(log: dict[str, float], replicates: Sequence[dict[str, float]]) -> Check:
    """Hotelling's T² of all statistics at once, over the directions in which the replicates spread."""
    from scipy.stats import t

    count = len(replicates)
    values = np.array([[one[name] for name in log] for one in replicates])
    away = np.array(list(log.values())) - values.mean(axis=0)
    spread = values.std(axis=0, ddof=1)
    kept = spread > LEAST_SPREAD * np.abs(values.mean(axis=0))
    centred = (values - values.mean(axis=0))[:, kept] / spread[kept]
    own, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    used = min(int((sizes > COLLINEAR * sizes.max(initial=0.0)).sum()), count // PER_DIRECTION)
    if not used:
        return Check(0.0, 0.0, 0.0, 1.0)
    scores = directions[:used] @ (away[kept] / spread[kept]) * np.sqrt(count - 1) / sizes[:used]
    square = float(scores @ scores)
    # Of each replicate from the others, by the formula for a row that is left out.
    within = (count - 1) * (own[:, :used] ** 2).sum(axis=1)
    left = count**2 * (count - 2) / (count - 1) ** 3 * within / np.maximum(1 - count * within / (count - 1) ** 2, TINY)
    logs = np.log(left)
    error = float(logs.std(ddof=1)) * np.sqrt(1 + 1 / count)
    p_value = float(t.sf((np.log(max(square, TINY)) - logs.mean()) / error, count - 1))
    return Check(square, float(left.mean()), float(left.std(ddof=1)), p_value)
