"""Workers in regions, for movies: around their region's server, and the servers around the global one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.animation._graph import Floats, GraphFilm, count_changes
from asyncsim.trace import Trace
from asyncsim.trace._variables import mixed_rows, variable_of_worker

ORBIT = 0.68  # of the regions' servers around the global one
NEAR, CLEARANCE = 0.32, 0.75  # largest radius of a region, and share of the room between two servers
SHORTEST = 0.55  # share of the orbit at which a server without a way is, while the farthest is on the orbit


def make_regions(trace: Trace, begin: float, end: float, per_second: float, rows: NDArray[np.int64]) -> GraphFilm:
    """Return the levels of a hierarchy's trace between two times, as a graph with the global server behind all workers.

    A message is a commit, a push, the answer to one, or the value that a worker reads over a network.
    """
    variable = variable_of_worker(trace).astype(np.int64)
    computing, middle = trace.computing, trace.workers
    # The servers of regions are the last workers, in the order of their variables.
    server_of = np.append(np.full(trace.variables, middle), middle)
    server_of[trace.pushes_from[computing:]] = np.arange(computing, middle)  # type: ignore[index]
    towards = server_of[variable]
    merges = mixed_rows(trace)
    answers = (server_of[trace.mixings.target[merges]], *_answers(trace, merges, server_of))
    reads = np.flatnonzero((trace.start_time > trace.read_time) & (trace.worker < computing))
    messages = [
        (trace.worker, trace.finish_time, trace.arrive_time),
        answers,
        (trace.worker[reads], trace.read_time[reads], trace.start_time[reads]),
    ]
    down = np.repeat([False, True, True], [len(workers) for workers, *_ in messages])
    worker, first, last = (np.concatenate(columns) for columns in zip(*messages, strict=True))
    inside = np.flatnonzero((last >= begin) & (last <= end))
    inside = inside[np.argsort(last[inside], kind="stable")]
    kinds, kind = np.unique(2 * worker[inside].astype(np.int64) + down[inside], return_inverse=True)
    ends = [(each // 2, int(towards[each // 2])) for each in kinds.tolist()]
    senders = [pair[::-1] if each % 2 else pair for each, pair in zip(kinds.tolist(), ends, strict=True)]
    base, changes = count_changes(trace, begin, end, per_second)
    return GraphFilm(
        places=lay_out_regions(variable[:computing], _ways(server_of[: trace.variables - 1], messages[:2])),
        edges=np.stack([np.arange(middle), towards], axis=1),
        senders=tuple(np.array([pair], np.int64) for pair in senders),
        kind=kind.astype(np.int64),
        first=np.round(np.minimum(first, last)[inside] * per_second),
        last=np.round(last[inside] * per_second),
        variable=variable,
        base=base,
        changes=changes,
        staleness=trace.staleness[rows].astype(np.int64),
        distance_at=np.zeros(0, np.int64),
        distance=np.zeros((0, trace.workers)),
    )


def _answers(trace: Trace, merges: NDArray[np.int64], server_of: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return when the global server sent the value of each merge, at the commit of the last push, and its arrival."""
    arrived = trace.mixings.time[merges]
    sent = arrived.copy()
    for region in np.unique(trace.mixings.target[merges]):
        of_region = trace.mixings.target[merges] == region
        pushed = trace.commit_time[trace.worker == server_of[region]]
        place = np.searchsorted(pushed, arrived[of_region], side="right")
        sent[of_region] = np.append(pushed, 0.0)[place - 1]
    return sent, arrived


def _ways(servers: NDArray[np.int64], messages: list[tuple[Any, ...]]) -> Floats:
    """Return the mean seconds of the messages between each region's server and the global one, 0 without any."""
    worker, sent, arrived = (np.concatenate(columns) for columns in zip(*messages, strict=True))
    most = servers.max() + 1
    counts, seconds = np.bincount(worker, minlength=most), np.bincount(worker, arrived - sent, minlength=most)
    return seconds[servers] / np.maximum(counts[servers], 1)


def lay_out_regions(region_of: NDArray[np.int64], ways: Floats) -> Floats:
    """Return places of the workers, the regions' servers and the global one, which is the centre.

    A region is the nearer to the centre, and the smaller, the fewer seconds its way there takes, next to the longest.
    """
    regions, longest = len(ways), ways.max()
    share = SHORTEST + (1 - SHORTEST) * (ways / longest if longest else np.ones(regions))
    turn = np.pi / 2 - 2 * np.pi * np.arange(regions) / regions
    servers = ORBIT * share[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    near = min(NEAR, CLEARANCE * ORBIT * np.sin(np.pi / regions)) if regions > 1 else NEAR
    places = np.zeros((len(region_of), 2))
    for region in range(regions):
        workers = np.flatnonzero(region_of == region)
        # An odd worker is on the outside, so that none is on the edge between the two servers.
        angle = turn[region] + np.pi * (2 * np.arange(len(workers)) + 1 - len(workers) % 2) / max(len(workers), 1)
        places[workers] = servers[region] + share[region] * near * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([places, servers, np.zeros((1, 2))])
