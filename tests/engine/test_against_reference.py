"""The compiled engine is the plain loop, for every rule and kind of trace, on trees and vectors, one lane or many."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine.quantities import QUANTITIES
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import Info, Sent
from tests.problems import CORE, RULES, TRACES, gamma_trace, noisy_quadratic, trace_for, tree_workload

# Unclamped π divides by updates near zero and so amplifies rounding from commit to commit: few commits there.
COMMITS = {"gem_paper": 25}
LANES = (1, 3, 8)
# Some rules with every kind of trace and every number of lanes; all of them where all of a trace's traits meet.
CROSSED = {
    *((kind, rule, LANES[(i + j) % 3]) for i, kind in enumerate(TRACES) for j, rule in enumerate(CORE[:5])),
    *(("everything", rule, lanes) for rule in CORE for lanes in LANES),
}


def close(actual, expected, rtol=1e-10):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)


def compare(trace, rule, workload, lanes=None):
    plain = replay_plainly(trace, rule, workload, seed=3)
    run = asim.replay(trace, rule, workload, seed=3, lanes=lanes)
    assert run.loss.dtype == np.float64
    close(run.loss, plain.loss)
    close(run.central, plain.central)


@pytest.mark.parametrize(("name", "lanes"), [(name, (1, 8)[place % 2]) for place, name in enumerate(CORE)])
def test_replay_equals_the_plain_loop(name, lanes, x64):
    compare(gamma_trace(commits=COMMITS.get(name, 60)), RULES[name][0](), tree_workload(), lanes)


@pytest.mark.parametrize(("kind", "name", "lanes"), sorted(CROSSED))
def test_so_it_does_for_every_kind_of_trace(kind, name, lanes, x64):
    rule = RULES[name][0]()
    compare(trace_for(rule, kind, seed=2, commits=COMMITS.get(name, 60)), rule, noisy_quadratic(), lanes)


def start_curious(hyper, params):
    return params * hyper["rate"]


def send_curious(hyper, gradient, state, view):
    message = hyper["rate"] * (view.pulled - view.read - gradient + 0.3 * view.server) / (view.staleness + 2)
    return Sent(message, 0.5 * state + message, Info(update=message))


def apply_curious(hyper, central, server, message, view):
    server = 0.5 * server + message + hyper["rate"] * (view.read - central) / (view.staleness + 3)
    return central + server, server


def resume_curious(hyper, central, server, state, view):
    return central + 0.2 * server + state + hyper["rate"] * (view.read - 2 * view.pulled) / (view.staleness + 1)


@pytest.mark.parametrize("kind", TRACES)
def test_a_rule_may_look_at_all_that_it_is_given(kind, x64):
    rule = asim.Rule(
        {"rate": 0.1}, "curious", send_curious, (), start_curious, start_curious, apply_curious, resume_curious
    )
    workload = asim.Workload(init_vector, vector_loss)
    compare(TRACES[kind][0](seed=2), rule, workload, lanes=3)


def init_vector(key):
    return jax.random.normal(key, (3,))


def vector_loss(params, batch, key):
    return (params**2 * jax.random.uniform(key, (3,))).sum()


@pytest.mark.parametrize("kind", ["ordinary", "everything"])
@pytest.mark.parametrize("name", ["downpour", "gem_script", "gem_paper"])
def test_a_rule_that_sees_the_tree_equals_the_plain_loop(name, kind, x64):
    rule = RULES[name][0]()
    trace = TRACES[kind][0](commits=COMMITS.get(name, 60))
    compare(trace, asim.Rule(**{**vars(rule), "elementwise": False}), tree_workload())


@pytest.mark.parametrize("kind", ["ordinary", "everything"])
@pytest.mark.parametrize("name", ["gem_script", "gem_signed"])
def test_records_are_those_of_the_plain_loop(name, kind, x64):
    trace, workload, rule = TRACES[kind][0](), tree_workload(), RULES[name][0]()
    record = dict.fromkeys(QUANTITIES, 7)
    run = asim.replay(trace, rule, workload, seed=3, record=record)
    commits = replay_plainly(trace, rule, workload, seed=3).commits
    for quantity in record:
        assert run.recorded_at[quantity].tolist() == list(range(6, 60, 7))
        expected = [QUANTITIES[quantity].measure(commits[k]) for k in run.recorded_at[quantity]]
        close(run.records[quantity], np.array(expected), rtol=1e-8)
    assert run.records["pi_median_by_tensor"].shape == (8, 3)


def test_single_precision_is_the_default_and_close():
    trace, rule, workload = gamma_trace(), RULES["gem_script"][0](), tree_workload()
    run = asim.replay(trace, rule, workload)
    assert run.loss.dtype == np.float32
    close(run.loss, replay_plainly(trace, rule, workload).loss, rtol=1e-3)
