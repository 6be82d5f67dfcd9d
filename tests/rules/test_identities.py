"""Identities of the rules: with one worker, on constant gradients, with exact compliance."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from tests.problems import (
    TRACES,
    assert_close,
    gamma_trace,
    noisy_quadratic,
    random_trace,
    round_robin,
    trace_for,
    tree_workload,
)
from tests.rules.by_hand import own_steps, slope

ALONE, EVERYTHING = asim.Trace.from_commits([0] * 20), TRACES["everything"][0](commits=40)
ROUNDS = asim.simulate(asim.Cluster(5, asim.delays.Exponential(1.0), protocol=asim.protocols.Synchronous()), commits=40)
PLAIN, NESTEROV = rules.Downpour(0.1), optax.sgd(0.05, momentum=0.8, nesterov=True)
SAME = [  # a rule, the rule that it is there, and where; what is a special case of a formula is tested with the formula
    (rules.MultiASGD(0.05, momentum=0.7), rules.MomentumSGD(0.05, momentum=0.7), EVERYTHING),
    (rules.WeightPrediction(0.02, momentum=0.8, horizon=None), rules.SpecTrain(0.1, momentum=0.8), EVERYTHING),
    # In a round nothing is stale, though messages arrive one after the other: staleness counts versions, not arrivals.
    *((rule, PLAIN, ROUNDS) for rule in (rules.StalenessAware(0.1), rules.DropStale(0.1, oldest=0))),
    # With one worker.
    *((rule, PLAIN, ALONE) for rule in (rules.Ringleader(0.1), rules.IA2SGD(0.1), rules.Malenia(0.1, batch=1))),
    (rules.CA2FL(0.1, buffer=1), PLAIN, ALONE),
    (rules.WeightPrediction(0.05, momentum=0.7, horizon=0.7), rules.SharedNesterov(0.05, momentum=0.7), ALONE),
    (
        rules.EAMSGD(0.05, window=2, rho=0.0, momentum=0.8),
        rules.WorkerOptimiser(optimiser=NESTEROV, window=2, elementwise=True),
        ALONE,
    ),
    (rules.EAMSGD(0.1, window=2, rho=4.0, momentum=0.0), rules.EASGD(0.1, window=2, beta=0.4), ALONE),
]


@pytest.mark.parametrize(("rule", "other", "trace"), SAME, ids=lambda value: getattr(value, "name", ""))
def test_two_rules_coincide_on_such_a_trace(rule, other, trace, x64):
    losses = (replay_plainly(trace, one, noisy_quadratic(), seed=3).loss for one in (rule, other))
    np.testing.assert_allclose(*losses, rtol=1e-8)


@pytest.mark.parametrize("variant", ["script", "paper"])
@pytest.mark.parametrize("workers", [1, 5])
def test_unclamped_gem_on_a_constant_gradient(workers, variant, monkeypatch, x64):
    """Round robin: κd/((1-μ)(n+1)) per commit on average."""
    monkeypatch.setattr(asim.energy, "CLAMP_SCRIPT", (-np.inf, np.inf))
    momentum, kappa = np.array([0.9, 0.5, 0.5]), np.array([1.0, 1.0, 2.0])  # batched over seeds
    warm, cycles = 400 * workers, 30
    rule = asim.rules.GEM(0.01, momentum=momentum, kappa=kappa, variant=variant)
    period = workers * (workers + 1)  # of the pattern of steps, and of who commits
    trace = round_robin(workers, warm + cycles * period)
    workload = slope(*[1.0] * 7)  # a shape of its own, and so programs of its own: the clamp is compiled in
    start = asim.replay(trace, rule, workload, seed=(0, 0, 0), commits=warm)
    end = asim.replay(trace, rule, workload, seed=(0, 0, 0), resume=start)
    step = (end.central["x"] - start.central["x"])[:, 0] / (cycles * period)
    np.testing.assert_allclose(step, -0.01 * kappa / ((1 - momentum) * (workers + 1)), rtol=1e-6)


def test_signed_gem_is_independent_momentum_sgd(x64):
    """With exact compliance the centre is the committing worker's own momentum SGD."""
    trace, rate = gamma_trace(workers=6, commits=70, cv=1.0), 0.05
    run = replay_plainly(trace, rules.GEM(rate, momentum=0.8, variant="signed"), tree_workload(), seed=2)
    last = int(trace.worker[-1])
    steps = int((trace.worker == last).sum())
    expected, _ = own_steps(optax.sgd(rate, momentum=0.8), tree_workload(), steps, seed=2, worker=last)
    assert_close(run.central, expected, rtol=1e-9, atol=1e-12)


def test_signed_gem_is_exactly_compliant(x64):
    """Whenever a worker reads, its commit carries the centre from there to s + κm."""
    rule = asim.rules.GEM(0.05, kappa=1.3, variant="signed")
    run = asim.replay(random_trace(waiting=0.5, crashing=0.2), rule, noisy_quadratic(), record=("compliance",))
    np.testing.assert_allclose(run.records["compliance"], 1.0, rtol=1e-9)


def test_signed_reports_finite_pi_where_nothing_is_learned():
    flat = asim.workloads.Quadratic([0.0, 1.0])
    run = replay_plainly(gamma_trace(), rules.GEM(0.1, variant="signed"), flat)
    assert all(np.isfinite(commit.info.pi["x"]).all() for commit in run.commits)


LINEAR = {  # rules whose steps are linear in gradients
    "sgd": rules.Downpour(0.3),
    "local steps": rules.Downpour(0.2, window=3),
    "heavy ball": rules.HeavyBall(0.1, momentum=0.6),
    "nesterov": rules.SharedNesterov(0.1, momentum=0.6),
    "a step size by age": rules.AdaptiveStaleness(0.5),
    "averaged": rules.FedBuff(0.2, buffer=3),
}
BY_AXES = {  # and those that look at each parameter
    "adam": rules.ServerOptimiser(0.05, optimiser="adam"),
    "adam at the workers": rules.WorkerOptimiser(0.05, optimiser="adam"),
    "dc-asgd": rules.DCASGD(0.3),
}
TURN = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]


def turned(turn):
    """A quadratic with the curvatures 1, 0.3 and 0.05 along the columns of a matrix, and its start turned likewise."""
    hessian, start = turn @ np.diag([1.0, 0.3, 0.05]) @ turn.T, turn @ [1.0, -2.0, 0.5]
    return asim.Workload(
        lambda key: {"x": jnp.asarray(start)}, lambda params, *_: params["x"] @ hessian @ params["x"] / 2
    )


@pytest.mark.parametrize("name", [*LINEAR, *BY_AXES])
def test_a_rotation_of_the_problem_rotates_the_steps_of_sgd_at_any_delay_and_not_those_of_adam(name, x64):
    """On a trace with every trait. So delay cannot make SGD depend on the axes of the parameters."""
    rule = (LINEAR | BY_AXES)[name]
    trace = trace_for(rule, "everything", commits=30)
    straight, inside = (replay_plainly(trace, rule, turned(turn)).central["x"] for turn in (np.eye(3), TURN))
    distance = abs(TURN @ straight - inside).max()
    assert distance < 1e-12 if name in LINEAR else distance > 1e-6
