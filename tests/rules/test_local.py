"""Compositions: local steps around any rule, weights by age, and damped Nesterov at the server.

The identities are those of published algorithms, most of which are compositions of a rule and a window.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import compressors, rules
from asyncsim.components import describe, digest, from_description
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import CosineGate, Exponential, Polynomial, WithProxy, compressed, local, weighted
from tests.problems import (
    TRACES,
    assert_close,
    compare,
    gamma_trace,
    in_few_programs,
    noisy_quadratic,
    refusals,
    trace_for,
    tree_workload,
)
from tests.rules.by_hand import assert_ends, local_steps, own_steps, quadratic, trace_of, versions

RATE, WINDOW, WINDOWS = 0.2, 3, (2, 1, 4, 1, 3)
STEPS = {"window": WINDOW, "learning_rate": RATE}
EVERYTHING = TRACES["everything"][0](commits=30)
ROUNDS = asim.simulate(asim.Cluster(5, asim.delays.Exponential(1.0), protocol=asim.protocols.Synchronous()), commits=30)
PLAIN = rules.Downpour(0.3)

# Name -> the composition, the rule that it is, and the trace on which it is.
SAME = {
    "worker": (local(rules.Downpour(1.0), **STEPS), rules.WorkerOptimiser(RATE, window=WINDOW), EVERYTHING),
    "worker with adam": (
        local(rules.Downpour(1.0), **STEPS, optimiser="adam"),
        rules.WorkerOptimiser(RATE, window=WINDOW, optimiser="adam"),
        EVERYTHING,
    ),
    "dynsgd": (local(rules.AdaptiveStaleness(1.0), **STEPS), rules.DynSGD(RATE, window=WINDOW), EVERYTHING),
    "local_sgd": (
        local(rules.Downpour(0.7), **STEPS),
        rules.LocalSGD(RATE, window=WINDOW, server_learning_rate=0.7),
        ROUNDS,
    ),
    "agn": (local(rules.Downpour(1 / WINDOW), **STEPS), rules.AGN(RATE, window=WINDOW), EVERYTHING),
    "diloco": (
        local(rules.SharedNesterov(0.7, momentum=0.9), window=4, learning_rate=0.01, optimiser="adamw"),
        rules.DiLoCo(0.01, window=4),
        ROUNDS,
    ),
    "diloco without rounds": (
        local(rules.SharedNesterov(0.1, momentum=0.9), window=4, learning_rate=0.01, optimiser="adamw"),
        rules.DiLoCo(0.01, window=4, server_learning_rate=0.1),
        EVERYTHING,
    ),
    "a window of one": (local(PLAIN, window=1, learning_rate=0.5), rules.Downpour(0.15), EVERYTHING),
    "fedbuff": (
        local(weighted(rules.Downpour(0.8), by=Polynomial(0.5)), **STEPS),
        rules.FedBuff(RATE, buffer=3, window=WINDOW, server_learning_rate=0.8),
        asim.simulate(
            asim.Cluster(5, asim.delays.Exponential(1.0), protocol=asim.protocols.KBatchAsync(3)), commits=30
        ),
    ),
    "adaptive_staleness": (weighted(PLAIN, by=Polynomial(1.0)), rules.AdaptiveStaleness(0.3), EVERYTHING),
    "staleness_aware": (weighted(PLAIN, by=Polynomial(1.0, grace=1)), rules.StalenessAware(0.3), EVERYTHING),
    "no weight": (weighted(rules.GEM(0.05), by=Exponential(0.0)), rules.GEM(0.05), EVERYTHING),
    "damped nesterov without momentum": (rules.DampedNesterov(0.3, momentum=0.0), PLAIN, EVERYTHING),
}
# With windows by worker, AGN divides by each worker's own, which no step size of the rule inside can.
SAME_WITH_WINDOWS = ("worker with adam", "dynsgd", "local_sgd", "diloco", "diloco without rounds", "fedbuff")
# Pairs that are one rule bit for bit: the wrappers may stand in any order.
LOCAL = local(rules.SharedNesterov(0.3), **STEPS, optimiser="adam")
TOP_K, RAND_K = compressors.TopK(0.4), compressors.RandK(0.4)
BIT_FOR_BIT = {
    "worker": SAME["worker"][:2],
    "worker with adam": SAME["worker with adam"][:2],
    "dynsgd": SAME["dynsgd"][:2],
    "compressed outside and inside": (
        compressed(LOCAL, TOP_K),
        local(compressed(rules.SharedNesterov(0.3), TOP_K), **STEPS, optimiser="adam"),
    ),
    "compressed by chance outside and inside": (
        compressed(local(rules.MomentumSGD(0.1), **STEPS), RAND_K),
        local(compressed(rules.MomentumSGD(0.1), RAND_K), **STEPS),
    ),
    "weighted outside and inside": (
        weighted(LOCAL, by=Exponential(0.3)),
        local(weighted(rules.SharedNesterov(0.3), by=Exponential(0.3)), **STEPS, optimiser="adam"),
    ),
    "weighted around a compressed rule and inside": (
        weighted(compressed(PLAIN, TOP_K), by=CosineGate(3)),
        compressed(weighted(PLAIN, by=CosineGate(3)), TOP_K),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_composition_is_the_rule_of_the_publication(name, x64):
    composition, rule, trace = SAME[name]
    assert_same_rule(composition, rule, trace)


@pytest.mark.parametrize("name", SAME_WITH_WINDOWS)
def test_a_composition_is_the_rule_of_the_publication_with_windows_by_worker(name, x64):
    composition, rule, trace = SAME[name]
    assert_same_rule(with_window(composition, WINDOWS), with_window(rule, WINDOWS), trace)


def assert_same_rule(composition, rule, trace):
    runs = [replay_plainly(trace, one, noisy_quadratic(), seed=3) for one in (composition, rule)]
    assert_close(*(run.loss for run in runs), rtol=1e-11)
    assert_close(*(run.central for run in runs), rtol=1e-11)


@pytest.mark.parametrize("name", BIT_FOR_BIT)
def test_some_compositions_are_the_same_bit_for_bit(name, x64):
    pair = BIT_FOR_BIT[name]
    for one, other in (pair, tuple(with_window(rule, WINDOWS) for rule in pair)):
        runs = [replay_plainly(EVERYTHING, rule, noisy_quadratic(), seed=3) for rule in (one, other)]
        np.testing.assert_array_equal(*(run.loss for run in runs))
        np.testing.assert_array_equal(*(run.central["x"] for run in runs))


def with_window(rule, window):
    """The rule with another window wherever it has one."""
    changes = {"window": window} if any(field.name == "window" for field in dataclasses.fields(rule)) else {}
    inside = getattr(rule, "rule", None)
    if inside is not None and not changes:
        changes = {"rule": with_window(inside, window)}
    return dataclasses.replace(rule, **changes)


# One of each kind: a state of the worker or of the server, another place to continue from, a server that collects and
# ignores, draws, whole tensors.
COMPOSITIONS = {
    "state of the worker": local(rules.GEM(0.5, momentum=0.8), **STEPS, optimiser="adam"),
    "state of the server": local(rules.DelayedNesterov(0.5, momentum=0.8, interval=3), **STEPS),
    "another place to continue": local(rules.DANA(0.2, momentum=0.8), **STEPS),
    "a server that collects and ignores": local(rules.Rennala(0.5, batch=3), **STEPS, optimiser="adam"),
    "draws": compressed(local(rules.Downpour(0.5), **STEPS), RAND_K),
    "whole tensors": local(rules.ServerOptimiser(0.05, optimiser="adam"), **STEPS, optimiser="muon"),
    "eigenbasis": local(rules.ServerOptimiser(0.05, optimiser="soap"), **STEPS, optimiser="soap"),
    "weight": weighted(local(rules.DampedNesterov(0.5), **STEPS), by=CosineGate(4, rate=0.1)),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_the_engine_equals_the_plain_loop(name, x64):
    rule = COMPOSITIONS[name]
    trace, workload = trace_for(rule, "everything", commits=16), noisy_quadratic()
    if not rule.sees_vector:
        workload = tree_workload()
    compare(trace, rule, workload, plain=replay_plainly(trace, in_few_programs(rule), workload, seed=3))


def test_another_step_size_or_exponent_compiles_nothing():
    from asyncsim.engine._loop import replay_chunk

    def composed(outer, inner, exponent):
        return weighted(local(rules.Downpour(outer), window=2, learning_rate=inner), by=Polynomial(exponent))

    trace, workload = gamma_trace(commits=20), noisy_quadratic()
    asim.replay(trace, composed(0.5, 0.1, 0.5), workload)
    programs = replay_chunk.traced
    asim.replay(trace, composed(0.7, 0.2, 0.9), workload)
    assert replay_chunk.traced == programs


def test_every_seed_may_have_its_own_numbers(x64):
    trace, workload = gamma_trace(commits=20), noisy_quadratic()
    each = [(0.5, 0.1, 0.2), (1.0, 0.05, 0.7)]
    several = weighted(
        local(rules.Downpour([0.5, 1.0]), window=2, learning_rate=[0.1, 0.05]), by=Exponential([0.2, 0.7])
    )
    losses = asim.replay(trace, several, workload, seed=(0, 1)).loss
    for seed, (outer, inner, rate) in enumerate(each):
        alone = weighted(local(rules.Downpour(outer), window=2, learning_rate=inner), by=Exponential(rate))
        assert_close(losses[seed], replay_plainly(trace, alone, workload, seed=seed).loss)


class TestByHand:
    """Published outer optimisers over displacements, in NumPy and optax."""

    @staticmethod
    def ends_at(rule, apply, collect=False):
        trace = trace_of("buffered" if collect else "everything", workers=4, commits=40)

        def send(k, thetas):
            return local_steps(thetas[trace.read_version[k]], RATE, WINDOW)

        assert_ends(trace, rule, versions(trace, send, apply))

    def test_delayed_nesterov_takes_displacements(self, x64):
        """Liu et al. 2024, algorithm 3: the momentum moves every N-th time by the mean of N displacements."""
        m, gathered, count = np.zeros(3), np.zeros(3), 0

        def apply(theta, delta):
            nonlocal m, gathered, count
            gathered, count = gathered - delta, count + 1
            if count % 4:
                return theta + 0.7 * delta / 4
            m, gathered = 0.9 * m + gathered / 4, np.zeros(3)
            return theta - 0.7 * (0.9 * m - delta / 4)

        self.ends_at(local(rules.DelayedNesterov(0.7, momentum=0.9, interval=4), **STEPS), apply)

    def test_damped_nesterov_is_the_outer_step_of_momentum_look_ahead(self, x64):
        """v ← μv + (1 - μ)Δ, θ ← θ + α(Δ + μv)."""
        v = np.zeros(3)

        def apply(theta, delta):
            nonlocal v
            v = 0.8 * v + 0.2 * delta
            return theta + 0.5 * (delta + 0.8 * v)

        self.ends_at(local(rules.DampedNesterov(0.5, momentum=0.8), **STEPS), apply)

    def test_an_optimiser_at_the_server_takes_displacements_as_gradients(self, x64):
        """FedOpt's shape, here with optax's Adam, of single messages and of means of several."""
        for collect in (False, True):
            adam, state = optax.adam(0.05), optax.adam(0.05).init(np.zeros(3))

            def apply(theta, delta, adam=adam):
                nonlocal state
                updates, state = adam.update(-delta, state)
                return theta + np.asarray(updates)

            self.ends_at(local(rules.ServerOptimiser(0.05, optimiser="adam"), **STEPS), apply, collect)

    @pytest.mark.parametrize(
        ("by", "weight"),
        [
            (Polynomial(0.7), lambda age: (age + 1) ** -0.7),
            (Polynomial(0.7, grace=2), lambda age: (max(age - 2, 0) + 1) ** -0.7),
            (Exponential(0.4), lambda age: np.exp(-0.4 * age)),
            (CosineGate(3, rate=0.4), lambda age: np.exp(-0.4 * age) * (1 + np.cos(np.pi * min(age, 3) / 3)) / 2),
        ],
        ids=["polynomial", "polynomial with grace", "exponential", "cosine gate"],
    )
    def test_a_weight_comes_before_the_moment(self, by, weight, x64):
        """m ← μ·m - η·σ(τ)·g on each worker: a moment of weighted gradients."""
        trace = gamma_trace(workers=4, commits=40)
        moments = np.zeros((4, 3))

        def send(k, thetas):
            w = trace.worker[k]
            moments[w] = 0.5 * moments[w] - 0.1 * weight(trace.staleness[k]) * H * thetas[trace.read_version[k]]
            return moments[w].copy()

        H = np.array([1.0, 0.3, 0.05])
        assert_ends(trace, weighted(rules.MomentumSGD(0.1, momentum=0.5), by=by), versions(trace, send))


def test_a_gate_of_zero_leaves_nothing_of_a_gradient_that_is_not_finite():
    by = CosineGate(1)
    rule, view = weighted(PLAIN, by=by), rules.View(read=jnp.ones(2), pulled=jnp.ones(2), staleness=jnp.int32(1))
    sent = rule.send(jnp.array([jnp.inf, jnp.nan]), rule.start(jnp.ones(2)), view)
    np.testing.assert_array_equal(sent.message, [0, 0])
    assert float(by.of(jnp.float32(0))) == 1


def test_an_ignored_commit_still_moves_the_local_optimiser(x64):
    """Two workers in turn with a limit of 1: the second's displacement is always too old."""
    rule = local(rules.Ringmaster(1.0, limit=1), window=2, learning_rate=0.1, optimiser="adam")
    steps = [
        replay_plainly(asim.Trace.from_commits(order), rule, quadratic()).commits[-1] for order in ([0, 1], [0, 1, 1])
    ]
    np.testing.assert_array_equal(steps[0].central["x"], steps[0].view.pulled["x"])  # ignored
    start, moved = np.asarray(steps[1].view.read["x"]), np.asarray(steps[1].central["x"])
    fresh = replay_plainly(asim.Trace.from_commits([0]), rule, asim.workloads.Quadratic([1.0, 0.3, 0.05], start=start))
    assert abs(moved - np.asarray(fresh.central["x"])).max() > 1e-6  # a new Adam would have moved otherwise


@pytest.mark.parametrize("make", [lambda: local(rules.Downpour(1.0), window=2, learning_rate=0.1, optimiser="muon")])
def test_an_optimiser_with_a_name_that_sees_matrices_gets_them(make, x64):
    """On one vector Muon would be Adam. The plain loop and the engine give optax's steps on the pytree."""
    from optax.contrib import muon

    rule, workload, trace = make(), tree_workload(), asim.Trace.from_commits([0] * 3)
    assert not rule.sees_vector
    ends = own_steps(muon(0.1), workload, 6, seed=2)[0]
    assert_close(asim.replay(trace, rule, workload, seed=2).central, ends, rtol=1e-8)
    for other in (rules.WorkerOptimiser(0.1, window=2, optimiser="muon"),):
        assert_close(replay_plainly(trace, in_few_programs(other), workload, seed=2).central, ends, rtol=1e-8)
    adam = own_steps(optax.adam(0.1), workload, 6, seed=2)[0]
    assert abs(ends["layers"][0] - adam["layers"][0]).max() > 1e-3


test_what_has_no_composition_is_refused = refusals(
    *(
        (
            lambda rule=rule: local(rule, window=2, learning_rate=0.1),
            f"`rule` must send an update of one gradient.*{rule.name}",
        )
        for rule in (
            rules.AGN(0.1),
            rules.AGN(0.1, window=1),
            rules.Downpour(0.1, window=5),
            rules.FedBuff(0.1),
            rules.FADAS(server_learning_rate=0.1),
            rules.CA2FL(0.1),
            rules.FedAsync(0.1),
            rules.DiLoCo(),
            rules.AEASGD(0.1),
            local(PLAIN, window=2, learning_rate=0.1),
            compressed(rules.Downpour(0.1, window=2), TOP_K),
            weighted(rules.DynSGD(0.1), by=Polynomial()),
        )
    ),
    *(
        (lambda rule=rule: local(rule, window=2, learning_rate=0.1), "`rule` must not have a proxy next to it")
        for rule in (WithProxy(PLAIN), compressed(WithProxy(PLAIN), TOP_K), weighted(WithProxy(PLAIN), by=Polynomial()))
    ),
    (lambda: WithProxy(local(PLAIN, window=2, learning_rate=0.1)), "'downpour_local', whose workers make local steps"),
    (lambda: local(PLAIN, window=0, learning_rate=0.1), "`window` must be an integer of at least 1; got 0"),
    (lambda: local(PLAIN, window=2.5, learning_rate=0.1), "`window` must be an integer"),
    (lambda: local(PLAIN, window=2, learning_rate=-0.1), "`learning_rate` must not be negative; got -0.1"),
    (lambda: local(PLAIN, window=2, learning_rate=0.1, optimiser="adma"), "Did you mean 'adam'"),
    (lambda: local(0.1, window=2, learning_rate=0.1), "`rule` must be an asyncsim.Rule; got 0.1"),
    (
        lambda: weighted(PLAIN, by=0.5),
        "`by` must be an asyncsim Weight; got 0.5. Use one of `asyncsim.rules`, for example `Poly",
    ),
    (lambda: weighted(weighted(PLAIN, by=Polynomial()), by=Polynomial()), "`rule` must not be weighted already"),
    (lambda: weighted(rules.AEASGD(0.1), by=Polynomial()), "'aeasgd' moves worker and server by the same amount"),
    (lambda: weighted(rules.FedAsync(0.1), by=Polynomial()), "'fedasync' sends parameters"),
    (lambda: weighted(rules.NoLoCo(0.1), by=Polynomial()), "'noloco' sends parameters"),
    (lambda: Polynomial(-1.0), "`exponent` must not be negative; got -1.0"),
    (lambda: Exponential(float("nan")), "`rate` must"),
    (lambda: CosineGate(0), "`limit` must be positive; got 0"),
)


class TestAsAComponent:
    """A composition is described, rebuilt, compared and addressed as every other rule."""

    RULE = compressed(weighted(local(rules.GEM(0.1), **STEPS), by=CosineGate(8, rate=0.1)), TOP_K)

    def test_it_is_rebuilt_from_its_description(self):
        again = from_description(describe(self.RULE))
        assert again == self.RULE
        assert (hash(again), digest(again)) == (hash(self.RULE), digest(self.RULE))

    def test_digests_tell_windows_step_sizes_and_weights_apart(self):
        variants = [
            local(PLAIN, **STEPS),
            local(PLAIN, window=4, learning_rate=RATE),
            local(PLAIN, window=WINDOW, learning_rate=0.1),
            local(PLAIN, **STEPS, optimiser="adam"),
            weighted(PLAIN, by=Polynomial(0.5)),
            weighted(PLAIN, by=Polynomial(0.6)),
            weighted(PLAIN, by=Exponential(0.5)),
        ]
        assert len({digest(one) for one in variants}) == len(variants)

    def test_its_messages_are_as_large_as_without_it(self):
        params = jax.ShapeDtypeStruct((100,), "float32")
        assert rules.message_bytes(local(PLAIN, **STEPS), params) == 400
        assert rules.message_bytes(self.RULE, params) == rules.message_bytes(compressed(PLAIN, TOP_K), params)

    def test_it_learns_the_number_of_workers(self):
        rule = weighted(local(rules.DelayedNesterov(0.1), **STEPS), by=Polynomial())
        assert rule.for_workers(4).innermost.interval == 4
        assert dataclasses.replace(rule, by=Exponential(0.1)).for_workers(4).window == WINDOW


def test_diloco_and_local_sgd_do_not_warn_without_rounds(recwarn):
    for rule in (rules.DiLoCo(0.1, window=2, optimiser="sgd"), rules.LocalSGD(0.1, window=2)):
        asim.replay(asim.Trace.from_commits([0, 1]), rule, quadratic())
    assert not recwarn.list
