"""Parameter groups that are read at versions of their own: by hand, compiled = plain, cut = whole, seeds alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine._quantities import QUANTITIES
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import Sent
from tests.problems import RULES, assert_close, by_group, compare, gamma_trace, random_trace, refusals, tree_workload

LABELS = ("first", "second", "first")  # of the tree's three tensors: a group need not lie in one piece
KINDS = {
    "ordinary": lambda **kwargs: by_group(gamma_trace(**kwargs)),
    "everything": lambda **kwargs: by_group(random_trace(waiting=0.4, early=0.5, crashing=0.1, **kwargs)),
    "buffered": lambda **kwargs: by_group(random_trace(waiting=0.4, crashing=0.1, closing=0.4, **kwargs)),
}
# Rules that look at the staleness of each parameter, or that go on from something else than the central variable.
CASES = [("everything", "spectrain", 3), ("buffered", "pipemare", 1), ("ordinary", "aeasgd", 3)]


def workload():
    return tree_workload().grouped(LABELS)


def init_two(key):
    del key
    return {"a": jnp.ones(()), "b": jnp.ones(())}


def two_squares(params, batch, key):
    return (params["a"] ** 2 + params["b"] ** 2) / 2


@pytest.mark.quick
def test_reads_by_group_equal_those_by_hand():
    """Gradients of x²/2: a is read as in the first column, b at once, so that b alone is plain gradient descent."""
    trace = asim.Trace.from_commits([0, 1, 0, 1], groups={"a": [0, 0, 1, 2], "b": [0, 1, 2, 3]})
    squares = asim.Workload(init_two, two_squares)
    for run in (
        asim.replay(trace, asim.rules.Downpour(0.5), squares),
        replay_plainly(trace, asim.rules.Downpour(0.5), squares),
    ):
        # a: 1, 1 - .5, .5 - .5, 0 - .25 (read .5), -.25 - 0 (read 0); b halves.
        assert float(run.central["a"]) == -0.25
        assert float(run.central["b"]) == 0.0625
        assert run.loss.tolist() == [1.0, (1 + 0.25) / 2, (0.25 + 0.0625) / 2, 0.015625 / 2]


@pytest.mark.parametrize(("kind", "name", "lanes"), CASES)
def test_replay_equals_the_plain_loop(kind, name, lanes, x64):
    compare(KINDS[kind](seed=2, commits=40), RULES[name][0](), workload(), lanes)


def start_mixed(self, params):
    return jax.tree.map(lambda x: 0.1 * x, params)


def send_mixed(self, gradient, state, view):
    ages = view.staleness_of(gradient)
    message = jax.tree.map(
        lambda g, p, r, t: -0.1 * (g + 0.1 * (p - r)) / (t + 1), gradient, view.pulled, view.read, ages
    )
    return Sent(message, jax.tree.map(lambda s, m: 0.5 * s + m, state, message))


def resume_mixed(self, central, server, state, view):
    """Every tensor depends on all tensors of what was read last, and on what was pulled."""
    total = sum(leaf.sum() for leaf in jax.tree.leaves(view.read))
    ages = view.staleness_of(central)
    return jax.tree.map(
        lambda c, s, p, t: c + 0.1 * s + 0.01 * (total - p) / (t + 1), central, state, view.pulled, ages
    )


@pytest.mark.parametrize("elementwise", [True, False])
def test_a_rule_that_uses_its_whole_view_equals_the_plain_loop(elementwise, x64):
    methods = {"send": send_mixed, "start": start_mixed, **({} if elementwise else {"resume": resume_mixed})}
    rule = type("Mixed", (asim.Rule,), {"elementwise": elementwise, **methods})()
    compare(KINDS["everything"](seed=4, commits=40), rule, workload(), lanes=2)


def test_recorded_reads_are_those_of_the_plain_loop(x64):
    """ "read" and functions of one's own see the mixture, and the staleness of every tensor."""
    trace, rule = KINDS["ordinary"](seed=2), RULES["spectrain"][0]()
    run = asim.replay(trace, rule, workload(), record={"read": 1, "ages": ages_of_tensors})
    plain = replay_plainly(trace, rule, workload())
    assert_close(run.records["read"], np.array([QUANTITIES["read"].measure(one) for one in plain.commits]))
    assert (run.records["ages"] == trace.group_staleness[:, [0, 1, 0]]).all()


def ages_of_tensors(commit):
    return jnp.stack([age.max() for age in jax.tree.leaves(commit.view.staleness_of(commit.central))])


@pytest.mark.quick
def test_a_resumed_run_must_be_of_the_same_reads():
    trace = KINDS["ordinary"](seed=2)
    half = asim.replay(trace, asim.rules.Downpour(0.1), workload(), commits=30)
    with pytest.raises(ValueError, match="`resume` must be a run of the same trace"):
        asim.replay(by_group(gamma_trace(seed=2), seed=1), asim.rules.Downpour(0.1), workload(), resume=half)


def replay_in_groups(labels):
    """Of a trace with two groups, or with four that the workload does not name."""
    reads = {f"g{place}": [0, 0, 1] for place in range(2 if labels else 4)}
    workload = tree_workload().grouped(labels) if labels else tree_workload()
    asim.replay(asim.Trace.from_commits([0, 1, 0], groups=reads), asim.rules.Downpour(0.1), workload)


test_groups_that_do_not_fit = refusals(
    (None, "`trace` must have at most 2 parameter groups, as many as this workload has layers; it has 4"),
    (("g0", "g1", "other"), "the trace, 'g0', 'g1'; 'other' is none of them"),
    (("g0", "g0", "g0"), "the trace, 'g0', 'g1'; 'g1' has no parameters"),
    (("g0", "g1"), "`groups` must name a group for each of the 3 tensors bias, layers/0, layers/1"),
    ({"bias": "g0", "layers": 7}, "`groups` must hold names; got 7"),
    call=replay_in_groups,
)
