"""Shared and separate momentum, in NumPy from the papers' formulas, and DANA, which looks ahead by all of them."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.engine.reference import replay_plainly
from tests.problems import gamma_trace, noisy_quadratic, random_trace
from tests.rules.by_hand import START, H, assert_ends, quadratic, trace_of, versions


def on_gradients(trace, apply):
    """θ of every version, for a server that receives gradients."""
    return versions(trace, lambda k, thetas: H * thetas[trace.read_version[k]], apply)


def test_the_shared_momentum_sees_every_worker(x64):
    """Every step is one of the server's optimiser, on the mean of the step's gradients."""
    trace = trace_of(workers=5, commits=80)
    v = np.zeros(3)

    def apply(theta, g):
        nonlocal v
        v = 0.8 * v + g
        return theta - 0.05 * (0.8 * v + g)

    assert_ends(trace, rules.SharedNesterov(0.05, momentum=0.8), on_gradients(trace, apply))


def test_the_heavy_ball_sees_every_worker(x64):
    """Every step is one of the server's, on the mean of the step's gradients, whatever the sign of the momentum."""
    trace, rates, momenta = trace_of(workers=5, commits=80), [0.05, 0.1, 0.02], [-0.6, 0.0, 0.8]
    run = asim.replay(trace, rules.HeavyBall(rates, momentum=momenta), quadratic(), seed=(0, 0, 0))
    for place, (rate, momentum) in enumerate(zip(rates, momenta, strict=True)):
        m = np.zeros(3)

        def apply(theta, g, rate=rate, momentum=momentum):
            nonlocal m
            m = momentum * m - rate * g
            return theta + m

        expected = on_gradients(trace, apply)[-1]
        np.testing.assert_allclose(run.central["x"][place], expected, rtol=1e-10, atol=1e-14)


def test_delayed_nesterov_is_what_its_paper_says(x64):
    """With every step an update of the momentum, it is Nesterov's."""
    trace, momentum, rate = trace_of(workers=5, commits=90), 0.7, 0.2
    intervals, shares = np.array([4.0, 4.0, 1.0]), np.array([0.0, 0.2, 0.0])
    rule = rules.DelayedNesterov(rate, momentum=momentum, interval=intervals, activation=shares)
    run = asim.replay(trace, rule, quadratic(), seed=(0, 0, 0))
    for place, (every, c) in enumerate(zip(intervals, shares, strict=True)):
        m, gathered, steps = np.zeros(3), np.zeros(3), 0

        def apply(theta, g, every=every, c=c):
            nonlocal m, gathered, steps
            gathered, steps, share = gathered + g, steps + 1, c
            if steps % every == 0:
                m, gathered, share = momentum * m + gathered / every, np.zeros(3), 1 - c * every + c
            return theta - rate * (share * momentum * m + g / every)

        expected = on_gradients(trace, apply)[-1]
        np.testing.assert_allclose(run.central["x"][place], expected, rtol=1e-10, atol=1e-14)


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
