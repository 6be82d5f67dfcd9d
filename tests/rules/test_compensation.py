"""Delay compensation and Gap-Aware, in NumPy from the papers' formulas."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import TRACES, gamma_trace, noisy_quadratic
from tests.rules.by_hand import START, H, assert_ends, quadratic, trace_of, versions

RATE = 0.1


def dc_by_hand(trace, strength, decay=None, by_worker=False, shadow="own"):
    """θ of every version; `decay` for the adaptive variance. A wrong `shadow` is the last read of any worker."""
    square, squares_of, read_last = np.zeros(3), np.zeros((trace.workers, 3)), START

    def send(k, thetas):
        nonlocal read_last
        w, s = trace.worker[k], thetas[trace.read_version[k]]
        g, compared = H * s, s if shadow == "own" else read_last
        scale = strength
        if decay is not None:
            mean = decay * (squares_of[w] if by_worker else square) + (1 - decay) * g**2
            squares_of[w], scale = mean, strength / np.sqrt(mean + 1e-7)
        read_last = thetas[-1]
        return -RATE * (g + scale * g * g * (thetas[-1] - compared)), g**2

    def apply(theta, message):
        nonlocal square
        update, squares = message
        square = square if decay is None else decay * square + (1 - decay) * squares
        return theta + update

    return versions(trace, send, apply)


@pytest.mark.parametrize("variance", ["constant", "adaptive"])
def test_dc_asgd_is_what_its_paper_says(variance, x64):
    """Workers also pull early: the server compensates to its own value, not to the one that they pulled."""
    trace = trace_of(workers=6, commits=80)
    rule = rules.DCASGD(RATE, compensation=0.7, variance=variance, decay=0.8)
    assert_ends(trace, rule, dc_by_hand(trace, 0.7, decay=None if variance == "constant" else 0.8))


def test_dc_asgd_may_average_squares_by_worker(x64):
    """As in the authors' code, which differs from the paper."""
    trace = gamma_trace(workers=6, commits=80)
    by_worker, by_server = (dc_by_hand(trace, 0.7, 0.8, by_worker=by_worker) for by_worker in (True, False))
    assert_ends(trace, rules.DCASGD(RATE, compensation=0.7, variance="adaptive_by_worker", decay=0.8), by_worker)
    assert abs(by_worker[-1] - by_server[-1]).max() > 1e-4


def test_every_worker_has_its_own_shadow(x64):
    """One shadow for all workers, as in one public implementation, is a different algorithm."""
    trace = trace_of(workers=6, commits=80)
    run = asim.replay(trace, rules.DCASGD(RATE, compensation=0.7), quadratic())
    wrong = dc_by_hand(trace, 0.7, shadow="of all")[-1]
    assert abs(run.central["x"] - wrong).max() > 1e-3 * abs(wrong).max()


def test_without_compensation_it_is_asynchronous_sgd(x64):
    trace = TRACES["everything"][0]()
    rule = rules.DCASGD(0.1, compensation=0, variance="adaptive")
    runs = [asim.replay(trace, one, noisy_quadratic()) for one in (rule, rules.Downpour(0.1))]
    np.testing.assert_allclose(runs[0].loss, runs[1].loss, rtol=1e-12)


def test_the_compensation_is_exact_where_the_squared_gradient_is_the_curvature(x64):
    """Where g = √h, g² is the curvature h, and on a quadratic there is nothing beyond the first order."""
    h, start = 0.25, 2.0  # gradient h·x = 0.5 = √h at the start
    trace = asim.Trace.from_commits([0, 1])
    run = asim.replay(trace, rules.DCASGD(0.2, compensation=1.0), asim.workloads.Quadratic([h], start=start))
    x = start * (1 - 0.2 * h)
    np.testing.assert_allclose(run.central["x"], x * (1 - 0.2 * h), rtol=1e-12)  # as if the second had been fresh


def test_gap_aware_is_what_its_paper_says(x64):
    trace, momentum, decay = trace_of(workers=6, commits=80), 0.6, 0.95
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

    assert_ends(trace, rules.GapAware(RATE, momentum=momentum, decay=decay), versions(trace, send, apply))


def test_parameters_that_stay_are_not_corrected():
    """A parameter without a gradient has no usual step: 0/0 must not become NaN, not even in float32."""
    flat = asim.workloads.Quadratic([0.0, 1.0])
    run = asim.replay(gamma_trace(), rules.GapAware(0.05), flat)
    assert run.diverged_at is None
    assert run.central["x"][0] == 1
    assert abs(run.central["x"][1]) < 0.5
