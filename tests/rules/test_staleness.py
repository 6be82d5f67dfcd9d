"""Weights of staleness: sums on a constant gradient, limits, and FedAsync in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import View
from tests.problems import TRACES
from tests.rules.by_hand import H, assert_ends, slope, trace_of, versions

RATE, N, LARGEST = 0.01, 3, 20.0


def annealed(tau, version):
    return np.maximum(tau, 1) ** -(1 - np.minimum(version / 40, 1))


WEIGHTS = {
    "downpour": (rules.Downpour(RATE), lambda tau, version: np.ones_like(tau, float)),
    "adaptive_staleness": (rules.AdaptiveStaleness(RATE), lambda tau, version: 1 / (tau + 1)),
    "dynsgd": (rules.DynSGD(RATE, window=1), lambda tau, version: 1 / (tau + 1)),
    "staleness_aware": (rules.StalenessAware(RATE), lambda tau, version: 1 / np.where(tau == 0, 1, tau)),
    "drop_stale": (rules.DropStale(RATE, oldest=N), lambda tau, version: tau <= N),
    "mishchenko": (rules.DelayAdaptive(RATE, concurrency=N), lambda tau, version: N / np.maximum(N, tau)),
    "koloskova": (
        rules.DelayAdaptive(RATE, concurrency=N, smoothness=LARGEST),
        lambda tau, version: np.where(tau <= N, 1, np.minimum(1, 1 / (4 * LARGEST * RATE * np.maximum(tau, 1)))),
    ),
    "pipemare": (rules.PipeMare(RATE, anneal=40), annealed),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_sum_of_all_updates(name, x64):
    """On a constant gradient. Each message is weighted by its own staleness, in versions; a step is their mean."""
    rule, weight = WEIGHTS[name]
    trace = TRACES["everything"][0](workers=6, commits=90)
    assert trace.staleness.min() == 0
    assert trace.staleness.max() > N
    shares = weight(trace.staleness, trace.version) / np.bincount(trace.version)[trace.version]
    run = replay_plainly(trace, rule, slope())
    np.testing.assert_allclose(run.central["x"], -RATE * shares[trace.version < trace.steps].sum(), rtol=1e-10)


def test_what_is_dropped_may_be_anything():
    old = View(read=np.zeros(2), pulled=np.zeros(2), staleness=jnp.int32(5))
    rule = rules.DropStale(0.1, oldest=4)
    assert rule.send(jnp.array([np.nan, np.inf]), (), old).message.tolist() == [0, 0]


SHARES = {
    "constant": lambda tau: 1.0,
    "polynomial": lambda tau: (tau + 1) ** -0.7,
    "hinge": lambda tau: 1.0 if tau <= 2 else 1 / (0.7 * (tau - 2) + 1),
}


@pytest.mark.parametrize("weighting", SHARES)
def test_fedasync_is_what_its_paper_says(weighting, x64):
    """The mixing factor is computed anew for every model: it does not decay."""
    trace = trace_of(workers=6, commits=60)

    def send(k, thetas):
        """The way from θ to the mixture, (share, share·x)."""
        share = 0.6 * SHARES[weighting](int(trace.staleness[k]))
        return np.full(3, share), share * (1 - 0.2 * H) ** 3 * thetas[trace.read_version[k]]

    rule = rules.FedAsync(0.2, mixing=0.6, weighting=weighting, steepness=0.7, grace=2, window=3)
    assert_ends(trace, rule, versions(trace, send, lambda theta, mean: (1 - mean[0]) * theta + mean[1]))
