"""Delay compensation and Gap-Aware, in NumPy from the papers' formulas."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import gamma_trace
from tests.rules.by_hand import H, assert_ends, trace_of, versions

RATE = 0.1


def dc_by_hand(trace, strength, decay=None, by_worker=False):
    """θ of every version; `decay` for the adaptive variance. Every worker has a shadow of its own."""
    square, squares_of = np.zeros(3), np.zeros((trace.workers, 3))

    def send(k, thetas):
        w, s = trace.worker[k], thetas[trace.read_version[k]]
        g = H * s
        scale = strength
        squares_of[w] *= not trace.state_lost[k]
        if decay is not None:
            mean = decay * (squares_of[w] if by_worker else square) + (1 - decay) * g**2
            squares_of[w], scale = mean, strength / np.sqrt(mean + 1e-7)
        return -RATE * (g + scale * g * g * (thetas[-1] - s)), g**2

    def apply(theta, message):
        nonlocal square
        update, squares = message
        square = square if decay is None else decay * square + (1 - decay) * squares
        return theta + update

    return versions(trace, send, apply)


@pytest.mark.parametrize("variance", ["constant", "adaptive", "adaptive_by_worker"])
def test_dc_asgd_is_what_its_paper_says(variance, x64):
    """Or the authors' code, which averages squares by worker.

    Workers also pull early: the server compensates to its own value, not to the one that they pulled.
    """
    trace = trace_of(workers=6, commits=80)
    rule = rules.DCASGD(RATE, compensation=0.7, variance=variance, decay=0.8)
    decay = None if variance == "constant" else 0.8
    assert_ends(trace, rule, dc_by_hand(trace, 0.7, decay, by_worker=variance == "adaptive_by_worker"))


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
