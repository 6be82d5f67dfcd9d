"""Mean losses in intervals of simulated time."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine.time_axis import mean_by_time
from tests.problems import assert_refused

pytestmark = pytest.mark.quick


class TestLossAgainstTime:
    trace = asim.simulate(asim.Cluster(3, asim.delays.Exponential(1.0)), commits=100)
    rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0], noise=0.1)

    def test_several_seeds_are_each_their_own(self):
        edges = np.linspace(0, self.trace.seconds, 5)
        both = asim.loss_against_time(self.trace, asim.replay(self.trace, self.rule, self.workload, [0, 1]), edges)
        for seed in (0, 1):
            one = asim.loss_against_time(self.trace, asim.replay(self.trace, self.rule, self.workload, seed), edges)
            np.testing.assert_allclose(both[seed], one, rtol=1e-5)

    def test_edges_must_increase(self):
        run = asim.replay(self.trace, self.rule, self.workload, commits=5)
        with pytest.raises(ValueError, match="`edges` must be two or more increasing times"):
            asim.loss_against_time(self.trace, run, [0.0, 0.0])


class TestCentralAgainstTime:
    trace = asim.simulate(asim.Cluster(3, asim.delays.Exponential(1.0)), commits=60)
    rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0, 0.5], noise=0.1)

    def test_a_record_holds_until_the_next(self):
        run = asim.replay(self.trace, self.rule, self.workload, (0, 1), record={"central": 7, "energy_central": 1})
        time, value = asim.central_against_time(self.trace, run, "central")
        np.testing.assert_array_equal(time, self.trace.commit_time[6::7])
        np.testing.assert_array_equal(value, run.records["central"])
        between = np.concatenate([time[:-1] + np.diff(time) / 2, [time[-1] + 1.0]])
        for times in (time, between):
            np.testing.assert_array_equal(asim.central_against_time(self.trace, run, "central", times)[1], value)
        early = asim.central_against_time(self.trace, run, "central", [time[0] - 1e-9, time[0]])[1]
        assert early.shape == (2, 2, 2)
        assert np.isnan(early[:, 0]).all()
        np.testing.assert_array_equal(early[:, 1], value[:, 0])
        assert asim.central_against_time(self.trace, run, "energy_central", [0.0, 5.0])[1].shape == (2, 2)

    def test_without_records_nothing_is_known(self):
        run = asim.replay(self.trace, self.rule, self.workload, commits=4, record={"central": 7})
        assert asim.central_against_time(self.trace, run, "central")[1].shape == (0, 2)
        assert np.isnan(asim.central_against_time(self.trace, run, "central", [0.0, 9.0])[1]).all()

    def test_another_name_is_refused(self):
        run = asim.replay(self.trace, self.rule, self.workload, commits=4, record=("central",))
        message = r"`name` must be a recorded quantity, here one of \['central'\]; got 'loss'"
        assert_refused(lambda: asim.central_against_time(self.trace, run, "loss"), message)


def test_an_interval_includes_its_upper_bound_and_without_numbers_it_is_nan():
    means = mean_by_time([0.0, 0.5, 1.0, 2.9, 4.0], [1, 3, 5, 7, 9], [0.0, 1.0, 2.0, 2.5, 3.0])
    np.testing.assert_array_equal(means, [3.0, np.nan, np.nan, 7.0])
    means = mean_by_time([0.5, 1.5, 2.5], [1, np.nan, np.nan], np.arange(4.0))
    np.testing.assert_array_equal(means, [1.0, np.nan, np.nan])
