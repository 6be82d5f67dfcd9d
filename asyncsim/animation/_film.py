"""A film: the events of a trace in whole ticks, from which the state at any time follows.

Times are rounded to ticks, at most a twentieth of the time between two commits, so that a page holds short whole
numbers. Rounding keeps the order of events, and ties keep the order of the trace, so the version that each job read and
its staleness stay exact.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import require_not_negative, require_positive
from asyncsim.animation._graph import GraphFilm, make_graph
from asyncsim.animation._regions import make_regions
from asyncsim.plots._timeline import SECONDS_REMEDY, seconds_per_job
from asyncsim.trace import Fault, Trace
from asyncsim.trace._columns import end_of_trace
from asyncsim.trace._spans import spells

MOST_COMMITS = 20_000  # in a film: a page of about 200 kB
TICKS_PER_COMMIT, TICKS_PER_JOB = 20, 500  # at least, on average

Ticks = NDArray[np.float64]  # whole numbers, or infinite


@dataclass(frozen=True, eq=False)
class Jobs:
    """Jobs of all workers: first those that commit, in the order of application, then the others."""

    worker: NDArray[np.int64]  # (jobs,) int64
    read: NDArray[np.int64]  # (jobs,) int64, the server version that the job knows
    begin: Ticks
    start: Ticks
    finish: Ticks
    arrive: Ticks
    serve: Ticks
    end: Ticks
    closes: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.worker)


@dataclass(frozen=True, eq=False)
class Film:
    """A window of a trace, in ticks."""

    workers: int
    per_second: float  # ticks in a second
    start: float  # the window
    stop: float
    row: int  # commits before the window
    version: int  # server version before the window
    commits: int  # in the window: the first ones of `jobs`. Later ones, whose jobs begin in the window, follow
    committing: int  # number of `jobs` that commit, in the window or after it
    jobs: Jobs  # every job that touches the window
    rows: NDArray[np.int64]  # (committing,) of the trace
    down: Ticks  # (spells, 3): worker, and first and last tick of a time for which it is down
    typical: float  # ticks of a typical job
    names: tuple[str, ...]  # of the workers, or none
    graph: GraphFilm | None = None  # of workers with a variable each, whose commits count as versions of the film

    def who(self, worker: int, word: str = "worker") -> str:
        """Return a worker's name and number, or its number after a word, as in the middle of a sentence."""
        return f"{self.names[worker]} ({worker})" if self.names else f"{word} {worker}"

    @property
    def seconds(self) -> tuple[float, float]:
        """The window, in seconds."""
        return self.start / self.per_second, self.stop / self.per_second

    @cached_property
    def closed(self) -> NDArray[np.int64]:
        """(committing + 1,) versions made by the first 0, 1, 2, … commits from the window's start on."""
        return np.concatenate([[0], np.cumsum(self.jobs.closes[: self.committing])])

    @cached_property
    def staleness(self) -> NDArray[np.int64]:
        """(committing,) versions between a job's read and its commit, of the variable that it changes."""
        if self.graph is not None:
            return self.graph.staleness
        return self.version + self.closed[:-1] - self.jobs.read[: self.committing]

    @cached_property
    def read_index(self) -> NDArray[np.int64]:
        """(jobs,) commits of the window up to the version that a job read, or 0 for older versions."""
        counts = np.concatenate([[0], 1 + np.flatnonzero(self.jobs.closes[: self.commits])])
        versions = np.clip(self.jobs.read - self.version, 0, None)
        beyond = versions >= len(counts)  # read after the window's end
        return np.where(beyond, np.iinfo(np.int64).max, counts[np.minimum(versions, len(counts) - 1)])

    @cached_property
    def mean_staleness(self) -> float:
        """The staleness at which a worker is 63 % of the way out: the mean of the window's commits, at least 1."""
        return max(float(np.sum(self.staleness[: self.commits])) / self.commits, 1.0) if self.commits else 1.0


def make_film(trace: Trace, start: float = 0.0, stop: float | None = None, *, most: int = MOST_COMMITS) -> Film:
    """Make a film of the events of a trace between two times."""
    begin, end = _window(trace, start, stop)
    job = seconds_per_job(trace)
    fine = max(TICKS_PER_JOB / job, TICKS_PER_COMMIT * len(trace) / trace.seconds)
    per_second = 10.0 ** math.ceil(math.log10(fine))
    first = int(np.searchsorted(trace.commit_time, begin))
    after = int(np.searchsorted(trace.commit_time, end, side="right"))
    if after - first > most:
        early, late = trace.commit_time[first], trace.commit_time[first + most - 1]
        raise ValueError(
            f"`trace` has {after - first:,} commits in this window, and a movie holds {most:,}. Give `start` "
            f"and `stop`: start={math.floor(early)}, stop={math.floor(late) or float(f'{late:.2g}')}, say."
        )
    done = np.zeros(len(trace), bool)
    done[first:] = trace.begin_time[first:] <= end
    rest = trace.unfinished
    ended = (rest.end_time >= begin) & (rest.begin_time <= end)

    def ticks(*parts: Any) -> Ticks:
        return np.round(np.concatenate(parts) * per_second)

    last = rest.end_time[ended]
    jobs = Jobs(
        worker=np.concatenate([trace.worker[done], rest.worker[ended]]).astype(np.int64),
        read=np.concatenate([trace.read_version[done], rest.read_version[ended]]).astype(np.int64),
        begin=ticks(trace.begin_time[done], rest.begin_time[ended]),
        start=ticks(trace.start_time[done], np.minimum(rest.start_time[ended], last)),
        finish=ticks(trace.finish_time[done], np.minimum(rest.finish_time[ended], last)),
        arrive=ticks(trace.arrive_time[done], last),
        serve=ticks(trace.serve_time[done], last),
        end=ticks(trace.commit_time[done], last),
        closes=np.concatenate([trace.closes_step[done], np.zeros(ended.sum(), bool)]),
    )
    away = spells(trace, Fault.CRASH, Fault.OFFLINE).within(begin, end)
    version = int(trace.version[first]) if first < len(trace) else trace.steps
    rows, graph = np.flatnonzero(done), None
    if trace.variables > 1:
        make = make_graph if trace.pushes_from is None else make_regions
        version, graph = first, make(trace, begin, end, per_second, rows)
    return Film(
        workers=trace.workers,
        per_second=per_second,
        start=float(np.floor(begin * per_second)),
        stop=float(np.ceil(end * per_second)),
        row=first,
        version=version,
        commits=after - first,
        committing=int(done.sum()),
        jobs=jobs,
        rows=rows,
        down=np.stack([away.worker, ticks(away.start), ticks(away.end)], axis=1).astype(float),
        typical=job * per_second,
        names=trace.names,
        graph=graph,
    )


def _window(trace: Trace, start: float, stop: float | None) -> tuple[float, float]:
    end = end_of_trace(trace)
    if end == 0 or trace.seconds == 0:
        remedy = "Simulate one, or give `commit_time` to `Trace.from_commits`."
        raise ValueError(f"`trace` must have times that pass; here all {len(trace)} commits are at 0 s. {remedy}")
    begin = require_not_negative("start", start, remedy=SECONDS_REMEDY)
    last = trace.seconds if stop is None else min(require_positive("stop", stop, remedy=SECONDS_REMEDY), end)
    if not begin < last:
        raise ValueError(f"`start` must be before `stop` and the trace's end at {end:g} s; got {begin:g} and {last:g}.")
    return begin, last
