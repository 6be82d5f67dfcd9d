"""Rules with windows of local steps: in NumPy, their degenerate cases, and their largest stable step sizes."""

import dataclasses

import jax
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from asyncsim.workloads._batches import init_key
from tests.problems import TRACES, assert_close, gamma_trace, in_few_programs, round_robin, tree_workload
from tests.rules.by_hand import assert_ends, local_steps, own_steps, quadratic, versions

RATE, WINDOW, GAMMA = 0.2, 3, 0.05
WINDOWS = (1, 4, 2, 3)  # of four workers
ONE_WORKER = asim.Trace.from_commits([0] * 12)


def damped(delta, shift, age, window):
    return delta / window / (shift**2 / GAMMA + 1)


# Rule, and the message of a worker, a function of Δ, θ - s, τ and H.
PUBLISHED = {
    "downpour": (rules.Downpour(RATE, window=WINDOW), lambda delta, shift, age, window: delta),
    "agn": (rules.AGN(RATE, window=WINDOW), lambda delta, shift, age, window: delta / window),
    "adag": (rules.ADAG(RATE, window=WINDOW, gamma=GAMMA), damped),
    "adag_atomic": (rules.ADAG(RATE, window=WINDOW, gamma=GAMMA, atomic=True), damped),
    "dynsgd": (rules.DynSGD(RATE, window=WINDOW), lambda delta, shift, age, window: delta / (age + 1)),
    "worker": (rules.WorkerOptimiser(RATE, optimiser="sgd", window=WINDOW), lambda delta, shift, age, window: delta),
    "local_sgd": (
        rules.LocalSGD(RATE, window=WINDOW, server_learning_rate=0.7),
        lambda delta, shift, age, window: 0.7 * delta,
    ),
}


@pytest.mark.parametrize("windows", [WINDOW, WINDOWS], ids=["one window", "windows by worker"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_rule_is_what_its_source_says(name, windows, x64):
    """Staleness is counted in the server's versions, up to the application, where commits come in steps as well."""
    rule, commit = PUBLISHED[name]
    rule = dataclasses.replace(rule, window=windows)
    trace, own = TRACES["everything"][0](workers=4, commits=40), {}

    def send(k, thetas):
        w, pulled = trace.worker[k], thetas[trace.pull_version[k]]
        s = own[w] if trace.resumes_own[k] else thetas[trace.read_version[k]]
        shift = (thetas[-1] if getattr(rule, "atomic", False) else pulled) - s
        window = np.broadcast_to(windows, 4)[w]
        message = commit(local_steps(s, RATE, window), shift, trace.staleness[k], window)
        own[w] = pulled + message
        return message

    assert_ends(trace, rule, versions(trace, send))


def test_a_window_is_that_many_steps_of_one_worker(x64):
    """Mini-batches and keys belong to the steps, whether a commit has H steps or one."""
    steps = asim.Trace.from_commits([0] * 60)
    for rule in (rules.Downpour(0.1, window=5), rules.WorkerOptimiser(0.1, optimiser="sgd", window=5)):
        run = replay_plainly(ONE_WORKER, in_few_programs(rule), tree_workload(), seed=4)
        single = replay_plainly(steps, rules.Downpour(0.1), tree_workload(), seed=4)
        assert_close(run.central, single.central)
        assert_close(run.loss, single.loss.reshape(12, 5).mean(axis=1))


def test_the_state_of_an_optimiser_survives_pulls(x64):
    """Twelve windows of five steps of Adam are sixty steps of Adam."""
    rule = in_few_programs(rules.WorkerOptimiser(0.05, optimiser="adam", window=5))
    run = replay_plainly(ONE_WORKER, rule, tree_workload(), seed=4)
    assert_close(run.central, own_steps(optax.adam(0.05), tree_workload(), 60, seed=4)[0])


ADAM = optax.adam(0.03)
ROUNDS = [  # a rule, and the optimisers of workers and server; without a window it is synchronous SGD
    (rules.Downpour(0.2), optax.sgd(0.2), optax.sgd(1.0)),
    (rules.LocalSGD(0.03, window=5, optimiser="adam"), ADAM, optax.sgd(1.0)),
    (
        rules.DiLoCo(0.03, window=5, server_learning_rate=0.6, momentum=0.8, optimiser="adam"),
        ADAM,
        optax.sgd(0.6, momentum=0.8, nesterov=True),
    ),
]


@pytest.mark.parametrize(("rule", "inner", "outer"), ROUNDS)
def test_rounds_are_those_of_the_papers(rule, inner, outer, x64):
    """Every worker steps from θ with its own optimiser; the outer one takes the mean of θ - x_i as gradient."""
    workers, rounds, window, workload = 3, 4, rule.window, tree_workload()
    theta = workload.init(init_key(2))
    states, outer_state = [None] * workers, outer.init(theta)
    for turn in range(rounds):
        ends = []
        for w in range(workers):
            end, states[w] = own_steps(inner, workload, window, 2, w, theta, states[w], turn * window)
            ends.append(end)
        gradient = jax.tree.map(lambda t, *x: t - sum(x) / workers, theta, *ends)
        updates, outer_state = outer.update(gradient, outer_state, theta)
        theta = optax.apply_updates(theta, updates)
    cluster = asim.Cluster(workers, asim.delays.Exponential(1.0), protocol=asim.protocols.Synchronous())
    trace = asim.simulate(cluster, commits=workers * rounds)
    run = replay_plainly(trace, in_few_programs(rule), workload, seed=2)
    assert_close(run.central, theta, rtol=1e-8, atol=1e-10)


def grows(rule, rates, trace):
    """Whether the loss on L = x²/2 grows in the long run, for each step size."""
    loss = asim.replay(trace, rule, asim.workloads.Quadratic([1.0]), seed=[0] * len(rates)).loss
    assert np.isfinite(loss).all()
    quarter = len(trace) // 4
    return loss[:, -quarter:].max(axis=1) > loss[:, quarter : 2 * quarter].max(axis=1)


@pytest.mark.parametrize(("workers", "window"), [(10, 5), (4, 10)])
def test_accumulated_downpour_is_stable_as_theory_says(workers, window, x64):
    """H steps move x by 1 - (1 - κ)^H of itself, with κ = η·h. The limit of that is the limit of one step."""
    limit = 2 * np.sin(np.pi / (2 * (2 * workers - 1)))
    rates = 1 - (1 - limit * np.array([0.97, 1.03])) ** (1 / window)
    assert grows(rules.Downpour(rates, window=window), rates, round_robin(workers, 800 * workers)).tolist() == [
        False,
        True,
    ]


def test_agn_above_its_bound_is_stable_at_every_step_size(x64):
    """For windows H > 1/(2 sin(π/(2(2n - 1)))), about 0.64·n, if a step does not overshoot. Not so just below."""
    workers = 10
    bound = 1 / (2 * np.sin(np.pi / (2 * (2 * workers - 1))))
    assert bound == pytest.approx(2 * workers / np.pi, rel=0.06)
    rates, trace = np.array([0.01, 0.1, 0.5, 0.9, 1.0]), round_robin(workers, 800 * workers)
    assert not grows(rules.AGN(rates, window=int(np.ceil(bound))), rates, trace).any()
    assert grows(rules.AGN(rates, window=int(bound)), rates, trace)[-1]


def test_pi_is_what_scales_the_sum(x64):
    """As reported by ADAG: 1/(H(1 + (θ - s)²/γ)), at most 1/H, and exactly that if no other commit came between."""
    trace = gamma_trace(workers=2)
    run = replay_plainly(trace, rules.ADAG(0.1, window=4, gamma=0.01), quadratic())
    pi, alone = np.array([commit.info.pi["x"] for commit in run.commits]), trace.staleness == 0
    assert alone.any()
    np.testing.assert_allclose(pi[alone], 0.25)
    assert (pi[~alone] < 0.25).all()


def test_diloco_decays_weights_as_its_optimiser_does(x64):
    def first_step(optimiser):
        rule = rules.DiLoCo(0.01, window=1, server_learning_rate=1.0, momentum=0.0, optimiser=optimiser)
        run = replay_plainly(asim.Trace.from_commits([0]), rule, asim.workloads.Quadratic([1.0]))
        return 1 - float(run.central["x"][0])

    assert first_step("adamw") == pytest.approx(0.01 * (1 + 1e-4), rel=1e-6)
    assert first_step(optax.adamw(1.0, weight_decay=0.1)) == pytest.approx(0.01 * (1 + 0.1), rel=1e-6)
