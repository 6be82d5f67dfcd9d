"""Shared and separate momentum, in NumPy from the papers' formulas."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import TRACES, gamma_trace, noisy_quadratic
from tests.rules.by_hand import H, assert_ends, quadratic, slope, trace_of, versions


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


def test_the_heavy_ball_of_one_worker_has_a_closed_form(x64):
    """x_t = A·r₁ᵗ + B·r₂ᵗ, with the roots of r² - (1 + μ - κ)·r + μ = 0 and κ = η·h, from x_0 = 1 and x_1 = 1 - κ."""
    rate, momenta, t = 0.3, (-0.7, -0.2, 0.5), np.arange(1, 31)
    rule, workload = rules.HeavyBall(rate, momentum=momenta), asim.workloads.Quadratic([1.0])
    run = asim.replay(asim.Trace.from_commits([0] * 30), rule, workload, seed=(0, 0, 0), record=("central",))
    for momentum, central in zip(momenta, run.records["central"], strict=True):
        first, second = np.roots([1.0, -(1 + momentum - rate), momentum])
        share = (1 - rate - second) / (first - second)
        np.testing.assert_allclose(central[:, 0], (share * first**t + (1 - share) * second**t).real, rtol=1e-9)


def test_multi_asgd_is_momentum_sgd_of_every_worker(x64):
    trace = TRACES["everything"][0]()
    several, expected = (
        asim.replay(trace, make(0.05, momentum=0.7), quadratic()) for make in (rules.MultiASGD, rules.MomentumSGD)
    )
    np.testing.assert_array_equal(several.loss, expected.loss)


@pytest.mark.parametrize(
    "rule",
    [
        *(make(0.1, momentum=0.0) for make in (rules.SharedNesterov, rules.MultiASGD, rules.HeavyBall)),
        rules.DelayedNesterov(0.4, momentum=0.0, interval=4),
    ],
    ids=lambda rule: rule.name,
)
def test_without_momentum_they_are_asynchronous_sgd(rule, x64):
    runs = [asim.replay(gamma_trace(), one, noisy_quadratic()).loss for one in (rule, rules.Downpour(0.1))]
    np.testing.assert_allclose(*runs, rtol=1e-12)


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


def test_the_momentum_counts_once_in_every_interval(x64):
    """On a constant gradient θ moves η·(β/(1-β) + 1) in N steps, however the momentum is shared out."""
    rule = rules.DelayedNesterov(0.01, momentum=0.5, interval=4, activation=[0.0, 0.1, 0.25])
    run = asim.replay(gamma_trace(commits=400), rule, slope(), seed=(0, 0, 0), record=("central",))
    moved = (run.records["central"][:, -1] - run.records["central"][:, 199]) / 50
    np.testing.assert_allclose(moved, -0.01 * (0.5 / 0.5 + 1), rtol=1e-10)
