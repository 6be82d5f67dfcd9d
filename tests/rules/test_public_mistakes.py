"""Mistakes of public simulators that must not happen here. Those of single rules are tested with each rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.workloads._batches import commit_key
from tests.problems import gamma_trace

RATE, SEED = 0.01, 7


def test_every_worker_counts(x64):
    """Four workers have gradients of 1, 2, 4 and 8: every mean over workers is 3.75."""
    keys = jnp.stack([jax.random.key_data(commit_key(jax.random.key(SEED), w, 0)) for w in range(4)])

    def gradient(params, batch, key):
        """Of the worker that has this key at its first commit."""
        mine = (jax.random.key_data(key)[None] == keys).all(axis=1)
        return params["x"][0], {"x": (mine * jnp.array([1.0, 2.0, 4.0, 8.0])).sum(keepdims=True)}

    workload = asim.Workload(init=lambda key: {"x": jnp.zeros(1)}, loss=None, gradient=gradient)
    in_turn = asim.Trace.from_commits([0, 1, 2, 3])
    cluster = asim.Cluster(4, asim.delays.Constant(1.0), protocol=protocols.Synchronous())
    for trace, rule in (
        (in_turn, rules.IA2SGD(RATE, workers=4)),
        (in_turn, rules.Ringleader(RATE, workers=4)),
        (in_turn, rules.Malenia(RATE, workers=4, batch=4)),
        (in_turn, rules.CA2FL(RATE, workers=4, buffer=4)),
        (in_turn, rules.FedBuff(RATE, buffer=4)),
        (asim.simulate(cluster, commits=4), rules.Downpour(RATE)),
    ):
        found = asim.replay(trace, rule, workload, seed=SEED).central["x"][0]
        assert float(found) == pytest.approx(-RATE * 3.75, rel=1e-9), rule.name


def test_no_global_seed():
    """Nothing draws from NumPy's global generator, and nothing sets it."""
    runs = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        trace = gamma_trace()
        loss = asim.replay(trace, rules.Downpour(0.1), asim.workloads.Quadratic([1.0], 0.5)).loss
        runs.append((trace.commit_time, loss))
        np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][1], runs[1][1])


@pytest.mark.parametrize("protocol", [protocols.Asynchronous(), protocols.KAsync(3), protocols.Rennala(4)])
def test_ties_have_an_order(protocol):
    """Equal times everywhere: entries of the queue are never compared, and a second run is the same."""
    server = asim.Server(slots=2, service=asim.delays.Constant(1.0))
    cluster = asim.Cluster(8, asim.delays.Constant(1.0), server=server, protocol=protocol)
    first, second = (asim.simulate(cluster, commits=50) for _ in range(2))
    np.testing.assert_array_equal(first.worker, second.worker)
    np.testing.assert_array_equal(first.commit_time, second.commit_time)
    assert len(np.unique(first.commit_time)) < len(first)
