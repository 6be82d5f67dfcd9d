"""The state at a time: one definition, of which the page's JavaScript (`movie.js`) is a copy.

A state follows from the film alone, at any time and in any order. What happens at a time has happened: a commit at
12 s counts in the state at 12 s.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.animation._film import Film, Ticks
from asyncsim.animation._paths import Path

DOING = ("idle", "reading", "computing", "sending", "waiting", "in service", "down")
IDLE, READING, COMPUTING, SENDING, WAITING, SERVICE, DOWN = range(len(DOING))
NONE = -1  # no version, no worker, no job


@dataclass(frozen=True, eq=False)
class State:
    """What is where at a time."""

    time: float  # in seconds
    commits: int  # commits so far, those before the film's window included
    version: int  # server version
    job: NDArray[np.int64]  # (workers,) each worker's latest job, an index of the film's jobs; -1 before its first
    doing: NDArray[np.int64]  # (workers,) values of `DOING`
    read: NDArray[np.int64]  # (workers,) the server version that a worker with a job knows; -1 without one
    stale: NDArray[np.int64]  # (workers,) versions since then; -1 without a job
    stalest: int  # the worker of largest staleness, the first of several; -1 if nobody has a job
    up: list[int]  # workers whose update is on its way to the server, in the order of their number
    down: list[int]  # workers that the server's answer is on its way to
    queue: list[int]  # workers whose update waits at the server, in the order of arrival
    service: list[int]  # workers whose update is in service
    central: dict[str, tuple[float, float] | None]
    places: dict[str, NDArray[np.float64]]

    def plain(self) -> dict[str, Any]:
        """As the page writes it."""
        places = {name: [None if np.isnan(x) else [x, y] for x, y in one.tolist()] for name, one in self.places.items()}
        lists = {name: getattr(self, name).tolist() for name in ("doing", "read", "stale")}
        names = ("time", "commits", "version", "stalest", "up", "down", "queue", "service")
        central = {name: point and list(point) for name, point in self.central.items()}
        return {**{name: getattr(self, name) for name in names}, **lists, "central": central, "places": places}


@dataclass(frozen=True, eq=False)
class States:
    """The states of a film, with the paths of runs in it."""

    film: Film
    paths: dict[str, Path]

    def at(self, seconds: float) -> State:
        """The state at a time, in seconds, within the film's window.

        Example:
            >>> from asyncsim import Trace
            >>> from asyncsim.animation._film import make_film
            >>> states = States(make_film(Trace.from_commits([0, 1, 0])), {})
            >>> state = states.at(2.5)
            >>> state.version, state.read.tolist(), state.stale.tolist(), state.stalest
            (2, [1, 2], [1, 0], 0)
        """
        film = self.film
        now = min(max(seconds * film.per_second, film.start), film.stop)
        done = int(np.searchsorted(self.commit_ticks, now, side="right"))
        version = film.version + int(self.closed[done])
        job = np.array([self._job(worker, now) for worker in range(film.workers)], np.int64)
        doing = np.array([self._doing(worker, one, now) for worker, one in enumerate(job)], np.int64)
        has_job = (job >= 0) & (doing != IDLE) & (doing != DOWN)
        read = np.where(has_job, film.jobs.read[job], NONE)
        stale = np.where(has_job, version - read, NONE)
        waiting = [int(w) for w in np.flatnonzero(doing == WAITING)]
        return State(
            time=now / film.per_second,
            commits=film.row + done,
            version=version,
            job=job,
            doing=doing,
            read=read,
            stale=stale,
            stalest=int(stale.argmax()) if has_job.any() else NONE,
            up=np.flatnonzero(doing == SENDING).tolist(),
            down=np.flatnonzero(doing == READING).tolist(),
            queue=sorted(waiting, key=lambda worker: (film.jobs.arrive[job[worker]], worker)),
            service=np.flatnonzero(doing == SERVICE).tolist(),
            central={name: path.after(done) for name, path in self.paths.items()},
            places={name: path.places(job) for name, path in self.paths.items()},
        )

    @cached_property
    def commit_ticks(self) -> Ticks:
        """(commits,) of the window."""
        return self.film.jobs.end[: self.film.commits]

    @cached_property
    def closed(self) -> NDArray[np.int64]:
        """(commits + 1,) versions made by the first 0, 1, 2, … commits of the window."""
        return np.concatenate([[0], np.cumsum(self.film.jobs.closes[: self.film.commits])])

    @cached_property
    def by_worker(self) -> list[NDArray[np.int64]]:
        """Each worker's jobs in the order in which they begin; of several at one tick, the later commit is later."""
        jobs = self.film.jobs
        order = np.lexsort((jobs.read, jobs.end, jobs.begin, jobs.worker))
        cuts = np.searchsorted(jobs.worker[order], np.arange(1, self.film.workers))
        return np.split(order, cuts)

    def _job(self, worker: int, now: float) -> int:
        own = self.by_worker[worker]
        place = int(np.searchsorted(self.film.jobs.begin[own], now, side="right"))
        return int(own[place - 1]) if place else NONE

    def _doing(self, worker: int, job: int, now: float) -> int:
        for one, first, last in self.film.down:
            if one == worker and first <= now < last:
                return DOWN
        jobs = self.film.jobs
        if job == NONE or jobs.end[job] <= now:
            return IDLE
        stages = (jobs.start, jobs.finish, jobs.arrive, jobs.serve)
        return READING + sum(bool(stage[job] <= now) for stage in stages)
