"""The traits of a trace, one small trace by hand, and the differences that a run's digest distinguishes."""

import dataclasses

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine._plan import make_plan
from asyncsim.engine.reference import replay_plainly
from tests.problems import TRACES, make_trace

pytestmark = pytest.mark.quick

# One row per commit: worker, read_version, version, pull_version, closes_step, state_lost, read_time, commit_time.
NAMES = ("worker", "read_version", "version", "pull_version", "closes_step", "state_lost", "read_time", "commit_time")
ROWS = [
    (0, 0, 0, 0, False, False, 0, 1),
    (1, 0, 0, 0, True, False, 0, 2),  # closes the step of two
    (2, 0, 1, 0, True, False, 0, 3),  # pulled at the start
    (0, 1, 2, 2, True, False, 2, 4),  # read when the step was closed, one row after its own commit
    (1, 2, 3, 3, True, True, 3, 5),  # lost its state, and began anew after worker 2's commit
    (2, 2, 4, 3, True, False, 3, 6),  # read at once, and pulled after worker 0's commit
]


def by_hand():
    return make_trace(3, [dict(zip(NAMES, row, strict=True)) for row in ROWS])


def test_a_plan_equals_that_by_hand():
    plan = make_plan(by_hand())
    assert plan.traits == ("buffer", "resume", "begin", "pull")
    assert plan.read_row.tolist() == [-1, -1, -1, 1, 2, 2]
    assert plan.collected.tolist() == [1, 2, 1, 1, 1, 1]
    assert plan.reads_at_commit.tolist() == [False, True, True, True, True, True]
    assert plan.late_pull.tolist() == [True, True, False, True, True, False]
    happens = {name: (events.row.tolist(), events.worker.tolist()) for name, events in plan.events.items()}
    assert happens == {"resume": ([1], [0]), "begin": ([2], [1]), "pull": ([-1, 3], [2, 2])}


def test_the_replay_of_that_plan_equals_that_by_hand():
    """Downpour with η = 0.5 on x²/2 from 1; x is 1, .5, 0, -.25, -.25, -.25 from version to version."""
    rule, workload = asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0])
    for run in (replay_plainly(by_hand(), rule, workload), asim.replay(by_hand(), rule, workload)):
        assert run.loss.tolist() == [0.5, 0.5, 0.5, 0.125, 0.0, 0.0]
        assert run.central["x"].tolist() == [-0.25]
    assert run.loss.dtype == np.float32  # the default


def test_an_unfinished_step_is_not_applied():
    trace = make_trace(3, [dict(zip(NAMES, row, strict=True)) for row in ROWS[:1]])
    run = asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0]))
    assert run.central["x"].tolist() == [1.0]


@pytest.mark.parametrize("kind", TRACES)
def test_jobs_that_never_committed_do_not_matter(kind):
    trace = TRACES[kind][0](seed=2)
    plan = make_plan(trace)
    assert plan.traits == TRACES[kind][1]
    alone = dataclasses.replace(trace, unfinished=by_hand().unfinished)
    assert len(trace.unfinished) > len(alone.unfinished) == 0
    assert make_plan(alone).digest(60) == plan.digest(60)


@pytest.mark.parametrize(
    ("column", "row", "value", "since"),
    [("read_version", 3, 2, 2), ("state_lost", 5, True, 3), ("pull_version", 5, 4, 4), ("closes_step", 5, False, 6)],
)
def test_a_digest_depends_on_everything_that_shapes_the_state_and_no_more(column, row, value, since):
    """What the job of a later commit reads or pulls counts from the row after which it happens."""
    changed = [dict(zip(NAMES, one, strict=True)) for one in ROWS]
    changed[row][column] = value
    changed[3]["read_time"] = 1 + changed[3]["read_version"]
    one, other = make_plan(by_hand()), make_plan(make_trace(3, changed))
    same = [one.digest(commits) == other.digest(commits) for commits in range(7)]
    assert same == [commits < since for commits in range(7)]
