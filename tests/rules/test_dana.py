"""DANA: a change of variable, its limits, and the master written out in NumPy."""

import jax
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from tests.problems import TRACES, gamma_trace, noisy_quadratic, random_trace, tree_workload
from tests.rules.test_identities import plain_optax

H, START = np.array([1.0, 0.3, 0.05]), np.array([1.0, -2.0, 0.5])
RATE, MOMENTUM = 0.03, 0.8


def cluster_trace(protocol, commits=80):
    cluster = asim.Cluster(5, asim.delays.Gamma(mean=1.0, cv=0.5), protocol=protocol)
    return asim.simulate(cluster, commits=commits, seed=3)


# Every worker begins at version 0, where all moments are zero, and no worker loses its own.
TOGETHER = {
    "ordinary": gamma_trace,
    "buffered": lambda: random_trace(closing=0.4),
    "early_pulls": lambda: random_trace(early=0.6),
    "synchronous": lambda: cluster_trace(protocols.Synchronous()),
    "k_async": lambda: cluster_trace(protocols.KAsync(3)),
    "ssp": lambda: cluster_trace(protocols.SSP(1)),
}


@pytest.mark.parametrize("kind", TOGETHER)
def test_slim_is_zero_by_a_change_of_variable(kind, x64):
    """The same gradients at the same points, commit by commit."""
    trace = TOGETHER[kind]()
    assert (trace.read_version[np.unique(trace.worker, return_index=True)[1]] == 0).all()
    zero = asim.replay(trace, rules.DANA(RATE, momentum=MOMENTUM), noisy_quadratic())
    slim = asim.replay(trace, rules.DANA(RATE, momentum=MOMENTUM, variant="slim"), noisy_quadratic())
    np.testing.assert_allclose(zero.loss, slim.loss, rtol=1e-10)
    assert abs(zero.central["x"] - slim.central["x"]).max() > 1e-4  # but a different variable


@pytest.mark.parametrize("variant", ["zero", "slim", "dc"])
def test_without_momentum_it_is_asynchronous_sgd(variant, x64):
    trace = TRACES["everything"][0]()
    rule = rules.DANA(0.1, momentum=0.0, variant=variant, compensation=0.0)
    expected = asim.replay(trace, rules.Downpour(0.1), noisy_quadratic())
    np.testing.assert_allclose(asim.replay(trace, rule, noisy_quadratic()).loss, expected.loss, rtol=1e-12)


def test_one_worker_is_nesterov(x64):
    """Slim is the optimiser itself; zero takes its gradients where the optimiser's parameters are."""
    trace, workload = asim.Trace.from_commits([0] * 40), tree_workload()
    slim = asim.replay(trace, rules.DANA(RATE, momentum=MOMENTUM, variant="slim"), workload, seed=5)
    expected = plain_optax(optax.sgd(RATE, momentum=MOMENTUM, nesterov=True), workload, 40, seed=5)
    for a, b in zip(jax.tree.leaves(slim.central), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)
    zero = asim.replay(trace, rules.DANA(RATE, momentum=MOMENTUM), workload, seed=5)
    np.testing.assert_allclose(zero.loss, slim.loss, rtol=1e-10)


def master(trace, compensation):
    """The master's parameters after the last commit: what it sent to each worker, and all their momenta."""
    theta = START.copy()
    sent = [START] * trace.workers
    v = np.zeros((trace.workers, 3))
    for w in trace.worker:
        g = H * sent[w]
        g = g + compensation * g * g * (theta - sent[w])
        v[w] = MOMENTUM * v[w] + g
        theta = theta - RATE * v[w]
        sent[w] = theta - RATE * MOMENTUM * v.sum(axis=0)
    return theta


@pytest.mark.parametrize(("variant", "compensation"), [("zero", 0.0), ("dc", 0.6)])
def test_the_master_written_out(variant, compensation, x64):
    """The sum that the server keeps is the sum of all momenta."""
    trace = gamma_trace(workers=6, commits=150)
    rule = rules.DANA(RATE, momentum=MOMENTUM, variant=variant, compensation=compensation)
    run = asim.replay(trace, rule, asim.workloads.Quadratic(H, start=START))
    np.testing.assert_allclose(run.central["x"], master(trace, compensation), rtol=1e-9, atol=1e-14)


def test_looking_ahead_helps_against_delay(x64):
    """With momentum .9 and 8 workers in turn, DANA is stable at a step size at which separate momenta diverge."""
    trace = asim.simulate(asim.Cluster(8, asim.delays.Constant(1.0)), commits=4000)
    workload = asim.workloads.Quadratic([1.0])
    blind = asim.replay(trace, rules.MultiASGD(0.05, momentum=0.9), workload)
    ahead = asim.replay(trace, rules.DANA(0.05, momentum=0.9), workload)
    assert blind.diverged_at is not None or blind.loss[-1] > 1e3
    assert ahead.loss[-1] < 1e-6
