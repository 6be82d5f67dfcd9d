"""Warnings about a log, in sentences: no fit can mend it, and some of it would pass for a slow worker."""

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration._predictive import cycles
from asyncsim.calibration._transforms import FloatArray
from asyncsim.trace import Trace
from asyncsim.trace._infer_columns import previous_own_row

LEAST_GAPS = 30
PAUSE = 10.0  # times the longest other gap and the mean job, of one worker; of several, all of whom stop at once, less
LEAST_PAUSE = 3.0  # times them, of however many
MOST_PAUSES = 10
LEFT = 5.0  # times the longest time between two commits of a worker, without any: of an exponential law e⁻²⁰ or less
MOST_TIES = 0.1  # share of commits at the time of the commit before
CONSTANT = 1e-6  # relative spread of durations that do not vary: their ties are real
LEAST_ROUNDS = 5
REMEMBERED = 0.5  # correlation of workers' places in successive rounds, below which they wait for each other
MOST_NAMED = 12


def log_warnings(trace: Trace) -> list[str]:
    """Sentences about pauses, lines that seem doubled, a coarse clock, workers that left, and barriers."""
    return [*_pauses(trace), *_doubled(trace), *_coarse(trace), *_departed(trace), *_rounds(trace)]


def departed(trace: Trace) -> NDArray[np.bool_]:
    """(workers,) who committed nothing more, for far longer than anything took, until the log ended."""
    times = cycles(trace)
    if len(times) < LEAST_GAPS:
        return np.zeros(trace.workers, np.bool_)
    return trace.seconds - last_commits(trace) > LEFT * float(times.max())


def _pauses(trace: Trace) -> list[str]:
    """Times without any commit that are far longer than all others."""
    gaps = np.diff(trace.commit_time)
    if len(gaps) < LEAST_GAPS:
        return []
    longest = np.argsort(-gaps, kind="stable")
    others = gaps[longest[1 : 1 + (MOST_PAUSES if trace.workers > 1 else 1)]]  # one worker alone may have slow jobs
    mean_job = float((trace.finish_time - trace.start_time).mean())
    far = gaps[longest[: len(others)]] > max(LEAST_PAUSE, PAUSE / trace.workers) * np.maximum(others, mean_job)
    if not far.any():
        return []
    places = np.sort(longest[: 1 + int(np.flatnonzero(far)[-1])])
    times = [f"from {trace.commit_time[i]:.6g} s to {trace.commit_time[i + 1]:.6g} s" for i in places]
    kind = "a pause" if len(times) == 1 else "pauses"
    return [f"Nothing was committed {', nor '.join(times)}: {kind} of the cluster or of the log."]


def _doubled(trace: Trace) -> list[str]:
    before = previous_own_row(trace.worker)
    count = int((trace.commit_time == trace.commit_time[before])[before >= 0].sum())
    if not count or _constant(cycles(trace)):
        return []
    commits = "commit comes" if count == 1 else "commits come"
    theirs = "its worker's" if count == 1 else "their worker's"
    return [f"{count:,} {commits} at the very time of {theirs} previous one: if lines are doubled, remove them."]


def _coarse(trace: Trace) -> list[str]:
    gaps = np.diff(trace.commit_time)
    share = float((gaps == 0).mean()) if len(gaps) >= LEAST_GAPS else 0.0
    if share <= MOST_TIES or _constant(cycles(trace)):
        return []
    return [
        f"Of the commits {share:.0%} have the same time as the one before: a clock this coarse hides the server's "
        "queue. Log times with their fractions."
    ]


def _departed(trace: Trace) -> list[str]:
    gone = np.flatnonzero(departed(trace))
    if not len(gone):
        return []
    last = last_commits(trace)
    names = ", ".join(map(str, gone[:MOST_NAMED])) + (", …" if len(gone) > MOST_NAMED else "")
    one = len(gone) == 1
    since = f" since {last[gone[0]]:.6g} s" if one and last[gone[0]] else ""
    return [
        f"Worker{'' if one else 's'} {names} committed nothing{since}, of {trace.seconds:.6g} s: "
        f"{'it' if one else 'they'} seem{'s' if one else ''} to have left. Fit the time before, or the others alone."
    ]


def last_commits(trace: Trace) -> FloatArray:
    """(workers,) time of the last commit, 0 of who has none."""
    last = np.zeros(trace.workers)
    np.maximum.at(last, trace.worker, trace.commit_time)
    return last


def _rounds(trace: Trace) -> list[str]:
    """Whether workers wait for each other: each commits once in every round, at a place that has no memory."""
    workers = trace.workers
    rounds = len(trace) // workers
    if workers < 2 or rounds < LEAST_ROUNDS or _constant(cycles(trace)):
        return []
    rows = slice(0, rounds * workers)
    order = trace.worker[rows].reshape(rounds, workers)
    if not (np.sort(order, axis=1) == np.arange(workers)).all():
        return []
    times = np.take_along_axis(trace.commit_time[rows].reshape(rounds, workers), np.argsort(order, axis=1), axis=1)
    places = times - times.mean(axis=1, keepdims=True)
    before, after = places[:-1].ravel(), places[1:].ravel()
    if not before.any() or float(before @ after) >= REMEMBERED * float(np.sqrt((before @ before) * (after @ after))):
        return []
    return [
        "Every worker commits once in each round, early or late by chance: they seem to wait for each other, as in a "
        "synchronous cluster, whereas the fitted cluster is an asynchronous one."
    ]


def _constant(times: FloatArray) -> bool:
    return not len(times) or float(times.max() - times.min()) <= CONSTANT * float(times.max())
