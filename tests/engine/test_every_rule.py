"""Every rule with several variables: it is refused with a reason, or the compiled engine equals the plain loop."""

from functools import cache

import jax
import pytest

import asyncsim as asim
from asyncsim import graphs, rules
from asyncsim.components._families import FAMILIES
from asyncsim.engine._plan import bind
from asyncsim.engine.reference import replay_plainly
from tests.engine.test_variables import AROUND, COLLECTING, DIRECTED, assert_equal_variables, gossip
from tests.problems import RULES, assert_refused, tree_workload
from tests.tables import GAMMA, WRAPPERS

KINDS = {
    "pair": lambda: gossip("pair", commits=17),
    "push": lambda: gossip("push", commits=17),
    "rounds": lambda: gossip("rounds", commits=17),
    "push_sum": lambda: gossip("push_sum", DIRECTED, commits=17),
    "groups": lambda: gossip("adapt_then_combine", graphs.RandomGroups(2), commits=17),
    "regions": lambda: asim.simulate(
        asim.Hierarchy([asim.Cluster(2, GAMMA), asim.Cluster(3, GAMMA)], commits_per_push=3), commits=17, seed=3
    ),
}
MAKE = {name: make for name, (make, _) in RULES.items()} | AROUND
MAKE |= {name: WRAPPERS[name] for name in ("with_proxy", "weighted, polynomial", "local, compressed")}
AWAIT_ALL = {"ia2sgd", "malenia", "malenia_trace", "ringleader"}  # rules that would never step, and stay at their start
REPLACING = {"noloco", "exact_diffusion"}  # rules whose commits replace their variable
RUN = [name for name in MAKE if name not in COLLECTING | AWAIT_ALL | REPLACING]
# Each rule has one of the kinds in turn, so that all kinds meet rules of all families.
CASES = [
    *((name, "groups") for name in sorted(REPLACING)),
    *((name, [*KINDS][place % len(KINDS)]) for place, name in enumerate(RUN)),
]


@cache
def trace_of(kind: str) -> asim.Trace:
    return KINDS[kind]()


def rule_of(name: str, kind: str) -> asim.Rule:
    rule = MAKE[name]()
    return rules.hierarchical(rule, rules.MomentumSGD(0.5, momentum=0.5)) if kind == "regions" else rule


@pytest.mark.parametrize("name", MAKE)
def test_a_rule_is_refused_where_it_collects_or_where_its_commits_undo_a_mixing(name):
    for kind in KINDS:
        rule, trace = rule_of(name, kind), trace_of(kind)
        if name in COLLECTING:
            message = "`trace` must have one variable for '.*', which collects . commits"
            assert_refused(lambda rule=rule, trace=trace: bind(rule, trace), message)
        elif name in AWAIT_ALL:
            message = "`trace` must have one variable for '.*', whose server makes no step before every worker"
            assert_refused(lambda rule=rule, trace=trace: bind(rule, trace), message)
        elif name in REPLACING and kind != "groups":
            message = "`trace` must mix a variable between a commit and the next read .* whose commits replace it"
            assert_refused(lambda rule=rule, trace=trace: bind(rule, trace), message)
        else:
            bind(rule, trace)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_rule_equals_the_plain_loop(name, kind, x64):
    rule, workload = rule_of(name, kind), tree_workload()
    run, plain = (replay(trace_of(kind), rule, workload, 3) for replay in (asim.replay, replay_plainly))
    # Without its clamp GEM amplifies rounding from commit to commit.
    assert_equal_variables(run, plain, 1e-6 if name == "gem_paper" else 1e-9)
    # Both would be equal as well if a rule waited for ever for workers that commit elsewhere.
    assert any((leaf != leaf[:1]).any() for leaf in jax.tree.leaves(run.variables))


def test_the_table_has_every_rule():
    """Other tests of this process may have registered rules of their own."""
    library = {name for name, kind in FAMILIES["rules"].items() if kind.__module__.startswith("asyncsim.")}
    assert {make().innermost.name for make in MAKE.values()} == library
