"""Buffered rules: the published servers in NumPy, their limits, and the conserved quantities of their averages."""

import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.trace._regroup import in_steps
from tests.problems import gamma_trace, random_trace, round_robin
from tests.rules.by_hand import START, H, assert_ends, local_steps, quadratic, serve

TRACE = random_trace(commits=90, waiting=0.5, early=0.5)


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


def test_fedbuff_without_buffer_or_weight_is_downpour(x64):
    plain = rules.FedBuff(0.1, buffer=1, exponent=0.0)
    runs = [asim.replay(TRACE, rule, quadratic()).loss for rule in (plain, rules.Downpour(0.1))]
    np.testing.assert_allclose(*runs, rtol=1e-10)


def test_a_collected_trace_is_the_protocols(x64):
    """An asynchronous trace cut into steps of K is the trace of a server that collects K."""
    cluster = asim.Cluster(5, asim.delays.Gamma(mean=1.0, cv=0.5), protocol=protocols.KBatchAsync(4))
    ready = asim.simulate(cluster, commits=88, seed=1)
    rule = rules.FedBuff(0.1, buffer=4)
    free = asim.replay(gamma_trace(commits=88), rule, quadratic())
    np.testing.assert_array_equal(asim.replay(ready, rule, quadratic()).loss, free.loss)
    with pytest.raises(ValueError, match=r"steps of 1 or 3 commits .*Asynchronous"):
        asim.replay(ready, rules.FedBuff(0.1, buffer=3), quadratic())


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


def test_fadas_alone_is_amsgrad_without_bias_correction(x64):
    """optax's AMSGrad corrects the bias: its step t is wider by (1 - β₁^t)⁻¹ and narrower by (1 - β₂^t)^½."""
    trace = asim.Trace.from_commits([0])
    rule = rules.FADAS(server_learning_rate=0.1, buffer=1, epsilon=0.0)
    step = START - np.asarray(asim.replay(trace, rule, quadratic()).central["x"])
    optimiser = optax.amsgrad(0.1, 0.9, 0.99, eps=0.0)
    updates, _ = optimiser.update(H * START, optimiser.init(START))
    np.testing.assert_allclose(step, -np.asarray(updates) * 0.1 / np.sqrt(0.01), rtol=1e-9)


def test_fadas_is_independent_of_the_size_of_local_steps(x64):
    rule = rules.FADAS([0.01, 1.0], server_learning_rate=0.05, epsilon=0.0)
    np.testing.assert_allclose(*asim.replay(TRACE, rule, quadratic(), seed=(0, 0)).loss, rtol=1e-9)


def test_fadas_lowers_the_step_size_of_late_updates_in_two_ways(x64):
    """The last of four updates is three versions old: a step of η/3 = 1/6, or of min(η, 1/3) = 1/3."""
    trace = asim.Trace.from_commits([0, 0, 0, 1])
    steps = []
    for late in ("divided", "capped"):
        rule = rules.FADAS(server_learning_rate=0.5, buffer=1, grace=1, late=late)
        central = asim.replay(trace, rule, quadratic(), record=("central",)).records["central"]
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


def test_ca2fl_of_all_workers_is_their_mean(x64):
    """If every worker commits once in a step, the cached updates cancel, and the step is that of plain buffering."""
    rules_ = rules.FedBuff(0.2, buffer=4, exponent=0.0), rules.CA2FL(0.2, workers=4, buffer=4)
    plain, calibrated = (asim.replay(round_robin(4, 40), rule, quadratic()).loss for rule in rules_)
    np.testing.assert_allclose(calibrated, plain, rtol=1e-9)
