"""Workers whose quadratics differ: where DOWNPOUR comes to rest, and which rules come to rest at the mean of all."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, protocols, rules, theory
from asyncsim.engine._plan import bind
from tests.theory.replicates import z_score

WORKERS, COMMITS, REPLICATES, FIRST = 5, 3000, 14, 600
MINIMA = np.array([-1.0, 0.0, 2.0, 3.0, 8.0])
SPEEDS = (1.0, 1.0, 2.0, 3.0, 6.0)
WORKLOAD = asim.workloads.Quadratic([1.0], noise=0.1, start=2.0, minima=MINIMA)


def laws(make):
    return [make(speed) for speed in SPEEDS]


LATENCY = asim.Network(latency=delays.Constant(0.25))
# Cluster, the shares that its workers' commits have, and the step size: the prediction is exact for exponential workers
# without a network, and holds for small steps else.
CLUSTERS = {
    "exponential": (asim.Cluster(WORKERS, laws(delays.Exponential)), SPEEDS, 0.2),
    "gamma": (asim.Cluster(WORKERS, laws(lambda mean: delays.Gamma(mean, 0.5))), SPEEDS, 0.01),
    "network": (
        asim.Cluster(WORKERS, laws(delays.Exponential), network=LATENCY),
        tuple(speed + 0.5 for speed in SPEEDS),
        0.01,
    ),
    "large steps": (asim.Cluster(WORKERS, laws(lambda mean: delays.Exponential(9 - mean))), (8, 8, 7, 6, 3), 0.4),
}
WAITING = asim.Cluster(WORKERS, laws(delays.Exponential), protocol=protocols.SSP(slack=3))


def replay(cluster, rule, seed, workload=WORKLOAD):
    """The mean of the central variable after the warm-up, and the trace."""
    trace = asim.simulate(cluster, commits=COMMITS, seed=seed)
    run = asim.replay(trace, rule, workload, seed=seed, record=("central",))
    return run.records["central"][FIRST:].mean(), trace


@pytest.mark.parametrize("name", CLUSTERS)
def test_where_downpour_comes_to_rest(name):
    cluster, seconds, step = CLUSTERS[name]
    shares = theory.commit_shares(compute=[delays.Constant(value) for value in seconds], workers=WORKERS)
    predicted = theory.weighted_minimum(MINIMA, shares, learning_rate=step)[0]
    means, counted = [], []
    for seed in range(REPLICATES):
        mean, trace = replay(cluster, rules.Downpour(step), seed)
        means.append(mean)
        counted.append(np.bincount(trace.worker[FIRST:], minlength=WORKERS) / (COMMITS - FIRST))
    assert z_score(means, predicted) < 3
    for measured, share in zip(np.array(counted).T, shares, strict=True):
        assert abs(measured.mean() - share) < 4 * measured.std(ddof=1) / REPLICATES**0.5 + 1e-3
    assert abs(predicted - MINIMA.mean()) > 0.3
    assert z_score(means, MINIMA.mean()) > 5


def test_the_limit_of_small_steps_is_one():
    """Workers who wait for one another have equal shares; what is left of the bias is in proportion to the step."""
    off = []
    for step in (0.01, 0.02):
        means = [replay(WAITING, rules.Downpour(step), seed)[0] for seed in range(6)]
        off.append(np.mean(means) - MINIMA.mean())
    assert -0.05 < off[1] < off[0] < 0
    assert off[1] / off[0] == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_updates_add_up_to_how_far_it_moved(name, x64):
    """Exactly, for any cluster: the mean read is the mean of the minima by shares of the commits, up to 1/N."""
    cluster, _, step = CLUSTERS[name]
    workload = asim.workloads.Quadratic([1.0], start=2.0, minima=MINIMA)
    trace = asim.simulate(cluster, commits=500, seed=1)
    run = asim.replay(trace, rules.Downpour(step), workload, record=("read",))
    moved = 2.0 - float(run.central["x"][0])
    expected = MINIMA[trace.worker].mean() + moved / (step * 500)
    assert run.records["read"].mean() == pytest.approx(expected, abs=1e-12)


def distance(params, batch, key, worker):
    h = jnp.array([0.5, 1.0, 2.0, 0.2, 1.0])[worker]
    return 0.5 * h * (params - jnp.array(MINIMA)[worker]) ** 2


def test_unequal_curvatures_and_large_steps():
    """Exact for exponential workers at any step size: weights p_w h_w/(1 + η h_w), which are not the limit's."""
    workload = asim.Workload(lambda key: jnp.float32(2.0), distance, workers=WORKERS)
    curvatures, step = np.array([0.5, 1.0, 2.0, 0.2, 1.0])[:, None], 0.4
    cluster = CLUSTERS["exponential"][0]
    shares = theory.commit_shares(compute=laws(delays.Exponential), workers=WORKERS)
    means = [replay(cluster, rules.Downpour(step), seed, workload)[0] for seed in range(REPLICATES)]
    exact, limit = (
        theory.weighted_minimum(MINIMA, shares, curvatures=curvatures, learning_rate=rate)[0] for rate in (step, 0.0)
    )
    assert z_score(means, exact) < 3
    assert z_score(means, limit) > 4


# Which rules treat workers alike, and which let the fast ones count more. Step sizes at which all are near their end.
UNBIASED = {
    "ia2sgd": rules.IA2SGD(0.02),
    "ringleader": rules.Ringleader(0.05),
    "malenia": rules.Malenia(0.2),
    "ca2fl": rules.CA2FL(0.02, buffer=3, server_learning_rate=1.0),
}
BIASED = {
    "downpour": rules.Downpour(0.01),
    "adaptive_staleness": rules.AdaptiveStaleness(0.03),
    "delay_adaptive": rules.DelayAdaptive(0.01),
    "fedbuff": rules.FedBuff(0.03, buffer=3),
    "ringmaster": rules.Ringmaster(0.01, limit=4),
    "rennala": rules.Rennala(0.1, batch=3),
}


@cache
def uneven(seed):
    """The trace of a seed, shared by all rules."""
    return asim.simulate(CLUSTERS["gamma"][0], commits=COMMITS, seed=seed)


@pytest.mark.quick
@pytest.mark.parametrize("name", [*UNBIASED, *BIASED])
def test_which_rules_treat_workers_alike(name):
    rule = {**UNBIASED, **BIASED}[name]
    means = []
    for seed in range(4):
        trace = bind(rule, uneven(seed))[1]
        run = asim.replay(trace, rule, WORKLOAD, seed=seed, record=("central",))
        means.append(run.records["central"][FIRST:].mean())
    off = np.mean(means) - MINIMA.mean()
    if name in UNBIASED:
        assert abs(off) < 0.15 + 3 * np.std(means, ddof=1) / 4**0.5
    else:
        assert off < -0.7, "towards the fast workers, who want -1 and 0"


def test_heterogeneity_is_the_gradients_variance_anywhere():
    minima, h = np.random.default_rng(0).normal(size=(4, 3)), np.array([1.0, 0.5, 2.0])
    for x in (np.zeros(3), np.array([5.0, -1.0, 2.0])):
        gradients = h * (x - minima)
        squares = np.square(gradients - gradients.mean(axis=0)).sum(axis=1)
        assert theory.heterogeneity(h, minima) == pytest.approx(squares.mean())
