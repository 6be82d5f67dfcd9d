"""A recorded trace in the place of a cluster: how long it is, what it is called, and what cannot be changed in it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.cluster import Cluster, cost
from asyncsim.remember import once_for_each
from asyncsim.scenario.components import COMPUTE, PROTOCOL, network_and_server_fields
from asyncsim.trace import Trace


@once_for_each
def describe_trace(trace: Trace) -> dict[str, Any]:
    """A recorded trace as plain data.

    Example:
        >>> describe_trace(Trace.from_commits([0, 1, 0]))
        {'workers': 2, 'commits': 3, 'trace': '8b9f422faa4346b1'}
    """
    return {"workers": trace.workers, "commits": len(trace), "trace": trace.digest}


def recorded_commits(trace: Trace, given: Mapping[str, Any]) -> int:
    """How many commits of a trace are replayed.

    Args:
        trace: The trace.
        given: At most one of "commits", "seconds" and "commits_per_worker"; without one, the whole trace.

    Raises:
        ValueError: If the trace does not have so many, or none so early.

    Example:
        >>> trace = Trace.from_commits([0, 1, 0, 1])  # at seconds 1, 2, 3, 4
        >>> recorded_commits(trace, {}), recorded_commits(trace, {"seconds": 2.5})
        (4, 2)
        >>> recorded_commits(trace, {"commits": 9})
        Traceback (most recent call last):
        ValueError: `commits` must be at most those of the recorded trace, 4; got 9. Leave it out for all.
    """
    if not len(trace):
        raise ValueError("`cluster` must be a trace with commits; got an empty one.")
    for name, value in given.items():
        if name == "seconds":
            commits = int(np.searchsorted(trace.commit_time, value, side="right"))
            if not commits:
                first = f"{trace.commit_time[0]:g}"
                raise ValueError(f"`seconds` must reach the first commit of the trace, at {first} s; got {value:g}.")
            return commits
        commits = value if name == "commits" else value * trace.workers
        if commits > len(trace):
            per = "" if name == "commits" else f" for {trace.workers} workers"
            raise ValueError(
                f"`{name}` must be at most those of the recorded trace, {len(trace)}{per}; got {value}. Leave it out "
                "for all."
            )
        return commits
    return len(trace)


def refuse_cluster_fields(trace: Trace, changes: Mapping[str, Any]) -> None:
    """Refuse to change the cluster of a scenario whose schedule is recorded.

    Raises:
        ValueError: If a change is one of the cluster's.
    """
    kinds = (COMPUTE, PROTOCOL)
    arguments = {field.name for kind in kinds for name in kind.constructors for field in kind.argument_fields(name, {})}
    fields = {"workers", "schedule_seed", *(kind.field for kind in kinds), *arguments}
    fields |= {field.name for field in network_and_server_fields()}
    for name in fields & changes.keys():
        raise ValueError(
            f"`{name}` cannot be changed: the schedule is a recorded trace of {trace.workers} workers. Give the "
            "scenario a Cluster to simulate others."
        )


def expected_commits(cluster: Cluster | Trace, total: int | None, seconds: float | None) -> float:
    """How many commits a schedule has, roughly if its length is a time."""
    return float(total or 0) if isinstance(cluster, Trace) else cost.expected_commits(cluster, total, seconds)
