"""Mistakes found in public code for these rules, and in simulators like this one. They must not happen here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.trace._regroup import in_steps
from asyncsim.workloads._batches import commit_key
from tests.problems import TRACES, gamma_trace

RATE, SEED = 0.01, 7


def linear_loss(params, batch, key):
    del batch, key
    return params["x"].sum()


def slope():
    """A constant gradient of 1, so that θ counts what was applied."""
    return asim.Workload(init=lambda key: {"x": jnp.zeros(1)}, loss=linear_loss)


def end(trace, rule, workload=None, **kwargs):
    return float(asim.replay(trace, rule, workload or slope(), **kwargs).central["x"][0])


def one_of_age(age):
    """Worker 0 commits `age` times, then worker 1, which had read at the start."""
    return asim.Trace.from_commits([0] * age + [1], workers=2)


def applied(rule, age):
    """What a commit of this age adds to θ, in raw updates."""
    trace = one_of_age(age)
    before = end(trace, rule, commits=age)
    return (end(trace, rule) - before) / -RATE


def mixed(age, **settings):
    """FedAsync's α_t of a commit of this age, from θ ← (1 - α_t)·θ + α_t·x with x one step from the start."""
    trace, rule = one_of_age(age), rules.FedAsync(1.0, **settings)
    before = end(trace, rule, commits=age)
    return (end(trace, rule) - before) / (-1.0 - before)


AGES = (0, 1, 3, 4, 5, 8)


def test_the_hinge_is_continuous(x64):
    """1/(a·(τ - b) + 1): the 1 is not forgotten, and b is subtracted."""
    found = [mixed(age, mixing=0.5, weighting="hinge", steepness=10.0, grace=4) / 0.5 for age in AGES]
    np.testing.assert_allclose(found, [1, 1, 1, 1, 1 / 11, 1 / 41], rtol=1e-9)
    nearly = [mixed(5, mixing=0.5, weighting="hinge", steepness=10.0, grace=b) / 0.5 for b in (5.0, 5.0 - 1e-6)]
    assert nearly[1] == pytest.approx(nearly[0], abs=1e-4)


def test_the_mixing_factor_does_not_decay(x64):
    """A fresh commit counts the same early and late, and α_t is of this commit's age alone."""
    rule = rules.FedAsync(1.0, mixing=0.5)
    trace = asim.Trace.from_commits([0] * 50)
    thetas = np.array([end(trace, rule, commits=k) for k in (1, 2, 3, 49, 50)])
    np.testing.assert_allclose(np.diff(thetas)[[0, 1, 3]], -0.5, rtol=1e-9)
    np.testing.assert_allclose([mixed(age, mixing=0.5) for age in AGES], 0.5 / np.sqrt(np.add(AGES, 1)), rtol=1e-9)


def test_fedbuff_divides_once_and_by_the_number_of_updates(x64):
    """By K: not by Σs, which would make old updates as large as fresh ones, and not twice."""
    trace, buffer = gamma_trace(commits=120, cv=1.0), 4
    weights = 1 / np.sqrt(1 + in_steps(trace, buffer).staleness)
    assert weights.min() < 0.6
    assert end(trace, rules.FedBuff(RATE, buffer=buffer)) == pytest.approx(-RATE * weights.sum() / buffer, rel=1e-9)


def test_staleness_is_counted_in_versions(x64):
    """With a buffer of 4, not in arrivals, of which there are four times as many."""
    trace = gamma_trace(commits=120, cv=1.0)
    collected = in_steps(trace, 4)
    assert collected.staleness.mean() < 0.4 * trace.staleness.mean()
    total = (1 / (1 + collected.staleness)).sum() / 4
    assert end(collected, rules.AdaptiveStaleness(RATE)) == pytest.approx(-RATE * total, rel=1e-9)


WEIGHTS = {
    "adaptive_staleness": (rules.AdaptiveStaleness(RATE), lambda age: 1 / (age + 1)),
    "staleness_aware": (rules.StalenessAware(RATE), lambda age: 1 / np.maximum(age, 1)),
    "drop_stale": (rules.DropStale(RATE, oldest=3), lambda age: age <= 3),
    "delay_adaptive": (rules.DelayAdaptive(RATE, concurrency=2), lambda age: 2 / np.maximum(age, 2)),
    "dynsgd": (rules.DynSGD(RATE, window=1), lambda age: 1 / (age + 1)),
    "fedbuff": (rules.FedBuff(RATE, buffer=1), lambda age: (age + 1) ** -0.5),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_staleness_is_that_of_the_application(name, x64):
    """Workers that pull long before they commit: what counts is how old the gradient is when it is applied."""
    trace = TRACES["early_pulls"][0](commits=200)
    rule, weight = WEIGHTS[name]
    at_the_pull = trace.pull_version - trace.read_version
    assert weight(at_the_pull).sum() > weight(trace.staleness).sum()
    assert end(trace, rule) == pytest.approx(-RATE * weight(trace.staleness).sum(), rel=1e-9)


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_fresh_gradient_counts_in_full(name, x64):
    """η/τ at τ = 0 is η, and an old one counts what it should."""
    rule, weight = WEIGHTS[name]
    for age in AGES:
        assert applied(rule, age) == pytest.approx(float(weight(np.array(age))), rel=1e-9)


def test_ca2fl_calibrates(x64):
    """A buffer that no arrival fills would leave h̄ at 0, and the rule plain buffering."""
    trace, buffer = gamma_trace(commits=60), 3
    run = asim.replay(trace, rules.CA2FL(RATE, workers=5, buffer=buffer), slope())
    # All updates are equal, and every worker has sent one: h̄ is that update.
    np.testing.assert_allclose(run.state.server[0], -RATE, rtol=1e-9)
    plain = end(trace, rules.FedBuff(RATE, buffer=buffer, exponent=0.0))
    assert end(trace, rules.CA2FL(RATE, workers=5, buffer=buffer)) != pytest.approx(plain, rel=1e-3)


def test_fadas_divides_by_the_largest_square(x64):
    """On the way down gradients shrink: v falls, v̂ does not, and the step is that of v̂."""
    trace, quadratic = asim.Trace.from_commits([0] * 400), asim.workloads.Quadratic([1.0])
    rule = rules.FADAS(server_learning_rate=0.1, buffer=1)
    before = asim.replay(trace, rule, quadratic, commits=399)
    after = asim.replay(trace, rule, quadratic)
    mean, square, largest = (float(leaf[0, 0]) for leaf in after.state.server)
    assert largest > 2 * square
    step = float(after.central["x"][0] - before.central["x"][0])
    assert step == pytest.approx(0.1 * mean / (np.sqrt(largest) + 1e-8), rel=1e-6)


def test_dc_asgd_compensates_from_where_this_worker_read(x64):
    """Worker 1 read 1, before the two commits of worker 0, whose own read a shared shadow would hold."""
    trace, quadratic = asim.Trace.from_commits([0, 0, 1]), asim.workloads.Quadratic([1.0])
    theta = 0.9 * 0.9
    expected = theta - 0.1 * (1 + 2.0 * (theta - 1.0))
    assert end(trace, rules.DCASGD(0.1, compensation=2.0), quadratic) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("last", [0, 3])
def test_the_last_worker_counts(last, x64):
    """One of four workers has a gradient of 4, the others a gradient of 0: every mean over workers is 1."""
    workload = asim.Workload(init=lambda key: {"x": jnp.zeros(1)}, loss=None, gradient=_of_worker(last))
    order = [0, 1, 2, 3]
    cluster = asim.Cluster(4, asim.delays.Constant(1.0), protocol=protocols.Synchronous())
    for trace, rule in (
        (asim.Trace.from_commits(order), rules.IA2SGD(RATE, workers=4)),
        (asim.Trace.from_commits(order), rules.Ringleader(RATE, workers=4)),
        (asim.Trace.from_commits(order), rules.Malenia(RATE, workers=4, batch=4)),
        (asim.Trace.from_commits(order), rules.CA2FL(RATE, workers=4, buffer=4)),
        (asim.Trace.from_commits(order), rules.FedBuff(RATE, buffer=4)),
        (asim.simulate(cluster, commits=4), rules.Downpour(RATE)),
    ):
        assert end(trace, rule, workload, seed=SEED) == pytest.approx(-RATE * 1.0, rel=1e-9), rule.name


def _of_worker(last):
    """A gradient that recognises its worker by the key of the worker's first mini-batch."""
    keys = jnp.stack([jax.random.key_data(commit_key(jax.random.key(SEED), w, 0)) for w in range(4)])

    def gradient(params, batch, key):
        me = (jax.random.key_data(key) == keys[last]).all()
        return params["x"][0], {"x": jnp.where(me, 4.0, 0.0) * jnp.ones_like(params["x"])}

    return gradient


def test_the_last_worker_is_in_the_final_loss():
    run = asim.replay(gamma_trace(workers=4, commits=80), rules.Downpour(RATE), asim.workloads.Quadratic([1.0]))
    ends = [run.loss[run.worker == w][-5:].mean() for w in range(4)]
    assert run.final_loss(last=5) == pytest.approx(np.mean(ends), rel=1e-6)


def test_no_global_seed():
    """Nothing draws from NumPy's global generator, and nothing sets it."""
    runs = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        trace = gamma_trace()
        runs.append(
            (trace.commit_time, asim.replay(trace, rules.Downpour(0.1), asim.workloads.Quadratic([1.0], 0.5)).loss)
        )
        np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][1], runs[1][1])


@pytest.mark.parametrize("protocol", [protocols.Asynchronous(), protocols.KAsync(3), protocols.Rennala(4)])
def test_ties_have_an_order(protocol):
    """Equal times everywhere: entries of the queue are never compared, and a second run is the same."""
    server = asim.Server(slots=2, service=asim.delays.Constant(1.0))
    cluster = asim.Cluster(8, asim.delays.Constant(1.0), server=server, protocol=protocol)
    first, second = (asim.simulate(cluster, commits=50) for _ in range(2))
    np.testing.assert_array_equal(first.worker, second.worker)
    np.testing.assert_array_equal(first.commit_time, second.commit_time)
    assert len(np.unique(first.commit_time)) < len(first)


class Broken:
    """A law whose delays are not numbers: nan < 0 is false."""

    mean, variance = 1.0, 1.0

    def cdf(self, t):
        return np.zeros(np.shape(t))

    def sample(self, generator, size):
        return np.full(size, np.nan)


def test_nan_is_not_a_delay():
    with pytest.raises(ValueError, match="`delay` must be finite and not negative; worker 0 drew nan"):
        asim.simulate(asim.Cluster(2, Broken()), commits=3)
