"""The state at a time: one definition, of which the page's JavaScript (`movie.js`) is a copy.

A state follows from the film alone, at any time and in any order. It includes the events of its own time. For example,
a commit at 12 s counts in the state at 12 s.

In the view "gravity" a worker's distance from the server is a function of its staleness, made smooth in time: each
commit pushes everybody out over a short time, and a worker that reads falls back. No orbit is integrated. Workers on a
graph have fixed places instead (`_graph`), and exchanges draw them together.
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
NEAREST = 0.24  # distance from the centre of a worker that is fresh, where the rim is at 1
PUSH, FALL = 0.15, 0.3  # of a typical job: how long a commit pushes, and a worker that reads falls
TURN = 90.0  # typical jobs in which all turn once around the centre
SWAY, SWAY_JOBS = 0.12, 7.0  # radians and typical jobs of each worker's own to and fro
NONE = -1  # no version, no worker, no job


@dataclass(frozen=True, eq=False)
class State:
    """The places of workers and messages at a time."""

    time: float  # in seconds
    commits: int  # commits so far, those before the film's window included
    version: int  # server version, or commits so far of workers on a graph
    job: NDArray[np.int64]  # (workers,) each worker's latest job, an index of the film's jobs, or -1 before its first
    doing: NDArray[np.int64]  # (workers,) values of `DOING`
    read: NDArray[np.int64]  # (workers,) the server version that a worker with a job knows, or -1 without one
    stale: NDArray[np.int64]  # (workers,) versions since then, or -1 without a job
    stalest: int  # the worker of largest staleness, the first of several, or -1 if nobody has a job
    up: list[int]  # workers whose update is on its way to the server, in the order of their number
    down: list[int]  # workers that the server's answer is on its way to
    queue: list[int]  # workers whose update waits at the server, in the order of arrival
    service: list[int]  # workers whose update is in service
    central: dict[str, tuple[float, float] | None]
    places: dict[str, NDArray[np.float64]]
    messages: list[tuple[int, int, float]]  # on a graph: sender, receiver and share of its way of each

    def plain(self) -> dict[str, Any]:
        """Return the state as the page writes it."""
        places = {
            name: [None if np.isnan(x) else [x, y] for x, y in points.tolist()] for name, points in self.places.items()
        }
        lists = {name: getattr(self, name).tolist() for name in ("doing", "read", "stale")}
        names = ("time", "commits", "version", "stalest", "up", "down", "queue", "service")
        central = {name: point and list(point) for name, point in self.central.items()}
        messages = [list(message) for message in self.messages]
        parts = {**lists, "central": central, "places": places, "messages": messages}
        return {**{name: getattr(self, name) for name in names}, **parts}


@dataclass(frozen=True, eq=False)
class States:
    """The states of a film, with the paths of runs in it."""

    film: Film
    paths: dict[str, Path]

    def at(self, seconds: float) -> State:
        """Return the state at a time, in seconds, within the film's window."""
        film = self.film
        now = min(max(seconds * film.per_second, film.start), film.stop)
        done = int(np.searchsorted(self.commit_ticks, now, side="right"))
        version = film.version + int(film.closed[done])
        job = np.array([self._job(worker, now) for worker in range(film.workers)], np.int64)
        doing = np.array([self._doing(worker, number, now) for worker, number in enumerate(job)], np.int64)
        has_job = (job >= 0) & (doing != IDLE) & (doing != DOWN)
        read = np.where(has_job, film.jobs.read[job], NONE)
        versions = version if film.graph is None else film.graph.versions(now)
        stale = np.where(has_job, versions - read, NONE)
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
            messages=[] if film.graph is None else film.graph.messages(now),
        )

    @cached_property
    def commit_ticks(self) -> Ticks:
        """(commits,) of the window."""
        return self.film.jobs.end[: self.film.commits]

    @cached_property
    def by_worker(self) -> list[NDArray[np.int64]]:
        """Each worker's jobs in the order in which they begin, where commits order those that begin at one tick."""
        jobs = self.film.jobs
        order = np.lexsort((jobs.read, jobs.end, jobs.begin, jobs.worker))
        cuts = np.searchsorted(jobs.worker[order], np.arange(1, self.film.workers))
        return np.split(order, cuts)

    def _job(self, worker: int, now: float) -> int:
        jobs = self.by_worker[worker]
        place = int(np.searchsorted(self.film.jobs.begin[jobs], now, side="right"))
        return int(jobs[place - 1]) if place else NONE

    def _doing(self, worker: int, job: int, now: float) -> int:
        for down_worker, first, last in self.film.down:
            if down_worker == worker and first <= now < last:
                return DOWN
        jobs = self.film.jobs
        if job == NONE or jobs.end[job] <= now:
            return IDLE
        stages = (jobs.start, jobs.finish, jobs.arrive, jobs.serve)
        return READING + sum(bool(stage[job] <= now) for stage in stages)


def smooth(share: float) -> float:
    """Return 0 up to 0, 1 from 1 on, and a smooth rise between."""
    share = min(max(share, 0.0), 1.0)
    return share * share * (3 - 2 * share)


def gravity_places(states: States, seconds: float) -> NDArray[np.float64]:
    """Return the (workers, 2) places of the workers within the unit circle around the server."""
    film = states.film
    now = min(max(seconds * film.per_second, film.start), film.stop)
    if film.graph is not None:
        return film.graph.places_at(now, film.typical)
    job = states.at(seconds).job
    turn = 2 * np.pi * now / (TURN * film.typical)
    places = np.zeros((film.workers, 2))
    for worker in range(film.workers):
        radius = _radius(states, worker, int(job[worker]), now)
        sway = now / (SWAY_JOBS * film.typical) + worker * 0.37
        angle = worker * 2 * np.pi / film.workers + turn + SWAY * np.sin(2 * np.pi * sway)
        places[worker] = radius * np.cos(angle), radius * np.sin(angle)
    return places


def pushed(states: States, now: float, most: int) -> float:
    """Return the versions made by the first `most` commits of the window, each counted smoothly over its push."""
    push = PUSH * states.film.typical
    ticks = states.commit_ticks
    past = min(int(np.searchsorted(ticks, now - push, side="right")), most)
    last = min(int(np.searchsorted(ticks, now, side="right")), most)
    recent = sum(smooth((now - ticks[k]) / push) for k in range(past, last) if states.film.jobs.closes[k])
    return float(states.film.closed[past]) + recent


def _radius(states: States, worker: int, job: int, now: float) -> float:
    if job < 0:
        return NEAREST
    jobs = states.by_worker[worker]
    place = int(np.flatnonzero(jobs == job)[0])
    begin = float(states.film.jobs.begin[job])
    fallen = smooth((now - begin) / (FALL * states.film.typical))
    radius = _distance(states, job, now)
    if place == 0 or fallen == 1:
        return radius
    before = _distance(states, int(jobs[place - 1]), begin)
    return before + (radius - before) * fallen


def _distance(states: States, job: int, now: float) -> float:
    """Return the distance for the staleness of a job at a time from its beginning on, and after its end as well."""
    film = states.film
    commits_before = int(np.searchsorted(states.commit_ticks, float(film.jobs.begin[job]), side="right"))
    missed = film.version + int(film.closed[commits_before]) - int(film.jobs.read[job])  # even when it began
    age = max(missed + pushed(states, now, film.commits) - pushed(states, now, commits_before), 0.0)
    return NEAREST + (1 - NEAREST) * (1 - float(np.exp(-age / film.mean_staleness)))
