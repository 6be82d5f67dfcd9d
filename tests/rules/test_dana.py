"""DANA: a change of variable, its limits, and the master in NumPy."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.engine.reference import replay_plainly
from tests.problems import gamma_trace, noisy_quadratic, random_trace
from tests.rules.by_hand import START, H, assert_ends

RATE, MOMENTUM = 0.03, 0.8
SSP = asim.Cluster(5, asim.delays.Gamma(mean=1.0, cv=0.5), protocol=protocols.SSP(1))


@pytest.mark.parametrize(
    "trace", [random_trace(closing=0.4, early=0.6), asim.simulate(SSP, commits=80, seed=3)], ids=["steps", "ssp"]
)
def test_slim_is_zero_by_a_change_of_variable(trace, x64):
    """The same gradients at the same points, if every worker begins at version 0 and no worker loses its moment."""
    assert (trace.read_version[np.unique(trace.worker, return_index=True)[1]] == 0).all()
    zero, slim = (
        replay_plainly(trace, rules.DANA(RATE, momentum=MOMENTUM, variant=variant), noisy_quadratic())
        for variant in ("zero", "slim")
    )
    np.testing.assert_allclose(zero.loss, slim.loss, rtol=1e-10)
    assert abs(zero.central["x"] - slim.central["x"]).max() > 1e-4  # but a different variable


@pytest.mark.parametrize(("variant", "compensation"), [("zero", 0.0), ("dc", 0.6)])
def test_the_master_written_out(variant, compensation, x64):
    """The sum that the server keeps is the sum of all momenta."""
    trace = gamma_trace(workers=6, commits=150)
    theta, sent, v = START, [START] * trace.workers, np.zeros((trace.workers, 3))
    for w in trace.worker:
        g = H * sent[w]
        g = g + compensation * g * g * (theta - sent[w])
        v[w] = MOMENTUM * v[w] + g
        theta = theta - RATE * v[w]
        sent[w] = theta - RATE * MOMENTUM * v.sum(axis=0)
    assert_ends(trace, rules.DANA(RATE, momentum=MOMENTUM, variant=variant, compensation=compensation), [theta])
