"""GEM written out in NumPy from Algorithm 1 and from the authors' script; and with one proxy at the server.

The engine and its plain reference loop call the same rule; the loops here do not.
"""

import dataclasses

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import _component as component
from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from tests.problems import TRACES, gamma_trace, random_trace, tree_workload

pytestmark = pytest.mark.quick

H, START = np.array([1.0, 0.3, 0.05]), np.array([1.0, -2.0, 0.5])
RATE, MOMENTUM, KAPPA = 0.1, 0.8, 1.5
VARIANTS = ("script", "paper", "signed")


# The proxy of each worker


def by_hand_of_workers(trace, variant):
    """The central variable after every commit, and every commit's mean π."""
    thetas = [START.copy()]  # by version
    moment = [np.zeros(3)] * trace.workers
    pulled = [None] * trace.workers  # the previous pull; None before the first
    own = [None] * trace.workers  # what was pulled for the previous commit plus its message
    messages, centrals, pis = [], [], []
    for k, w in enumerate(trace.worker):
        point = own[w] if trace.resumes_own[k] else thetas[trace.read_version[k]]  # where the gradient is taken
        if pulled[w] is None or trace.state_lost[k]:
            moment[w], pulled[w] = np.zeros(3), point
        elif variant == "paper":
            point = pulled[w]
        update = -RATE * H * point
        moment[w] = MOMENTUM * moment[w] + update
        theta = thetas[trace.pull_version[k]]
        shift = np.abs(theta - pulled[w])
        if variant == "script":
            pi = np.clip((KAPPA * np.abs(moment[w]) - shift) / np.abs(update + 1e-12), 0, 5)
        else:
            pi = (KAPPA * np.abs(moment[w]) - shift) / (np.abs(update) + 1e-16)
        pulled[w] = theta
        messages.append(pi * update)
        own[w] = theta + messages[-1]
        if trace.closes_step[k]:
            thetas.append(thetas[-1] + np.mean(messages, axis=0))
            messages = []
        centrals.append(thetas[-1])
        pis.append(pi.mean())
    return np.array(centrals), np.array(pis)


@pytest.mark.parametrize("kind", TRACES)
@pytest.mark.parametrize(("variant", "commits"), [("script", 80), ("paper", 25)])
def test_gem_is_what_its_sources_say(variant, commits, kind, x64):
    trace = TRACES[kind][0](workers=4, commits=commits)
    rule = rules.GEM(RATE, momentum=MOMENTUM, kappa=KAPPA, variant=variant)
    run = asim.replay(trace, rule, asim.workloads.Quadratic(H, start=START), record=("pi_mean",))
    centrals, pis = by_hand_of_workers(trace, variant)
    np.testing.assert_allclose(run.central["x"], centrals[-1], rtol=1e-9, atol=1e-13)
    # π divides by |Δθ + 1e-12|: where a coordinate has come to rest, rounding in it shows up magnified by 10¹².
    np.testing.assert_allclose(run.records["pi_mean"], pis, rtol=1e-8, atol=1e-8)


# One proxy at the server


def gem(variant, proxy):
    return rules.GEM(0.05, momentum=MOMENTUM, kappa=KAPPA, variant=variant, proxy=proxy)


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_one_worker_both_proxies_are_the_same(variant, x64):
    trace = asim.Trace.from_commits([0] * 40)
    own = asim.replay(trace, gem(variant, "worker"), tree_workload(), seed=2)
    shared = asim.replay(trace, gem(variant, "server"), tree_workload(), seed=2)
    np.testing.assert_allclose(shared.loss, own.loss, rtol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_default_is_the_workers_own(variant):
    rule = rules.GEM(0.05, variant=variant)
    assert rule == rules.GEM(0.05, variant=variant, proxy="worker")
    assert component.settings(rule) == {
        "learning_rate": 0.05,
        "momentum": 0.9,
        "kappa": 1.0,
        "variant": variant,
        "proxy": "worker",
    }
    assert jax.tree.structure(rule) != jax.tree.structure(rules.GEM(0.05, variant=variant, proxy="server"))


def by_hand_of_server(trace, variant):
    """The last central variable, and every commit's proxy κ·m."""
    thetas, moments, pulled, messages, proxies = [START.copy()], [np.zeros(3)], {}, [], []
    for k, w in enumerate(trace.worker):
        point = thetas[trace.read_version[k]]
        begins = w not in pulled or trace.state_lost[k]
        last = point if begins else pulled[w]
        point = last if variant == "paper" else point
        update = -RATE * H * point
        moment = MOMENTUM * moments[-1] + update  # of all workers' updates
        theta = thetas[trace.pull_version[k]]
        pulled[w] = theta
        proxies.append(KAPPA * moment)
        if variant == "script":
            pi = np.clip((KAPPA * abs(moment) - abs(theta - last)) / abs(update + 1e-12), 0, 5)
            sent = pi * update
        elif variant == "paper":
            sent = (KAPPA * abs(moment) - abs(theta - point)) / (abs(update) + 1e-16) * update
        else:
            sent = KAPPA * moment - (theta - point)
        messages.append((sent, update))
        if trace.closes_step[k]:
            applied, raw = (np.mean(part, axis=0) for part in zip(*messages, strict=True))
            thetas.append(thetas[-1] + applied)
            moments.append(MOMENTUM * moments[-1] + raw)
            messages = []
    return thetas[-1], np.array(proxies)


@pytest.mark.parametrize("make", [gamma_trace, lambda **kwargs: random_trace(closing=0.4, waiting=0.3, **kwargs)])
@pytest.mark.parametrize(("variant", "commits"), [("script", 80), ("paper", 20), ("signed", 60)])
def test_the_server_keeps_the_moment_of_all_raw_updates(variant, commits, make, x64):
    trace = make(workers=4, commits=commits)
    rule = rules.GEM(RATE, momentum=MOMENTUM, kappa=KAPPA, variant=variant, proxy="server")
    run = asim.replay(trace, rule, asim.workloads.Quadratic(H, start=START), record=("energy_proxy",))
    central, proxies = by_hand_of_server(trace, variant)
    np.testing.assert_allclose(run.central["x"], central, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(run.records["energy_proxy"], 0.5 * (proxies**2).sum(axis=1), rtol=1e-7, atol=1e-16)


def test_signed_matches_the_servers_energy(x64):
    """Whenever a worker reads, its commit carries the centre from there to s + κ·m, with the server's m."""
    run = asim.replay(gamma_trace(), gem("signed", "server"), tree_workload(), record=("compliance",))
    np.testing.assert_allclose(run.records["compliance"], 1.0, rtol=1e-9)


def test_a_crash_leaves_the_servers_proxy_alone(x64):
    """Signed GEM then keeps nothing on the worker, so nothing is lost with its state."""
    trace = random_trace(crashing=0.3)
    assert trace.state_lost.any()
    forgotten = dataclasses.replace(trace, state_lost=np.zeros_like(trace.state_lost))
    run = replay_plainly(trace, gem("signed", "server"), tree_workload())
    np.testing.assert_array_equal(run.loss, replay_plainly(forgotten, gem("signed", "server"), tree_workload()).loss)


def test_a_proxy_must_be_known():
    with pytest.raises(ValueError, match=r"`proxy` must be one of 'worker', 'server'; got 'sever'. Did you mean"):
        rules.GEM(0.1, proxy="sever")
