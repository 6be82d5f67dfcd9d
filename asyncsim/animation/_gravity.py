"""The gravity view: the server as a heavy centre, workers as masses that drift away as they grow stale.

A worker's distance from the centre is a function of its staleness, made smooth in time: each commit pushes everybody
out over a short time, and a worker that reads falls back. Where it is follows from the film alone, as for every state:
no orbit is integrated, and any time can be shown at once.
"""

import numpy as np
from numpy.typing import NDArray

from asyncsim.animation._film import Film
from asyncsim.animation._states import States

NEAREST = 0.24  # distance from the centre of a worker that is fresh; the rim is at 1
PUSH, FALL = 0.15, 0.3  # of a typical job: how long a commit pushes, and a worker that reads falls
TURN = 90.0  # typical jobs in which all turn once around the centre
SWAY, SWAY_JOBS = 0.12, 7.0  # radians and typical jobs of each worker's own to and fro


def smooth(share: float) -> float:
    """0 up to 0, 1 from 1 on, and without a jolt between."""
    share = min(max(share, 0.0), 1.0)
    return share * share * (3 - 2 * share)


def scale(film: Film) -> float:
    """The staleness at which a worker is 63 % of the way out: the mean of the film's commits, at least 1."""
    done = film.jobs.read[: film.commits]
    versions = film.version + np.concatenate([[0], np.cumsum(film.jobs.closes[: film.commits])])[:-1]
    return max(float(np.sum(versions - done)) / len(done), 1.0) if len(done) else 1.0


def places(states: States, seconds: float) -> NDArray[np.float64]:
    """(workers, 2), where the workers are, within the unit circle around the server."""
    film = states.film
    now = min(max(seconds * film.per_second, film.start), film.stop)
    job = states.at(seconds).job
    out = scale(film)
    turn = 2 * np.pi * now / (TURN * film.typical)
    found = np.zeros((film.workers, 2))
    for worker in range(film.workers):
        radius = _radius(states, worker, int(job[worker]), now, out)
        own = now / (SWAY_JOBS * film.typical) + worker * 0.37
        angle = worker * 2 * np.pi / film.workers + turn + SWAY * np.sin(2 * np.pi * own)
        found[worker] = radius * np.cos(angle), radius * np.sin(angle)
    return found


def pushed(states: States, now: float, most: int) -> float:
    """Versions that the first `most` commits of the window have made, each counted bit by bit over its push."""
    push = PUSH * states.film.typical
    ticks = states.commit_ticks
    past = min(int(np.searchsorted(ticks, now - push, side="right")), most)
    last = min(int(np.searchsorted(ticks, now, side="right")), most)
    recent = sum(smooth((now - ticks[k]) / push) for k in range(past, last) if states.film.jobs.closes[k])
    return float(states.closed[past]) + recent


def _radius(states: States, worker: int, job: int, now: float, out: float) -> float:
    if job < 0:
        return NEAREST
    own = states.by_worker[worker]
    place = int(np.flatnonzero(own == job)[0])
    begin = float(states.film.jobs.begin[job])
    fallen = smooth((now - begin) / (FALL * states.film.typical))
    radius = _distance(states, job, now, out)
    if place == 0 or fallen == 1:
        return radius
    before = _distance(states, int(own[place - 1]), begin, out)
    return before + (radius - before) * fallen


def _distance(states: States, job: int, now: float, out: float) -> float:
    """Of the staleness that a job has, or had or would have had, at a time from its begin on."""
    film = states.film
    seen = int(np.searchsorted(states.commit_ticks, float(film.jobs.begin[job]), side="right"))
    missed = film.version + int(states.closed[seen]) - int(film.jobs.read[job])  # even when it began
    age = max(missed + pushed(states, now, film.commits) - pushed(states, now, seen), 0.0)
    return NEAREST + (1 - NEAREST) * (1 - float(np.exp(-age / out)))
