"""The scenarios about rollouts: orders, splits of GPUs, discards, and stale policy gradients."""

import numpy as np
import pytest

from asyncsim.workloads import _bits
from tests.scenarios.run import load, run, run_loaded


def test_rollouts():
    numbers = run("rollouts", slots=48, group=2, batch=6, steps=200, seeds=2)
    assert numbers["order"].tolist() == ["submission", "window", "completion"]
    np.testing.assert_allclose(numbers["staleness"], 2.0, atol=0.03)
    assert (numbers["staleness_max"] <= numbers["largest_predicted"]).all()
    assert numbers["staleness_max"][:2].tolist() == [2, 3]
    assert (np.diff(numbers["throughput"]) > 0).all()
    assert numbers["throughput"][2] > 1.5 * numbers["throughput"][0]
    assert (numbers["throughput"] <= numbers["throughput_bound"]).all()
    np.testing.assert_allclose(numbers["shares"].sum(axis=1), 1.0)


def test_rollout_split():
    """The fastest split is the formula's, and a larger lead is faster and staler."""
    numbers = run("rollout_split", gpus=6, slots=8, batch=4, leads=(0.0, 1.0, 6.0), steps=80)
    sample, group = numbers["period"]
    assert numbers["formula_split"] == numbers["best_split"] == 3
    assert numbers["best_period"] == sample[-1].min()
    assert numbers["formula_leaves_out"] == "waiting for single samples"
    assert numbers["splits"][sample[-1].argmin()] == 3
    np.testing.assert_allclose(sample[-1], numbers["predicted"], rtol=0.2)
    assert (sample[-1] > 0.97 * numbers["predicted"]).all()
    assert (sample[-1, :2] < 0.8 * group[-1, :2]).all()
    fastest = numbers["period"].min(axis=2)
    assert (np.diff(fastest, axis=1) < 0).all()
    assert (numbers["staleness"] <= numbers["leads"][:, None] + 0.1).all()


def test_the_split_that_is_printed_is_measured():
    """With more GPUs than the lead can feed, the formula's period is a third of what any split reaches."""
    numbers = run("rollout_split", gpus=24, batch=2, leads=(2.0,), steps=60)
    assert numbers["best_period"] == numbers["period"].min()
    assert numbers["best_period"] in numbers["period"][:, :, numbers["splits"] == numbers["best_split"]]
    assert numbers["formula_period"] < numbers["best_period"] / 3
    assert numbers["formula_leaves_out"] == "the lead, which binds"
    assert numbers["binding"][numbers["splits"] == numbers["formula_split"]] == "lead"
    assert 0.97 * numbers["bound"].min() < numbers["best_period"] < 1.2 * numbers["bound"].min()


def test_sixty_four_gpus_take_what_the_lead_admits():
    """Steps of .44 with 12 to 25 GPUs that generate, where the formula without a lead has 32 and .125."""
    numbers = run("rollout_split", gpus=64, leads=(4.0,), steps=60)
    assert (numbers["formula_split"], numbers["formula_period"]) == (32, 0.125)
    assert numbers["formula_leaves_out"] == "the lead, which binds"
    error = 0.02  # of 54 steps of which each waits for a few of the longest samples
    assert numbers["best_period"] == pytest.approx(0.44, abs=error)
    for generating in (12, 25):
        assert numbers["fastest"][numbers["splits"] == generating][0] == pytest.approx(0.44, abs=error)
    assert numbers["best_split"] < 32
    assert numbers["fastest"][numbers["splits"] == 32][0] > numbers["bound_of_formula_split"] > 3 * 0.125


def test_rollout_discards():
    """An age bound wastes the predicted share and prefers short answers; an admission bound does neither."""
    numbers = run("rollout_discards", ages=(2, 4), slots=48, batch=12, steps=150)
    np.testing.assert_allclose(numbers["aged_wasted"], numbers["predicted_wasted"], atol=0.05)
    assert (numbers["admitted_wasted"] == 0).all()
    error = 0.5 / np.sqrt(150 * 12 * 0.9)
    np.testing.assert_allclose(numbers["aged_shares"], numbers["predicted_shares"], atol=0.03 + 4 * error)
    np.testing.assert_allclose(numbers["admitted_shares"], 1 / 3, atol=4 * error)
    assert (np.diff(numbers["aged_shares"], axis=1) < 0).all()
    aged, admitted = numbers["rewards"]
    assert aged[2] < admitted[2]
    assert aged[0] > aged[2]


def test_stale_policy_gradients(monkeypatch):
    """Predicted and measured limits agree, and corrected estimators settle above them."""
    monkeypatch.setattr(_bits, "ASCENT", 200)  # enough for this problem, whose optimum is tested elsewhere
    script = load("stale_policy_gradients", ESTIMATORS=("none", "token", "ppo"), COLOURS="kkk")
    numbers = run_loaded(script, staleness=(4, 8), steps=240, samples=32, seeds=1)
    np.testing.assert_allclose(numbers["predicted"], [10.051, 5.340], rtol=1e-3)
    np.testing.assert_allclose(numbers["measured"], numbers["predicted"], rtol=0.016)
    assert float(numbers["best"]) >= numbers["objective"].max() - 1e-5
    settled = dict(zip(numbers["estimator"].tolist(), numbers["objective"][:, 60:].min(axis=1), strict=True))
    assert settled["ppo"] > float(numbers["best"]) - 0.02 > max(settled["none"], settled["token"])
    assert (numbers["effective_sample_size"] < 1).all()
