"""A rule as an object: its `repr`, equality and hash, and which constructor of the library made it."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.rules.rule import from_pulled
from tests.problems import RULES, assert_close, round_robin
from tests.rules import typed_rule

every_row = pytest.mark.parametrize("name", RULES)


def made(name):
    return RULES[name][0]()


@every_row
def test_its_constructor_is_known_without_building_it_again(name, monkeypatch):
    rule = made(name)
    slower = dataclasses.replace(rule, hyper={key: 0.5 * value for key, value in rule.hyper.items()})
    mapped = jax.tree.map(lambda number: number, rule)
    # An optimiser of optax is made of closures, which cannot be pickled.
    thawed = rule if "optimiser" in dict(rule.options) else pickle.loads(pickle.dumps(rule))
    monkeypatch.setattr(rules.Rule, "__init__", lambda *arguments, **named: pytest.fail("built again"))
    for one in (rule, slower, mapped, thawed):
        assert rules.constructor_of(one) == rule.name


@every_row
def test_what_only_bears_its_name_was_not_made_by_its_constructor(name):
    rule = made(name)
    for change in (
        {"resume": typed_rule.resume_halfway},
        {"options": (("variant", "mine"),)},
        {"hyper": {**rule.hyper, "mine": 1.0}},
        {"hyper": {}},
        {"name": "mine"},
        {"name": "gem" if rule.name != "gem" else "downpour"},
        {"window": 7},
    ):
        assert rules.constructor_of(dataclasses.replace(rule, **change)) is None
    handmade = asim.Rule(hyper=rule.hyper, name=rule.name, send=typed_rule.send_half)
    assert rules.constructor_of(handmade) is None


def test_a_part_of_the_library_in_the_wrong_place_is_not_its_constructor_either():
    gem = asim.rules.gem(0.1)
    assert rules.constructor_of(dataclasses.replace(gem, resume=from_pulled)) is None
    assert rules.constructor_of(dataclasses.replace(gem, resume=gem.resume)) == "gem"
    assert rules.constructor_of(rules.beside_proxy(gem)) is None


@every_row
def test_equal_rules_hash_alike_and_print_in_one_line(name):
    rule, again = made(name), made(name)
    assert rule == again
    assert hash(rule) == hash(again)
    assert "\n" not in repr(rule)
    assert len(repr(rule)) < 200
    assert repr(rule).startswith(f"{rule.name}(learning_rate=")


def test_all_rows_are_different():
    assert len({made(name) for name in RULES}) == len(RULES)


def test_what_makes_rules_different():
    gem = asim.rules.gem(0.1)
    different = [
        gem,
        asim.rules.gem(0.2),
        asim.rules.gem(0.1, variant="paper"),
        asim.rules.gem([0.1, 0.2]),
        asim.rules.gem([0.1, 0.3]),
        asim.rules.gem([0.1]),
        dataclasses.replace(gem, resume=from_pulled),
        dataclasses.replace(gem, hyper={"learning_rate": 0.1}),
        asim.rules.downpour(0.1),
    ]
    assert len(set(different)) == len(different)
    assert all((one == other) == (one is other) for one in different for other in different)
    assert gem != "gem"


def test_numbers_count_by_value():
    several = asim.rules.gem(np.array([0.1, 0.2]))
    assert several == asim.rules.gem([0.1, 0.2])
    assert hash(several) == hash(asim.rules.gem([0.1, 0.2]))
    whole = dataclasses.replace(asim.rules.downpour(1.0), hyper={"learning_rate": 1})
    assert whole == asim.rules.downpour(1.0)
    assert hash(whole) == hash(asim.rules.downpour(1.0))


def test_long_values_are_named_by_their_type():
    rule = asim.rules.worker(np.linspace(0.1, 1.0, 100), optimiser=rules.optimisers.named("sgd"))
    assert repr(rule) == (
        "worker(learning_rate=<ndarray (100,)>, window=1, optimiser=<GradientTransformationExtraArgs>)"
    )


def test_a_rule_of_your_own_with_types(x64):
    """The rule that pyright reads: half a step, from halfway. One worker: θ ← θ - η/2·(θ + previous θ)/2."""
    run = asim.replay(round_robin(1, 3), typed_rule.half(0.5), asim.workloads.quadratic([1.0]))
    x, read = 1.0, 1.0
    for _ in range(3):
        x, pulled = x - 0.25 * read, x
        read = (x + pulled) / 2
    assert run.central["x"][0] == pytest.approx(x, rel=1e-12)
    assert repr(typed_rule.half(0.5)) == "half(learning_rate=0.5)"


def send_clipped(hyper, gradient, state, view):
    """A step whose every tensor has a norm of at most the limit."""
    del view
    return rules.Sent(jax.tree.map(lambda g: -hyper["learning_rate"] * clipped(g, hyper["limit"]), gradient), state)


def clipped(gradient, limit):
    return gradient * jnp.minimum(1.0, limit / jnp.linalg.norm(gradient))


@pytest.mark.networks
def test_a_rule_of_ones_own_sees_the_tensors_that_the_loss_sees(x64):
    """Clipping each tensor: the same as a loop over the commits that knows nothing of the engine."""
    limit, rate, trace = 0.1, 0.5, asim.Trace.from_commits([0, 1, 2, 1, 0, 0, 2] * 10)
    rule = asim.Rule(hyper={"learning_rate": rate, "limit": limit}, name="clipped", send=send_clipped)
    workload = asim.workloads.mlp(asim.datasets.digits(), hidden=(8,), batch_size=16)
    run = asim.replay(trace, rule, workload, seed=3, record=("read",))

    central = jax.tree.map(lambda leaf: leaf[0], run.unpacked("read"))
    read, jobs = [central] * trace.workers, [0] * trace.workers
    take = jax.jit(jax.grad(workload.loss))
    for worker in trace.worker.tolist():
        gradient = take(read[worker], workload.batch(3, worker, jobs[worker]), jax.random.key(0))
        central = jax.tree.map(lambda theta, g: theta - rate * clipped(g, limit), central, gradient)
        read[worker], jobs[worker] = central, jobs[worker] + 1
    assert_close(run.central, central, rtol=1e-9)
