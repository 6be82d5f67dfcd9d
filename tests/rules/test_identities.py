"""What must be true of the rules: one worker, constant gradients, exact compliance."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim.trace import Unfinished
from asyncsim.workloads._batches import commit_key, init_key
from tests.problems import CORE, RULES, TRACES, gamma_trace, make_trace, noisy_quadratic, round_robin, tree_workload

OPTAX = {"sgd": lambda: optax.sgd(0.1), "momentum": lambda: optax.sgd(0.02, momentum=0.8)}


def plain_optax(optimiser, workload, commits, seed):
    """One worker's training loop, as one would write it by hand."""
    params = workload.init(init_key(seed))
    state = optimiser.init(params)
    for job in range(commits):
        key = commit_key(jax.random.key(seed), 0, job)
        _, gradient = workload.loss_and_gradient(params, workload.batch(seed, 0, job), key)
        updates, state = optimiser.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    return params


@cache
def standard_optax(standard, workload):
    """What all rules must equal that are this optimiser with one worker."""
    return plain_optax(OPTAX[standard](), workload(), 40, seed=5)


STANDARD = [name for name, (_, standard) in RULES.items() if standard]
# With noise only one rule of each kind: the conformance tests replay all of them on other problems.
ALONE = [(name, tree_workload) for name in STANDARD]
ALONE += [(name, noisy_quadratic) for name in ("downpour", "momentum_sgd", "gem_signed", "local_sgd", "server")]


@pytest.mark.parametrize(("name", "workload"), ALONE)
def test_one_worker_is_plain_optax(name, workload, x64):
    make, standard = RULES[name]
    run = asim.replay(asim.Trace.from_commits([0] * 40), make(), workload(), seed=5)
    expected = standard_optax(standard, workload)
    for a, b in zip(jax.tree.leaves(run.central), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def linear_loss(params, batch, key):
    del batch, key
    return params["x"].sum()


def slope(start=0.0):
    """A constant gradient of 1: raw updates d = -η."""
    return asim.Workload(init=lambda key: {"x": jnp.full(1, start)}, loss=linear_loss)


def seven_zeros(key):
    """A shape of its own, and so programs of its own: the clamp is compiled in."""
    return {"x": jnp.zeros(7)}


@pytest.mark.parametrize("variant", ["script", "paper"])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_unclamped_gem_on_a_constant_gradient(workers, variant, monkeypatch, x64):
    """Round robin: κd/((1-μ)(n+1)) per commit on average."""
    monkeypatch.setattr(asim.energy, "CLAMP_SCRIPT", (-np.inf, np.inf))
    momentum, kappa = np.array([0.9, 0.5, 0.5]), np.array([1.0, 1.0, 2.0])  # side by side
    warm, cycles = 400 * workers, 30
    rule = asim.rules.GEM(0.01, momentum=momentum, kappa=kappa, variant=variant)
    period = workers * (workers + 1)  # of the pattern of steps, and of who commits
    trace = round_robin(workers, warm + cycles * period)
    workload = asim.Workload(init=seven_zeros, loss=linear_loss)
    start = asim.replay(trace, rule, workload, seed=(0, 0, 0), commits=warm)
    end = asim.replay(trace, rule, workload, seed=(0, 0, 0), resume=start)
    step = (end.central["x"] - start.central["x"])[:, 0] / (cycles * period)
    np.testing.assert_allclose(step, -0.01 * kappa / ((1 - momentum) * (workers + 1)), rtol=1e-6)


@pytest.mark.parametrize("cv", [0.3, 1.0])
def test_signed_gem_is_independent_momentum_sgd(cv, x64):
    """With exact compliance the centre is the committing worker's own momentum SGD."""
    trace, workload = gamma_trace(workers=6, commits=150, cv=cv), tree_workload()
    run = asim.replay(trace, asim.rules.GEM(0.05, momentum=0.8, variant="signed"), workload, seed=2)
    last = int(trace.worker[-1])
    first = workload.init(init_key(2))
    params, moment = first, jax.tree.map(jnp.zeros_like, first)
    for job in range(int((trace.worker == last).sum())):
        key = commit_key(jax.random.key(2), last, job)
        _, gradient = workload.loss_and_gradient(params, workload.batch(2, last, job), key)
        moment = jax.tree.map(lambda m, g: 0.8 * m - 0.05 * g, moment, gradient)
        params = jax.tree.map(jnp.add, params, moment)
    for a, b in zip(jax.tree.leaves(run.central), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["ordinary", "waiting", "crashing"])
def test_signed_gem_is_exactly_compliant(kind, x64):
    """Whenever a worker reads, its commit carries the centre from there to s + κm."""
    rule = asim.rules.GEM(0.05, kappa=1.3, variant="signed")
    run = asim.replay(TRACES[kind][0](), rule, tree_workload(), record=("compliance",))
    np.testing.assert_allclose(run.records["compliance"], 1.0, rtol=1e-9)


@pytest.mark.parametrize("kind", ["buffered", "everything"])
def test_a_step_applies_the_mean_of_its_messages(kind, x64):
    """On a constant gradient a step is η; and η times the mean of 1/(τ+1) for updates divided by their age."""
    trace = TRACES[kind][0](commits=300)
    run = asim.replay(trace, asim.rules.Downpour(0.01), slope())
    np.testing.assert_allclose(run.central["x"], -0.01 * trace.steps, rtol=1e-10)
    shares = 1 / (trace.staleness + 1) / np.bincount(trace.version)[trace.version]
    run = asim.replay(trace, asim.rules.AdaptiveStaleness(0.01), slope())
    np.testing.assert_allclose(run.central["x"], -0.01 * shares[trace.version < trace.steps].sum(), rtol=1e-10)


@pytest.mark.parametrize(
    "rule", [asim.rules.Downpour(0.2), asim.rules.MomentumSGD(0.1, momentum=0.5)], ids=lambda r: r.name
)
def test_workers_that_wait_for_each_other_are_one_with_all_their_data(rule, x64):
    """Synchronous SGD: a step of n commits that all read at its start is one worker's on their gradients' mean."""
    workers, steps = 4, 15
    workload, optimiser = tree_workload(), optax.sgd(*rule.numbers.values())
    params = workload.init(init_key(3))
    state = optimiser.init(params)
    for job in range(steps):
        keys = [commit_key(jax.random.key(3), w, job) for w in range(workers)]
        batches = [workload.batch(3, w, job) for w, key in enumerate(keys)]
        slopes = [workload.loss_and_gradient(params, *pair)[1] for pair in zip(batches, keys, strict=True)]
        updates, state = optimiser.update(jax.tree.map(lambda *g: sum(g) / workers, *slopes), state, params)
        params = optax.apply_updates(params, updates)
    for lanes in (1, workers):
        run = asim.replay(in_step(workers, steps), rule, workload, seed=3, lanes=lanes)
        for a, b in zip(jax.tree.leaves(run.central), jax.tree.leaves(params), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def in_step(workers, steps):
    """In every step all workers commit once, in a new order each time, and read after the last of them."""
    rng = np.random.default_rng(0)
    order = [(step, w) for step in range(steps) for w in rng.permutation(workers)]
    rows = [
        {"worker": w, "read_version": v, "version": v, "pull_version": v, "read_time": v * workers, "state_lost": False}
        | {"commit_time": k + 1, "closes_step": (k + 1) % workers == 0}
        for k, (v, w) in enumerate(order)
    ]
    return make_trace(workers, rows)


@pytest.mark.parametrize(
    "rule",
    [
        asim.rules.MomentumSGD(0.01, momentum=0.5),
        asim.rules.WorkerOptimiser(optimiser=optax.sgd(0.01, momentum=0.5)),
    ],
    ids=lambda rule: rule.name,
)
def test_a_lost_state_is_a_moment_at_rest(rule, x64):
    """On a constant gradient the j-th commit since the state was lost sends -η(1 - μ^j)/(1 - μ)."""
    trace = TRACES["crashing"][0](commits=300)
    since, total = [0] * trace.workers, 0.0
    for w, lost in zip(trace.worker, trace.state_lost, strict=True):
        since[w] = 1 if lost else since[w] + 1
        total -= 0.01 * (1 - 0.5 ** since[w]) / (1 - 0.5)
    np.testing.assert_allclose(asim.replay(trace, rule, slope()).central["x"], total, rtol=1e-10)


def test_steps_of_one_commit_are_unbuffered(x64):
    """The buffer changes nothing until a step has two commits: here only the last step, which stays open."""
    trace = gamma_trace()
    closes = np.arange(len(trace)) < len(trace) - 1
    nobody = Unfinished(worker=[], read_version=[], read_time=[])
    buffered = dataclasses.replace(trace, closes_step=closes, unfinished=nobody)
    for rule in (RULES[name][0]() for name in CORE):  # of each kind; the conformance tests buffer commits of all rules
        if rule.collect is not None:
            continue  # it makes steps of its own, and refuses this trace
        expected = asim.replay(trace, rule, noisy_quadratic(), commits=len(trace) - 1).central["x"]
        np.testing.assert_allclose(asim.replay(buffered, rule, noisy_quadratic()).central["x"], expected, rtol=1e-9)


@pytest.mark.parametrize("workers", [2, 8])
def test_round_robin_downpour_is_stable_up_to_the_closed_form(workers, x64):
    """x_{t+1} = x_t - κ·x_{t-τ}, τ = n - 1: stable iff κ < 2 sin(π/(2(2τ+1))) (Levin and May 1976)."""
    limit = 2 * np.sin(np.pi / (2 * (2 * workers - 1)))
    trace = round_robin(workers, 40_000)
    rates = limit * np.array([0.98, 1.02])
    loss = asim.replay(trace, asim.rules.Downpour(rates), asim.workloads.Quadratic([1.0]), seed=(0, 0)).loss
    assert loss[0, -100:].max() < 1e-6
    assert loss[1, -100:].max() > 1e3


def test_signed_reports_finite_pi_where_nothing_is_learned():
    flat = asim.workloads.Quadratic([0.0, 1.0])
    run = asim.replay(gamma_trace(), asim.rules.GEM(0.1, variant="signed"), flat, record=("pi_mean", "compliance"))
    assert np.isfinite(run.records["pi_mean"]).all()
