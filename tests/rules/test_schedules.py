"""Schedules of the step size: factors like optax's, at the version of the commit, or of the read for local steps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import compressors, rules
from asyncsim.components import describe, digest, from_description
from asyncsim.engine._loop import replay_chunk
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import CosineDecay, LinearDecay, scheduled
from tests.problems import (
    RULES,
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
from tests.rules.by_hand import H, assert_ends, own_steps, quadratic, trace_of, versions

DECAY = CosineDecay(20, warmup=3, final=0.1)
CONSTANT = CosineDecay(20, final=1.0)


def factor(by, version):
    return float(by.of(jnp.asarray(version, float)))


@pytest.mark.parametrize(("steps", "warmup", "final"), [(20, 3, 0.1), (7, 0, 0.0), (40, 39, 0.5), (10, 4, 1.0)])
def test_the_factors_are_those_of_optax(steps, warmup, final, x64):
    cosine = optax.warmup_cosine_decay_schedule(0.0, 1.0, warmup, steps, final)
    parts = [optax.linear_schedule(0.0, 1.0, warmup), optax.linear_schedule(1.0, final, steps - warmup)]
    linear = optax.join_schedules(parts, [warmup])
    for version in range(0 if warmup else 1, steps + 5):
        assert factor(CosineDecay(steps, warmup=warmup, final=final), version) == pytest.approx(
            float(cosine(version)), abs=1e-12
        )
        assert factor(LinearDecay(steps, warmup=warmup, final=final), version) == pytest.approx(
            float(linear(version)), abs=1e-12
        )
    assert factor(CosineDecay(steps), 0) == factor(LinearDecay(steps), 0) == 1


# One of each kind: a step size in the message, at the server, in local steps, in a look-ahead and around other rules.
KINDS = {
    "message": lambda by: scheduled(rules.MomentumSGD(0.05, momentum=0.8), by=by),
    "server": lambda by: scheduled(rules.ServerOptimiser(0.02, optimiser="adam"), by=by),
    "matrices": lambda by: scheduled(rules.Muon(0.02), by=by),
    "local steps": lambda by: scheduled(rules.WorkerOptimiser(0.02, window=2, optimiser="adam"), by=by),
    "outer steps": lambda by: rules.local(
        scheduled(rules.SharedNesterov(0.3, momentum=0.5), by=by), window=2, learning_rate=0.1
    ),
    "inner steps": lambda by: scheduled(
        rules.local(rules.SharedNesterov(0.3, momentum=0.5), window=2, learning_rate=0.1), by=by
    ),
    "look-ahead": lambda by: scheduled(rules.DANA(0.05, momentum=0.8), by=by),
    "proxy": lambda by: scheduled(rules.GEM(0.05, momentum=0.8, kappa=1.5), by=by),
    "collecting": lambda by: scheduled(rules.FedBuff(0.05, buffer=3, window=2), by=by),
    "elastic": lambda by: scheduled(rules.AEASGD(window=2, rho=2.0, learning_rate=0.1), by=by),
    "compressed": lambda by: rules.compressed(scheduled(rules.Downpour(0.1), by=by), compressors.TopK(fraction=0.4)),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_engine_equals_the_plain_loop(name, x64):
    """On traces with every trait, where reads, commits and the closing of steps are versions apart."""
    rule = KINDS[name](DECAY)
    trace = trace_for(rule, "everything", commits=24)
    workload = noisy_quadratic() if rule.sees_vector else tree_workload()
    plain = rule if rule.sees_vector else in_few_programs(rule)
    compare(trace, rule, workload, plain=replay_plainly(trace, plain, workload, seed=3), rtol=1e-9)


def test_gradients_together_have_the_step_sizes_of_their_versions(x64):
    """With lanes, local steps are taken in waves."""
    compare(gamma_trace(commits=30), KINDS["local steps"](DECAY), noisy_quadratic(), lanes=4)


@pytest.mark.parametrize("name", KINDS)
def test_a_constant_schedule_is_the_number_bit_for_bit(name):
    rule = KINDS[name](CONSTANT)
    plain = jax.tree.map(
        lambda part: part.rule if isinstance(part, rules.Scheduled) else part,
        rule,
        is_leaf=lambda part: isinstance(part, rules.Scheduled),
    )
    trace = trace_for(rule, "everything", commits=24)
    runs = [asim.replay(trace, one, tree_workload(), seed=3).central for one in (rule, plain)]
    jax.tree.map(np.testing.assert_array_equal, *runs)


@pytest.mark.parametrize("name", ["message", "inner steps", "collecting"])
def test_pieces_are_the_whole_bit_for_bit(name):
    rule = KINDS[name](DECAY)
    trace = trace_for(rule, "everything", commits=24)
    whole = asim.replay(trace, rule, noisy_quadratic())
    piece = asim.replay(trace, rule, noisy_quadratic(), commits=11)
    again = asim.replay(trace, rule, noisy_quadratic(), resume=piece)
    np.testing.assert_array_equal(again.loss, whole.loss)
    np.testing.assert_array_equal(again.central["x"], whole.central["x"])


@pytest.mark.parametrize("name", ["message", "local steps"])
def test_each_seed_may_have_its_own_schedule_in_one_program(name, x64):
    several = dataclasses.replace(KINDS[name](DECAY), by=CosineDecay([20, 30], warmup=[3, 0], final=[0.1, 0.5]))
    losses = asim.replay(gamma_trace(commits=30), several, noisy_quadratic(), seed=(0, 1)).loss
    programs = replay_chunk.traced
    for seed, by in enumerate((DECAY, CosineDecay(30, final=0.5))):
        alone = asim.replay(gamma_trace(commits=30), KINDS[name](by), noisy_quadratic(), seed=seed).loss
        assert_close(losses[seed], alone)
        assert replay_chunk.traced == programs + 1  # one program for both


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parameters_keep_their_precision(dtype, x64):
    """The version is an int32, and the factor a float64 here."""
    start = jnp.ones(3, dtype)
    problem = asim.Workload(lambda key: {"x": start}, lambda params, batch, key: (params["x"].astype(float) ** 2).sum())
    for rule in (KINDS["message"](DECAY), KINDS["local steps"](DECAY)):
        assert asim.replay(gamma_trace(commits=8), rule, problem).central["x"].dtype == dtype
        assert replay_plainly(gamma_trace(commits=8), rule, problem).central["x"].dtype == dtype


class TestWhichVersion:
    """By hand, on traces in which the versions of read, commit and step differ."""

    def test_a_commit_has_the_version_before_it(self, x64):
        """And all commits of a step that averages several have that of the step."""
        trace = trace_of("buffered", commits=40)

        def send(k, thetas):
            return -0.3 * factor(DECAY, trace.version[k]) * H * thetas[trace.read_version[k]]

        assert_ends(trace, scheduled(rules.Downpour(0.3), by=DECAY), versions(trace, send))
        assert (trace.version != np.arange(40)).any()

    @pytest.mark.parametrize("kind", ["everything", "ordinary"])
    def test_local_steps_have_the_version_that_was_read(self, kind, x64):
        trace = trace_of(kind, commits=40)

        def send(k, thetas):
            rate = 0.3 * factor(DECAY, trace.read_version[k])
            return ((1 - rate * H) ** 3 - 1) * thetas[trace.read_version[k]]

        assert_ends(trace, scheduled(rules.Downpour(0.3, window=3), by=DECAY), versions(trace, send))
        assert (trace.staleness > 0).any()

    def test_a_worker_that_begins_late_begins_in_the_middle_of_the_schedule(self, x64):
        trace = TRACES["crashing"][0](commits=30)
        late = trace.read_version[trace.state_lost]
        assert late.max() > 3

        def send(k, thetas):
            return ((1 - 0.3 * factor(DECAY, trace.read_version[k]) * H) ** 2 - 1) * thetas[trace.read_version[k]]

        assert_ends(trace, scheduled(rules.Downpour(0.3, window=2), by=DECAY), versions(trace, send))

    def test_one_worker_alone_is_the_optimiser_with_the_schedule_of_optax(self, x64):
        """A window of one: each local step is a version. (Optax computes its schedule in single precision.)"""
        by, trace = CosineDecay(12, warmup=3, final=0.1), asim.Trace.from_commits([0] * 15)
        schedule = optax.warmup_cosine_decay_schedule(0.0, 0.05, 3, 12, 0.005)
        end = own_steps(optax.adam(schedule), quadratic(), 15, seed=2)[0]
        for rule in (rules.WorkerOptimiser(0.05, optimiser="adam"), rules.ServerOptimiser(0.05, optimiser="adam")):
            assert_close(replay_plainly(trace, scheduled(rule, by=by), quadratic(), seed=2).central, end, rtol=1e-6)

    @pytest.mark.parametrize("at", ["outer", "inner"])
    def test_around_local_steps_it_is_theirs_and_inside_the_server_s(self, at, x64):
        trace = trace_of("everything", commits=30)

        def send(k, thetas):
            shares = {at: factor(DECAY, trace.version[k] if at == "outer" else trace.read_version[k])}
            inner, outer = 0.2 * shares.get("inner", 1), 0.5 * shares.get("outer", 1)
            return outer * ((1 - inner * H) ** 2 - 1) * thetas[trace.read_version[k]]

        outer = scheduled(rules.Downpour(0.5), by=DECAY) if at == "outer" else rules.Downpour(0.5)
        rule = rules.local(outer, window=2, learning_rate=0.2)
        assert_ends(trace, rule if at == "outer" else scheduled(rule, by=DECAY), versions(trace, send))


@pytest.mark.parametrize("name", RULES)
def test_every_rule_can_be_scheduled(name):
    """At a version it is the rule itself with another step size, and all else that it says of itself stays."""
    rule = scheduled(RULES[name][0](), by=CONSTANT)
    assert rule.name == f"{rule.rule.name}_scheduled"
    assert rule.sees_vector == rule.rule.sees_vector
    assert rule.numbers.keys() == {f"rule.{path}" for path in rule.rule.numbers} | {"by.steps", "by.warmup", "by.final"}
    half = scheduled(RULES[name][0](), by=LinearDecay(2)).at(1)
    assert float(half.learning_rate) == pytest.approx(RULES[name][0]().learning_rate / 2)
    assert type(half) is type(rule.rule)


class TestAsAComponent:
    RULE = rules.compressed(
        scheduled(rules.local(rules.GEM(0.1), window=2, learning_rate=0.2), by=DECAY), compressors.TopK(0.4)
    )

    def test_it_is_rebuilt_from_its_description(self):
        again = from_description(describe(self.RULE))
        assert again == self.RULE
        assert (hash(again), digest(again)) == (hash(self.RULE), digest(self.RULE))

    def test_digests_tell_schedules_apart(self):
        schedules = [
            CosineDecay(20),
            CosineDecay(30),
            CosineDecay(20, warmup=1),
            CosineDecay(20, final=0.1),
            LinearDecay(20),
        ]
        rules_of = [scheduled(rules.Downpour(0.1), by=by) for by in schedules]
        assert len({digest(rule) for rule in [*rules_of, rules.Downpour(0.1)]}) == len(schedules) + 1

    def test_a_scenario_has_it_at_a_place_of_its_own(self):
        """Flags and grids choose it by name, change its numbers and remove it, and compile nothing for a number."""
        plain = asim.Scenario(asim.Cluster(3, asim.delays.Constant(1.0)), rules.Downpour(0.1), quadratic(), commits=10)
        cosine = plain.override(
            **{"step_schedule": "cosine_decay", "step_schedule.steps": 20, "step_schedule.warmup": 3}
        )
        assert cosine.rule == scheduled(rules.Downpour(0.1), by=CosineDecay(20, warmup=3))
        assert cosine.override(learning_rate=0.2, rule="gem").rule == scheduled(
            rules.GEM(0.2), by=CosineDecay(20, warmup=3)
        )
        assert cosine.override(step_schedule="linear_decay").rule.by == LinearDecay(20, warmup=3)
        assert cosine.override(step_schedule="none").rule == plain.rule
        assert len({plain.digest, cosine.digest, cosine.override(step_schedule_final=0.1).digest}) == 3
        around = plain.override(rule=rules.local(rules.Downpour(0.5), window=2, learning_rate=0.1))
        changed = around.override(step_schedule="cosine_decay", step_schedule_steps=20)
        assert changed.rule == scheduled(around.rule, by=CosineDecay(20))

    def test_a_sweep_over_its_numbers_is_one_program(self):
        trace = gamma_trace(commits=20)
        asim.replay(trace, scheduled(rules.Downpour(0.1), by=CosineDecay(20)), quadratic())
        programs = replay_chunk.traced
        asim.replay(trace, scheduled(rules.Downpour(0.2), by=CosineDecay(30, warmup=4, final=0.3)), quadratic())
        assert replay_chunk.traced == programs


class NoStep(rules.Rule):
    def send(self, gradient, state, view):
        return rules.Sent(gradient, state)


test_what_has_no_schedule_is_refused = refusals(
    (
        lambda: scheduled(rules.Downpour(0.1), by=0.5),
        "`by` must be an asyncsim StepSchedule; got 0.5. Use one of `asyncsim.rules`, for example `Cosi",
    ),
    (lambda: scheduled(0.1, by=DECAY), "`rule` must be an asyncsim.Rule; got 0.1"),
    (lambda: scheduled(scheduled(rules.Downpour(0.1), by=DECAY), by=DECAY), "`rule` must not be scheduled already"),
    (
        lambda: scheduled(rules.local(scheduled(rules.Downpour(0.1), by=DECAY), window=2, learning_rate=1.0), by=DECAY),
        "`rule` must not be scheduled already",
    ),
    (lambda: scheduled(NoStep(), by=DECAY), "`rule` must have a `learning_rate`"),
    (lambda: CosineDecay(-1), "`steps` must not be negative; got -1"),
    (lambda: CosineDecay(0), "`warmup` must be less than `steps`"),
    (lambda: LinearDecay(10, warmup=10), "`warmup` must be less than `steps`, 10.0; got 10.0"),
    (lambda: LinearDecay([10, 20], warmup=15), "`warmup` must be less than `steps`"),
    (lambda: LinearDecay(10, final=-0.1), "`final` must not be negative; got -0.1"),
    (lambda: LinearDecay(10, warmup=float("nan")), "`warmup` must"),
)
