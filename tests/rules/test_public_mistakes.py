"""Mistakes of public simulators that must not happen here. Those of single rules are tested with each rule."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from tests.problems import gamma_trace

RATE, SEED = 0.01, 7


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
