"""Constant delay: closed forms against companion matrices built here, known numbers and the Lyapunov equation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov

import asyncsim as asim
from asyncsim import theory

pytestmark = pytest.mark.quick

DELAYS = [0, 1, 3, 10, 50]


def polynomial(kappa, delay, momentum, where):
    """(z - 1)(z^{τ+1} - μ) + κz at the workers, (z - 1)(z - μ)z^τ + κz at the server: of the whole round robin."""
    if where == "worker":
        power = np.zeros(delay + 2)
        power[0], power[-1] = 1, -momentum
        coefficients = np.polymul([1, -1], power)
    else:
        coefficients = np.polymul([1, -1], [1, -momentum, *np.zeros(delay)])
    coefficients[-2] += kappa
    return coefficients


@pytest.mark.parametrize("where", ["server", "worker"])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("delay", DELAYS)
def test_at_the_limit_a_root_is_on_the_circle_and_below_none_is_outside(delay, momentum, where):
    limit = theory.constant_delay_limit(delay, momentum, where)
    assert np.abs(np.roots(polynomial(limit, delay, momentum, where))).max() == pytest.approx(1.0, abs=1e-7)
    for fraction in (0.01, 0.5, 0.999):
        assert np.abs(np.roots(polynomial(fraction * limit, delay, momentum, where))).max() < 1
    assert np.abs(np.roots(polynomial(1.01 * limit, delay, momentum, where))).max() > 1


@settings(max_examples=60, deadline=None)
@given(st.floats(0.001, 2.0), st.integers(0, 12), st.floats(0, 0.95), st.sampled_from(["server", "worker"]))
def test_the_rate_is_the_largest_root(kappa, delay, momentum, where):
    expected = np.abs(np.roots(polynomial(kappa, delay, momentum, where))).max()
    assert theory.constant_delay_rate(kappa, delay, momentum, where) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("delay", [0, 1, 2, 5, 9])
def test_no_other_step_is_faster(delay):
    kappa, rate = theory.fastest_constant_delay(delay)
    # A double root moves by the square root of a rounding error.
    assert theory.constant_delay_rate(kappa, delay) == pytest.approx(rate, abs=1e-6)
    others = [theory.constant_delay_rate(factor * kappa, delay) for factor in (0.2, 0.6, 0.95, 1.05, 1.5, 3.0)]
    assert min(others) > rate + 1e-4


def lyapunov(kappa, delay, momentum, where):
    """Var x and E_k from SciPy's solver, on the state (x_t, …, x_{t-τ}, v) or (x_t, …, x_{t-τ}, m of all workers)."""
    n = delay + 1
    moments = n if where == "worker" else 1
    matrix, noise = np.eye(n + moments, k=-1), np.zeros(n + moments)
    matrix[n] = 0
    matrix[n, [delay, -1]] = -kappa, momentum
    matrix[0] = matrix[n]
    matrix[0, 0] += 1
    noise[[0, n]] = 1
    covariance = solve_discrete_lyapunov(matrix, np.outer(noise, noise))
    ahead = matrix[0].copy()
    ahead[delay] -= 1  # x_{t+1} - x_{t-τ} before the noise
    return covariance[0, 0], 0.5 * (ahead @ covariance @ ahead + 1)


@pytest.mark.parametrize("where", ["none", "server", "worker"])
@pytest.mark.parametrize("delay", [0, 1, 3, 7])
@pytest.mark.parametrize("fraction", [0.1, 0.6, 0.95])
def test_the_moments_solve_the_lyapunov_equation(delay, fraction, where):
    momentum = 0.0 if where == "none" else 0.7
    kappa = fraction * theory.constant_delay_limit(delay, momentum, where)
    expected = lyapunov(kappa, delay, momentum, where)
    assert theory.constant_delay_moments(kappa, delay, momentum, where) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("workers", "gap"), [(1, 0), (2, 1), (5, 0), (5, 3), (9, 8), (20, 5)])
def test_the_limit_with_a_gap_is_where_the_rate_passes_one(workers, gap):
    limit = theory.constant_gap_limit(workers, gap)
    assert theory.constant_gap_rate(limit, workers, gap) == pytest.approx(1.0, abs=1e-7)
    below, above = (theory.constant_gap_rate(share * limit, workers, gap) for share in (0.99, 1.01))
    assert below < 1 < above
    if gap == 0:
        assert limit == pytest.approx(theory.constant_delay_limit(workers - 1))
    else:
        assert limit > theory.constant_delay_limit(workers - 1 + gap)


def test_replay_decays_at_the_rate_of_the_gap(x64):
    """DOWNPOUR in turn on a quadratic, every worker g commits behind: |x| grows or shrinks by the largest root."""
    workers, gap, commits = 5, 3, 1200
    order = np.arange(commits) % workers
    previous = np.maximum(np.arange(commits) - workers + 1, 0)
    pulls = np.maximum(np.arange(commits) - gap, previous)
    trace = asim.Trace.from_columns({"worker": order, "pull_version": pulls}, resume="own")
    limit = theory.constant_gap_limit(workers, gap)
    workload = asim.workloads.Quadratic([1.0])
    for kappa in (0.9 * limit, 1.05 * limit):
        loss = asim.replay(trace, asim.rules.Downpour(kappa), workload).loss
        early, late = (np.sqrt(loss[k : k + 200].max()) for k in (200, 1000))
        measured = (late / early) ** (1 / 800)
        assert measured == pytest.approx(theory.constant_gap_rate(kappa, workers, gap), abs=2e-4)
