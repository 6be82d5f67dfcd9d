"""Shared and separate momentum: one worker equals optax, and delayed Nesterov is what its paper says."""

import jax
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import TRACES, gamma_trace, noisy_quadratic, tree_workload
from tests.rules.by_hand import H, quadratic, trace_of, versions
from tests.rules.test_identities import plain_optax, slope

KINDS = ("ordinary", "everything")


def on_gradients(trace, apply):
    """The last θ of a server that receives gradients."""
    return versions(trace, lambda k, thetas: H * thetas[trace.read_version[k]], apply)[-1]


@pytest.mark.parametrize("rule", [rules.SharedNesterov(0.02, momentum=0.8), rules.DelayedNesterov(0.02, momentum=0.8)])
@pytest.mark.parametrize("workload", [tree_workload, noisy_quadratic])
def test_one_worker_is_nesterov(workload, rule, x64):
    workload = workload()
    run = asim.replay(asim.Trace.from_commits([0] * 40), rule, workload, seed=5)
    expected = plain_optax(optax.sgd(0.02, momentum=0.8, nesterov=True), workload, 40, seed=5)
    for a, b in zip(jax.tree.leaves(run.central), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_the_shared_momentum_sees_every_worker(kind, x64):
    """Every step is one of the server's optimiser, on the mean of the step's gradients."""
    trace = trace_of(kind, workers=5, commits=80)
    v = np.zeros(3)

    def apply(theta, g):
        nonlocal v
        v = 0.8 * v + g
        return theta - 0.05 * (0.8 * v + g)

    run = asim.replay(trace, rules.SharedNesterov(0.05, momentum=0.8), quadratic())
    np.testing.assert_allclose(run.central["x"], on_gradients(trace, apply), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_the_heavy_ball_sees_every_worker(kind, x64):
    """Every step is one of the server's, on the mean of the step's gradients, whatever the sign of the momentum."""
    trace, momenta = trace_of(kind, workers=5, commits=80), [-0.6, 0.0, 0.8]
    rule = rules.HeavyBall([0.05, 0.1, 0.02], momentum=momenta)
    run = asim.replay(trace, rule, quadratic(), seed=(0, 0, 0))
    for place, (rate, momentum) in enumerate(zip((0.05, 0.1, 0.02), momenta, strict=True)):
        m = np.zeros(3)

        def apply(theta, g, rate=rate, momentum=momentum):
            nonlocal m
            m = momentum * m - rate * g
            return theta + m

        np.testing.assert_allclose(run.central["x"][place], on_gradients(trace, apply), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("momentum", [-0.7, -0.2, 0.5])
def test_the_heavy_ball_of_one_worker_has_a_closed_form(momentum, x64):
    """x_t = A·r₁ᵗ + B·r₂ᵗ, with the roots of r² - (1 + μ - ηλ)·r + μ = 0, from x_0 = 1 and x_1 = 1 - ηλ."""
    rate = 0.3
    run = asim.replay(
        asim.Trace.from_commits([0] * 30),
        rules.HeavyBall(rate, momentum=momentum),
        asim.workloads.Quadratic([1.0]),
        record=("central",),
    )
    first, second = np.roots([1.0, -(1 + momentum - rate), momentum])
    share = (1 - rate - second) / (first - second)
    t = np.arange(1, 31)
    np.testing.assert_allclose(
        run.records["central"][:, 0], (share * first**t + (1 - share) * second**t).real, rtol=1e-9
    )


def test_multi_asgd_is_momentum_sgd_of_every_worker(x64):
    trace = TRACES["everything"][0]()
    several = asim.replay(trace, rules.MultiASGD(0.05, momentum=0.7), noisy_quadratic())
    expected = asim.replay(trace, rules.MomentumSGD(0.05, momentum=0.7), noisy_quadratic())
    np.testing.assert_array_equal(several.loss, expected.loss)


@pytest.mark.parametrize(
    "make", [rules.SharedNesterov, rules.MultiASGD, rules.HeavyBall], ids=lambda make: make.__name__
)
def test_without_momentum_they_are_asynchronous_sgd(make, x64):
    trace, rule = gamma_trace(), make(0.1, momentum=0.0)
    expected = asim.replay(trace, rules.Downpour(0.1), noisy_quadratic())
    np.testing.assert_allclose(asim.replay(trace, rule, noisy_quadratic()).loss, expected.loss, rtol=1e-12)
    slow = asim.replay(trace, rules.DelayedNesterov(0.4, momentum=0.0, interval=4), noisy_quadratic())
    np.testing.assert_allclose(slow.loss, expected.loss, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", [0.0, 0.2])
def test_delayed_nesterov_is_what_its_paper_says(activation, kind, x64):
    every, momentum, rate, c = 4, 0.7, 0.2, activation
    trace = trace_of(kind, workers=5, commits=90)
    m, gathered, steps = np.zeros(3), np.zeros(3), 0

    def apply(theta, g):
        nonlocal m, gathered, steps
        gathered, steps, share = gathered + g, steps + 1, c
        if steps % every == 0:
            m, gathered, share = momentum * m + gathered / every, np.zeros(3), 1 - c * every + c
        return theta - rate * (share * momentum * m + g / every)

    rule = rules.DelayedNesterov(rate, momentum=momentum, interval=every, activation=c)
    run = asim.replay(trace, rule, quadratic())
    np.testing.assert_allclose(run.central["x"], on_gradients(trace, apply), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("activation", [0.0, 0.1, 0.25])
def test_the_momentum_counts_once_in_every_interval(activation, x64):
    """On a constant gradient θ moves η·(β/(1-β) + 1) in N steps, however the momentum is shared out."""
    rule = rules.DelayedNesterov(0.01, momentum=0.5, interval=4, activation=activation)
    trace = gamma_trace(commits=400)
    warm = asim.replay(trace, rule, slope(), commits=200)
    late = asim.replay(trace, rule, slope(), resume=warm)
    moved = (late.central["x"] - warm.central["x"]) / 50
    np.testing.assert_allclose(moved, -0.01 * (0.5 / 0.5 + 1), rtol=1e-10)
