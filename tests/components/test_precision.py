"""Numbers that the precision of a replay would change into others are refused, by the name of their argument."""

import dataclasses
from contextlib import suppress
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim._checks import require_all_fractions, require_all_not_negative
from asyncsim.components._precision import require_precision
from tests.problems import RULES, assert_refused

TRACE = asim.Trace.from_commits([0, 1, 0, 1])
TINY, ROUND = 1e-300, 1 - 1e-12  # in float32 0 and 1


def zero(key):
    return jnp.zeros(2)


def height(params, batch, key):
    return jnp.sum(params**2)


PLAIN = asim.Workload(zero, height)


class Bounded(asim.Rule):
    """A rule of the user's, whose annotation checks a number."""

    share: Annotated[Any, require_all_fractions] = 0.5

    def send(self, gradient, state, view):
        return rules.Sent(jax.tree.map(lambda g: -self.share * g, gradient), state)


class Together(Bounded):
    """One that compares its numbers itself."""

    rest: Annotated[Any, require_all_not_negative] = 0.5
    exact: float = 0.1
    times: float = 10.0

    def check(self):
        if np.any(self.share == self.rest) or np.any(self.exact * self.times > 1):
            raise ValueError(f"`rest` must differ from `share`; got {self.rest!r}. Give another number.")


class Plain(Bounded):
    """One that asks for a plain number, which a float32 scalar is not."""

    def check(self):
        if not isinstance(self.share, float):
            raise ValueError("`share` must be a float.")


class Own(asim.Workload):
    """A workload of the user's."""

    decay: Annotated[float, require_all_fractions] = 0.5
    scales: Any = (1.0, 2.0)

    def init(self, key):
        return zero(key)

    def loss(self, params, batch, key):
        return self.decay * height(params, batch, key)


REFUSED = {
    "bound": (
        lambda: rules.GEM(0.1, momentum=0.9999999999),
        PLAIN,
        "`momentum`.*float32.*0.9999999999 becomes 1.0.*x64",
    ),
    "lower bound": (lambda: rules.HeavyBall(0.1, momentum=-ROUND), PLAIN, "`momentum`.*becomes -1.0"),
    "zero": (lambda: rules.Downpour(TINY), PLAIN, "`learning_rate` must not become 0 in float32; got 1e-300.*x64"),
    "negative zero": (lambda: rules.HeavyBall(0.1, momentum=-TINY), PLAIN, "`momentum` must not become 0"),
    "flushed to zero": (
        lambda: rules.Downpour(1e-40),
        PLAIN,
        "`learning_rate` must not become 0 in float32; got 1e-40",
    ),
    "infinite": (lambda: rules.Downpour(1e39), PLAIN, "`learning_rate` must be at most 3.4e.38, the largest float32"),
    "one value per seed": (lambda: rules.Downpour([0.1, TINY]), PLAIN, "`learning_rate` must not become 0.*got 1e-300"),
    "bound of one seed": (lambda: rules.GEM(0.1, momentum=[0.9, ROUND]), PLAIN, "`momentum` must be valid in float32"),
    "wrapped": (
        lambda: rules.compressed(rules.GEM(0.1, momentum=ROUND), asim.compressors.TopK(0.5)),
        PLAIN,
        "`momentum` must be valid in float32",
    ),
    "wrapped twice": (
        lambda: rules.compressed(rules.WithProxy(rules.Downpour(TINY)), asim.compressors.TopK(0.5)),
        PLAIN,
        "`(proxy_)?learning_rate` must not become 0",
    ),
    "static": (lambda: rules.Muon(0.1, momentum=ROUND), PLAIN, "`momentum` must be valid in float32"),
    "annotated": (lambda: Bounded(ROUND), PLAIN, "`share` must be valid in float32"),
    "compared": (lambda: Together(0.5, rest=0.5 + 1e-12), PLAIN, "`(share|rest)` must be valid in float32"),
    "workload": (lambda: rules.Downpour(0.1), lambda: Own(decay=ROUND), "`decay` must be valid in float32"),
    "workload's list": (lambda: rules.Downpour(0.1), lambda: Own(scales=(1.0, TINY)), "`scales` must not become 0"),
    "curvature": (lambda: rules.Downpour(0.1), lambda: asim.workloads.Quadratic([1.0, TINY]), "`eigenvalues` must not"),
    "noise": (lambda: rules.Downpour(0.1), lambda: asim.workloads.Quadratic([1.0], noise=TINY), "`noise` must not"),
    "weights": (
        lambda: rules.Downpour(0.1),
        lambda: asim.Workload(zero, height, weights=[1.0, TINY]),
        "`weights` must",
    ),
}


def asked(name):
    make, workload, message = REFUSED[name]
    rule = make()
    seed = [0, 1] if any(map(np.ndim, rule.numbers.values())) else 0
    return rule, workload if isinstance(workload, asim.Workload) else workload(), seed, message


@pytest.mark.parametrize("name", REFUSED)
def test_a_number_that_would_be_another_is_refused(name):
    rule, workload, seed, message = asked(name)
    assert_refused(lambda: asim.replay(TRACE, rule, workload, seed=seed), message)
    assert_refused(lambda: asim.Scenario(TRACE, rule, workload), message)


@pytest.mark.parametrize("name", [name for name in REFUSED if "infinite" not in name])
def test_float64_accepts_numbers_that_float32_cannot_hold(name):
    with jax.enable_x64(True):
        rule, workload, _, _ = asked(name)
        require_precision(rule, np.float64)
        require_precision(workload, np.float64, without=("data", "parts"))


@pytest.mark.parametrize("name", RULES)
def test_every_number_of_every_rule_is_kept(name):
    """A number near 0, or nearer to a bound than float32 has digits, is refused unless the rule itself refuses it."""
    rule = RULES[name][0]()
    require_precision(rule, np.float32)
    for field in rule._traced:
        value = getattr(rule, field)
        for other in (TINY, ROUND, -ROUND, 1 + 1e-12) if isinstance(value, float) else ():
            try:
                changed = dataclasses.replace(rule, **{field: other})
            except ValueError:
                continue
            with suppress(ValueError):
                dataclasses.replace(rule, **{field: float(round(other))})
                if round(other):
                    continue  # 1 is as good
            assert_refused(lambda changed=changed: require_precision(changed, np.float32), f"`{field}` must")


@pytest.mark.parametrize(
    "rule",
    [
        rules.DelayedNesterov(0.1, activation=0.1, interval=10),
        Together(0.5, rest=0.25),
        Together([0.5, 0.6], rest=[0.25, 0.1]),
        Plain(0.3),
        rules.GEM(0.1, momentum=0.9999999),
        rules.Downpour(0.0),
        rules.Downpour(1e-37),
        rules.Muon(0.1, momentum=0.9999999),
        rules.compressed(rules.Downpour(0.1), asim.compressors.TopK(1 - 1e-12)),
    ],
    ids=repr,
)
def test_rounding_alone_is_no_reason(rule):
    """0.1 is not 0.1 in float32, which must not matter where numbers are compared with each other."""
    require_precision(rule, np.float32)


def test_a_narrow_type_of_the_parameters_limits_the_largest_number_only():
    """Numbers are kept in float32 where parameters have fewer digits."""
    require_precision(rules.GEM(1e-7, momentum=0.9999), jnp.float16)
    assert_refused(lambda: require_precision(rules.GEM(1e5), jnp.float16), "`learning_rate` .* the largest float16")
