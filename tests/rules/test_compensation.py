"""Delay compensation and Gap-Aware, written out in NumPy from the papers' formulas for every kind of trace."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import TRACES, gamma_trace, noisy_quadratic
from tests.rules.by_hand import trace_of

H, START = np.array([1.0, 0.3, 0.05]), np.array([1.0, -2.0, 0.5])
RATE = 0.1
KINDS = ("ordinary", "early_pulls", "everything")


def quadratic():
    return asim.workloads.Quadratic(H, start=START)


def dc_by_hand(trace, strength, decay=None, shadow="own"):
    """The last central variable; `decay` for the adaptive variance. A wrong `shadow` is the last one of all workers."""
    thetas, square, messages, read_last = [START], np.zeros(3), [], START
    for k in range(len(trace)):
        s = thetas[trace.read_version[k]]
        g = H * s
        compared = s if shadow == "own" else read_last
        averaged = None if decay is None else decay * square + (1 - decay) * g**2
        scale = strength if averaged is None else strength / np.sqrt(averaged + 1e-7)
        messages.append((-RATE * (g + scale * g * g * (thetas[-1] - compared)), g**2))
        read_last = thetas[-1]
        if trace.closes_step[k]:
            update, squares = (np.mean(part, axis=0) for part in zip(*messages, strict=True))
            thetas.append(thetas[-1] + update)
            square = square if decay is None else decay * square + (1 - decay) * squares
            messages = []
    return thetas[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variance", ["constant", "adaptive"])
def test_dc_asgd_is_what_its_paper_says(variance, kind, x64):
    """Even if workers pull early: the server compensates to the value that it has, not to what they pulled."""
    trace = trace_of(kind, workers=6, commits=80)
    rule = rules.DCASGD(RATE, compensation=0.7, variance=variance, decay=0.8)
    run = asim.replay(trace, rule, quadratic())
    expected = dc_by_hand(trace, 0.7, decay=None if variance == "constant" else 0.8)
    np.testing.assert_allclose(run.central["x"], expected, rtol=1e-9, atol=1e-14)


def test_every_worker_has_its_own_shadow(x64):
    """One shadow for all workers, as in one public implementation, is a different algorithm."""
    trace = gamma_trace(workers=6, commits=80)
    run = asim.replay(trace, rules.DCASGD(RATE, compensation=0.7), quadratic())
    wrong = dc_by_hand(trace, 0.7, shadow="of all")
    assert abs(run.central["x"] - wrong).max() > 1e-3 * abs(wrong).max()


@pytest.mark.parametrize("variance", ["constant", "adaptive"])
def test_without_compensation_it_is_asynchronous_sgd(variance, x64):
    trace = TRACES["everything"][0]()
    expected = asim.replay(trace, rules.Downpour(0.1), noisy_quadratic())
    run = asim.replay(trace, rules.DCASGD(0.1, compensation=0, variance=variance), noisy_quadratic())
    np.testing.assert_allclose(run.loss, expected.loss, rtol=1e-12)


def test_the_compensation_is_exact_where_the_squared_gradient_is_the_curvature(x64):
    """Where g = √h, g² is the curvature h, and on a quadratic there is nothing beyond the first order."""
    h, start = 0.25, 2.0  # gradient h·x = 0.5 = √h at the start
    trace = asim.Trace.from_commits([0, 1])
    run = asim.replay(trace, rules.DCASGD(0.2, compensation=1.0), asim.workloads.Quadratic([h], start=start))
    x = start * (1 - 0.2 * h)
    np.testing.assert_allclose(run.central["x"], x * (1 - 0.2 * h), rtol=1e-12)  # as if the second had been fresh


def gap_by_hand(trace, momentum, decay):
    thetas, v, square, messages = [START], np.zeros(3), np.zeros(3), []
    for k in range(len(trace)):
        s, theta = thetas[trace.read_version[k]], thetas[-1]
        g = H * s
        if len(thetas) > 1:
            usual = RATE * (np.sqrt(square / (1 - decay ** (len(thetas) - 1))) + 1e-8)
            g = g / (1 + abs(theta - s) / usual)
        messages.append(g)
        if trace.closes_step[k]:
            v = momentum * v + np.mean(messages, axis=0)
            square = decay * square + (1 - decay) * v**2
            thetas.append(theta - RATE * v)
            messages = []
    return thetas[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_gap_aware_is_what_its_paper_says(kind, x64):
    trace = trace_of(kind, workers=6, commits=80)
    run = asim.replay(trace, rules.GapAware(RATE, momentum=0.6, decay=0.95), quadratic())
    np.testing.assert_allclose(run.central["x"], gap_by_hand(trace, 0.6, 0.95), rtol=1e-9, atol=1e-14)


def test_parameters_that_stay_are_not_corrected():
    """A parameter without a gradient has no usual step: 0/0 must not become NaN, not even in float32."""
    flat = asim.workloads.Quadratic([0.0, 1.0])
    run = asim.replay(gamma_trace(), rules.GapAware(0.05), flat)
    assert run.diverged_at is None
    assert run.central["x"][0] == 1
    assert abs(run.central["x"][1]) < 0.5


BAD = [
    (lambda: rules.DCASGD(0.1, compensation=-1), "`compensation` must not be negative"),
    (lambda: rules.DCASGD(0.1, variance="adaptative"), "Did you mean 'adaptive'"),
    (lambda: rules.DCASGD(0.1, decay=1.0), "`decay` must be at least 0 and less than 1"),
    (lambda: rules.GapAware(0.1, momentum=1.0), "`momentum` must be at least 0 and less than 1"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_numbers_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
