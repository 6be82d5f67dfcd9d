"""The compiled engine equals the plain loop: every rule and kind of trace, trees and vectors, one lane or many."""

import jax
import pytest

import asyncsim as asim
from asyncsim.rules import Info, Sent
from tests.problems import (
    COMMITS,
    CORE,
    RULES,
    TRACES,
    compare,
    draw_bytes,
    gamma_trace,
    noisy_quadratic,
    trace_for,
    tree_workload,
    varied,
)

LANES = (3, 8, 1)  # in turn


@pytest.mark.parametrize(("name", "lanes"), [(name, LANES[place % 3]) for place, name in enumerate(CORE)])
def test_replay_equals_the_plain_loop_on_a_trace_with_every_trait(name, lanes, x64):
    """With eight lanes a tree with data, else noise. The conformance tests replay all rules on simpler traces."""
    rule, workload = RULES[name][0](), tree_workload() if lanes == 8 else noisy_quadratic()
    compare(trace_for(rule, "everything", seed=2, commits=COMMITS.get(name, 40)), rule, workload, lanes)


def test_the_quadratic_of_the_library_equals_the_plain_loop(x64):
    """Its normals are drawn for a whole chunk in the compiled replay, one commit after another in the plain loop."""
    workload = asim.workloads.Quadratic([1.0, 0.5, 0.1], noise=0.3)
    compare(gamma_trace(commits=20), RULES["gem_script"][0](), workload, lanes=3)


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


@pytest.mark.parametrize(("kind", "lanes"), [(kind, LANES[place % 3]) for place, kind in enumerate(TRACES)])
def test_a_rule_that_uses_its_whole_view_equals_the_plain_loop(kind, lanes, x64):
    rule = Curious(0.1)
    workload = asim.Workload(init_vector, vector_loss, gradient=VECTOR_GRADIENT)
    compare(TRACES[kind][0](seed=2, commits=40), rule, workload, lanes)


def init_vector(key):
    return jax.random.normal(key, (3,))


def vector_loss(params, batch, key):
    return (params**2 * (1 + draw_bytes(key))).sum()


VECTOR_GRADIENT = jax.jit(asim.Workload(init_vector, vector_loss).loss_and_gradient)


@pytest.mark.parametrize(
    ("name", "kind"), [("downpour", "everything"), ("gem_script", "everything"), ("gem_paper", "ordinary")]
)
def test_a_rule_that_sees_the_tree_equals_the_plain_loop(name, kind, x64):
    rule = RULES[name][0]()
    trace = TRACES[kind][0](commits=COMMITS.get(name, 40))
    compare(trace, varied(rule, elementwise=False), tree_workload())
