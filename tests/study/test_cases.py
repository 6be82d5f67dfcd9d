"""Named cases of a grid: scenarios of different protocols, rules or fleets under names that no digest has."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.scenario._rebuild import hints, in_lane, rebuild
from asyncsim.store._listing import rows
from tests.problems import refusals
from tests.study.problems import scenario

PROTOCOLS = {
    "async": {"protocol": "asynchronous"},
    "2-async": {"protocol": "k_async", "k": 2},
    "sync": {"protocol": "synchronous"},
}
RULES = {
    "GEM": {"rule": "gem", "learning_rate": [0.05, 0.1]},
    "DOWNPOUR": {"rule": "downpour", "learning_rate": np.array([0.02])},
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> asim.Sweep:
    base = scenario(commits_per_worker=5)
    return asim.sweep(asim.grid(base, case=PROTOCOLS, seed=range(2)), tmp_path_factory.mktemp("store"), jobs=0)


def test_one_grid_holds_all_protocols():
    made: Any = asim.grid(scenario(), case=PROTOCOLS, seed=range(2))
    assert [(one.labels["case"], type(one.cluster.protocol).__name__, one.seed) for one in made] == [
        (case, name, seed)
        for case, name in (("async", "Asynchronous"), ("2-async", "KAsync"), ("sync", "Synchronous"))
        for seed in (0, 1)
    ]


def test_each_case_has_step_sizes_of_its_own():
    made: Any = asim.grid(scenario(), case=RULES, seed=[3])
    assert [(one.labels["case"], one.rule.name, one.rule.learning_rate) for one in made] == [
        ("GEM", "gem", 0.05),
        ("GEM", "gem", 0.1),
        ("DOWNPOUR", "downpour", 0.02),
    ]


def test_axes_of_cases_are_combined():
    fleets = {"small": {"workers": 2}, "large": {"workers": 8}}
    made = asim.grid(scenario(), fleet=fleets, case=PROTOCOLS)
    assert [tuple(one.labels.values()) for one in made] == [(f, c) for f in fleets for c in PROTOCOLS]


def test_no_digest_depends_on_a_name():
    (one,), (other,) = (asim.grid(scenario(), case={name: {"kappa": 2.0}}) for name in ("a", "b"))
    plain = scenario(kappa=2.0)
    assert one == other == plain
    assert len({one.digest, other.digest, plain.digest}) == 1
    assert "labels" not in one.describe()


@pytest.mark.parametrize(
    "copied",
    [
        lambda one: one.override(learning_rate=0.3),
        lambda one: pickle.loads(pickle.dumps(one)),
        lambda one: in_lane(one, 2, 2, 0),
        lambda one: rebuild(one.describe(), hints(one)),
        lambda one: asim.grid(one, seed=[4])[0],
        lambda one: asim.sample(one, count=1, learning_rate=[0.3])[0],
    ],
)
def test_a_name_stays_with_its_scenario(copied):
    (one,) = asim.grid(scenario(), case={"two": {"kappa": 2.0}})
    assert copied(one).labels == {"case": "two"}


def test_a_table_has_the_names_and_no_value_where_a_case_lacks_the_field(swept):
    table = swept.table()
    assert table.fields[0] == "case"
    assert table["case"].tolist() == [name for name in PROTOCOLS for _ in range(2)]
    assert [None if k != k else k for k in table["k"].tolist()] == [None, None, 2, 2, None, None]
    assert set(table["status"].tolist()) == {"done"}


def test_the_best_of_each_case(swept):
    found = asim.best(swept, per="case")
    assert found["case"].tolist() == [*PROTOCOLS]
    assert found["runs"].tolist() == [2, 2, 2]


def test_runs_are_listed_by_their_names(swept):
    found = {row.values["case"] for row in rows(swept.store.path, {})}
    assert found == {*PROTOCOLS}


def test_another_sweep_names_a_run_that_is_there(tmp_path: Path):
    asim.sweep([scenario(kappa=2.0, commits=8)], tmp_path, jobs=0)
    named = asim.grid(scenario(commits=8), case={"two": {"kappa": 2.0}, "three": {"kappa": 3.0}})
    found = asim.sweep(named, tmp_path, jobs=0)
    assert len(found.computed) == 1
    assert {row.values["case"] for row in rows(tmp_path, {})} == {"two", "three"}


def test_a_comparison_is_named_after_the_cases():
    assert [*asim.Comparison(asim.grid(scenario(), case=PROTOCOLS)).scenarios] == [*PROTOCOLS]


def test_a_name_may_be_that_of_a_field_that_no_case_sets():
    """GEM has a field `variant`."""
    made = asim.grid(scenario(), variant={"slow": {"learning_rate": 0.01}, "fast": {"learning_rate": 0.1}})
    table = asim.sweep(made, jobs=0).table()
    assert table["variant"].tolist() == ["slow", "fast"]


test_what_is_refused = refusals(
    ({"case": {}}, "`case` must have at least one case"),
    ({"case": {"a": 0.1}}, "`case` 'a' must be fields and their values"),
    ({"case": {1: {}}}, "`case` must have names as keys; got 1"),
    ({"case": {"a": {"kapa": 2}}}, "`case` 'a' does not fit: `kapa` is not a field of"),
    ({"case": {"a": {}, "b": {"protocol": "synchronous", "k": 2}}}, "`case` 'b' does not fit: `k` is not a field"),
    ({"case": {"a": {"kappa": []}}}, "`kappa` must have at least one value"),
    ({"case": {"a": {"kappa": 2}, "b": {"kappa": 2.0}}}, "`case` 'a' and 'b' are the same scenario"),
    ({"case": {"a": {"kappa": 2}}, "kappa": [1, 2]}, "`kappa` is set by 'case' and by 'kappa'"),
    ({"rule": {"a": {"rule": "gem"}}}, "`rule` is a field that its case 'a' sets"),
    ({"seed": {"a": {"kappa": 2}}}, "`seed` is another column of the table"),
    ({"final_loss": {"a": {"kappa": 2}}}, "`final_loss` is another column of the table"),
    call=lambda axes: asim.grid(scenario(), **axes),
)
