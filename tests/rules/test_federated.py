"""Buffered rules: the published servers in NumPy, their limits, and the conserved quantities of their averages."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from asyncsim.trace._regroup import in_steps
from tests.problems import random_trace
from tests.rules.by_hand import assert_ends, local_steps, quadratic, serve

TRACE = random_trace(commits=60, waiting=0.5, early=0.5)


@pytest.mark.parametrize(("buffer", "window", "exponent"), [(4, 1, 0.5), (3, 2, 1.0)])
def test_fedbuff_by_hand(buffer, window, exponent, x64):
    buffered, delays = [], []

    def on_arrival(worker, x, delay, theta):
        delays.append(delay)
        buffered.append((1 + delay) ** -exponent * local_steps(x, 0.1, window))
        if len(buffered) < buffer:
            return None
        step = 0.9 * sum(buffered) / buffer
        buffered.clear()
        return theta + step

    rule = rules.FedBuff(0.1, buffer=buffer, window=window, exponent=exponent, server_learning_rate=0.9)
    assert_ends(TRACE, rule, serve(TRACE, on_arrival))
    np.testing.assert_array_equal(delays, in_steps(TRACE, buffer).staleness)


@pytest.mark.parametrize("limit", [None, 0, 2])
def test_fadas_by_hand(limit, x64):
    mean, square, largest = (np.zeros(3) for _ in range(3))
    buffered, ages = [], []

    def on_arrival(worker, x, delay, theta):
        nonlocal mean, square, largest
        buffered.append(local_steps(x, 0.5, 2))
        ages.append(delay)
        if len(buffered) < 3:
            return None
        update, oldest = sum(buffered) / 3, max(ages)
        buffered.clear()
        ages.clear()
        mean, square = 0.9 * mean + 0.1 * update, 0.99 * square + 0.01 * update**2
        largest = np.maximum(largest, square)
        rate = 0.05 if limit is None or oldest <= limit else min(0.05, 0.05 / oldest)
        return theta + rate * mean / (np.sqrt(largest) + 1e-8)

    rule = rules.FADAS(server_learning_rate=0.05, buffer=3, window=2, grace=limit, learning_rate=0.5)
    assert_ends(TRACE, rule, serve(TRACE, on_arrival))


def test_fadas_lowers_the_step_size_of_late_updates_in_two_ways(x64):
    """The last of four updates is three versions old: a step of η/3 = 1/6, or of min(η, 1/3) = 1/3."""
    trace = asim.Trace.from_commits([0, 0, 0, 1])
    steps = []
    for late in ("divided", "capped"):
        rule = rules.FADAS(server_learning_rate=0.5, buffer=1, grace=1, late=late)
        central = [commit.central["x"] for commit in replay_plainly(trace, rule, quadratic()).commits]
        steps.append(central[3] - central[2])
    np.testing.assert_allclose(steps[1], 2 * steps[0], rtol=1e-9)


@pytest.mark.parametrize(("buffer", "window"), [(1, 1), (3, 2)])
def test_ca2fl_by_hand(buffer, window, x64):
    cached, means, collected = np.zeros((TRACE.workers, 3)), np.zeros(3), []

    def on_arrival(worker, x, delay, theta):
        nonlocal means
        update = local_steps(x, 0.1, window)
        collected.append(update - cached[worker])
        cached[worker] = update
        if len(collected) < buffer:
            return None
        theta = theta + 0.5 * (means + sum(collected) / buffer)
        collected.clear()
        means = cached.mean(axis=0)
        return theta

    rule = rules.CA2FL(0.1, workers=TRACE.workers, buffer=buffer, window=window, server_learning_rate=0.5)
    assert_ends(TRACE, rule, serve(TRACE, on_arrival))
