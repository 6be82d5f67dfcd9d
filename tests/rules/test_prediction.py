"""Weight prediction and SpecTrain in NumPy and without delay, and PipeMare's two ends."""

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from tests.problems import varied
from tests.rules.by_hand import H, assert_ends, trace_of, versions

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


def init_two(key):
    del key
    return {"back": jnp.ones(()), "front": jnp.ones(())}


def constant_slope(params, batch, key):
    return params["front"] + params["back"]


STAGES = {"front": [0, 0, 0, 1, 2], "back": [0, 1, 1, 2, 3]}  # staleness 2 and 1 once three jobs are under way
TRACE = asim.Trace.from_commits([0, 1, 2, 0, 1], groups=STAGES)
WORKLOAD = asim.Workload(init_two, constant_slope).grouped({"back": "back", "front": "front"})


@pytest.mark.parametrize("elementwise", [True, False])
def test_every_stage_slows_down_by_its_own_staleness(elementwise, x64):
    """PipeMare on gradients of 1: the updates are -η·τ^(p_k), stage by stage."""
    run = asim.replay(TRACE, varied(rules.PipeMare(0.1, anneal=10), elementwise=elementwise), WORKLOAD)
    p = np.arange(5) / 10 - 1
    for name, ages in zip(("front", "back"), TRACE.group_staleness.T, strict=True):
        assert float(run.central[name]) == pytest.approx(1 - 0.1 * (np.maximum(ages, 1.0) ** p).sum(), rel=1e-12)


@pytest.mark.parametrize(
    "rule", [rules.SpecTrain(0.1, momentum=0.5), rules.WeightPrediction(0.1, momentum=0.5, horizon=None)]
)
def test_every_stage_looks_ahead_by_its_own_staleness(rule, x64):
    """Each read is θ of its version, and from there τ velocities on, by the stage's τ at the worker's last commit."""
    run = asim.replay(TRACE, rule, WORKLOAD, record=("central", "read"))
    reads, centrals = run.unpacked("read"), run.unpacked("central")
    for place, name in enumerate(("front", "back")):
        theta = np.append(1.0, centrals[name])
        velocity = np.append(0.0, np.diff(theta))
        for k, last in ((3, 0), (4, 1)):
            version, age = TRACE.group_read_version[k, place], TRACE.group_staleness[last, place]
            assert float(reads[name][k]) == pytest.approx(theta[version] + age * velocity[version], rel=1e-12)
    assert TRACE.group_staleness[1].tolist() == [1, 0]  # so that the stages differ
