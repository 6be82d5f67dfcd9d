"""Weight prediction and SpecTrain written out in NumPy; what they are without delay; PipeMare's two ends."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import gamma_trace, noisy_quadratic, round_robin, tree_workload, varied
from tests.rules.by_hand import H, quadratic, trace_of, versions
from tests.rules.test_identities import plain_optax

RATE, MOMENTUM = 0.05, 0.7
KINDS = ("ordinary", "everything")


def by_hand(trace, horizon=None):
    """The last central variable of linear weight prediction, or of SpecTrain without a horizon."""
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

    return versions(trace, send, apply)[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("horizon", [0, 3.5, None])
def test_they_are_what_their_papers_say(horizon, kind, x64):
    trace = trace_of(kind, workers=5, commits=80)
    rule = rules.SpecTrain(RATE, momentum=MOMENTUM)
    if horizon is not None:
        rule = rules.WeightPrediction(RATE, momentum=MOMENTUM, horizon=horizon)
    run = asim.replay(trace, rule, quadratic())
    np.testing.assert_allclose(run.central["x"], by_hand(trace, horizon), rtol=1e-9, atol=1e-14)


def test_one_worker_that_looks_ahead_by_its_momentum_is_nesterov(x64):
    """Gradients are taken where the optimiser's parameters are: the losses are its losses."""
    trace, workload = asim.Trace.from_commits([0] * 30), tree_workload()
    run = asim.replay(trace, rules.WeightPrediction(RATE, momentum=MOMENTUM, horizon=MOMENTUM), workload, seed=2)
    shared = asim.replay(trace, rules.SharedNesterov(RATE, momentum=MOMENTUM), workload, seed=2)
    np.testing.assert_allclose(run.loss, shared.loss, rtol=1e-10)
    expected = plain_optax(optax.sgd(RATE, momentum=MOMENTUM, nesterov=True), workload, 30, seed=2)
    np.testing.assert_allclose(shared.central["bias"], expected["bias"], rtol=1e-10)


def test_pipemare_begins_as_staleness_aware_and_ends_as_asynchronous_sgd(x64):
    trace, workload = gamma_trace(workers=6, commits=80), noisy_quadratic()
    begin = asim.replay(trace, rules.PipeMare(0.1, anneal=1e12), workload)
    np.testing.assert_allclose(begin.loss, asim.replay(trace, rules.StalenessAware(0.1), workload).loss, rtol=1e-8)
    end = asim.replay(trace, rules.PipeMare(0.1, anneal=1), workload)  # the first commit is fresh, the second full
    np.testing.assert_allclose(end.loss, asim.replay(trace, rules.Downpour(0.1), workload).loss, rtol=1e-10)


def test_looking_ahead_helps_against_delay(x64):
    """With momentum .9 and 5 workers in turn, a step size that diverges without prediction is stable with it."""
    trace = round_robin(5, 3000)
    workload = asim.workloads.Quadratic([1.0])
    blind = asim.replay(trace, rules.WeightPrediction(0.035, momentum=0.9, horizon=0), workload)
    ahead = asim.replay(trace, rules.WeightPrediction(0.035, momentum=0.9, horizon=4), workload)
    assert blind.loss[-1] > 1e3 or blind.diverged_at is not None
    assert ahead.loss[-1] < 1e-6


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
    trace, workload = gamma_trace(), noisy_quadratic()
    predicted = asim.replay(trace, rules.WeightPrediction(0.02, momentum=0.8, horizon=None), workload)
    np.testing.assert_allclose(
        predicted.loss, asim.replay(trace, rules.SpecTrain(0.1, momentum=0.8), workload).loss, rtol=1e-9
    )
