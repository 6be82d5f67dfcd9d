"""Commits, time and memory of a schedule and its replay, estimated before either begins.

A `cluster` is None if the schedule is a recorded trace, or that of a class of the user's, about which nothing is known
before it is simulated. With a cluster, one of `commits` and `seconds` is None.
"""

from asyncsim.cluster import Cluster
from asyncsim.cluster import _simulation as simulation
from asyncsim.engine import _preconditions as preconditions
from asyncsim.engine._layout import Packing, row_packing
from asyncsim.rules import Rule

MOST_COMMITS_PER_SECOND = 2e6  # of a replay on a CPU, however small the model
MOST_WORK_PER_SECOND = 1e10  # parameters × batch of dense layers on two cores (convolutions reach less)


def expected_commits(cluster: Cluster | None, commits: int | None, seconds: float | None) -> float | None:
    """Estimate the commits of a schedule, or return None if only a simulation can tell."""
    return commits if cluster is None else simulation.expected_commits(cluster, commits, seconds)


def expected_seconds(
    cluster: Cluster | None, commits: int | None, seconds: float | None, work_per_commit: float
) -> float:
    """Return the seconds that the schedule and the replay take at least, on a machine of today.

    `work_per_commit` is parameters × batch size × gradients.
    """
    count = expected_commits(cluster, commits, seconds) or 0.0
    replay = max(count / MOST_COMMITS_PER_SECOND, count * work_per_commit / MOST_WORK_PER_SECOND)
    return replay if cluster is None else replay + simulation.expected_seconds(cluster, commits, seconds)


def require_memory(
    cluster: Cluster | None, commits: int | None, seconds: float | None, *, workers: int, rule: Rule, params: Packing
) -> None:
    """Refuse a schedule or a replay, but for its records, for which this machine does not have the memory."""
    if cluster is not None:
        simulation.require_memory(cluster, commits, seconds)
    row = row_packing(rule, params, ())
    preconditions.require_memory(rule, params, row, workers=workers, seeds=1, commits=commits or 0)
