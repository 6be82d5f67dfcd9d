"""The chapters of a movie: times of notable events, with a sentence each."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from asyncsim import _checks as checks
from asyncsim._metrics import counted
from asyncsim.animation._graph import GraphFilm
from asyncsim.animation._states import NONE, States

MOST_CHAPTERS = 12


class Chapter(NamedTuple):
    """A time in seconds, one sentence, and the worker that it is about, or -1."""

    seconds: float
    text: str
    worker: int = NONE


def chosen_chapters(chapters: Mapping[float, str], states: States) -> list[Chapter]:
    """Return the chapters that a user wrote, in the order of time."""
    first, last = states.film.seconds
    if len(chapters) > MOST_CHAPTERS:
        remedy = "Leave out the least important."
        raise ValueError(f"`chapters` must be at most {MOST_CHAPTERS}; got {len(chapters)}. {remedy}")
    for seconds in chapters:
        checks.require_not_negative("chapters", seconds, remedy="Give a sentence for each time, in seconds.")
        if not first <= seconds <= last:
            raise ValueError(f"`chapters` must be between {first:g} and {last:g} s; got {seconds:g}. Move it.")
    return [Chapter(float(seconds), str(text)) for seconds, text in sorted(chapters.items())]


def make_chapters(states: States) -> list[Chapter]:
    """Return the chapters that follow from the film, in the order of time."""
    chapters = sorted([*_schedule(states), *_rules(states)], key=lambda chapter: chapter.seconds)
    return [chapters[0], *chapters[1:-1][: MOST_CHAPTERS - 2], chapters[-1]]


def _schedule(states: States) -> Iterator[Chapter]:
    """Yield the start, the first commit, the first failure, the longest queue, the oldest copy and the end."""
    film, jobs = states.film, states.film.jobs
    first, last = film.seconds
    n = film.workers
    if film.graph is not None:
        yield from _in_regions(states, film.graph) if film.graph.regions else _on_graph(states, film.graph)
        return
    start = "The movie starts" if film.row else "All workers read the same parameters and compute"
    yield Chapter(first, f"{start}." if film.row else f"{start} their first gradients.")
    stale = film.staleness[: film.commits]
    if film.commits > 1 and not film.row and n > 1:
        worker = int(jobs.worker[0])
        text = f"{film.who(worker, 'Worker')} commits first. Now the copies of all others are one version old."
        if film.jobs.closes[0]:
            yield Chapter(float(jobs.end[0]) / film.per_second, text, worker)
    if len(film.down):
        worker, begin, _ = min(film.down.tolist(), key=lambda spell: spell[1])
        yield Chapter(max(begin / film.per_second, first), f"{film.who(int(worker), 'Worker')} fails.", int(worker))
    longest, when = _longest_queue(states)
    if longest > 1:
        yield Chapter(when / film.per_second, f"The queue is longest: {longest} updates wait at the server.")
    if film.commits and stale.max(initial=0) > 1:
        row = int(stale.argmax())
        worker = int(jobs.worker[row])
        text = (
            f"{film.who(worker, 'Worker')} is about to commit the oldest gradient: {stale[row]} versions old, "
            f"where the mean is {stale.mean():.3g}."
        )
        yield Chapter(_before(states, row), text, worker)
    if film.commits:
        commits = counted(film.commits, "commit", ",")
        text = f"After {commits} the mean staleness is {stale.mean():.3g}, and n − 1 is {n - 1}."
        yield Chapter(last, text)


def _on_graph(states: States, graph: GraphFilm) -> Iterator[Chapter]:
    """Yield the start, the first exchange, the oldest gradient and the end of workers on a graph."""
    film, jobs = states.film, states.film.jobs
    first, last = film.seconds
    yield Chapter(first, "The movie starts." if film.row else "All workers begin with the same model and compute.")
    if len(graph.last):
        several = graph.senders[graph.kind[0]]
        sender, receiver = (film.who(int(worker)) for worker in several[0])
        text = f"The first exchange: {sender} with {receiver}"
        text += f", and {len(several) - 2} more messages." if len(several) > 2 else "."
        yield Chapter(float(graph.last[0]) / film.per_second, text, int(several[0, 1]))
    stale = film.staleness[: film.commits]
    if stale.max(initial=0) > 1:
        row = int(stale.argmax())
        worker = int(jobs.worker[row])
        text = f"Others have changed the model of {film.who(worker)} {stale[row]} times since it read it."
        yield Chapter(_before(states, row), text, worker)
    if film.commits:
        commits = counted(film.commits, "commit", ",")
        text = f"After {commits} the mean staleness is {stale.mean():.3g} changes of a worker's model by others."
        yield Chapter(last, text)


def _in_regions(states: States, graph: GraphFilm) -> Iterator[Chapter]:
    """Yield the start, the first push and the first merge, the oldest gradient and the end of a hierarchy."""
    film, jobs = states.film, states.film.jobs
    first, last = film.seconds
    middle = film.workers
    yield Chapter(first, "The movie starts." if film.row else "All regions begin with the same model and compute.")
    for place, text in ((1, "{} pushes its change since the last merge."), (0, "{} merges the global model.")):
        kinds = [kind for kind, pairs in enumerate(graph.senders) if pairs[0, place] == middle]
        events = np.flatnonzero(np.isin(graph.kind, kinds))
        if len(events):
            server = int(graph.senders[graph.kind[events[0]]][0, 1 - place])
            yield Chapter(
                float(graph.last[events[0]]) / film.per_second, text.format(film.who(server, "Worker")), server
            )
    stale = film.staleness[: film.commits]
    is_push = jobs.worker[: film.commits] >= middle - graph.regions
    commits = np.where(is_push, -1, stale)
    if commits.max(initial=0) > 1:
        row = int(commits.argmax())
        worker = int(jobs.worker[row])
        text = f"The model of its region has changed {stale[row]} times since {film.who(worker)} read it."
        yield Chapter(_before(states, row), text, worker)
    if len(stale) and not is_push.all():
        text = f"The mean staleness is {stale[~is_push].mean():.3g} commits and merges in a region"
        text += f", and {stale[is_push].mean():.3g} pushes between regions." if is_push.any() else "."
        yield Chapter(last, text)


def _rules(states: States) -> Iterator[Chapter]:
    """Yield where Gradient Energy Matching passes a whole update, where it passes none, and where a run diverges."""
    film, jobs = states.film, states.film.jobs
    for name, path in states.paths.items():
        if path.diverged_at is not None and film.row <= path.diverged_at < film.row + film.commits:
            row = path.diverged_at - film.row
            yield Chapter(float(jobs.end[row]) / film.per_second, f"{name} diverges.")
        mechanism = path.mechanism
        if mechanism is None or mechanism.pi is None or not film.commits:
            continue
        pi = mechanism.pi[: film.commits]
        whole = np.flatnonzero((np.abs(pi - 1) < 0.02).all(axis=1))
        none = np.flatnonzero((pi == 0).all(axis=1) & (np.arange(len(pi)) >= film.workers))
        if len(whole):
            worker = int(jobs.worker[whole[0]])
            text = f"{name}: nothing moved since {film.who(worker)} read, so π = 1 and its whole update counts."
            yield Chapter(_before(states, int(whole[0])), text, worker)
        if len(none):
            assert mechanism.proxy is not None  # known wherever π is
            row = none[np.abs(mechanism.proxy[none]).max(axis=1).argmax()]
            worker = int(jobs.worker[row])
            text = (
                f"{name}: the others moved as far as {film.who(worker)}'s proxy would, so π = 0 and it changes nothing."
            )
            yield Chapter(_before(states, int(row)), text, worker)


def _before(states: States, row: int) -> float:
    """Return the second just before a commit, while its job still runs."""
    film = states.film
    return max(float(film.jobs.end[row]) - 1, film.start) / film.per_second


def _longest_queue(states: States) -> tuple[int, float]:
    """Return the largest number of updates that wait at once, and the tick at which they first do."""
    film, m = states.film, states.film.committing
    arrive, serve = film.jobs.arrive[:m], film.jobs.serve[:m]
    waits = (serve > arrive) & (arrive >= film.start) & (arrive <= film.stop)
    if not waits.any():
        return 0, film.start
    events = np.concatenate([arrive[waits], serve[waits]])
    change = np.concatenate([np.ones(waits.sum()), -np.ones(waits.sum())])
    order = np.lexsort((change, events))
    length = np.cumsum(change[order])
    place = int(length.argmax())
    return int(length[place]), float(events[order][place])
