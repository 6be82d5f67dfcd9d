"""Weight prediction and SpecTrain in NumPy and without delay, and PipeMare's two ends."""

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import gamma_trace, noisy_quadratic, round_robin, varied
from tests.rules.by_hand import H, assert_ends, quadratic, trace_of, versions

RATE, MOMENTUM = 0.05, 0.7


@pytest.mark.parametrize("horizon", [3.5, None])
def test_they_are_what_their_papers_say(horizon, x64):
    """Linear weight prediction, and SpecTrain without a horizon."""
    trace = trace_of(workers=5, commits=80)
    velocities, last = [np.zeros(3)], {}

    def send(k, thetas):
        w, point, v = trace.worker[k], thetas[trace.read_version[k]], velocities[trace.read_version[k]]
        if w in last and not trace.state_lost[k]:
            point = point - RATE * (last[w] if horizon is None else horizon) * v
        last[w] = trace.staleness[k]
        return H * point

    def apply(theta, g):
        velocities.append(MOMENTUM * velocities[-1] + (1 - MOMENTUM if horizon is None else 1) * g)
        return theta - RATE * velocities[-1]

    rule = rules.SpecTrain(RATE, momentum=MOMENTUM)
    if horizon is not None:
        rule = rules.WeightPrediction(RATE, momentum=MOMENTUM, horizon=horizon)
    assert_ends(trace, rule, versions(trace, send, apply))


def test_one_worker_that_looks_ahead_by_its_momentum_is_nesterov(x64):
    """Gradients are taken where the optimiser's parameters are: the losses are its losses."""
    trace = asim.Trace.from_commits([0] * 30)
    ahead = rules.WeightPrediction(RATE, momentum=MOMENTUM, horizon=MOMENTUM)
    runs = [asim.replay(trace, rule, quadratic()) for rule in (ahead, rules.SharedNesterov(RATE, momentum=MOMENTUM))]
    np.testing.assert_allclose(runs[0].loss, runs[1].loss, rtol=1e-10)


def test_pipemare_begins_as_staleness_aware_and_ends_as_asynchronous_sgd(x64):
    # With K = 1 the first commit, which is fresh, and all others are applied in full.
    for anneal, other in ((1e12, rules.StalenessAware(0.1)), (1, rules.Downpour(0.1))):
        both = rules.PipeMare(0.1, anneal=anneal), other
        runs = [asim.replay(gamma_trace(), rule, noisy_quadratic()).loss for rule in both]
        np.testing.assert_allclose(*runs, rtol=1e-8)


def test_looking_ahead_helps_against_delay(x64):
    """With momentum .9 and 5 workers in turn, a step size that diverges without prediction is stable with it."""
    trace = round_robin(5, 3000)
    workload = asim.workloads.Quadratic([1.0])
    blind, ahead = asim.replay(
        trace, rules.WeightPrediction(0.035, momentum=0.9, horizon=[0, 4]), workload, seed=(0, 0)
    ).loss
    assert not blind[-1] < 1e3
    assert ahead[-1] < 1e-6


def init_two(key):
    del key
    return {"back": jnp.ones(()), "front": jnp.ones(())}


def constant_slope(params, batch, key):
    return params["front"] + params["back"]


STAGES = {"front": [0, 0, 0, 1, 2], "back": [0, 1, 1, 2, 3]}  # staleness 2 and 1 once three jobs are under way


@pytest.mark.parametrize("elementwise", [True, False])
def test_every_stage_slows_down_by_its_own_staleness(elementwise, x64):
    """PipeMare on gradients of 1: the updates are -η·τ^(p_k), stage by stage."""
    trace = asim.Trace.from_commits([0, 1, 2, 0, 1], groups=STAGES)
    workload = asim.Workload(init_two, constant_slope).grouped({"back": "back", "front": "front"})
    rule = varied(rules.PipeMare(0.1, anneal=10), elementwise=elementwise)
    run = asim.replay(trace, rule, workload)
    p = np.arange(5) / 10 - 1
    for name, ages in zip(("front", "back"), trace.group_staleness.T, strict=True):
        assert float(run.central[name]) == pytest.approx(1 - 0.1 * (np.maximum(ages, 1.0) ** p).sum(), rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [lambda: rules.SpecTrain(0.1, momentum=0.5), lambda: rules.WeightPrediction(0.1, momentum=0.5, horizon=None)],
)
def test_every_stage_looks_ahead_by_its_own_staleness(make, x64):
    """Each read is θ of its version, and from there τ velocities on, by the stage's τ at the worker's last commit."""
    trace = asim.Trace.from_commits([0, 1, 2, 0, 1], groups=STAGES)
    workload = asim.Workload(init_two, constant_slope).grouped({"back": "back", "front": "front"})
    rule = make()
    run = asim.replay(trace, rule, workload, record=("central", "read"))
    reads, centrals = run.unpacked("read"), run.unpacked("central")
    for place, name in enumerate(("front", "back")):
        theta = np.append(1.0, centrals[name])
        velocity = np.append(0.0, np.diff(theta))
        for k, last in ((3, 0), (4, 1)):
            version, age = trace.group_read_version[k, place], trace.group_staleness[last, place]
            assert float(reads[name][k]) == pytest.approx(theta[version] + age * velocity[version], rel=1e-12)
    assert trace.group_staleness[1].tolist() == [1, 0]  # so that the stages differ


def test_a_horizon_of_staleness_is_spectrain_with_another_average(x64):
    """(1 - μ)·η in SpecTrain is η in linear weight prediction."""
    both = rules.WeightPrediction(0.02, momentum=0.8, horizon=None), rules.SpecTrain(0.1, momentum=0.8)
    np.testing.assert_allclose(*(asim.replay(gamma_trace(), rule, quadratic()).loss for rule in both), rtol=1e-9)
