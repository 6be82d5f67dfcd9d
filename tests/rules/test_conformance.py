"""What every update rule must be: the rows of `tests.problems.RULES`, each test runs over all of them."""

import dataclasses
import inspect
import re

import jax
import jax.numpy as jnp
import pytest

import asyncsim as asim
from asyncsim._component import ours
from asyncsim._parts import chosen
from asyncsim.engine._loop import replay_chunk
from asyncsim.rules import View
from asyncsim.scenario._parts import choices
from tests.problems import RULES, SOLVED_ON, compare, gamma_trace, trace_for, tree_workload, varied

SIZES = (1000, 2000, 4000)  # of one parameter tensor
FORMULA = re.compile(r"[←=]")
SECTIONS = ("Args:", "Raises:", "Example:", "References:")

every_row = pytest.mark.parametrize("name", RULES)
every_constructor = pytest.mark.parametrize("name", ours("rules"))


def made(name):
    return RULES[name][0]()


def test_every_constructor_has_a_row():
    assert {made(name).name for name in RULES} == set(ours("rules"))


@every_row
def test_it_solves_a_quadratic_in_one_program_that_equals_the_reference_loop(name, x64):
    """A new trace, another length, a new step size and the same rule built again do not compile a new program."""
    rule, quadratic = made(name), asim.workloads.Quadratic([1.0, 0.5])
    trace = SOLVED_ON[name]() if name in SOLVED_ON else gamma_trace(commits=3000)
    run = asim.replay(trace, rule, quadratic)
    assert run.diverged_at is None
    assert run.loss[-50:].mean() < 1e-2 * run.loss[0]
    programs = replay_chunk._cache_size()
    other = gamma_trace(workers=trace.workers, commits=25, seed=2) if trace.closes_step.all() else trace
    slower = dataclasses.replace(made(name), learning_rate=0.9 * rule.learning_rate)
    compare(other, slower, quadratic)
    assert replay_chunk._cache_size() == programs


@every_row
def test_it_takes_any_pytree_and_a_buffered_server(name, x64):
    """Few commits, because unclamped rules amplify rounding from commit to commit."""
    rule = made(name)
    compare(trace_for(rule, "buffered", commits=12), rule, tree_workload())


@every_row
def test_its_cost_is_linear_in_the_parameters(name):
    """Operations of one commit: twice as many more parameters add twice as many more operations."""
    flops = [operations(made(name).for_workers(5), size) for size in SIZES]
    assert flops[2] - flops[1] == pytest.approx(2 * (flops[1] - flops[0]), rel=1e-3)
    assert flops[1] > flops[0]


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

    params = jnp.ones(size) if rule.sees_vector else {"x": jnp.ones(size)}
    return jax.jit(commit).lower(rule, params, params).cost_analysis()["flops"]


@every_row
def test_the_command_line_can_rebuild_it(name):
    """Its fields, written out and parsed again, make the same rule; a new step size makes another of its kind."""
    rule = made(name)
    component = chosen(choices()["rule"], rule)
    assert component.name == rule.name
    texts = {field.name: field.show() for field in component.fields({}) if field.value is not None}
    parsers = {field.name: field.parse for field in component.fields({})}
    again = component.rebuild({key: parsers[key](text) for key, text in texts.items()})
    assert again == rule
    changed = component.rebuild({"learning_rate": 0.123})
    assert changed == dataclasses.replace(rule, learning_rate=0.123)


@every_constructor
def test_it_is_documented(name):
    docstring = inspect.getdoc(ours("rules")[name])
    summary, empty, *rest = docstring.splitlines()
    assert summary.endswith(".")
    assert not empty
    assert FORMULA.search("\n".join(rest).partition("Args:")[0]), "no formula"
    for section in SECTIONS:
        assert f"\n{section}" in docstring, section
    assert ">>> " in docstring
    described = rest[rest.index("Args:") :]
    for argument in inspect.signature(ours("rules")[name]).parameters:
        assert any(re.match(rf" +(\w+, )*{argument}(, \w+)*:", line) for line in described), argument


@every_constructor
def test_it_has_a_citation(name):
    entry = asim.citation(name)
    assert re.match(r"@\w+\{\w+,\n", entry)
    assert entry.count("{") == entry.count("}")
    for field in ("author", "title", "year"):
        assert f"\n  {field} = {{" in entry


def test_who_is_cited():
    assert asim.citation(asim.rules.GEM(0.1)) == asim.citation("gem")
    assert "Hermans, Joeri and Louppe, Gilles" in asim.citation("gem")
    with pytest.raises(ValueError, match="Did you mean 'ringmaster'"):
        asim.citation("ringmastr")
    with pytest.raises(ValueError, match="'mine', which has no citation here"):
        asim.citation(varied(asim.rules.Downpour(0.1), name="mine"))
