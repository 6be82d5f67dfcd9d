"""The usage of a run: the time of each worker in parts that sum to the whole, and messages with their sizes."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from asyncsim.cluster import Cluster, Gossip, Hierarchy, Pipeline, Rollouts
from asyncsim.compressors import bytes_of
from asyncsim.costs._result import PARTS
from asyncsim.engine import Run
from asyncsim.engine._validation import first_shapes
from asyncsim.rules import Rule, message_bytes
from asyncsim.trace import Fate, Fault, Trace
from asyncsim.trace._columns import end_of_trace
from asyncsim.trace._spans import COMMITTED, DOWN_FAULTS, Spans, find_jobs, gaps, joined, spells, union

ROUNDING = 1e-12  # share of the time below which waiting is an error of rounding
UNSIZED_CLUSTERS = (Pipeline, Rollouts)  # clusters whose messages are not updates
BYTES = ("bytes_up", "bytes_down")  # of a run's summary
STAGES = ("download", "compute", "upload", "queue", "service")  # of a job, in their order


def time_budget(trace: Trace, end: float) -> dict[str, np.ndarray]:
    """Return part of the time -> (workers,) seconds of each worker until `end`. The parts sum to n·end."""
    n, job_spans = trace.workers, find_jobs(trace, end)
    limits = [np.minimum(column, end) for column in job_spans.times]
    # If uploads take no time, a job that has not committed has been in the queue since the end of its computation.
    if not np.any(trace.arrive_time > trace.finish_time):
        waits = (job_spans.fate != COMMITTED) & (job_spans.fate != Fate.LOST)
        limits[3] = np.where(waits, limits[2], limits[3])
    lasted = [np.bincount(job_spans.worker, after - before, n) for before, after in pairwise(limits)]
    stages = dict(zip(STAGES, lasted, strict=True))
    working = np.sum(lasted, axis=0)
    waiting = end - working
    away = down_spells(trace, end)
    affected = np.unique(away.worker)
    # Jobs and spells of a worker that was down overlap, so that it waits in the time that neither of them covers.
    if len(affected):
        in_jobs = Spans(job_spans.worker, limits[0], limits[-1]).rows(np.isin(job_spans.worker, affected))
        free = gaps(joined(in_jobs, away), affected, 0.0, end)
        waiting[affected] = np.bincount(free.worker, free.end - free.start, n)[affected]
    parts = {**stages, "waiting": np.where(waiting > ROUNDING * end, waiting, 0.0)}
    parts["down"] = np.where(np.isin(np.arange(n), affected), np.maximum(end - working - parts["waiting"], 0.0), 0.0)
    return {name: parts[name] for name in PARTS}


def trains_together(trace: Trace) -> bool:
    """Return whether the commits of each step are served together for a while, as the groups of rollouts are."""
    first = np.diff(trace.version, prepend=-1) != 0
    if first.all() or not (trace.serve_time < trace.commit_time).all():
        return False
    step = np.cumsum(first) - 1
    times = (trace.serve_time, trace.commit_time)
    return all(np.array_equal(column, column[first][step]) for column in times)


def down_spells(trace: Trace, end: float) -> Spans:
    """Return the spells in which workers were down, without overlaps."""
    away = spells(trace, *DOWN_FAULTS).within(0.0, end)
    workers = np.unique(away.worker)
    return union(away, workers, 0.0, end) if len(workers) else away


def messages_by(trace: Trace, at: float | NDArray[np.float64], pulls: bool) -> tuple[NDArray, NDArray]:
    """Count the updates sent to the server by a time, and how often the parameters were sent to a worker."""
    rest = trace.unfinished
    dropped, given_up = (rest.end_time[rest.fate == fate] for fate in (Fate.DROPPED, Fate.LOST))
    losses = spells(trace, Fault.MESSAGE_LOST).start
    sent = _by(trace.arrive_time, at) + _by(dropped, at)
    # Without a record of lost messages, each job that was given up counts as one.
    up = sent + _by(losses if len(losses) else given_up, at)
    resumes = np.append(trace.resumes_own, rest.resumes_own)
    reader = np.append(trace.worker, rest.worker)[~resumes]  # workers that read the central variable
    reads = np.append(trace.read_time, rest.read_time)[~resumes]
    # A worker's first read costs nothing, because everyone has the parameters at the beginning.
    first = np.full(trace.workers, np.inf)
    np.minimum.at(first, reader, reads)
    down = _by(reads, at) - _by(first[np.isfinite(first)], at)
    return up, down + (sent + _by(given_up, at) if pulls else 0)


def bytes_by(
    trace: Trace,
    at: float | NDArray[np.float64],
    message_bytes: int,
    parameter_bytes: int,
    pulls: bool | None = None,
    collective: str = "none",
) -> tuple[Any, Any]:
    """Count the bytes up and down by a time. In a ring each of n workers sends 2(n - 1)/n of its update's size.

    Workers with variables of their own send these to one another, one for each source of a mixing.
    """
    if trace.pushes_from is not None:
        up, down = messages_by(trace, at, pulls=False)
        pushes, _, _ = far_messages(trace, at)
        if not np.ndim(at):
            up, down = int(up), int(down)
        # A push is as large as the parameters, whatever the rule of the regions sends.
        return message_bytes * (up - pushes) + parameter_bytes * pushes, parameter_bytes * down
    if trace.variables > 1:
        exchanged = _by(received_at(trace), at)
        return parameter_bytes * (exchanged if np.ndim(at) else int(exchanged)), 0 * exchanged
    up, down = messages_by(trace, at, shows_pulls(trace) if pulls is None else pulls)
    if not np.ndim(at):
        up, down = int(up), int(down)  # which cannot overflow
    if collective == "ring":
        return 2 * (trace.workers - 1) * message_bytes * up // trace.workers, 0 * down
    return message_bytes * up, parameter_bytes * down


def far_messages(trace: Trace, at: float | NDArray[np.float64]) -> tuple[Any, Any, Any]:
    """Count the pushes of regions by a time, the answers with the global value, and both together."""
    of_server = np.append(trace.worker, trace.unfinished.worker) >= trace.computing
    reads = np.append(trace.read_time, trace.unfinished.read_time)[of_server]
    pushes, answers = _by(trace.arrive_time[trace.from_variable >= 0], at), _by(reads, at)
    # At the beginning all regions have the global value.
    answers = answers - (trace.workers - trace.computing)
    if not np.ndim(at):
        pushes, answers = int(pushes), int(answers)
    return pushes, answers, pushes + answers


def received_at(trace: Trace) -> NDArray[np.float64]:
    """Return when variables arrived at those that they were mixed into, one time for each source of each target."""
    mixings = trace.mixings
    others = np.flatnonzero(mixings.source != mixings.target)
    keys = np.stack([mixings.event, mixings.target, mixings.source])[:, others]
    # A source may be there twice, with its value of now and an older one.
    keys = keys[:, order := np.lexsort(keys[::-1])]
    is_first = np.append(True, (np.diff(keys) != 0).any(0))[: len(order)]
    return mixings.time[others[order][is_first]]


def shows_pulls(trace: Trace) -> bool:
    """Return whether some worker pulled between its read and its commit, in a request of its own."""
    between = np.any(trace.pull_version > trace.read_version) and np.any(trace.pull_version < trace.version)
    return bool(between or np.any(trace.resumes_own))


def _by(events: NDArray[np.float64], at: float | NDArray[np.float64]) -> NDArray:
    """Count these events by each time, inclusive."""
    if np.ndim(at):
        return np.searchsorted(np.sort(events), at, side="right").astype(np.int64)
    return np.asarray(np.count_nonzero(events <= at))


def sizes(of: Any) -> dict[str, Any]:
    """Return the arguments of `cost` that a scenario or its result defines: sizes, and whether workers pull.

    An update has the size of the compressed message, indices counted, or that of the parameters. If a scenario's
    network has a `message_bytes` of its own, parameters have this size, and updates the same share of it.

    Args:
        of: A `Scenario`, a `Result`, or a `Run`, which has no data on the server.

    Returns:
        "message_bytes", "parameter_bytes", and of a simulated cluster "pulls", and "collective" if that is a ring.

    Raises:
        ValueError: If it is something else, or a scenario of a `Pipeline` or of `Rollouts`, whose messages are
            activations or samples.

    Example:
        >>> import asyncsim as asim
        >>> rule = asim.rules.compressed(asim.rules.Downpour(0.1), asim.compressors.ScaledSign())
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> scenario = asim.Scenario(cluster, rule, asim.workloads.Quadratic([1.0] * 32), commits=10)
        >>> asim.costs.sizes(scenario)
        {'message_bytes': 8, 'parameter_bytes': 128, 'pulls': False}
        >>> result = asim.run(scenario)
        >>> asim.cost(result.trace, **asim.costs.sizes(result)).bytes_up
        80
    """
    if isinstance(of, Run):
        return sizes_of(of.rule, _parameters(of))
    scenario = getattr(of, "scenario", of)
    if not all(hasattr(scenario, name) for name in ("cluster", "rule", "workload")):
        raise ValueError(f"`of` must be a Scenario, a Result or a Run; got {type(of).__name__}. Give sizes yourself.")
    if isinstance(scenario.cluster, UNSIZED_CLUSTERS):
        kind, remedy = type(scenario.cluster).__name__, "Give `message_bytes` and `parameter_bytes` to `cost`."
        raise ValueError(f"`of` must be about updates; the messages of a {kind} are others. {remedy}")
    return sizes_of(scenario.rule, _parameters(of.run if scenario is not of else scenario), scenario.cluster)


def sizes_of(rule: Rule, params: Any, cluster: Any = None) -> dict[str, Any]:
    """Return the sizes for parameters like these, and with a simulated cluster whether workers pull."""
    message, size = message_bytes(rule, params), bytes_of(params)
    if isinstance(cluster, Gossip | Hierarchy) and cluster.network.message_bytes is not None:
        size = round(cluster.network.message_bytes)
    if not isinstance(cluster, Cluster):
        return {"message_bytes": message, "parameter_bytes": size}
    network, server = cluster.network, cluster.server
    whole = size if network.message_bytes is None else network.message_bytes
    if network.message_bytes is not None or network.compression != 1:
        share = network.compression if rule.compression is None else message / size
        message, size = round(whole * share), round(whole)
    pulls = not server.atomic and server.pull == "before_commit"
    ring = {} if network.collective == "none" else {"collective": network.collective}
    return {"message_bytes": message, "parameter_bytes": size, "pulls": pulls, **ring}


def _parameters(of: Any) -> Any:
    """Return the parameters, or their shapes."""
    if isinstance(of, Run) and not of.several:
        return of.central
    return first_shapes(of.workload, jax.random.key(0))


def sizes_in(trace: Trace, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `cost` from the bytes in a run's summary, or empty if it has none."""
    if any(summary.get(name) is None for name in BYTES):
        return {}
    done = int(summary["commits"])
    seconds = None if done == len(trace) else float(trace.commit_time[done - 1]) if done else 0.0
    end = end_of_trace(trace) if seconds is None else seconds
    up, down = (int(summary[name]) for name in BYTES)
    # A summary does not say whether workers pull. The bytes down are a multiple of the right number of answers.
    visible = shows_pulls(trace)
    for pulls in (visible, not visible):
        # Between workers on a graph, and from a region to the global server, parameters go up.
        sent, _ = bytes_by(trace, end, 1, 0, pulls)
        models, answers = bytes_by(trace, end, 0, 1, pulls)
        if down % max(answers, 1) == 0:
            size = down // answers if answers else up // max(models, 1)
            sizes = {"message_bytes": (up - models * size) // max(sent, 1), "parameter_bytes": size}
            return {**sizes, "pulls": pulls, "seconds": seconds}
    return {}
