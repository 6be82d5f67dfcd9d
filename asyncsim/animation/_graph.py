"""Workers on a graph, for movies: their places, the exchanges between them, and how far their models are apart.

A trace does not hold its graph: the edges are the pairs that mix in it. Rings, and graphs that look the same from every
worker, lie on a circle, a star around its centre, a torus on a grid, and others where springs along their edges pull
them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.cluster.graphs import Ring, Torus
from asyncsim.engine import Run
from asyncsim.engine._layout import Packing
from asyncsim.trace import Trace
from asyncsim.trace._variables import changes_of, is_on_graph
from asyncsim.workloads._batches import init_key

Floats = NDArray[np.float64]
Pairs = NDArray[np.bool_]

BOW = 0.7  # bend of a torus's rows and columns, as a multiple of about half the distance between them
DENSE_SHARE = 1 / 3  # share of all pairs that are edges, from which a graph is drawn on a circle
ITERATIONS, COOLING = 300, 0.99  # steps of the springs, and the factor by which the largest step shrinks in each
MOST_FRAMES = 400  # frames of a film that have distances of their own
MOST_NUMBERS = 10_000_000  # recorded numbers from which distances are computed: more take seconds
FLASH = 0.3  # time for which an exchange is seen, as a share of a typical job
PULL = 0.14  # share of an edge by which an exchange draws its two ends together


@dataclass(frozen=True, eq=False)
class GraphFilm:
    """The variables of a film's workers: where they are drawn, who mixes with whom when, and how far they are apart.

    The page has fields of the same names (`_page`, and `graph.js`, which computes the same as the methods below). In a
    hierarchy (`_regions`) the servers of regions are the last workers, and one more place is the global server's.
    """

    places: Floats  # (workers, 2), within the unit circle, and that of a global server
    edges: NDArray[np.int64]  # (edges, 2), each pair once
    senders: tuple[NDArray[np.int64], ...]  # different lists of (messages, 2): sender and receiver
    kind: NDArray[np.int64]  # (events,) of each event in the window, its list
    first: Floats  # (events,) ticks, when its messages left
    last: Floats  # (events,) ticks, when they arrived, in order
    variable: NDArray[np.int64]  # (workers,) that each worker changes
    base: NDArray[np.int64]  # (variables,) versions before the window
    changes: tuple[Floats, ...]  # for each variable, the ticks in the window at which its version grows
    staleness: NDArray[np.int64]  # (committing,) of the film's jobs
    distance_at: NDArray[np.int64]  # (frames,) commits of the window so far, in order
    distance: Floats  # (frames, workers) |x_i - x̄| then, as a share of the largest

    def versions(self, now: float) -> NDArray[np.int64]:
        """Return the (workers,) versions of the workers' variables at a tick."""
        counts = [int(np.searchsorted(ticks, now, side="right")) for ticks in self.changes]
        return (self.base + np.array(counts, np.int64))[self.variable]

    @property
    def regions(self) -> int:
        """Number of the regions around a global server, 0 on a graph."""
        return len(self.base) - 1 if len(self.places) > len(self.variable) else 0

    def messages(self, now: float) -> list[tuple[int, int, float]]:
        """Return sender, receiver and the share of its way of every message under way at a tick."""
        under_way = np.flatnonzero((self.first <= now) & (now < self.last))
        return [
            (int(sender), int(receiver), float((now - self.first[event]) / (self.last[event] - self.first[event])))
            for event in under_way
            for sender, receiver in self.senders[self.kind[event]]
        ]

    def flashes(self, now: float, typical: float) -> list[tuple[int, int, float]]:
        """Return sender and receiver of every exchange a moment ago, and how recent that is, from 1 to 0."""
        duration = FLASH * typical
        recent = range(*np.searchsorted(self.last, (now - duration, now), side="right").tolist())
        return [
            (int(sender), int(receiver), float(1 - (now - self.last[event]) / duration))
            for event in recent
            for sender, receiver in self.senders[self.kind[event]]
        ]

    def places_at(self, now: float, typical: float) -> Floats:
        """Return the (workers, 2) places at a tick: an exchange draws both of its ends together for a moment."""
        shift, exchanges = np.zeros_like(self.places), np.zeros(len(self.places))
        for sender, receiver, strength in self.flashes(now, typical):
            pull = 4 * strength * (1 - strength)  # from 0 to 1 and back to 0, while the strength falls from 1 to 0
            for one, other in ((sender, receiver), (receiver, sender)):
                shift[one] += pull * (self.places[other] - self.places[one])
                exchanges[one] += 1
        return self.places + PULL * shift / np.maximum(exchanges, 1)[:, None]

    def distances(self, done: int) -> Floats | None:
        """Return the (workers,) distances from the mean model after some commits of the window, if they are known."""
        if not len(self.distance_at):
            return None
        return self.distance[max(int(np.searchsorted(self.distance_at, done, side="right")) - 1, 0)]


def make_graph(trace: Trace, begin: float, end: float, per_second: float, rows: NDArray[np.int64]) -> GraphFilm:
    """Return the graph of a trace in which each worker has a variable, between two times."""
    if not is_on_graph(trace):
        raise ValueError(
            f"`trace` must have one variable, or one for each worker; got {trace.variables} for {trace.workers} "
            "workers. Simulate a Cluster, a Gossip or a Hierarchy."
        )
    mixings = trace.mixings
    is_message = mixings.target != mixings.source
    pairs = np.zeros((trace.workers, trace.workers), bool)
    pairs[mixings.target[is_message], mixings.source[is_message]] = True
    pairs |= pairs.T
    time = mixings.time
    starts = np.flatnonzero(np.diff(mixings.event, prepend=-1))
    starts = starts[(time[starts] >= begin) & (time[starts] <= end)]
    departure = _departures(trace)
    # Most events are one of a few lists of pairs, so an event has the number of its list.
    kinds: dict[bytes, int] = {}
    lists, kind, first = [], [], []
    ends = np.append(np.flatnonzero(np.diff(mixings.event)) + 1, len(mixings))
    for start, stop in zip(starts, ends[np.searchsorted(ends, starts, side="right")], strict=True):
        between = np.flatnonzero(is_message[start:stop]) + start
        sent = np.unique(np.stack([mixings.source[between], mixings.target[between]], axis=1), axis=0).astype(np.int64)
        number = kinds.setdefault(sent.tobytes(), len(kinds))
        if number == len(lists):
            lists.append(sent)
        kind.append(number)
        first.append(min([*departure[between].tolist(), float(time[start])]))
    base, changes = count_changes(trace, begin, end, per_second)
    return GraphFilm(
        places=lay_out(pairs),
        edges=np.argwhere(np.triu(pairs)),
        senders=tuple(lists),
        kind=np.array(kind, np.int64),
        first=np.round(np.array(first) * per_second),
        last=np.round(time[starts] * per_second),
        variable=np.arange(trace.workers),
        base=base,
        changes=changes,
        staleness=trace.staleness[rows].astype(np.int64),
        distance_at=np.zeros(0, np.int64),
        distance=np.zeros((0, trace.workers)),
    )


def count_changes(
    trace: Trace, begin: float, end: float, per_second: float
) -> tuple[NDArray[np.int64], tuple[Floats, ...]]:
    """Return each variable's version before a window, and the ticks in the window at which it changes."""
    changes = changes_of(trace)
    of_variable = [changes.time[start:stop] for start, stop in zip(changes.first[:-1], changes.first[1:], strict=True)]
    before = [int(np.searchsorted(times, begin)) for times in of_variable]
    ticks = tuple(
        np.round(times[count : np.searchsorted(times, end, side="right")] * per_second)
        for times, count in zip(of_variable, before, strict=True)
    )
    return np.array(before, np.int64), ticks


def _departures(trace: Trace) -> Floats:
    """Return when the message of each row of the mixings left: at its arrival if messages take no time.

    A trace has no such column. Where a worker waits for the answer of its partner, it sends when it has computed, and
    the partner answers at the arrival. Otherwise it sends at its commit.
    """
    mixings = trace.mixings
    departures = mixings.time.copy()
    waits = bool(mixings.own.any())
    sent = [
        np.sort((trace.finish_time if waits else trace.commit_time)[trace.worker == w]) for w in range(trace.workers)
    ]
    arrived: dict[tuple[int, int], float] = {}  # (target, source) -> the last time
    for row in np.flatnonzero((mixings.source_version >= 0) & (mixings.target != mixings.source)).tolist():
        target, source, time = int(mixings.target[row]), int(mixings.source[row]), float(mixings.time[row])
        place = int(np.searchsorted(sent[source], time, side="right"))
        departure = float(sent[source][place - 1]) if place else time
        answered = arrived.get((source, target), 0.0)
        # A mixing that is a part of the next commit takes the answer, which left when the request had arrived.
        departures[row] = answered if mixings.own[row] else departure if waits else max(departure, answered)
        arrived[target, source] = time
    return departures


def distances_of(trace: Trace, run: Run, first: int, commits: int) -> tuple[NDArray[np.int64], Floats] | None:
    """Return commits of a window, and the distances of all models from their mean then, if the run recorded enough.

    A run that recorded `central` at every commit has the variable of each row, and mixings are sums of these.
    """
    at, last = run.recorded_at.get("central"), min(first + commits, run.commits)
    if at is None or not np.array_equal(at, np.arange(run.commits)) or last <= first or run.seed is None:
        return None
    values = np.asarray(run.records["central"], np.float64).reshape(run.commits, -1)
    if values.size > MOST_NUMBERS:
        return None
    initial = Packing.of(run.central).pack(run.workload.init(init_key(int(run.seed))))  # type: ignore[arg-type]
    models = np.tile(np.asarray(initial, np.float64), (trace.workers, 1))
    frames = np.unique(np.linspace(0, last - first, min(MOST_FRAMES, last - first + 1)).round().astype(np.int64))
    mixings, version = trace.mixings, np.zeros(trace.workers, np.int64)
    is_dated = mixings.source_version >= 0
    sent_versions = set(zip(mixings.source[is_dated].tolist(), mixings.source_version[is_dated].tolist(), strict=True))
    values_sent = {(worker, 0): models[worker].copy() for worker in range(trace.workers)}

    def set_value(worker: int, value: Floats, counts: bool) -> None:
        models[worker] = value
        version[worker] += counts
        if (key := (worker, int(version[worker]))) in sent_versions:
            values_sent[key] = models[worker].copy()

    first_rows = np.append(np.flatnonzero(np.diff(mixings.event, prepend=-1)), len(mixings)).tolist()
    frame_distances, event = [], 0
    for row in range(last + 1):
        if row - first in frames:
            frame_distances.append(np.linalg.norm(models - models.mean(0), axis=1))
        if row == last:
            break
        while event + 1 < len(first_rows) and mixings.before[first_rows[event]] <= row:
            sums: dict[int, Any] = {}
            own: dict[int, bool] = {}
            for k in range(first_rows[event], first_rows[event + 1]):
                target, source, sent = (int(c[k]) for c in (mixings.target, mixings.source, mixings.source_version))
                value = models[source] if sent < 0 else values_sent[source, sent]
                sums[target], own[target] = sums.get(target, 0.0) + mixings.weight[k] * value, bool(mixings.own[k])
            for target, value in sums.items():
                set_value(target, value, counts=not own[target])
            event += 1
        set_value(int(trace.variable[row]), values[row], counts=True)
    distance = np.array(frame_distances)
    largest = float(distance[np.isfinite(distance)].max(initial=0.0))
    return frames, np.nan_to_num(distance / largest, nan=1.0, posinf=1.0) if largest else distance


def lay_out(pairs: Pairs) -> Floats:
    """Return (workers, 2) places within the unit circle for the pairs of a graph."""
    workers, degree = len(pairs), pairs.sum(1)
    turn = 2 * np.pi * np.arange(workers) / workers
    circle = np.stack([np.sin(turn), np.cos(turn)], axis=1)
    # A star has no edge that does not end at its hub.
    hub = int(degree.argmax())
    others = pairs.copy()
    others[hub] = others[:, hub] = False
    if workers > 3 and degree[hub] > 1 and not others.any():
        angle = 2 * np.pi * np.arange(workers - 1) / (workers - 1)
        return np.insert(np.stack([np.sin(angle), np.cos(angle)], axis=1), hub, 0.0, axis=0)
    # The graph looks the same from every worker if it stays equal when all numbers move by one.
    is_circulant = bool((pairs == np.roll(pairs, (1, 1), axis=(0, 1))).all())
    grid = Torus().adjacency(workers)
    rows = next(rows for rows in range(int(workers**0.5), 0, -1) if workers % rows == 0)
    is_ring = not (pairs & ~Ring().adjacency(workers)).any()
    if rows > 1 and not is_ring and not (pairs & ~grid).any():
        columns = workers // rows
        row, column = np.divmod(np.arange(workers), columns)
        x, y = 2 * column / (columns - 1) - 1, 1 - 2 * row / (rows - 1)
        # Rows and columns are bowed, so that the edge between the two ends of one does not lie on the others.
        bowed = np.stack([x + BOW / rows * (1 - y**2), y + BOW / columns * (1 - x**2)], axis=1)
        return bowed / np.linalg.norm(bowed, axis=1).max()
    if is_ring or is_circulant or degree.mean() >= DENSE_SHARE * (workers - 1):
        return circle
    return _relax(pairs, circle)


def _relax(pairs: Pairs, places: Floats) -> Floats:
    """Return where springs along the edges pull workers that repel each other (Fruchterman and Reingold 1991)."""
    length, step = (np.pi / len(pairs)) ** 0.5, 0.1
    for _ in range(ITERATIONS):
        apart = places[:, None] - places
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = length**2 / distance**2 - np.where(pairs, distance / length, 0.0)
        move = np.sum(force[..., None] * apart, axis=1)
        size = np.maximum(np.linalg.norm(move, axis=1), 1e-9)[:, None]
        places = places + move / size * np.minimum(size, step)
        step *= COOLING
    places = places - (places.max(0) + places.min(0)) / 2
    return places / np.linalg.norm(places, axis=1).max()
