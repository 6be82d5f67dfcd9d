"""A log taken apart into durations of computing, of messages and of service, with warnings about the log."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration._statistics import CONSTANT, ROUNDING, cycles, takes_time
from asyncsim.calibration._transforms import FloatArray
from asyncsim.trace import Fate, Trace
from asyncsim.trace._columns import previous_own_row
from asyncsim.trace._statistics import hidden_stages, most_in_service, previous_commit

LEAST_COMMITS = 30
SURE = 1e-3  # p-value below which two columns depend on each other
OVERTAKEN = 0.01  # share of commits before one that finished earlier, more than which no server in order makes
LONGEST = 1e60  # seconds of a log, and their inverse the shortest: beyond, variances are not numbers
ALIKE = 1e-3  # p-value from which two samples of latency count as of one law
LEAST_GAPS = 30
PAUSE = 10.0  # times the longest other gap and the mean job, for one worker. Several workers stop at once: less
LEAST_PAUSE = 3.0  # times them, for any number of workers
MOST_PAUSES = 10
LEFT = 5.0  # times the longest time between two commits of a worker, without any: of an exponential law e⁻²⁰ or less
MOST_TIES = 0.1  # share of commits at the time of the commit before
LEAST_ROUNDS = 5
REMEMBERED = 0.5  # correlation of workers' places in successive rounds, below which they wait for each other
MOST_NAMED = 12


class Stage(NamedTuple):
    """Durations of one stage."""

    durations: FloatArray  # (jobs,) seconds, and whose
    worker: NDArray[np.int32]  # (jobs,) seconds, and whose
    censored: FloatArray = np.zeros(0)  # (others,) of jobs in flight at the end: how long they had lasted, and whose
    censored_worker: NDArray[np.int32] = np.zeros(0, np.int32)
    contains: tuple[str, ...] = ()  # other stages that may be in the durations

    def of(self, workers: Any) -> "Stage":
        """The jobs of some workers, in their order here."""
        mine, rest = np.isin(self.worker, workers), np.isin(self.censored_worker, workers)
        jobs = (self.durations[mine], self.worker[mine], self.censored[rest], self.censored_worker[rest])
        return Stage(*jobs, self.contains)


def of_laws(stage: Stage, laws: Iterable[tuple[Any, Stage]], kind: str) -> FloatArray:
    """(jobs,) "cdf" or "log_density" of each duration by the law of its worker, given each law with its part."""
    found = np.empty(len(stage.durations))
    for law, part in laws:
        found[np.isin(stage.worker, part.worker)] = getattr(law, kind)(part.durations)
    return found


class Stages(NamedTuple):
    """All that a log shows."""

    compute: Stage  # from start to finish of the computation
    middle: FloatArray  # (jobs,) between start and finish of these, or the end of the log where they did not commit
    latency: Stage | None  # one way between worker and server, or None if not identifiable
    service: Stage | None  # from the server's taking up a commit to its application, or None if not identifiable
    slots: int  # the most commits that were in service at once
    hidden: tuple[str, ...]  # names of the stages that are not identifiable
    notes: tuple[str, ...]  # findings and warnings, in sentences
    separate: bool  # whether workers pull in a request of their own, so that others commit in between
    upload: Stage | None = None  # from finish to commit, or None if message, queue and service are separable


def stages_of(trace: Trace) -> Stages:
    """Take a log apart."""
    _require_enough(trace)
    notes: list[str] = []
    compute, middle = _compute(trace, notes)
    latency = _latency(trace, notes)
    service, slots = _service(trace, latency, notes)
    upload = _upload(trace, latency, notes) if service is None else None
    hidden = ("latency",) * (latency is None) + ("service",) * (service is None or bool(service.contains))
    notes += log_warnings(trace)
    if trace.workers == 1:
        notes.append("One worker only: nothing is known of differences between workers, nor of waiting for others.")
    separate = bool((trace.pull_version != trace.version).any())
    return Stages(compute, middle, latency, service, slots, hidden, tuple(notes), separate, upload)


def _require_enough(trace: Trace) -> None:
    if len(trace) < LEAST_COMMITS:
        remedy = "Record more: 100 for each worker give the mean within 5 % at a spread of 0.3."
        raise ValueError(f"`log` must have {LEAST_COMMITS} commits or more; got {len(trace)}. {remedy}")
    if not len(cycles(trace)):
        raise ValueError(f"`log` must have a worker with two commits or more; all {len(trace)} have one. Record more.")
    counted = (trace.commit_time == np.arange(1.0, len(trace) + 1)).all()  # as `from_commits` replaces missing times
    if counted and (trace.finish_time == trace.commit_time).all():
        remedy = "Give `commit_time`, in seconds, to `Trace.from_commits` or as a column."
        raise ValueError(f"`log` must have times, and its commits are numbered 1, 2, 3, … instead. {remedy}")
    if trace.seconds <= 0 or trace.commit_time[0] == trace.seconds:
        remedy = "Give the times, in seconds, with their fractions."
        raise ValueError(f"`log` must have times that differ; all are {trace.seconds:g}. {remedy}")
    if not 1 / LONGEST < trace.seconds < LONGEST:
        remedy = "Give the times in another unit."
        raise ValueError(f"`log` must have times that can be squared; its length is {trace.seconds:g} s. {remedy}")
    if not trace.closes_step.all():
        remedy = "Fit its parts by `asyncsim.delays.….fit`, or give the `Rollouts` that made it as the model."
        raise ValueError(f"`log` must be of an asynchronous cluster; some of its commits close no step. {remedy}")


def _compute(trace: Trace, notes: list[str]) -> tuple[Stage, FloatArray]:
    durations = trace.finish_time - trace.start_time
    kept = np.ones(len(trace), np.bool_)
    first = first_jobs(trace)
    if (durations[first] == 0).any():  # as `start="first"` makes it
        kept = ~first
        notes.append("The first job of each worker is left out: the log does not show when they began.")
    rest = trace.unfinished
    end = np.minimum(rest.end_time, trace.seconds)
    lasted = end - np.minimum(rest.start_time, end)  # 0 where it never started
    ended = rest.finish_time <= end
    # A job counts if it computed: whole if it finished, as long as it lasted if it did not.
    unended = ~ended & (lasted > 0) & np.isin(rest.fate, [Fate.IN_FLIGHT, Fate.CANCELLED, Fate.CRASHED])
    unended &= ~(departed(trace)[rest.worker] & (rest.fate == Fate.IN_FLIGHT))  # nobody works on these
    whole = np.concatenate([durations[kept], rest.finish_time[ended] - rest.start_time[ended]])
    worker = np.concatenate([trace.worker[kept], rest.worker[ended]])
    inferred, whose = _under_way(trace, durations)
    censored = np.concatenate([lasted[unended], inferred])
    middle = ((trace.start_time + trace.finish_time) / 2)[kept]
    middle = np.append(middle, np.full(np.count_nonzero(ended), trace.seconds))
    jobs = Stage(whole, worker, censored, np.concatenate([rest.worker[unended], whose]), hidden_stages(trace))
    return jobs, middle


def _under_way(trace: Trace, durations: FloatArray) -> tuple[FloatArray, NDArray[np.int32]]:
    """Compute times so far of the jobs under way at the end that the log lacks, and their workers."""
    rest, last = trace.unfinished, last_commits(trace)
    newer = rest.read_time >= last[rest.worker]
    unknown = ~np.isin(np.arange(trace.workers), rest.worker[newer]) & ~departed(trace)
    again = ~first_jobs(trace)
    cycle = trace.commit_time - previous_commit(trace)
    besides = float((cycle - durations)[again].mean()) if again.any() else 0.0
    lasted = trace.seconds - last - besides
    under_way = unknown & (lasted > ROUNDING * trace.seconds)
    return lasted[under_way], np.flatnonzero(under_way).astype(np.int32)


def first_jobs(trace: Trace) -> NDArray[np.bool_]:
    """(commits,) whether a commit is its worker's first."""
    return previous_own_row(trace.worker) < 0


def _latency(trace: Trace, notes: list[str]) -> Stage | None:
    """The ways between worker and server that the log shows: to the worker, from it, or both."""
    from scipy.stats import ks_2samp

    reads = ~trace.resumes_own & ~first_jobs(trace)  # who is there when the run begins need not ask
    down, up = (trace.start_time - trace.read_time)[reads], trace.arrive_time - trace.finish_time
    shows_down, shows_up = takes_time(trace, down), takes_time(trace, up)
    separate = bool((trace.pull_version != trace.version).any())
    arrives = takes_time(trace, trace.commit_time - trace.arrive_time)
    if separate and shows_down:
        notes.append("Workers pull in a request of their own: latency is that of the reads alone.")
        return Stage(down, trace.worker[reads])
    if separate or not (shows_down or (shows_up and arrives)):
        return None  # up to the commit itself, a message cannot be separated from queue and service
    if not shows_down:
        return Stage(up, trace.worker)
    if not shows_up or (not arrives and float(ks_2samp(down, up).pvalue) < ALIKE):  # type: ignore[attr-defined]
        return Stage(down, trace.worker[reads])
    notes += _clocks(trace, down, up[reads], trace.worker[reads])
    return Stage(np.concatenate([down, up]), np.concatenate([trace.worker[reads], trace.worker]))


def _service(trace: Trace, latency: Stage | None, notes: list[str]) -> tuple[Stage | None, int]:
    """Service as far as the log shows it, and the largest number of commits in service at once."""
    if takes_time(trace, trace.commit_time - trace.serve_time):
        return Stage(trace.commit_time - trace.serve_time, trace.worker), most_in_service(trace)
    if takes_time(trace, trace.commit_time - trace.arrive_time):
        notes.append("The log lacks `serve_time`: service is counted from the commit before, one at a time.")
        return Stage(one_at_a_time(trace, trace.arrive_time), trace.worker), 1
    both_ways = latency is not None and len(latency.durations) > len(trace)
    if both_ways or not takes_time(trace, trace.commit_time - trace.finish_time):
        return None, 1
    if latency is None:
        if not is_queue_alone(trace):
            return None, 1
        notes.append(
            "The log lacks `arrive_time` and `serve_time`: service is counted from the later of `finish_time` and the "
            "commit before, one at a time, with which the log agrees."
        )
        return Stage(one_at_a_time(trace, trace.finish_time), trace.worker), 1
    service = one_at_a_time(trace, trace.finish_time + float(latency.durations.mean()))
    notes.append(
        "The log lacks `arrive_time` and `serve_time`: service is counted from the later of `finish_time` and the "
        "commit before, less the mean latency, which is not exact."
    )
    kept = service > ROUNDING * trace.seconds
    return Stage(service[kept], trace.worker[kept], contains=("upload",)), 1


def one_at_a_time(trace: Trace, there: FloatArray) -> FloatArray:
    """(commits,) seconds of service, from when a commit was there and the only place at the server was free."""
    return trace.commit_time - np.maximum(there, np.append(0.0, trace.commit_time[:-1]))


def _upload(trace: Trace, latency: Stage | None, notes: list[str]) -> Stage | None:
    """From finish to commit, as one law without a queue, where neither message nor service is identifiable."""
    durations = trace.commit_time - trace.finish_time
    if latency is not None or not takes_time(trace, durations):
        return None
    queue = waits_for_others(trace)
    why = (
        "grows with the number of commits that are on their way: there is a queue"
        if queue
        else "does not depend on the commits that are on their way, and counts as one law without a queue"
    )
    notes.append(f"The log lacks `arrive_time` and `serve_time`: the time from finish to commit {why}.")
    return Stage(durations, trace.worker, contains=("upload", *("queue",) * queue, "service"))


def _clocks(trace: Trace, down: FloatArray, up: FloatArray, worker: NDArray[np.int32]) -> list[str]:
    """Workers whose clocks differ from the server's: one way seems as much longer as the other seems shorter."""
    half, typical = (down - up) / 2, float((down + up).mean() / 2)
    own = {w: mine for w in range(trace.workers) if len(mine := half[worker == w]) > 2}
    if not own:
        return []

    def error(values: FloatArray) -> float:
        return 5 * float(values.std()) / np.sqrt(len(values)) + ROUNDING * trace.seconds

    common = float(np.median([mine.mean() for mine in own.values()]))
    found = []
    for w, mine in own.items():
        off = mine.mean() - common
        if abs(off) > error(mine) and abs(off) > 0.01 * typical:
            sense = "ahead of" if off > 0 else "behind"
            found.append(f"Worker {w}'s clock is {abs(off):.3g} s {sense} the server's: correct its times.")
    if abs(common) > error(half):
        found.append(
            f"Messages take {2 * abs(common):.3g} s longer {'to the worker' if common > 0 else 'to the server'} than "
            "back: latency is the mean of both; a `bandwidth` could explain the difference."
        )
    return found


def is_queue_alone(trace: Trace) -> bool:
    """Whether a server with one place, to which messages take no time, may have made the times, and did."""
    finish, before = trace.finish_time, np.append(0.0, trace.commit_time[:-1])
    independent = _p_value(one_at_a_time(trace, finish), before - finish) >= SURE
    return float((np.diff(finish) < 0).mean()) <= OVERTAKEN and independent and waits_for_others(trace)


def waits_for_others(trace: Trace) -> bool:
    """Whether the time from finish to commit is longer where more jobs are between the two."""
    finish, commit = trace.finish_time, trace.commit_time
    ahead = np.searchsorted(np.sort(finish), finish) - np.searchsorted(commit, finish, side="right")
    return _p_value(commit - finish, ahead.astype(np.float64), greater=True) < SURE


def _p_value(one: FloatArray, other: FloatArray, *, greater: bool = False) -> float:
    """p-value of independence, by ranks, or 1 where either sample does not vary."""
    from scipy.stats import spearmanr

    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 1.0
    return float(spearmanr(one, other, alternative="greater" if greater else "two-sided").pvalue)  # type: ignore[attr-defined]


def log_warnings(trace: Trace) -> list[str]:
    """Sentences about pauses, lines that seem doubled, a coarse clock, workers that left, and barriers."""
    found = _pauses(trace)
    gaps, times = np.diff(trace.commit_time), cycles(trace)
    if not _constant(times):
        doubled = int((times == 0).sum())
        if doubled:
            commits, theirs = ("commit comes", "its") if doubled == 1 else ("commits come", "their")
            found.append(
                f"{doubled:,} {commits} at the very time of {theirs} worker's previous one: if lines are doubled, "
                "remove them."
            )
        if len(gaps) >= LEAST_GAPS and (gaps == 0).mean() > MOST_TIES:
            found.append(
                f"Of the commits {(gaps == 0).mean():.0%} have the same time as the one before: a clock this coarse "
                "hides the server's queue. Log times with their fractions."
            )
    return [*found, *_departed(trace), *_rounds(trace)]


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
