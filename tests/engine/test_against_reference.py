"""The compiled engine is the plain loop, for every rule, on trees and vectors, one lane or many."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine.record import QUANTITIES
from asyncsim.engine.reference import replay_plainly
from tests.problems import RULES, gamma_trace, noisy_quadratic, tree_workload

# Unclamped π divides by updates near zero and so amplifies rounding from commit to commit: few commits there.
COMMITS = {"gem_paper": 25}


def close(actual, expected, rtol=1e-10):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("lanes", [1, 3, 8])
@pytest.mark.parametrize("workload", [tree_workload, noisy_quadratic])
@pytest.mark.parametrize("name", RULES)
def test_replay_equals_the_plain_loop(name, workload, lanes, x64):
    trace = gamma_trace(commits=COMMITS.get(name, 60))
    rule, workload = RULES[name][0](), workload()
    plain = replay_plainly(trace, rule, workload, seed=3)
    run = asim.replay(trace, rule, workload, seed=3, lanes=lanes)
    assert run.loss.dtype == np.float64
    close(run.loss, plain.loss)
    close(run.central, plain.central)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_sees_the_tree_equals_the_plain_loop(name, x64):
    trace, workload = gamma_trace(commits=COMMITS.get(name, 60)), tree_workload()
    rule = RULES[name][0]()
    whole = asim.Rule(**{**vars(rule), "elementwise": False})
    close(asim.replay(trace, whole, workload, seed=3).central, replay_plainly(trace, rule, workload, 3).central)


@pytest.mark.parametrize("name", ["gem_script", "gem_signed"])
def test_records_are_those_of_the_plain_loop(name, x64):
    trace, workload, rule = gamma_trace(), tree_workload(), RULES[name][0]()
    record = dict.fromkeys(QUANTITIES, 7)
    run = asim.replay(trace, rule, workload, seed=3, record=record)
    steps = replay_plainly(trace, rule, workload, seed=3).steps
    for quantity in record:
        assert run.recorded_at[quantity].tolist() == list(range(6, 60, 7))
        expected = [QUANTITIES[quantity].measure(steps[k]) for k in run.recorded_at[quantity]]
        close(run.records[quantity], np.array(expected), rtol=1e-8)
    assert run.records["pi_median_by_tensor"].shape == (8, 3)


def test_single_precision_is_the_default_and_close():
    trace, rule, workload = gamma_trace(), RULES["gem_script"][0](), tree_workload()
    run = asim.replay(trace, rule, workload)
    assert run.loss.dtype == np.float32
    close(run.loss, replay_plainly(trace, rule, workload).loss, rtol=1e-3)
