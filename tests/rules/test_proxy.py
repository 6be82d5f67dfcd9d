"""The proxy beside a rule: it changes nothing, and it is the moment of the worker's own raw updates."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import WithProxy
from tests.problems import RULES, TRACES, gamma_trace, round_robin, trace_for, tree_workload

WRAPPED = ("downpour", "gem_paper", "rennala_batches")


@pytest.mark.parametrize("name", WRAPPED)
def test_it_changes_nothing(name):
    """Loss and central variable are the rule's own, bit for bit, whatever happens to the workers."""
    rule = RULES[name][0]()
    trace = trace_for(rule, "everything", commits=60)
    alone = asim.replay(trace, rule, tree_workload(), seed=3)
    wrapped = WithProxy(rule, proxy_learning_rate=0.3)
    beside = asim.replay(trace, wrapped, tree_workload(), seed=3, record=("energy_proxy",))
    np.testing.assert_array_equal(beside.loss, alone.loss)
    jax.tree.map(np.testing.assert_array_equal, beside.central, alone.central)
    assert (beside.records["energy_proxy"] > 0).all()


def test_gem_has_this_proxy_already(x64):
    """Beside GEM, whose own proxy is the same moment, all energies are GEM's own."""
    record, rule = ("energy_central", "energy_proxy", "compliance", "pi_mean"), asim.rules.GEM(0.05, momentum=0.8)
    trace, workload = TRACES["crashing"][0](), tree_workload()
    own = asim.replay(trace, rule, workload, record=record).records
    beside = asim.replay(trace, WithProxy(rule, proxy_momentum=0.8), workload, record=record).records
    for name in record:
        np.testing.assert_allclose(beside[name], own[name], rtol=1e-12)


def test_the_moment_by_hand(x64):
    """m ← μ·m - η·g of each worker, from the gradients that the plain loop says the rule took."""
    trace, workload, rate, momentum = gamma_trace(workers=3), asim.workloads.Quadratic([1.0, 0.3]), 0.07, 0.6
    rule = WithProxy(asim.rules.Downpour(0.2), proxy_learning_rate=rate, proxy_momentum=momentum)
    steps = replay_plainly(trace, rule, workload).commits
    moments = np.zeros((3, 2))
    for worker, step in zip(trace.worker, steps, strict=True):
        moments[worker] = momentum * moments[worker] - rate * np.array([1.0, 0.3]) * step.view.read["x"]
        np.testing.assert_allclose(step.info.proxy["x"], moments[worker], rtol=1e-12)


def test_downpour_on_a_slope_has_the_predicted_energies(x64):
    """In a round robin on a constant gradient, E_k(central) over E_k(proxy) is n²(1 - μ)²."""
    slope = asim.Workload(init=lambda key: {"x": np.zeros(1)}, loss=lambda params, batch, key: params["x"].sum())
    for workers in (2, 5):
        rule = WithProxy(asim.rules.Downpour(0.1), proxy_momentum=0.8)
        ratio = asim.replay(round_robin(workers, 600), rule, slope, record=("compliance",)).records["compliance"][-1]
        drift = asim.theory.drift_energy(workers=workers, compute=asim.delays.Constant(1.0))
        np.testing.assert_allclose(ratio, drift / asim.theory.proxy_drift_energy(0.8), rtol=1e-9)


def test_the_proxy_follows_the_step_size_unless_it_has_its_own():
    """A scenario that overrides the rule's step size moves the proxy's with it."""
    cluster, rule = asim.Cluster(2, asim.delays.Constant(1.0)), WithProxy(asim.rules.Downpour(0.1))
    scenario = asim.Scenario(cluster, rule, asim.workloads.Quadratic([1.0], noise=0.3), commits=10)
    changed = scenario.override(learning_rate=0.2)
    assert changed.rule == WithProxy(asim.rules.Downpour(0.2))
    assert changed.digest != scenario.digest
    assert "energy_proxy" in scenario.strides


def test_scenarios_tell_wrapped_rules_apart():
    """The digest knows which rule is wrapped, and that it is wrapped."""
    cluster = asim.Cluster(2, asim.delays.Constant(1.0))
    rules = [
        asim.rules.Downpour(0.1),
        asim.rules.AdaptiveStaleness(0.1),
        asim.rules.ServerOptimiser(0.1, optimiser="adam"),
    ]
    rules += [WithProxy(rule) for rule in rules] + [
        WithProxy(rules[0], proxy_learning_rate=0.1),
        WithProxy(rules[0], proxy_momentum=0.5),
    ]
    digests = {
        asim.Scenario(cluster, rule, asim.workloads.Quadratic([1.0], noise=0.3), commits=10, record=()).digest
        for rule in rules
    }
    assert len(digests) == len(rules)


class Rateless(asim.Rule):
    """A rule without a step size."""

    def send(self, gradient, state, view):
        return asim.rules.Sent(gradient, state)
