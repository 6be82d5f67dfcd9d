"""The proxy next to a rule: it changes nothing, and it is the moment of the worker's own raw updates."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import WithProxy
from tests.problems import RULES, TRACES, gamma_trace, noisy_quadratic, trace_for


@pytest.mark.parametrize("name", ["gem_paper", "rennala_batches"])
def test_it_changes_nothing(name, x64):
    """Loss and central variable are the rule's own, bit for bit, whatever happens to the workers."""
    rule = RULES[name][0]()
    trace = trace_for(rule, "everything", commits=60)
    wrapped = WithProxy(rule, proxy_learning_rate=0.3)
    alone, both = (replay_plainly(trace, one, noisy_quadratic(), seed=3) for one in (rule, wrapped))
    np.testing.assert_array_equal(both.loss, alone.loss)
    np.testing.assert_array_equal(both.central["x"], alone.central["x"])
    assert all(commit.info.proxy["x"].any() for commit in both.commits)


def test_gem_has_this_proxy_already(x64):
    """Around GEM, whose own proxy is the same moment, all energies are GEM's own."""
    record, rule = ("energy_central", "energy_proxy", "compliance", "pi_mean"), asim.rules.GEM(0.05, momentum=0.8)
    own, both = (
        asim.replay(TRACES["crashing"][0](), one, noisy_quadratic(), record=record).records
        for one in (rule, WithProxy(rule, proxy_momentum=0.8))
    )
    for name in record:
        np.testing.assert_allclose(both[name], own[name], rtol=1e-12)


def test_the_moment_by_hand(x64):
    """m ← μ·m - η·g of each worker, from the gradients that the plain loop says the rule took."""
    trace, workload, rate, momentum = gamma_trace(workers=3), asim.workloads.Quadratic([1.0, 0.3]), 0.07, 0.6
    rule = WithProxy(asim.rules.Downpour(0.2), proxy_learning_rate=rate, proxy_momentum=momentum)
    steps = replay_plainly(trace, rule, workload).commits
    moments = np.zeros((3, 2))
    for worker, step in zip(trace.worker, steps, strict=True):
        moments[worker] = momentum * moments[worker] - rate * np.array([1.0, 0.3]) * step.view.read["x"]
        np.testing.assert_allclose(step.info.proxy["x"], moments[worker], rtol=1e-12)
