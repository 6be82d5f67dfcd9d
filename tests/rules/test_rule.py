"""A rule as an object: its `repr`, equality, hash and copies, and a class of one's own."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.components._traced import Structure
from asyncsim.rules import Sent
from asyncsim.rules._optimisers import named
from tests.problems import RULES, assert_close, round_robin, varied
from tests.rules import typed_rule


def test_all_rows_are_different():
    assert len({make() for make, _ in RULES.values()}) == len(RULES)


def test_different_rules():
    gem = rules.GEM(0.1)
    different = [gem, *(rules.GEM(rates) for rates in ([0.1, 0.2], [0.1, 0.3], [0.1])), varied(gem, elementwise=False)]
    different += [rules.WithProxy(gem), rules.MomentumSGD(0.1), rules.MultiASGD(0.1)]
    assert len(set(different)) == len(different)
    assert all((one == other) == (one is other) for one in different for other in different)
    assert gem != "gem"


def test_rules_that_differ_in_numbers_share_their_structure():
    """The structure selects the compiled program, and another choice has another structure."""
    assert Structure(rules.GEM(0.1)) == Structure(rules.GEM(0.2, kappa=3.0))
    assert Structure(rules.GEM(0.1)) != Structure(rules.GEM(0.1, variant="paper"))
    assert Structure(rules.Downpour(0.1)) != Structure(rules.AdaptiveStaleness(0.1))
    assert Structure(rules.DelayAdaptive(0.1)) != Structure(rules.DelayAdaptive(0.1, smoothness=1.0))


def test_numbers_count_by_value():
    several = rules.GEM(np.array([0.1, 0.2]))
    assert several == rules.GEM([0.1, 0.2])
    assert hash(several) == hash(rules.GEM([0.1, 0.2]))
    assert rules.Downpour(1) == rules.Downpour(1.0)
    assert hash(rules.Downpour(1)) == hash(rules.Downpour(1.0))


def test_long_values_are_named_by_their_type():
    rule = rules.WorkerOptimiser(np.linspace(0.1, 1.0, 100), optimiser=named("sgd"))
    assert repr(rule) == (
        "WorkerOptimiser(learning_rate=<ndarray (100,)>, window=1, optimiser=<GradientTransformationExtraArgs>, "
        "elementwise=False)"
    )


def test_names_of_the_library_are_taken_and_a_rule_must_send():
    with pytest.raises(ValueError, match="`name` 'gem' of GEM is that of a rule of asyncsim"):
        type("GEM", (asim.Rule,), {"send": typed_rule.Half.send})
    with pytest.raises(TypeError, match="abstract"):
        type("Idle", (asim.Rule,), {})()


def test_a_rule_of_your_own_with_types(x64):
    """The rule that pyright reads: half a step, from halfway. One worker: θ ← θ - η/2·(θ + previous θ)/2."""
    run = asim.replay(round_robin(1, 3), typed_rule.Half(0.5), asim.workloads.Quadratic([1.0]))
    x, read = 1.0, 1.0
    for _ in range(3):
        x, pulled = x - 0.25 * read, x
        read = (x + pulled) / 2
    assert run.central["x"][0] == pytest.approx(x, rel=1e-12)
    assert (repr(run.rule), Betas.name) == ("Half(learning_rate=0.5, share=0.5)", "betas")
    with pytest.raises(ValueError, match="`learning_rate` must be finite; got nan"):
        typed_rule.Half(float("nan"))


class Betas(asim.Rule):
    """A rule with several numbers in one argument."""

    learning_rate: float
    betas: tuple

    def send(self, gradient, state, view):
        return Sent(gradient, state)


def test_numbers_of_one_argument_have_names_of_their_own():
    rule = Betas(0.1, (0.9, 0.99))
    assert rule.numbers == {"learning_rate": 0.1, "betas[0]": 0.9, "betas[1]": 0.99}
    assert rule.with_numbers({"betas[1]": 0.5}) == Betas(0.1, (0.9, 0.5))


def test_annotations_may_be_texts(tmp_path, monkeypatch):
    """As `from __future__ import annotations` has them: a text and a switch still choose code."""
    body = "class Named(asim.Rule):\n    rate: float\n    mode: str = 'fast'\n    on: bool = True\n"
    body += "    def send(self, gradient, state, view):\n        return asim.rules.Sent(gradient, state)\n"
    (tmp_path / "texts.py").write_text(f"from __future__ import annotations\nimport asyncsim as asim\n{body}")
    monkeypatch.syspath_prepend(tmp_path)
    rule = __import__("texts").Named(0.1)
    assert jax.tree.leaves(rule) == [0.1]


def test_the_contained_rule_is_cited_and_its_bytes_are_counted():
    params = jax.ShapeDtypeStruct((1000,), "float32")
    wrapped = rules.WithProxy(rules.compressed(rules.GEM(0.1), asim.compressors.ScaledSign()))
    assert asim.citation(wrapped) == asim.citation("gem")
    assert rules.message_bytes(wrapped, params) == asim.compressors.ScaledSign().bytes(params)


def test_a_rule_that_cannot_be_tried_alone_is_compressed_all_the_same(x64):
    """Its numbers fit a trace of four workers only."""
    rule = rules.compressed(rules.DelayAdaptive(0.1, concurrency=3.5), asim.compressors.TopK(fraction=1.0))
    trace, workload = round_robin(4, 12), asim.workloads.Quadratic([1.0, 0.5])
    plain = asim.replay(trace, rule.rule, workload)
    assert_close(asim.replay(trace, rule, workload).central, plain.central, rtol=1e-12)
