"""Mean losses in intervals of simulated time."""

from dataclasses import replace

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine.time_axis import mean_by_time
from tests.problems import assert_refused, noisy_quadratic, refusals

pytestmark = pytest.mark.quick


TRACE = asim.simulate(asim.Cluster(3, asim.delays.Exponential(1.0)), commits=60)
RULE, WORKLOAD = asim.rules.Downpour(0.1), noisy_quadratic()


def test_mean_losses_of_several_seeds_are_each_their_own():
    edges = np.linspace(0, TRACE.seconds, 5)
    both = asim.loss_against_time(TRACE, asim.replay(TRACE, RULE, WORKLOAD, [0, 1]), edges)
    for seed in (0, 1):
        one = asim.loss_against_time(TRACE, asim.replay(TRACE, RULE, WORKLOAD, seed), edges)
        np.testing.assert_allclose(both[seed], one, rtol=1e-5)


def test_a_record_of_the_central_variable_holds_until_the_next():
    run = asim.replay(TRACE, RULE, WORKLOAD, (0, 1), record={"central": 7, "energy_central": 1})
    time, value = asim.central_against_time(TRACE, run, "central")
    np.testing.assert_array_equal(time, TRACE.commit_time[6::7])
    np.testing.assert_array_equal(value, run.records["central"])
    between = np.concatenate([time[:-1] + np.diff(time) / 2, [time[-1] + 1.0]])
    for times in (time, between):
        np.testing.assert_array_equal(asim.central_against_time(TRACE, run, "central", times)[1], value)
    early = asim.central_against_time(TRACE, run, "central", [time[0] - 1e-9, time[0]])[1]
    assert early.shape == (2, 2, 3)
    assert np.isnan(early[:, 0]).all()
    np.testing.assert_array_equal(early[:, 1], value[:, 0])
    assert asim.central_against_time(TRACE, run, "energy_central", [0.0, 5.0])[1].shape == (2, 2)


def test_values_before_the_first_record_are_nan():
    run = asim.replay(TRACE, RULE, WORKLOAD, commits=4, record={"central": 7})
    assert asim.central_against_time(TRACE, run, "central")[1].shape == (0, 3)
    assert np.isnan(asim.central_against_time(TRACE, run, "central", [0.0, 9.0])[1]).all()


test_what_is_refused = refusals(
    (
        lambda run: asim.central_against_time(TRACE, run, "loss"),
        r"`name` must be a recorded quantity, here one of \['central'\]; got 'loss'",
    ),
    (lambda run: asim.loss_against_time(TRACE, run, [0.0, 0.0]), "`edges` must be two or more increasing times"),
    call=lambda ask: ask(asim.replay(TRACE, RULE, WORKLOAD, commits=4, record={"central": 7})),
)


OTHERS = {
    "another seed": asim.simulate(asim.Cluster(3, asim.delays.Exponential(1.0)), commits=60, seed=1),
    "fewer commits": asim.simulate(asim.Cluster(3, asim.delays.Exponential(1.0)), commits=59),
    "more workers": asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=60),
}


@pytest.mark.parametrize("is_data", [False, True])
@pytest.mark.parametrize("trace", OTHERS.values(), ids=OTHERS)
def test_another_trace_than_the_one_that_was_replayed_is_refused(trace, is_data):
    """Also for a run that was loaded without its rule and its workload."""
    run = asim.replay(TRACE, RULE, WORKLOAD, record={"central": 7})
    whole = asim.loss_against_time(TRACE, run, [0.0, 9.0])
    run = replace(run, rule=None, workload=None, state=None) if is_data else run
    np.testing.assert_array_equal(asim.loss_against_time(TRACE, run, [0.0, 9.0]), whole)
    for read in (
        lambda: asim.loss_against_time(trace, run, [0.0, 9.0]),
        lambda: asim.central_against_time(trace, run, "central"),
    ):
        assert_refused(read, "`trace` must be the one that was replayed; the first 60 commits differ")


def test_an_interval_includes_its_upper_bound():
    means = mean_by_time([0.0, 0.5, 1.0, 2.9, 4.0], [1, 3, 5, 7, 9], [0.0, 1.0, 2.0, 2.5, 3.0])
    np.testing.assert_array_equal(means, [3.0, np.nan, np.nan, 7.0])
    means = mean_by_time([0.5, 1.5, 2.5], [1, np.nan, np.nan], np.arange(4.0))
    np.testing.assert_array_equal(means, [1.0, np.nan, np.nan])
