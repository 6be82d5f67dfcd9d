"""Delay compensation and Gap-Aware, written out in NumPy from the papers' formulas for every kind of trace."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import TRACES, gamma_trace, noisy_quadratic
from tests.rules.by_hand import START, H, quadratic, trace_of, versions

RATE = 0.1
KINDS = ("ordinary", "early_pulls", "everything")


def dc_by_hand(trace, strength, decay=None, shadow="own"):
    """The last central variable; `decay` for the adaptive variance. A wrong `shadow` is the last one of all workers."""
    square, read_last = np.zeros(3), START

    def send(k, thetas):
        nonlocal read_last
        s = thetas[trace.read_version[k]]
        g, compared = H * s, s if shadow == "own" else read_last
        scale = strength if decay is None else strength / np.sqrt(decay * square + (1 - decay) * g**2 + 1e-7)
        read_last = thetas[-1]
        return -RATE * (g + scale * g * g * (thetas[-1] - compared)), g**2

    def apply(theta, message):
        nonlocal square
        update, squares = message
        square = square if decay is None else decay * square + (1 - decay) * squares
        return theta + update

    return versions(trace, send, apply)[-1]


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
    v, square = np.zeros(3), np.zeros(3)

    def send(k, thetas):
        s, steps = thetas[trace.read_version[k]], len(thetas) - 1
        usual = RATE * (np.sqrt(square / (1 - decay**steps)) + 1e-8) if steps else 1.0
        return H * s / (1 + abs(thetas[-1] - s) / usual)

    def apply(theta, g):
        nonlocal v, square
        v = momentum * v + g
        square = decay * square + (1 - decay) * v**2
        return theta - RATE * v

    return versions(trace, send, apply)[-1]


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
