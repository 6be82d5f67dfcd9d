"""Make a trace of another one: the same commits in other steps of the server, or with pulls that come earlier."""

from dataclasses import replace

import numpy as np

from asyncsim._checks import require_integer
from asyncsim.components._checked import checked
from asyncsim.trace._columns import NEVER, previous_own_row
from asyncsim.trace._invariants import read_versions
from asyncsim.trace._trace import Trace
from asyncsim.trace._variables import require_one_variable


def in_steps(trace: Trace, collect: int | None) -> Trace:
    """Return the trace of a server that collects some commits before it makes a step, on the same schedule."""
    closing = np.flatnonzero(trace.closes_step)
    if collect is None or (
        (np.diff(closing, prepend=-1) == collect).all() and len(trace) - trace.steps * collect < collect
    ):
        return trace
    if trace.steps != len(trace):
        commits_of_step = np.diff(closing, prepend=-1)
        size = "1 commit" if collect == 1 else f"1 or {collect} commits"
        raise ValueError(
            f"`trace` must be in steps of {size} for this rule; its first step that is not has "
            f"{commits_of_step[(commits_of_step != collect).argmax()]}. Simulate it with `protocols.Asynchronous()`."
        )
    rest = trace.unfinished
    closes_step = np.arange(1, len(trace) + 1) % collect == 0
    pull_version = trace.pull_version // collect
    # Where a worker goes on from its own value, its version counts its own step only if its commit closes one.
    own_read, own_rest_read = np.split(read_versions(trace, pull_version, closes_step), [len(trace)])
    read = np.where(trace.resumes_own, own_read, trace.read_version // collect)
    rest_read = np.where(rest.resumes_own, own_rest_read, rest.read_version // collect)
    ended = np.where(rest.end_version == NEVER, NEVER, rest.end_version // collect)
    return replace(
        trace,
        version=trace.version // collect,
        read_version=read,
        pull_version=pull_version,
        closes_step=closes_step,
        group_read_version=trace.group_read_version // collect,
        unfinished=replace(rest, read_version=rest_read, end_version=ended),
    )


@checked
def with_gap(trace: Trace, commits: int) -> Trace:
    """Return a trace of the same order of commits, in which this many come between a worker's pull and its own commit.

    Workers go on from the value that they pulled plus their own message, as with
    ``Server(atomic=False, resume="own")``, but the gap is a number of commits rather than a time. A worker pulls after
    its own previous commit, so that the gap is shorter where fewer than `commits` others came since: pull_version =
    max(version - commits, version after the own previous commit), which is 0 at first.

    Args:
        trace: A trace in which every commit is a step, without faults.
        commits: Commits of others between pull and commit, g. With 0 (atomic) the trace stays as it is.

    Returns:
        A checked trace with the same workers and commit times. Other times are filled in as by `Trace.from_columns`.

    Raises:
        ValueError: If `commits` is not an integer of at least 0, or the trace has steps of several commits or faults.

    Example:
        >>> trace = with_gap(Trace.from_commits([0, 1, 2, 0, 1, 2]), 1)
        >>> trace.pull_version.tolist(), trace.read_version.tolist()
        ([0, 0, 1, 2, 3, 4], [0, 0, 0, 1, 1, 2])
        >>> trace.staleness.tolist()
        [0, 1, 2, 2, 3, 3]
    """
    require_one_variable(trace, "Workers on a graph pull nothing from a server.")
    commits = require_integer("commits", commits, remedy="Use 0 for an atomic server.")
    if trace.steps != len(trace) or trace.state_lost.any() or len(trace.faults) or trace.groups:
        raise ValueError(
            "`trace` must have a step for every commit, and no faults or groups; got another. Simulate it with "
            "`protocols.Asynchronous()` and without `faults`."
        )
    if commits == 0:
        return trace
    # Every commit is a step, so that the version after a commit is its row plus 1.
    after_own = previous_own_row(trace.worker) + 1
    columns = {
        "worker": trace.worker,
        "pull_version": np.maximum(trace.version - commits, after_own),
        "commit_time": trace.commit_time,
    }
    again = Trace.from_columns(columns, workers=trace.workers, start=0.0, resume="own")
    # The schedule is a changed one, and no log has columns of it.
    return replace(again, names=trace.names, notes=trace.notes, derived=(), local_steps=trace.local_steps)
