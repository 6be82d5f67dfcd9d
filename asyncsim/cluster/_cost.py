"""What a simulation takes at least: memory and time, estimated before it is begun."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from asyncsim import _memory as memory
from asyncsim.cluster._model import Cluster

# Bytes and seconds measured, rounded down: fast path and queue, and the others, least without a network.
BYTES_PER_COMMIT = (100, 150)
BYTES_PER_WORKER = 200
SECONDS_PER_COMMIT = (1e-6, 2e-6)
SECONDS_PER_WORKER = 1e-5


def require_workers(cluster: Cluster) -> None:
    """Refuse more workers than the machine has memory for."""
    memory.require(cluster.workers * BYTES_PER_WORKER, f"`workers` of {cluster.workers}", "Use fewer.")


def require_memory(cluster: Cluster, commits: int | None, seconds: float | None) -> None:
    """Refuse a simulation for which the machine does not have the memory."""
    require_workers(cluster)
    kind = _kind(cluster)  # asks every worker's law, and so comes second
    name, value = ("commits", commits) if commits is not None else ("seconds", seconds)
    expected = expected_commits(cluster, commits, seconds)
    memory.require(expected * BYTES_PER_COMMIT[kind], f"`{name}` of {value}", "Use fewer, or make several traces.")


def expected_seconds(cluster: Cluster, commits: int | None, seconds: float | None) -> float:
    """Seconds that a simulation takes at least, on a machine of today."""
    kind = _kind(cluster)
    commits_made = expected_commits(cluster, commits, seconds)
    return commits_made * SECONDS_PER_COMMIT[kind] + cluster.workers * SECONDS_PER_WORKER


def _kind(cluster: Cluster) -> int:
    """Place of what is measured for such a cluster."""
    return int(not (cluster.takes_fast_path or cluster.takes_fast_queue))


def expected_commits(cluster: Cluster, commits: int | None, seconds: float | None) -> float:
    """Commits of a simulation; 0 where the length does not tell, as seconds do not where workers wait."""
    if commits is not None:
        return float(commits)
    if seconds is None or not cluster.takes_fast_path:
        return 0.0
    means = [law.mean for law in cluster.laws]
    return float(seconds) * sum(1 / mean for mean in means) if all(mean > 0 for mean in means) else 0.0


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for cyclic garbage: a run leaves none, and the search through all events takes longer than they do."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
