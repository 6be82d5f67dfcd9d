"""Identities of the rules: with one worker, on constant gradients, with exact compliance."""

import jax
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim.workloads._batches import init_key
from tests.problems import (
    RULES,
    assert_close,
    gamma_trace,
    make_trace,
    noisy_quadratic,
    random_trace,
    round_robin,
    tree_workload,
)
from tests.rules.by_hand import own_steps, slope
from tests.rules.test_conformance import OPTAX

ALONE = ("downpour", "momentum_sgd", "shared_nesterov")


@pytest.mark.parametrize("name", ALONE)
def test_one_worker_is_plain_optax(name, x64):
    """With mini-batches and keys. The conformance tests compare all rules without these."""
    make, standard = RULES[name]
    run = asim.replay(asim.Trace.from_commits([0] * 20), make(), tree_workload(), seed=5)
    expected, _ = own_steps(OPTAX[standard], tree_workload(), 20, seed=5)
    assert_close(run.central, expected)


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
    trace, rate = gamma_trace(workers=6, commits=150, cv=1.0), 0.05
    run = asim.replay(trace, asim.rules.GEM(rate, momentum=0.8, variant="signed"), tree_workload(), seed=2)
    last = int(trace.worker[-1])
    steps = int((trace.worker == last).sum())
    expected, _ = own_steps(optax.sgd(rate, momentum=0.8), tree_workload(), steps, seed=2, worker=last)
    assert_close(run.central, expected, rtol=1e-9, atol=1e-12)


def test_signed_gem_is_exactly_compliant(x64):
    """Whenever a worker reads, its commit carries the centre from there to s + κm."""
    rule = asim.rules.GEM(0.05, kappa=1.3, variant="signed")
    run = asim.replay(random_trace(waiting=0.5, crashing=0.2), rule, noisy_quadratic(), record=("compliance",))
    np.testing.assert_allclose(run.records["compliance"], 1.0, rtol=1e-9)


def test_workers_that_wait_for_each_other_are_one_with_all_their_data(x64):
    """Synchronous SGD: a step of n commits that all read at its start is one worker's on their gradients' mean."""
    workers, steps, workload = 4, 8, tree_workload()
    params = workload.init(init_key(3))
    for job in range(steps):
        ends = [own_steps(optax.sgd(0.2), workload, 1, 3, w, params, first=job)[0] for w in range(workers)]
        params = jax.tree.map(lambda *each: sum(each) / workers, *ends)
    for lanes in (1, workers):
        run = asim.replay(in_step(workers, steps), asim.rules.Downpour(0.2), workload, seed=3, lanes=lanes)
        assert_close(run.central, params)


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
