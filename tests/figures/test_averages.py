"""Means over blocks of commits per worker."""

import numpy as np
import pytest

import asyncsim as asim
from figures.common.averages import ends, loss_curve, record_curve
from figures.common.figure_set import RunCache

pytestmark = pytest.mark.quick

RECORD = {"energy_central": 1, "pi_median": 4, "pi_median_by_tensor": 4}


@pytest.fixture(scope="module")
def run():
    return compute_run(0.01)


def compute_run(learning_rate):
    cluster, rule = asim.Cluster(4, asim.delays.Gamma(mean=1.0, cv=0.3)), asim.rules.GEM(learning_rate)
    workload = asim.workloads.Quadratic([1.0, 0.1])
    return RunCache().get(asim.Scenario(cluster, rule, workload, commits_per_worker=33, record=RECORD))


def test_loss_is_the_mean_of_each_block(run):
    curve = loss_curve(run, block=5)
    assert curve["worker_steps"].tolist() == [5, 10, 15, 20, 25, 30]
    expected = [run.loss[20 * k : 20 * k + 20].mean(dtype=float) for k in range(6)]
    np.testing.assert_allclose(curve["training_loss"], expected, rtol=1e-12)


@pytest.mark.parametrize("name", list(RECORD))
def test_records_are_the_mean_of_each_block(run, name):
    values, at = run.records[name], run.recorded_at[name]
    means = record_curve(run, name, block=5)
    assert len(means) == len(ends(run, 5))
    for k, mean in enumerate(means):
        inside = (20 * k <= at) & (at < 20 * k + 20)
        np.testing.assert_allclose(mean, values[inside].mean(axis=0, dtype=float), rtol=1e-6)


def test_records_are_nan_after_divergence():
    assert np.isnan(record_curve(compute_run(1e12), "pi_median")[-1])


def test_a_quantity_that_was_not_recorded_is_an_error(run):
    with pytest.raises(ValueError, match=r"`name` must be a recorded quantity; got 'pi'\. Recorded were energy_"):
        record_curve(run, "pi")
