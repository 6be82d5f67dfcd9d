"""Facts about every update rule: each test runs over all rows of `tests.tables.RULES`."""

import dataclasses
import inspect
import pickle
import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import components, rules
from asyncsim.components._families import built_in_classes
from asyncsim.engine._loop import replay_chunk
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import View
from tests.problems import RULES, SOLVED_ON, assert_close, compare, gamma_trace, in_few_programs, trace_for, varied
from tests.rules.by_hand import own_steps

OPTAX = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.02, momentum=0.8),
    "nesterov": optax.sgd(0.02, momentum=0.8, nesterov=True),
}
FORMULA = re.compile(r"[←=]")
SECTIONS = ("Args:", "Example:", "References:")

every_row = pytest.mark.parametrize("name", RULES)
every_constructor = pytest.mark.parametrize("name", built_in_classes("rules"))


def made(name):
    return RULES[name][0]()


def test_every_constructor_has_a_row():
    assert {made(name).name for name in RULES} == set(built_in_classes("rules"))


def ones(key):
    return {"bias": jnp.ones(()), "layers": [jnp.ones((3, 2))]}


@jax.jit
def bowl(params, batch, key):
    """A quadratic with the curvatures 1 and 1/2."""
    slope = {"bias": params["bias"], "layers": [0.5 * x for x in params["layers"]]}
    height = sum((x * g).sum() for x, g in zip(jax.tree.leaves(params), jax.tree.leaves(slope), strict=True)) / 2
    return height, slope


@every_row
def test_it_solves_a_quadratic_in_one_program_that_equals_the_reference_loop(name, x64):
    """Parameters are a pytree, and the server is buffered. With one worker some rules are optimisers of optax.

    Another trace, another length, a new step size and the same rule built again do not compile a new program. Traces to
    compare are short, because unclamped rules amplify rounding from commit to commit.
    """
    rule, workload = made(name), asim.Workload(ones, loss=None, gradient=bowl)
    trace = SOLVED_ON[name]() if name in SOLVED_ON else gamma_trace(commits=3000)
    run = asim.replay(last_step_open(trace, rule), rule, workload)
    assert run.diverged_at is None
    assert run.loss[-50:].mean() < 1e-2 * run.loss[0]
    programs = replay_chunk.traced
    slower = dataclasses.replace(made(name), learning_rate=0.9 * rule.learning_rate)
    commits = 16 if rule.collect else 10  # few: nearly half of the time is the plain loop's
    short = trace_for(rule, "buffered", workers=trace.workers, commits=commits)
    plain = slower if rule.elementwise and not rule.collect else in_few_programs(slower)
    compare(short, slower, workload, plain=replay_plainly(short, plain, workload, seed=3))
    if standard := RULES[name][1]:
        assert_close(run_alone(rule, workload, workers=trace.workers), by_optax(standard))
    assert replay_chunk.traced == programs


def last_step_open(trace, rule):
    """The trace with a second commit to come in its last step, unless the rule makes the steps."""
    closes = np.arange(len(trace)) < len(trace) - 1
    nobody = asim.trace.Unfinished(worker=[], read_version=[], read_time=[])
    return trace if rule.collect else dataclasses.replace(trace, closes_step=closes, unfinished=nobody)


@cache
def by_optax(standard):
    """Parameters after 20 steps of the standard optimiser."""
    return own_steps(OPTAX[standard], asim.Workload(ones, loss=None, gradient=bowl), 20, seed=0)[0]


def run_alone(rule, workload, workers):
    """The central variable after 20 commits of one worker among others that never commit."""
    trace = asim.Trace.from_commits([0] * 21, workers=workers)
    return asim.replay(last_step_open(trace, rule), rule, workload, commits=20).central


@every_row
def test_its_cost_is_linear_in_the_parameters(name):
    """A commit has at most a hundred operations for each of a million parameters."""
    assert 0 < operations(made(name).for_workers(5), 10**6) < 100 * 10**6


def operations(rule, size):
    """Floating-point operations of a commit, as JAX counts them, without the gradient."""

    def commit(rule, params, gradient):
        state, server = rule.start(params), rule.start_server(params)
        if rule.steps_locally:
            ended, state = rule.local_step(params, gradient, state)
            gradient = jax.tree.map(jnp.subtract, ended, params)
        view = View(read=params, pulled=params, staleness=jnp.int32(1), server=server)
        sent = rule.send(gradient, state, view)
        central, server = rule.apply(params, server, sent.message, view)
        return rule.resume(central, server, sent.state, view), sent.state, server

    vector = jax.ShapeDtypeStruct((size,), "float32")
    params = vector if rule.sees_vector else {"x": vector}
    return jax.jit(commit).lower(rule, params, params).cost_analysis()["flops"]


@every_row
def test_the_command_line_can_rebuild_it(name):
    """Its fields, written out and parsed again, make the same rule; a new step size makes another of its kind."""
    rule = made(name)
    fields = {field.name: field for field in components.fields(rule)}
    texts = {name: field.show() for name, field in fields.items() if field.value is not None}
    again = components.override(rule, **{name: fields[name].parse(text) for name, text in texts.items()})
    assert again == rule
    changed = components.override(rule, learning_rate=0.123)
    assert changed == dataclasses.replace(rule, learning_rate=0.123)


@every_row
def test_copies_are_equal_and_not_checked_again_and_a_rule_prints_in_one_line(name, monkeypatch):
    rule, again = made(name), made(name)
    assert (rule, hash(rule)) == (again, hash(again))
    assert "\n" not in repr(rule)
    assert len(repr(rule)) < 220
    assert eval(repr(rule), vars(rules)) == rule
    monkeypatch.setattr(type(rule), "check", lambda self: pytest.fail("checked again"))
    assert jax.tree.map(lambda number: number, rule) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert rules.by_name(rule.name) is type(rule)


@every_constructor
def test_it_is_documented(name):
    docstring = inspect.getdoc(built_in_classes("rules")[name])
    summary, empty, *rest = docstring.splitlines()
    assert summary.endswith(".")
    assert not empty
    assert FORMULA.search("\n".join(rest).partition("Args:")[0]), "no formula"
    for section in SECTIONS:
        assert f"\n{section}" in docstring, section
    assert ">>> " in docstring
    described = rest[rest.index("Args:") :]
    for argument in inspect.signature(built_in_classes("rules")[name]).parameters:
        assert any(re.match(rf" +(\w+, )*{argument}(, \w+)*:", line) for line in described), argument


@every_constructor
def test_it_has_a_citation(name):
    entry = asim.citation(name)
    assert re.match(r"@\w+\{\w+,\n", entry)
    assert entry.count("{") == entry.count("}")
    for field in ("author", "title", "year"):
        assert f"\n  {field} = {{" in entry


def test_one_name_has_one_meaning():
    """Another rule that has one of these arguments must mean the same by it."""
    owners = {}
    for name, rule in built_in_classes("rules").items():
        for argument in inspect.signature(rule).parameters:
            owners.setdefault(argument, set()).add(name)
    assert owners["limit"] == {"ringmaster"}
    assert owners["oldest"] == {"drop_stale"}
    assert owners["grace"] == {"fedasync", "fadas"}
    assert owners["decay"] == {"dc_asgd", "fadas", "gap_aware", "yellowfin"}
    assert owners["server_learning_rate"] == {"ca2fl", "diloco", "fadas", "fedbuff", "local_sgd", "noloco"}
    assert owners["learning_rate"] == set(built_in_classes("rules"))


def test_who_is_cited():
    assert asim.citation(asim.rules.GEM(0.1)) == asim.citation("gem")
    assert "Hermans, Joeri and Louppe, Gilles" in asim.citation("gem")
    with pytest.raises(ValueError, match="Did you mean 'ringmaster'"):
        asim.citation("ringmastr")
    with pytest.raises(ValueError, match="'mine', which has no citation here"):
        asim.citation(varied(asim.rules.Downpour(0.1), name="mine"))
