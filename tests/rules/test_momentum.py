"""Shared and separate momentum, in NumPy from the papers' formulas, and DANA, which looks ahead by all of them."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.engine.reference import replay_plainly
from tests.problems import gamma_trace, noisy_quadratic, random_trace
from tests.rules.by_hand import START, H, assert_ends, trace_of, versions


def on_gradients(trace, apply):
    """θ of every version, for a server that receives gradients."""
    return versions(trace, lambda k, thetas: H * thetas[trace.read_version[k]], apply)


@pytest.mark.parametrize(("rate", "momentum"), [(0.05, -0.6), (0.1, 0.0), (0.02, 0.8)])
def test_the_heavy_ball_sees_every_worker(rate, momentum, x64):
    """Every step is one of the server's, on the mean of the step's gradients, whatever the sign of the momentum."""
    trace, m = trace_of(workers=5, commits=60), np.zeros(3)

    def apply(theta, g):
        nonlocal m
        m = momentum * m - rate * g
        return theta + m

    assert_ends(trace, rules.HeavyBall(rate, momentum=momentum), on_gradients(trace, apply))


@pytest.mark.parametrize(
    ("rule", "every", "c"),
    [
        (rules.SharedNesterov(0.2, momentum=0.7), 1, 0.0),
        (rules.DelayedNesterov(0.2, momentum=0.7, interval=1), 1, 0.0),
        (rules.DelayedNesterov(0.2, momentum=0.7, interval=4), 4, 0.0),
        (rules.DelayedNesterov(0.2, momentum=0.7, interval=4, activation=0.2), 4, 0.2),
    ],
)
def test_nesterov_at_the_server_is_what_the_papers_say(rule, every, c, x64):
    """Delayed or not, it sees every worker."""
    trace = trace_of(workers=5, commits=60)
    m, gathered, steps = np.zeros(3), np.zeros(3), 0

    def apply(theta, g):
        nonlocal m, gathered, steps
        gathered, steps, share = gathered + g, steps + 1, c
        if steps % every == 0:
            m, gathered, share = 0.7 * m + gathered / every, np.zeros(3), 1 - c * every + c
        return theta - 0.2 * (share * 0.7 * m + g / every)

    assert_ends(trace, rule, on_gradients(trace, apply))


RATE, MOMENTUM = 0.03, 0.8
SSP = asim.Cluster(5, asim.delays.Gamma(mean=1.0, cv=0.5), protocol=protocols.SSP(1))


@pytest.mark.parametrize(
    "trace", [random_trace(closing=0.4, early=0.6), asim.simulate(SSP, commits=80, seed=3)], ids=["steps", "ssp"]
)
def test_slim_dana_is_zero_by_a_change_of_variable(trace, x64):
    """The same gradients at the same points, if every worker begins at version 0 and no worker loses its moment."""
    assert (trace.read_version[np.unique(trace.worker, return_index=True)[1]] == 0).all()
    zero, slim = (
        replay_plainly(trace, rules.DANA(RATE, momentum=MOMENTUM, variant=variant), noisy_quadratic())
        for variant in ("zero", "slim")
    )
    np.testing.assert_allclose(zero.loss, slim.loss, rtol=1e-10)
    assert abs(zero.central["x"] - slim.central["x"]).max() > 1e-4  # but a different variable


@pytest.mark.parametrize(("variant", "compensation"), [("zero", 0.0), ("dc", 0.6)])
def test_the_master_of_dana_written_out(variant, compensation, x64):
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
