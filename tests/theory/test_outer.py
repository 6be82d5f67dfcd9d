"""Largest stable outer steps: the table of limits, the recursions that they are limits of, and replays of the rules."""

import math
from itertools import product

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules, theory
from tests.problems import refusals

DELAYS = (0, 1, 2, 4, 8)
TABLE = {  # kind, momentum -> limits of αc at the delays, to four digits
    ("nesterov", 0.5): (1.5, 0.5616, 0.3116, 0.1675, 0.0890),
    ("nesterov", 0.9): (1.3571, 0.2531, 0.0807, 0.0326, 0.0154),
    ("damped", 0.9): (1.9095, 0.9023, 0.5222, 0.2536, 0.1083),
    ("heavy_ball", 0.9): (3.8, 0.1, 0.0512, 0.0265, 0.0139),
    **dict.fromkeys(product(("nesterov", "damped", "heavy_ball"), (0.0,)), (2, 1, 0.6180, 0.3473, 0.1845)),
}
CASES = [(kind, momentum, delay) for kind, momentum in TABLE for delay in DELAYS]
RULES = {"nesterov": rules.SharedNesterov, "damped": rules.DampedNesterov, "heavy_ball": rules.HeavyBall}


def limits(cases):
    return np.array([theory.outer_limit(momentum=mu, delay=delay, kind=kind) for kind, mu, delay in cases])


def test_the_table_of_limits():
    expected = [limit for row in TABLE.values() for limit in row]
    np.testing.assert_allclose(limits(CASES), expected, atol=5.1e-5)


def test_without_momentum_and_with_heavy_ball_they_are_those_of_a_constant_delay():
    for delay in (0, 1, 7, 100):
        assert theory.outer_limit(0.0, delay) == pytest.approx(theory.constant_delay_limit(delay), rel=1e-10)
        for momentum in (0.3, 0.9, 0.999999):
            same = theory.constant_delay_limit(delay, momentum, where="server")
            assert theory.outer_limit(momentum, delay, "heavy_ball") == pytest.approx(same, rel=1e-10)


def test_fresh_nesterov_has_a_closed_form():
    for momentum in (0.0, 0.4, 0.99):
        closed = 2 * (1 + momentum) / (1 + 2 * momentum)
        assert theory.outer_limit(momentum, 0) == pytest.approx(closed, rel=1e-12)


def largest_along(steps, cases, commits=20_000):
    """The largest |x| in the last tenth of the recursions x ← x + α·(step of v), with messages -c·x_{t-τ} and x = 1."""
    kinds, momentum, delays = (np.array(column) for column in zip(*cases, strict=True))
    share = np.where(kinds == "damped", 1 - momentum, 1.0)
    x, v, largest = np.ones((commits + 1, len(cases))), np.zeros(len(cases)), np.zeros(len(cases))
    columns = np.arange(len(cases))
    for t in range(commits):
        delta = -x[np.maximum(t - delays, 0), columns]  # before its first message a worker has read the start
        v = momentum * v + share * delta
        x[t + 1] = np.clip(x[t] + steps * np.where(kinds == "heavy_ball", v, delta + momentum * v), -1e9, 1e9)
        if t >= 0.9 * commits:
            largest = np.maximum(largest, abs(x[t + 1]))
    return largest


def test_a_recursion_is_bounded_just_below_each_limit_and_grows_just_above():
    assert (largest_along(0.97 * limits(CASES), CASES) < 1).all()
    assert (largest_along(1.03 * limits(CASES), CASES) > 1e6).all()


def largest_root(kind, momentum, delay, step):
    """The modulus of the largest root of z^τ(z - 1)(z - μ) + αc(az - b)."""
    slope, offset = {"nesterov": (1 + momentum, momentum), "damped": (1 + momentum * (1 - momentum), momentum)}.get(
        kind, (1, 0)
    )
    coefficients = np.concatenate([[1, -(1 + momentum), momentum], np.zeros(delay)])
    coefficients[-2:] += step * np.array([slope, -offset])
    return abs(np.roots(coefficients)).max()


def test_all_steps_below_a_limit_are_stable_and_none_above():
    rng = np.random.default_rng(0)
    for _ in range(300):
        momentum, delay = float(rng.choice([rng.random(), 1 - 10 ** -rng.uniform(0, 5)])), int(rng.integers(0, 30))
        for kind in RULES:
            limit = theory.outer_limit(momentum, delay, kind)
            below = [largest_root(kind, momentum, delay, share * limit) for share in (0.01, 0.3, 0.7, 0.99)]
            above = [largest_root(kind, momentum, delay, share * limit) for share in (1.01, 1.5, 5, 50)]
            assert max(below) < 1 < min(above)


def grows(rule, trace, curvature=1.0):
    loss = asim.replay(trace, rule, asim.workloads.Quadratic([curvature])).loss
    quarter = len(trace) // 4
    late, early = loss[-quarter:].max(), loss[quarter : 2 * quarter].max()
    return not late <= early


@pytest.mark.parametrize("kind", RULES)
def test_windows_of_workers_in_turn_have_the_limit(kind, x64):
    """The rule around local steps: n workers in turn have a delay of n - 1, and a window acts as one step of c."""
    workers, window, rate, momentum = 3, 4, 0.1, 0.8
    trace = asim.Trace.from_commits(list(range(workers)) * 800)
    limit = theory.outer_limit(momentum, workers - 1, kind) / theory.window_curvature(rate, window)
    for share, expected in ((0.97, False), (1.03, True)):
        outer = RULES[kind](share * limit, momentum=momentum)
        assert grows(rules.local(outer, window=window, learning_rate=rate), trace) == expected


@pytest.mark.parametrize(("window", "diverges"), [(4, False), (5, True)])
def test_diloco_with_its_own_constants_diverges_at_a_delay_of_one(window, diverges, x64):
    """Beyond c = .3616: with ηh = .1, between windows of 4 (c = .3439) and of 5 (.4095)."""
    trace = asim.Trace.from_commits([0, 1] * 400)
    assert grows(rules.DiLoCo(0.1, window=window, optimiser="sgd"), trace) == diverges
    assert (0.7 * theory.window_curvature(0.1, window) > theory.outer_limit(0.9, 1)) == diverges


@pytest.mark.parametrize(("step", "window"), [(0.0, 3), (0.1, 1), (0.1, 7), (1.0, 4), (1.5, 2), (1.5, 3), (2.0, 2)])
def test_a_window_covers_what_its_steps_cover(step, window):
    x = 1.0
    for _ in range(window):
        x -= step * x
    assert theory.window_curvature(step, window) == pytest.approx(1 - x, abs=1e-14)


def test_a_small_step_is_not_lost_in_rounding():
    assert theory.window_curvature(1e-20, 10) == pytest.approx(1e-19, rel=1e-12)
    assert theory.window_curvature(1e-12, 10**9) == pytest.approx(-math.expm1(-1e-3), rel=1e-9)


test_mistakes = refusals(
    (lambda: theory.outer_limit(1.0, 1), "`momentum` must"),
    (lambda: theory.outer_limit(-0.1, 1), "`momentum` must"),
    (lambda: theory.outer_limit(0.9, -1), "`delay` must be an integer of at least 0; got -1"),
    (lambda: theory.outer_limit(0.9, 1.5), "`delay` must be an integer"),
    (lambda: theory.outer_limit(0.9, 1, "nestrov"), "`kind` must be one of .*got 'nestrov'. Did you mean 'nesterov'"),
    (lambda: theory.window_curvature(-0.1, 2), "`step` must be finite and not negative; got -0.1"),
    (lambda: theory.window_curvature(0.1, 0), "`window` must be an integer of at least 1; got 0"),
    (lambda: theory.window_curvature(3.0, 10**6), "`step` = 3.0 with `window` = 1000000 gives numbers beyond"),
)
