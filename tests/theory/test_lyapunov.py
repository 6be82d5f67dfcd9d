"""Almost-sure limits: cases that are known exactly, the replay itself, and the order of the limits."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.theory import _lyapunov as lyapunov


def orders(law, workers, seeds, commits):
    cluster = asim.Cluster(workers=workers, compute=law)
    return np.stack([asim.simulate(cluster, commits=commits, seed=seed).worker for seed in range(seeds)])


@pytest.mark.parametrize(("rule", "where", "momentum"), [("downpour", "none", 0.0), ("momentum_sgd", "worker", 0.6)])
def test_a_round_robin_is_its_largest_root(rule, where, momentum):
    kappas = np.array([0.05, 0.2, 0.4])
    measured = theory.lyapunov_exponent(kappas, np.arange(3200) % 5, rule=rule, momentum=momentum)
    expected = [np.log(theory.constant_delay_rate(kappa, 4, momentum, where)) for kappa in kappas]
    assert measured == pytest.approx(expected, abs=2e-3)
    limit = theory.almost_sure_limit(np.arange(3200) % 5, low=0.1, high=1.0, rule=rule, momentum=momentum)
    assert limit == pytest.approx(theory.constant_delay_limit(4, momentum, where), abs=2e-3)


RULES = {
    "downpour": asim.rules.Downpour,
    "momentum_sgd": lambda rate: asim.rules.MomentumSGD(rate, momentum=0.7),
    "gem": lambda rate: asim.rules.GEM(rate, momentum=0.7),
}


@pytest.mark.parametrize("kappa", [0.05, 1.7])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.usefixtures("x64")
def test_the_commits_are_those_of_the_replay(rule, kappa):
    order = np.random.default_rng(5).integers(0, 4, 60)
    replayed = asim.replay(asim.Trace.from_commits(order), RULES[rule](kappa), asim.workloads.Quadratic([1.0])).loss
    commit, kept = lyapunov.RULES[rule]
    state = {name: np.ones((4, 1, 1)) for name in kept} | {"x": np.ones((1, 1)), "moment": np.zeros((4, 1, 1))}
    loss = []
    for worker in order:
        loss.append(0.5 * float(state["read"][worker, 0, 0]) ** 2)
        commit(state, (np.array([worker]), np.array([0])), np.array([kappa]), 0.7)
    # GEM's ε moves π by 1e-12 of the start; an unstable run makes more of it.
    assert replayed == pytest.approx(loss, rel=1e-6, abs=1e-6)


def test_known_limits():
    exponential = theory.almost_sure_limit(orders(Exponential(1.0), 8, 16, 6000), low=0.3, high=1.2)
    gamma = theory.almost_sure_limit(orders(Gamma(1.0, 0.5), 8, 8, 8000), low=0.1, high=1.2)
    assert exponential == pytest.approx(0.690, abs=0.015)
    assert gamma == pytest.approx(0.318, abs=0.01)


def test_gem_with_one_worker_and_in_turn():
    for momentum in (0.2, 0.9):
        limit = theory.almost_sure_limit(np.zeros(4000, int), low=1.0, high=2.2, rule="gem", momentum=momentum)
        assert limit == pytest.approx(theory.gem_single_worker_limit(momentum), abs=1e-3)
    in_turn = theory.almost_sure_limit(np.arange(4000) % 5, low=1.0, high=2.2, rule="gem")
    assert in_turn == pytest.approx(theory.gem_single_worker_limit(0.9), abs=5e-3)


def test_gem_in_random_order():
    order = orders(Exponential(1.0), 10, 16, 4000)
    limit = theory.almost_sure_limit(order, low=0.3, high=2.2, rule="gem")
    assert limit == pytest.approx(1.042, abs=0.04)
    assert limit > 2 * theory.exponential_limit(10)


def test_the_exponent_of_a_schedule_does_not_depend_on_its_company():
    order, kappas = orders(Constant(1.0), 3, 2, 400), np.array([[0.1, 0.5], [0.9, 1.3]])
    together = theory.lyapunov_exponent(kappas, order, rule="gem")
    assert together.shape == (2, 2, 2)
    assert together[1, 0, 1] == pytest.approx(float(theory.lyapunov_exponent(0.9, order[1], rule="gem")))
