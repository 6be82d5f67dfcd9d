"""A run as a user sees it: one line, and columns that pandas takes."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine._quantities import EVALUATIONS, QUANTITIES
from tests.problems import assert_refused, noisy_quadratic, tree_workload

TRACE = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=60, seed=1)
RULE = asim.rules.GEM(0.05)


def lengths(columns):
    return {len(column) for column in columns.values()}


def test_the_columns_are_those_of_the_trace_and_the_run():
    run = asim.replay(TRACE, RULE, noisy_quadratic(), commits=40)
    columns = run.to_columns(TRACE)
    assert list(columns) == ["commit", "worker", "time", "staleness", "loss"]
    assert lengths(columns) == {40}
    for name, expected in {
        "commit": np.arange(40),
        "worker": TRACE.worker[:40],
        "time": TRACE.commit_time[:40],
        "staleness": TRACE.staleness[:40],
        "loss": run.loss,
    }.items():
        np.testing.assert_array_equal(columns[name], expected)


def test_several_seeds_stand_one_below_the_other():
    record = {"energy_central": 3, "test_loss": 20}
    several = asim.replay(TRACE, RULE, noisy_quadratic(), seed=(3, 5), record=record)
    for method in ("to_columns", "records_to_columns"):
        columns = getattr(several, method)(TRACE)
        assert next(iter(columns)) == "seed"
        assert len(lengths(columns)) == 1
        for seed in (3, 5):
            single = asim.replay(TRACE, RULE, noisy_quadratic(), seed=seed, record=record)
            for name, column in getattr(single, method)(TRACE).items():
                np.testing.assert_allclose(columns[name][columns["seed"] == seed], column, rtol=1e-4, err_msg=name)


def test_records_stand_at_their_commits_and_nan_elsewhere():
    record = {"pi_median_by_tensor": 20, "pi_mean": 15}
    run = asim.replay(TRACE, RULE, tree_workload(), record=record)
    columns = run.records_to_columns(TRACE)
    tensors = [f"pi_median_by_tensor_{tensor}" for tensor in range(3)]
    assert list(columns) == ["commit", "worker", "time", "staleness", *tensors, "pi_mean"]
    assert columns["commit"].tolist() == [14, 19, 29, 39, 44, 59]
    expected = {
        "pi_mean": run.records["pi_mean"],
        **dict(zip(tensors, run.records["pi_median_by_tensor"].T, strict=True)),
    }
    for name, values in expected.items():
        recorded = (columns["commit"] + 1) % (15 if name == "pi_mean" else 20) == 0
        np.testing.assert_array_equal(columns[name][recorded], values)
        assert np.isnan(columns[name][~recorded]).all()


def test_the_staleness_is_that_of_the_rule():
    """A server that collects counts steps, so that the staleness is smaller than that of the trace."""
    columns = asim.replay(TRACE, asim.rules.FedBuff(0.1, buffer=4), noisy_quadratic()).to_columns(TRACE)
    np.testing.assert_array_equal(columns["staleness"], np.arange(60) // 4 - TRACE.read_version // 4)


def test_without_commits_the_columns_are_empty():
    run = asim.replay(TRACE, RULE, noisy_quadratic(), commits=0)
    assert lengths(run.to_columns(TRACE)) == lengths(run.records_to_columns(TRACE)) == {0}


def against_time(run, trace):
    return asim.central_against_time(trace, run, "central")


@pytest.mark.parametrize("method", [asim.Run.to_columns, asim.Run.records_to_columns, against_time])
def test_another_trace_is_refused(method):
    run = asim.replay(TRACE, RULE, noisy_quadratic(), commits=40)
    other = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=60, seed=2)
    assert_refused(lambda: method(run, other), "`trace` must be the one that was replayed; the first 40 commits differ")


@pytest.mark.parametrize(
    ("rate", "seed", "record", "expected"),
    [
        (0.1, 0, (), "seed 0; loss"),
        (0.1, (0, 1), ("energy_central",), "2 seeds; loss, energy_central"),
        (1e30, 0, (), "seed 0, diverged at commit "),
        (np.array([0.1, 1e30]), (0, 1), (), "2 seeds, 1 diverged; loss"),
    ],
)
def test_a_run_prints_in_one_line(rate, seed, record, expected):
    run = asim.replay(TRACE, asim.rules.Downpour(rate), noisy_quadratic(), seed, record=record)
    assert repr(run).startswith(f"Run(downpour on noisy_gradient, 4 workers, {run.commits} commits, {expected}")
    assert "\n" not in repr(run)


def test_the_docstring_of_replay_names_every_quantity():
    for name in (*QUANTITIES, *EVALUATIONS):
        assert f'"{name}"' in asim.replay.__doc__


def test_a_replay_leaves_the_global_seed_alone():
    """Nothing draws from NumPy's global generator, and nothing sets it."""
    runs = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        trace = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=60)
        loss = asim.replay(trace, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0], 0.5)).loss
        runs.append((trace.commit_time, loss))
        np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
