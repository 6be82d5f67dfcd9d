"""The compiled engine equals the plain loop: every rule and kind of trace, trees and vectors, one lane or many."""

from functools import cache

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine._quantities import QUANTITIES
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import Info, Sent
from tests.problems import (
    COMMITS,
    CORE,
    RULES,
    TRACES,
    assert_close,
    compare,
    draw_bytes,
    gamma_trace,
    noisy_quadratic,
    trace_for,
    tree_workload,
    varied,
)

LANES = (1, 3, 8)
# All rules, one lane and several, on the trace with every trait; and every kind of trace, with rules in turn.
CROSSED = {
    *((kind, CORE[(3 * i + j) % len(CORE)], LANES[j]) for i, kind in enumerate(TRACES) for j in range(3)),
    *(("everything", rule, lanes) for i, rule in enumerate(CORE) for lanes in (1, LANES[1 + i % 2])),
}


@cache
def crossed(kind, name):
    """Trace, rule and plain replay, shared by all numbers of lanes."""
    rule = RULES[name][0]()
    trace = trace_for(rule, kind, seed=2, commits=COMMITS.get(name, 60))
    return trace, rule, replay_plainly(trace, rule, noisy_quadratic(), seed=3)


@pytest.mark.parametrize("name", CORE[1::2])
def test_replay_equals_the_plain_loop(name, x64):
    """A tree, in lanes; without them the conformance tests replay it with all rules."""
    compare(gamma_trace(commits=COMMITS.get(name, 60)), RULES[name][0](), tree_workload(), lanes=8)


@pytest.mark.parametrize(("kind", "name", "lanes"), sorted(CROSSED))
def test_replay_equals_the_plain_loop_on_every_kind_of_trace(kind, name, lanes, x64):
    trace, rule, plain = crossed(kind, name)
    compare(trace, rule, noisy_quadratic(), lanes, plain)


def test_the_quadratic_of_the_library_equals_the_plain_loop(x64):
    """Its normals are drawn for a whole chunk in the compiled replay, one commit after another in the plain loop."""
    compare(gamma_trace(), RULES["gem_script"][0](), asim.workloads.Quadratic([1.0, 0.5, 0.1], noise=0.3), lanes=3)


class Curious(asim.Rule):
    """Looks at all that it is given."""

    rate: float

    elementwise = True

    def start(self, params):
        return params * self.rate

    start_server = start

    def send(self, gradient, state, view):
        message = self.rate * (view.pulled - view.read - gradient + 0.3 * view.server) / (view.staleness + 2)
        return Sent(message, 0.5 * state + message, Info(update=message))

    def apply(self, central, server, message, view):
        server = 0.5 * server + message + self.rate * (view.read - central) / (view.staleness + 3)
        return central + server, server

    def resume(self, central, server, state, view):
        return central + 0.2 * server + state + self.rate * (view.read - 2 * view.pulled) / (view.staleness + 1)


@pytest.mark.parametrize("kind", TRACES)
def test_a_rule_may_use_everything_that_it_is_given(kind, x64):
    rule = Curious(0.1)
    workload = asim.Workload(init_vector, vector_loss, gradient=VECTOR_GRADIENT)
    compare(TRACES[kind][0](seed=2), rule, workload, lanes=3)


def init_vector(key):
    return jax.random.normal(key, (3,))


def vector_loss(params, batch, key):
    return (params**2 * (1 + draw_bytes(key))).sum()


VECTOR_GRADIENT = jax.jit(asim.Workload(init_vector, vector_loss).loss_and_gradient)


@pytest.mark.parametrize("kind", ["ordinary", "everything"])
@pytest.mark.parametrize("name", ["downpour", "gem_script", "gem_paper"])
def test_a_rule_that_sees_the_tree_equals_the_plain_loop(name, kind, x64):
    rule = RULES[name][0]()
    trace = TRACES[kind][0](commits=COMMITS.get(name, 60))
    compare(trace, varied(rule, elementwise=False), tree_workload())


@pytest.mark.parametrize(("name", "kind"), [("gem_script", "everything"), ("gem_signed", "ordinary")])
def test_records_equal_those_of_the_plain_loop(name, kind, x64):
    trace, workload, rule = TRACES[kind][0](), tree_workload(), RULES[name][0]()
    record = dict.fromkeys(QUANTITIES, 7)
    run = asim.replay(trace, rule, workload, seed=3, record=record)
    commits = replay_plainly(trace, rule, workload, seed=3).commits
    for quantity in record:
        assert run.recorded_at[quantity].tolist() == list(range(6, 60, 7))
        expected = [QUANTITIES[quantity].measure(commits[k]) for k in run.recorded_at[quantity]]
        assert_close(run.records[quantity], np.array(expected), rtol=1e-8)
    assert run.records["pi_median_by_tensor"].shape == (8, 3)


@pytest.mark.quick
def test_single_precision_is_the_default_and_close():
    trace, rule, workload = gamma_trace(), RULES["gem_script"][0](), tree_workload()
    run = asim.replay(trace, rule, workload)
    assert run.loss.dtype == np.float32
    assert_close(run.loss, replay_plainly(trace, rule, workload).loss, rtol=1e-3)
