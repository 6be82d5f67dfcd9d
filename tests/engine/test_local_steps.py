"""Rules with local steps, and rules whose server collects: compiled = plain, and known special cases."""

import jax
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim.components._component import static
from asyncsim.rules import Info, Rule, Sent
from asyncsim.trace._regroup import in_steps
from tests.problems import TRACES, assert_close, compare, noisy_quadratic, tree_workload, varied

ADAM = optax.adam(0.05)


@jax.jit
def step_of_adam(scale, params, gradient, state):
    """Compiled, for the plain loop: operation by operation it takes ten times as long."""
    updates, state = ADAM.update(gradient, state, params)
    return optax.apply_updates(params, jax.tree.map(lambda u: scale * u, updates)), state


class Local(Rule):
    """Local steps of Adam, whose step size is scaled."""

    scale: float = 1.0
    window: int = static(default=2)
    elementwise: bool = static(default=False)
    commits: int | None = static(default=None)

    @property
    def collect(self):
        return self.commits

    def start(self, params):
        return ADAM.init(params)

    def local_step(self, params, gradient, state):
        return step_of_adam(self.scale, params, gradient, state)

    def send(self, gradient, state, view):
        return Sent(gradient, state, Info(update=gradient))


@pytest.mark.parametrize(
    ("kind", "elementwise", "collect", "lanes", "workload"),
    [
        ("ordinary", False, 3, 3, noisy_quadratic),
        ("ordinary", True, 2, 1, tree_workload),
        ("everything", True, None, 1, noisy_quadratic),
        ("everything", False, None, 8, tree_workload),
    ],
)
def test_local_steps_equal_the_plain_loop(kind, elementwise, collect, lanes, workload, x64):
    trace, rule = TRACES[kind][0](commits=30), Local(elementwise=elementwise, commits=collect)
    compare(trace, rule, workload(), lanes)


def test_a_collecting_rule_equals_the_collecting_protocol(x64):
    cluster = {"workers": 5, "compute": asim.delays.Gamma(1.0, 0.5)}
    plain = asim.simulate(asim.Cluster(**cluster), commits=61)
    buffered = asim.simulate(asim.Cluster(**cluster, protocol=asim.protocols.KBatchAsync(4)), commits=61)
    cut = in_steps(plain, 4)
    cut.check()
    for name in ("worker", "read_version", "version", "pull_version", "closes_step", "commit_time"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(buffered, name), err_msg=name)
    rule = asim.rules.GEM(0.05)
    collecting = varied(rule, collect=4)
    assert_close(
        asim.replay(plain, collecting, tree_workload()).central, asim.replay(buffered, rule, tree_workload()).central
    )
    assert in_steps(buffered, 4) is buffered
    assert in_steps(plain, None) is plain


def test_steps_of_another_size_are_refused():
    cluster = asim.Cluster(5, asim.delays.Constant(1.0), protocol=asim.protocols.KBatchAsync(3))
    trace = asim.simulate(cluster, commits=30)
    with pytest.raises(ValueError, match=r"in steps of 1 or 4 commits for this rule; its first .* has 3. Simulate"):
        asim.replay(trace, Local(commits=4), tree_workload())
