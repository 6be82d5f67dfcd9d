"""A recorded trace in the place of a cluster: how long it is, what it is called, and what cannot be changed in it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.cluster import Cluster
from asyncsim.cluster import _simulation as simulation
from asyncsim.scenario._clusters import network_and_server_fields
from asyncsim.scenario._components import COMPUTE, PROTOCOL
from asyncsim.trace import Trace


def recorded_commits(trace: Trace, given: Mapping[str, Any]) -> int:
    """How many commits of a trace are replayed."""
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
    """Refuse to change the cluster of a scenario whose schedule is recorded."""
    kinds = (COMPUTE, PROTOCOL)
    arguments = {field.name for kind in kinds for name in kind.constructors for field in kind.argument_fields(name, {})}
    fields = {"workers", "schedule_seed", *(kind.field for kind in kinds), *arguments}
    fields |= {field.name for field in network_and_server_fields()}
    for name in fields & changes.keys():
        raise ValueError(
            f"`{name}` cannot be changed: the schedule is a recorded trace of {trace.workers} workers. Give the "
            "scenario a Cluster to simulate others."
        )


def expected_commits(cluster: Any, total: int | None, seconds: float | None) -> float:
    """How many commits a schedule has, roughly if its length is a time."""
    return simulation.expected_commits(cluster, total, seconds) if isinstance(cluster, Cluster) else float(total or 0)
