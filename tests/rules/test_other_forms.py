"""Published forms of one rule that differ: both are there, and are told apart."""

import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import TRACES, gamma_trace
from tests.rules.by_hand import START, H, quadratic

RATE = 0.1


@pytest.mark.parametrize("atomic", [False, True])
def test_adag_compares_with_what_was_pulled_or_with_the_commit(atomic, x64):
    trace = TRACES["early_pulls"][0](commits=60)
    assert (trace.pull_version < trace.version).any()
    thetas = [START]
    for read, pulled in zip(trace.read_version, trace.pull_version, strict=True):
        s, centre = thetas[read], thetas[-1] if atomic else thetas[pulled]
        thetas.append(thetas[-1] - RATE * H * s / (1 + (centre - s) ** 2 / 0.2))
    run = asim.replay(trace, rules.ADAG(RATE, window=1, gamma=0.2, atomic=atomic), quadratic())
    np.testing.assert_allclose(run.central["x"], thetas[-1], rtol=1e-9)


def test_dc_asgd_may_average_squares_by_worker(x64):
    trace, decay = gamma_trace(workers=6, commits=80), 0.8
    thetas, squares = [START], np.zeros((6, len(H)))
    for worker, read in zip(trace.worker, trace.read_version, strict=True):
        s = thetas[read]
        g = H * s
        squares[worker] = decay * squares[worker] + (1 - decay) * g**2
        thetas.append(thetas[-1] - RATE * (g + 0.7 / np.sqrt(squares[worker] + 1e-7) * g * g * (thetas[-1] - s)))

    def end(variance, order=trace):
        rule = rules.DCASGD(RATE, compensation=0.7, variance=variance, decay=decay)
        return asim.replay(order, rule, quadratic()).central["x"]

    np.testing.assert_allclose(end("adaptive_by_worker"), thetas[-1], rtol=1e-9)
    assert abs(end("adaptive") - thetas[-1]).max() > 1e-4
    alone = asim.Trace.from_commits([0] * 20)
    np.testing.assert_allclose(end("adaptive_by_worker", alone), end("adaptive", alone), rtol=1e-12)


def test_fadas_lowers_the_step_size_of_late_updates_in_two_ways(x64):
    """The last of four updates is three versions old: a step of η/3 = 1/6, or of min(η, 1/3) = 1/3."""
    trace = asim.Trace.from_commits([0, 0, 0, 1])  # the last update is three versions old
    steps = []
    for late in ("divided", "capped"):
        rule = rules.FADAS(server_learning_rate=0.5, buffer=1, grace=1, late=late)
        before, after = (asim.replay(trace, rule, quadratic(), commits=k).central["x"] for k in (3, 4))
        steps.append(after - before)
    np.testing.assert_allclose(steps[1], 2 * steps[0], rtol=1e-9)
    with pytest.raises(ValueError, match="`late` must be one of 'divided', 'capped'; got 'never'"):
        rules.FADAS(server_learning_rate=0.5, late="never")


def test_diloco_decays_weights_as_its_optimiser_does(x64):
    def first_step(optimiser):
        rule = rules.DiLoCo(0.01, window=1, server_learning_rate=1.0, momentum=0.0, optimiser=optimiser)
        run = asim.replay(asim.Trace.from_commits([0]), rule, asim.workloads.Quadratic([1.0]))
        return 1 - float(run.central["x"][0])

    assert first_step("adamw") == pytest.approx(0.01 * (1 + 1e-4), rel=1e-6)
    assert first_step(optax.adamw(1.0, weight_decay=0.1)) == pytest.approx(0.01 * (1 + 0.1), rel=1e-6)
