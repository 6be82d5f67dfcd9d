"""The terms of a likelihood: durations of a log that are independent draws of the laws of a given cluster.

`_stages` takes a log apart without a model. Here the cluster is an argument, so that a time which the log lacks is
distinguished from one that takes no time. Durations of a constant determine its parameters without error.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from asyncsim.calibration._model import Model
from asyncsim.calibration._stages import Stage, count_one_at_a_time, first_jobs
from asyncsim.calibration._statistics import CONSTANT, ROUNDING, takes_time
from asyncsim.calibration._transforms import FloatArray
from asyncsim.cluster import Cluster
from asyncsim.delays._per_worker import expand, is_zero
from asyncsim.trace import Fate, Trace
from asyncsim.trace._columns import list_workers

BASES = 6  # clusters of the prior, from which the dependences of a law are found
SHARES = (0.2, 0.5, 0.8)  # of the prior, to which a parameter is moved
GRID = 65  # values of a parameter, between which a constant has the right one

Terms = Mapping[str, Stage]  # "compute", "download", "upload" or "service" -> its durations, in the order of workers


def measure_durations(log: Trace, cluster: Cluster, compute: Stage) -> tuple[dict[str, Stage], tuple[str, ...]]:
    """Return the durations that a log shows of a cluster, and the stages of the cluster that it does not show."""
    times = _Times(log, cluster)
    times.require_possible()
    stages = {
        "compute": compute if times.starts and times.finishes else None,
        "download": times.downloads() if times.has_download and times.shows_download else None,
        "upload": Stage(times.up, log.worker) if times.has_upload and times.shows_upload else None,
        "service": times.services(),
    }
    missing = {
        "compute": stages["compute"] is None,
        "latency": (times.has_download or times.has_upload) and not (stages["download"] or stages["upload"]),
        "service": not cluster.server.is_instant and stages["service"] is None,
    }
    terms = {}
    for name, stage in stages.items():
        if stage is not None:
            order, last = (np.argsort(column, kind="stable") for column in (stage.worker, stage.censored_worker))
            ended = (stage.durations[order], stage.worker[order])
            terms[name] = Stage(*ended, stage.censored[last], stage.censored_worker[last])
    return terms, tuple(name for name, is_missing in missing.items() if is_missing)


def pieces(name: str, stage: Stage, cluster: Cluster) -> Iterator[tuple[Any, Stage]]:
    """Yield each law of a cluster, and the durations of its workers without the constant part: a message's bytes."""
    laws, shift = laws_of(name, cluster)
    alike: dict[Any, list[int]] = {}
    for worker, law in enumerate(laws if isinstance(laws, tuple) else ()):
        alike.setdefault(law if type(law).__hash__ else id(law), []).append(worker)
    parts = [(laws[workers[0]], stage.of(workers)) for workers in alike.values()] or [(laws, stage)]
    for law, part in parts:
        yield law, part._replace(durations=part.durations - shift, censored=part.censored - shift)


def laws_of(name: str, cluster: Cluster) -> tuple[Any, float]:
    """Return one law, or one for each worker, and the seconds that are added to each of its draws."""
    network = cluster.network
    if name == "compute":
        return (cluster.compute if cluster.local_steps in (None, 1) else cluster.laws), 0.0  # The log has whole jobs.
    if name == "service":
        return cluster.server.service, 0.0
    return network.latency, network.download_seconds if name == "download" else network.upload_seconds


class _Times:
    """The times of a log that are recorded, as far as the cluster determines it: a missing one equals the next."""

    def __init__(self, log: Trace, cluster: Cluster) -> None:
        network, server = cluster.network, cluster.server
        self.log, self.cluster = log, cluster
        instant = all(map(is_zero, expand(network.latency, 1)))
        self.pulls = not server.atomic and server.pull == "before_commit"
        self.has_download = not instant or bool(network.download_seconds)
        self.has_upload = not instant or bool(network.upload_seconds)
        self.reads = ~log.resumes_own & ~first_jobs(log)  # Workers present at time 0 send no read request.
        self.down = log.start_time - log.read_time
        self.up = log.arrive_time - log.finish_time
        self.shows_download = takes_time(log, self.down[self.reads])
        self.shows_service = takes_time(log, log.commit_time - log.serve_time)
        self.arrives = self._is_recorded(log.arrive_time)
        self.shows_upload = not self.pulls and self.arrives and takes_time(log, self.up)
        # Without reads each job starts at once, so that its start needs no column.
        self.starts = not self.has_download or self.shows_download or not self.reads.any()
        on_the_way = self.has_upload or (self.pulls and (self.has_download or not is_zero(server.pull_to_commit)))
        later = log.arrive_time if self.arrives else log.serve_time
        self.finishes = takes_time(log, later - log.finish_time) if on_the_way else self._is_recorded(log.finish_time)

    def require_possible(self) -> None:
        """Refuse a cluster that lacks a stage of the log."""
        served = takes_time(self.log, self.log.commit_time - self.log.arrive_time)
        lacks = {
            "messages to the workers (`start_time` after `read_time`)": self.shows_download and not self.has_download,
            "messages to the server (`arrive_time` after `finish_time`)": self.shows_upload and not self.has_upload,
            "service (`commit_time` after `arrive_time`)": served and self.cluster.server.is_instant,
        }
        for what, is_lacking in lacks.items():
            if is_lacking:
                part = "server" if what.startswith("service") else "network"
                raise ValueError(f"`log` shows {what}, and the clusters of `model` have none. Give them `{part}=…`.")

    def downloads(self) -> Stage:
        """Return the downloads of the commits, and how long those under way at the end had lasted."""
        log, jobs = self.log, self.log.unfinished
        asks = np.isin(jobs.worker, log.worker) & ~jobs.resumes_own & (jobs.fate == Fate.IN_FLIGHT)
        under_way = asks & (jobs.start_time > log.seconds) & (jobs.read_time < log.seconds)
        lasted = log.seconds - jobs.read_time[under_way]
        return Stage(self.down[self.reads], log.worker[self.reads], lasted, jobs.worker[under_way])

    def services(self) -> Stage | None:
        """Return the times of service.

        Without `serve_time`, service begins when the commit has arrived and the only slot of the server is free.
        """
        log, server = self.log, self.cluster.server
        if server.is_instant:
            return None
        if self.shows_service:
            return Stage(log.commit_time - log.serve_time, log.worker)
        arrival = log.arrive_time if self.arrives else None if self.has_upload or self.pulls else log.finish_time
        if server.slots > 1 or arrival is None or not self.finishes:
            return None
        return Stage(count_one_at_a_time(log, arrival), log.worker)

    def _is_recorded(self, column: FloatArray) -> bool:
        """Return whether a time between the upload and the queue was recorded, and is not filled in."""
        log, server = self.log, self.cluster.server
        if server.is_instant:
            return True
        if not self.shows_service:
            return takes_time(log, log.commit_time - column)
        free = column[server.slots :] - log.commit_time[: -server.slots]
        return takes_time(log, log.serve_time - column) or not (np.abs(free) <= ROUNDING * log.seconds).any()


class Constant(NamedTuple):
    """Durations of one worker that are all the same."""

    term: str  # name of the term
    worker: int  # the worker
    value: float  # seconds
    error: float  # by which they may differ from it


def is_constant(law: Any) -> bool:
    """Return whether all delays of a law are the same."""
    return getattr(law, "variance", None) == 0


def split_constants(
    terms: Terms, model: Model, cycle: float, rounding: float, names: Sequence[str] = ()
) -> tuple[list[Constant], Terms]:
    """Split off the durations whose law is a constant for all clusters of the prior, and return the others as well."""
    some = [np.full(len(model.names), 0.5), *_bases(model)]
    clusters = [cluster for shares in some if (cluster := _build_or_none(model, shares, cycle)) is not None]
    constants, variable = [], {}
    for name, stage in terms.items():
        laws = [expand(laws_of(name, cluster)[0], cluster.workers) for cluster in clusters]
        fixed = np.array([all(map(is_constant, of_worker)) for of_worker in zip(*laws, strict=True)])
        for worker in np.intersect1d(stage.worker, np.flatnonzero(fixed)).tolist():
            mine = stage.of([worker]).durations
            value = float(np.median(mine))
            constants.append(Constant(name, worker, value, rounding + CONSTANT * value))
            if np.ptp(mine) > constants[-1].error:
                remedy = 'Give it a law with spread, say `Gamma(mean, cv)`, or `method="npe"`.'
                who = list_workers(names, [worker])
                raise ValueError(
                    f"`model` cannot produce the log: {name} of {who} took from {mine.min():.6g} to "
                    f"{mine.max():.6g} s, and {type(laws[0][worker]).__name__} is always the same. {remedy}"
                )
        others = stage.of(np.flatnonzero(~fixed))
        if len(others.durations):
            variable[name] = others
    return constants, variable


def find_dependences(model: Model, cycle: float, parts: Callable[[Cluster], Sequence[Any]]) -> dict[str, set[int]]:
    """Return, for the name of each parameter, the places of the parts of a cluster that depend on it."""
    places: dict[str, set[int]] = {name: set() for name in model.names}
    for shares in _bases(model):
        base = _build_or_none(model, shares, cycle)
        if base is None:
            continue
        for (i, name), share in product(enumerate(model.names), SHARES):
            moved = shares.copy()
            moved[i] = share
            other = _build_or_none(model, moved, cycle)
            if other is not None:
                pairs = zip(parts(base), parts(other), strict=True)
                places[name] |= {place for place, (a, b) in enumerate(pairs) if a != b}
    return places


def _bases(model: Model) -> FloatArray:
    """Draw the shares of the prior at which dependences are tried."""
    return np.random.default_rng(0).random((BASES, len(model.names)))


def _build_or_none(model: Model, shares: FloatArray, cycle: float) -> Cluster | None:
    """Build the cluster below whose parameters these shares of the prior lie, or None where `build` fails."""
    with suppress(ValueError):
        return model.cluster(model.at(shares, cycle))
    return None


def solve_constants(
    model: Model, constants: list[Constant], cycle: float, workers: Sequence[str] = ()
) -> dict[str, float]:
    """Solve for the parameters that constants determine, one after another, and return their values by name."""
    solved: dict[str, float] = {}
    places = find_dependences(model, cycle, lambda cluster: [_value(cluster, constant) for constant in constants])
    equations = [
        (constant, {name for name in model.names if i in places[name]}) for i, constant in enumerate(constants)
    ]
    while equations:
        easiest = min(range(len(equations)), key=lambda i: len(equations[i][1] - solved.keys()))
        constant, names = equations.pop(easiest)
        unknown = sorted(names - solved.keys())
        if len(unknown) > 1:
            several = " and ".join(unknown)
            raise ValueError(
                f"`model` makes the constant of {constant.term} of several parameters, {several}, which one number "
                'does not identify. Give it one of its own, or `method="npe"`.'
            )
        if unknown:
            solved[unknown[0]] = _solve(model, constant, unknown[0], solved, cycle)
    cluster = model.cluster(list({**model.values_at(0.5, cycle), **solved}.values()))
    for constant in constants:
        value = _value(cluster, constant)
        if abs(value - constant.value) > 2 * constant.error:
            remedy = 'Give it a law with spread or a parameter of its own, or `method="npe"`.'
            raise ValueError(
                f"`model` cannot produce the log: {constant.term} of {list_workers(workers, [constant.worker])} takes "
                f"{constant.value:.6g} s, and the constant is {value:.6g} s there. {remedy}"
            )
    return solved


def _value(cluster: Cluster, constant: Constant) -> float:
    """Return the constant in a cluster."""
    laws, shift = laws_of(constant.term, cluster)
    return float(expand(laws, cluster.workers)[constant.worker].mean) + shift


def _solve(model: Model, constant: Constant, name: str, solved: Mapping[str, float], cycle: float) -> float:
    """Find the value of a parameter with which a constant has its value."""
    from scipy.optimize import brentq

    along, others = model.axis(name, cycle), {**model.values_at(0.5, cycle), **solved}

    def away(x: float) -> float:
        return _value(model.cluster(list({**others, name: along.back(x)}.values())), constant) - constant.value

    places = np.linspace(along.low, along.high, GRID)
    heights = np.array([away(x) for x in places])
    exact = int(np.abs(heights).argmin())
    change = np.flatnonzero(heights[:-1] * heights[1:] < 0)
    if len(change):
        at = int(change[0])
        root: Any = brentq(away, places[at], places[at + 1], xtol=1e-15)
        return along.back(root)
    if abs(heights[exact]) <= constant.error:
        return along.back(places[exact])
    ends = sorted((heights[0] + constant.value, heights[-1] + constant.value))
    raise ValueError(
        f"`prior` of {name!r} excludes the log: {constant.term} takes {constant.value:.6g} s, and the prior gives from "
        f"{ends[0]:.4g} to {ends[1]:.4g} s. Widen it."
    )
