"""From a cluster to its trace: the event loop, and the memory and time that it needs at least."""

import gc
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np

from asyncsim import _memory as memory
from asyncsim._checks import brief, require_count, require_integer, require_positive
from asyncsim.cluster._events import Report, run_until
from asyncsim.cluster._full import FullSimulation
from asyncsim.cluster._model import Cluster, Network
from asyncsim.cluster._no_network import FastPath, FastQueue, NoNetwork
from asyncsim.components._checked import checked
from asyncsim.trace import Trace
from asyncsim.trace._columns import MOST_COMMITS

# Measured bytes and seconds, rounded down: for fast path and queue, and for the others, where no network costs least.
BYTES_PER_COMMIT = (90, 150)
BYTES_PER_WORKER = 200
SECONDS_PER_COMMIT = (1e-6, 2e-6)
SECONDS_PER_WORKER = 1e-5


class Simulated(NamedTuple):
    """The progress of a simulation."""

    commits: int  # commits so far
    seconds: float  # simulated time so far
    share: float  # the part of the commits or seconds that were asked for, from 0 to 1


Progress = Callable[[Simulated], None]


class OwnSchedule(Protocol):
    """A kind of cluster that makes its own trace: `Pipeline`, `Rollouts`, or one of the user's.

    Its method is called with exactly one of `commits` and `seconds`, and also with `progress` if it has such an
    argument, a function of the commits, the seconds and the share of the run that is done. Where it has no attribute
    `workers`, a `Scenario` counts those of the trace.
    """

    @property
    def simulate(self) -> Callable[..., Trace]:
        """The trace: `simulate(*, commits: int | None, seconds: float | None, seed: int) -> Trace`."""
        ...


def require_cluster(name: str, cluster: Any) -> Any:
    """Return a cluster, or another object that can be simulated."""
    if isinstance(cluster, Cluster) or {"commits", "seconds", "seed"} <= _arguments(cluster):
        return cluster
    raise ValueError(
        f"`{name}` must be an asyncsim.Cluster; got {brief(cluster)}. Give `Cluster(workers, compute)`, a Pipeline, "
        "Rollouts, or an object with a method `simulate(self, *, commits, seconds, seed)`."
    )


def _arguments(cluster: Any) -> set[str]:
    """Return the names of the arguments of the method `simulate`, if there is one."""
    method = None if isinstance(cluster, type) else getattr(cluster, "simulate", None)
    return set(inspect.signature(method).parameters) if callable(method) else set()


@checked
def simulate(
    cluster: Annotated[Cluster | OwnSchedule, require_cluster],
    *,
    commits: Annotated[int, require_count, "Ask for one commit or more."] | None = None,
    seconds: Annotated[float, require_positive, "Ask for a positive simulated time."] | None = None,
    seed: Annotated[int, require_integer, "Give the run another seed."] = 0,
    progress: Progress | None = None,
) -> Trace:
    """Run the cluster: schedule every read, computation and commit of every worker.

    All workers have version 0 at time 0. Events at the same time are handled first-in, first-out, so that equal
    constant delays give an exact round robin. A law with spread is the jitter that breaks such ties. Worker w draws
    from streams of its own, which depend on (seed, w) and the purpose alone: adding a worker leaves the others' delays
    as they were, and a longer run begins with the shorter one.

    Args:
        cluster: The cluster to run, a pipeline (a commit is a micro-batch), rollouts (a commit is a group), or an
            object of your own with a method `simulate(*, commits, seconds, seed)`.
        commits: Stop after this many commits. Give this or `seconds`.
        seconds: Stop after the commits up to this simulated time, inclusive. Before the first one, the trace
            is empty and holds n jobs in flight.
        seed: Seed of the delays, an integer of at least 0.
        progress: Called with a `Simulated(commits, seconds, share)` every few tenths of a second.

    Returns:
        A checked trace. Jobs that did not commit are in `trace.unfinished`, faults in `trace.faults`.

    Raises:
        ValueError: If an argument does not fit, this machine does not have the memory for it, a delay is negative, NaN
            or infinite (you get worker, value and simulated time), `seconds` would never pass because delays are zero
            or too short, or `commits` never come, for example because a protocol waits for workers that are down.

    Example:
        >>> from asyncsim.delays import Constant
        >>> trace = simulate(Cluster(workers=3, compute=Constant(2.0)), commits=7)
        >>> trace.worker.tolist(), trace.staleness.tolist()
        ([0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 2, 2, 2, 2])
        >>> trace.seconds
        6.0
    """
    _require_length(commits, seconds)
    report = None if progress is None else lambda *far: progress(Simulated(*far))
    with collector_paused():
        if isinstance(cluster, Cluster):
            return run(_choose_simulation(cluster, seed), commits, seconds, report)
        optional = {"progress": report} if report is not None and "progress" in _arguments(cluster) else {}
        trace = cluster.simulate(commits=commits, seconds=seconds, seed=seed, **optional)
    if not isinstance(trace, Trace):
        kind = type(cluster).__name__
        raise ValueError(f"`simulate` of {kind} must give a Trace; got {type(trace).__name__}. Make one by `Trace(…)`.")
    trace.check()
    return trace


def _choose_simulation(cluster: Cluster, seed: int) -> FastPath | NoNetwork | FullSimulation:
    """Return the fastest simulation that suits the cluster."""
    require_message_size(cluster.network)
    require_workers(cluster)
    if cluster.takes_fast_path:
        return FastPath(cluster, seed)
    if cluster.takes_fast_queue:
        return FastQueue(cluster, seed)
    return NoNetwork(cluster, seed) if cluster.has_no_network else FullSimulation(cluster, seed)


def require_message_size(network: Network) -> None:
    """Refuse a network with limited links and messages of unknown size."""
    if network.limits_bytes and network.message_bytes is None:
        raise ValueError(
            "`message_bytes` must be given with a finite `bandwidth`; got None with "
            f"{network.least_bandwidth:g} bytes per second. Give the network 4 times the number of parameters."
        )


def run(
    simulation: FastPath | NoNetwork | FullSimulation,
    commits: int | None,
    seconds: float | None,
    report: Report | None = None,
) -> Trace:
    """Run a simulation for some commits or seconds, of which one is None (see `simulate`), and return its trace."""
    cluster = simulation.cluster
    if seconds is not None and cluster.takes_fast_path:
        for worker, law in enumerate(cluster.laws):
            if law.mean == 0:
                raise ValueError(
                    f"`seconds` never pass while worker {worker} has only zero delays; got {seconds} "
                    f"and {law!r}. Use `commits` instead."
                )
        expected = expected_commits(cluster, None, seconds)
        if expected is not None and expected > MOST_COMMITS:
            raise ValueError(
                f"`seconds` must give at most {MOST_COMMITS} commits; got {seconds}, about {expected:.2g} "
                "commits. Use fewer seconds or longer delays."
            )
    require_memory(cluster, commits, seconds)
    run_until(simulation, commits, seconds, report, cluster.workers)
    trace = simulation.trace()
    if cluster.local_steps is None:
        return trace
    return replace(trace, local_steps=np.broadcast_to(np.asarray(cluster.local_steps, np.int32), cluster.workers))


def _require_length(commits: int | None, seconds: float | None) -> None:
    """Refuse a number of commits and a time unless exactly one of them is None."""
    if (commits is None) == (seconds is None):
        raise ValueError(
            f"Exactly one of `commits` and `seconds` must be given; got {brief(commits)} and {brief(seconds)}. "
            "Ask for a number of commits or for a simulated time."
        )
    if commits is not None and commits > MOST_COMMITS:
        raise ValueError(f"`commits` must be at most {MOST_COMMITS}; got {brief(commits)}. Make several traces.")


def require_workers(cluster: Cluster) -> None:
    """Refuse more workers than the machine has memory for."""
    memory.require(cluster.workers * BYTES_PER_WORKER, f"`workers` of {brief(cluster.workers)}", "Use fewer.")


def require_memory(cluster: Cluster, commits: int | None, seconds: float | None) -> None:
    """Refuse a simulation for which the machine does not have the memory."""
    require_workers(cluster)
    name, value = ("commits", commits) if commits is not None else ("seconds", seconds)
    size = (expected_commits(cluster, commits, seconds) or 0.0) * BYTES_PER_COMMIT[_kind(cluster)]
    memory.require(size, f"`{name}` of {brief(value)}", "Use fewer, or make several traces.")


def expected_seconds(cluster: Cluster, commits: int | None, seconds: float | None) -> float:
    """Return the seconds that a simulation takes at least, on a machine of today."""
    kind = _kind(cluster)
    commits_made = expected_commits(cluster, commits, seconds) or 0.0
    return commits_made * SECONDS_PER_COMMIT[kind] + cluster.workers * SECONDS_PER_WORKER


def _kind(cluster: Cluster) -> int:
    """Return the index of the measurements for such a cluster."""
    return int(not (cluster.takes_fast_path or cluster.takes_fast_queue))


def expected_commits(cluster: Cluster, commits: int | None, seconds: float | None) -> float | None:
    """Estimate the commits of a simulation, or None if its length does not tell, for example if workers wait."""
    if commits is not None:
        return float(min(commits, sys.float_info.max))  # an integer may be larger than every float
    if seconds is None or not cluster.takes_fast_path:
        return None
    require_workers(cluster)  # before there is a law for each
    means = [law.mean for law in cluster.laws]
    return float(seconds) * sum(1 / mean for mean in means) if all(mean > 0 for mean in means) else None


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a run leaves no cycles, and a search through all events takes longer than these."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
