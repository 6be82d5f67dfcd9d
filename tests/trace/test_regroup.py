"""The same order of commits with earlier pulls. (Steps of several commits are tested with the clusters.)"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim.delays import Constant, Exponential
from asyncsim.trace import Trace, with_gap
from tests.problems import refusals
from tests.trace.test_trace import assert_equal

pytestmark = pytest.mark.quick

ORDERS = st.lists(st.integers(0, 4), min_size=1, max_size=60)


def test_no_gap_is_the_atomic_trace():
    trace = asim.simulate(asim.Cluster(4, Exponential(1.0)), commits=50)
    assert with_gap(trace, 0) is trace


@settings(max_examples=30)
@given(ORDERS, st.integers(1, 8))
def test_each_worker_pulls_as_many_commits_before_its_own_as_it_can(order, gap):
    """It cannot pull before its own previous commit, as it pulls once for each. All else stays."""
    before = Trace.from_commits(order, 0.5 * np.arange(len(order)), workers=5)
    trace = with_gap(before, gap)
    assert_equal(trace, before, ("worker", "version", "closes_step", "commit_time"))
    for row, w in enumerate(order):
        own = [k for k in range(row) if order[k] == w]
        after_own = own[-1] + 1 if own else 0
        assert trace.pull_version[row] == max(row - gap, after_own)
        assert trace.resumes_own[row] == bool(own)
        if own:
            others = [w != v for v in order[trace.pull_version[own[-1]] : row]]
            assert trace.staleness[row] == sum(others)


@pytest.mark.parametrize("gap", [1, 2, 3])
def test_in_turn_the_staleness_is_longer_by_the_gap(gap):
    trace = with_gap(asim.simulate(asim.Cluster(5, Constant(1.0)), commits=50), gap)
    assert (trace.staleness[10:] == 4 + gap).all()


CRASH = asim.faults.Crash(worker=1, time=3.5, restart_after=1.0)


test_other_steps_or_faults_are_refused = refusals(
    (({"protocol": asim.protocols.Synchronous()}, 1), "`trace` must have a step for every commit, and no faults"),
    (({"faults": [CRASH]}, 1), "`trace` must have a step for every commit, and no faults"),
    (({}, -1), "`commits` must be an integer of at least 0; got -1"),
    call=lambda given: with_gap(asim.simulate(asim.Cluster(2, Constant(1.0), **given[0]), commits=10), given[1]),
)
