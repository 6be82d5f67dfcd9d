"""A simulator of asynchronous clusters that shares no code with asyncsim: the reference for calibration.

A worker reads, its download takes a latency, it computes, its upload takes a latency, it waits for the server's one
place first-in, first-out, is served, and its commit is the read for its next job. Standard library only.
"""

import functools
import heapq
import math
import random
from collections.abc import Callable
from typing import NamedTuple

Draw = Callable[[random.Random], float]
COLUMNS = ("worker", "read_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")


class Law(NamedTuple):
    """A law of durations, with its true moments."""

    name: str  # of the family, as asyncsim has it
    draw: Draw  # one duration
    mean: float
    cv: float


def gamma(mean: float, cv: float) -> Law:
    """Of the shape 1/cv²."""
    shape = 1 / cv**2
    return Law("gamma", lambda r: r.gammavariate(shape, mean / shape), mean, cv)


def lognormal(mean: float, cv: float) -> Law:
    """Whose logarithm is normal."""
    sigma = math.sqrt(math.log(1 + cv**2))
    return Law("lognormal", lambda r: r.lognormvariate(math.log(mean) - sigma**2 / 2, sigma), mean, cv)


def weibull(mean: float, shape: float) -> Law:
    """By its shape."""
    first, second = math.gamma(1 + 1 / shape), math.gamma(1 + 2 / shape)
    cv = math.sqrt(second / first**2 - 1)
    return Law("weibull", lambda r: r.weibullvariate(mean / first, shape), mean, cv)


def straggler(mean: float, cv: float, probability: float, factor: float) -> Law:
    """A gamma law of which some durations are longer by a factor; the mean is that of all."""
    whole = 1 + probability * (factor - 1)
    square = (1 + cv**2) * (1 + probability * (factor**2 - 1)) / whole**2
    base = gamma(mean / whole, cv).draw
    draw = lambda r: base(r) * (factor if r.random() < probability else 1.0)  # noqa: E731
    return Law("straggler", draw, mean, math.sqrt(square - 1))


class Cluster(NamedTuple):
    """What is simulated; no latency or service takes no time."""

    workers: int
    compute: Law
    latency: Law | None = None
    service: Law | None = None


def simulate(cluster: Cluster, commits: int, seed: int, workers: int | None = None) -> dict[str, list[float]]:
    """The log of so many commits: name of a column -> one entry per commit, in the order of commits."""
    r = random.Random(seed)
    count = cluster.workers if workers is None else workers
    arrivals: list[tuple[float, int, tuple[float, float, float]]] = []  # as they will come to the server

    def begin(worker: int, read: float) -> None:
        start = read + (cluster.latency.draw(r) if cluster.latency and read > 0 else 0.0)  # the first need not ask
        finish = start + cluster.compute.draw(r)
        arrive = finish + (cluster.latency.draw(r) if cluster.latency else 0.0)
        heapq.heappush(arrivals, (arrive, worker, (read, start, finish)))

    for worker in range(count):
        begin(worker, 0.0)
    log: dict[str, list[float]] = {name: [] for name in COLUMNS}
    free = 0.0
    while len(log["worker"]) < commits:
        # The next to be served is the first that arrives; a commit only adds arrivals after itself.
        arrive, worker, times = heapq.heappop(arrivals)
        serve = max(arrive, free)
        commit = serve + (cluster.service.draw(r) if cluster.service else 0.0)
        free = commit if cluster.service else 0.0
        for name, value in zip(COLUMNS, (worker, *times, arrive, serve, commit), strict=True):
            log[name].append(value)
        begin(worker, commit)
    return log


@functools.cache
def throughput(cluster: Cluster, workers: int, commits: int = 60_000, seed: int = 0) -> float:
    """Commits per second in the long run."""
    times = simulate(cluster, commits, seed, workers)["commit_time"]
    return 0.8 * commits / (times[-1] - times[commits // 5 - 1])
