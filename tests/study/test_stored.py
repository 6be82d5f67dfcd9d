"""Stores opened without their scenarios: tables, results by digest, failures and damage."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from tests.study.problems import assert_same_result, fail_where, scenario

RATES = (0.02, 0.05)


@pytest.fixture
def swept(tmp_path: Path) -> asim.Sweep:
    return asim.sweep(asim.grid(scenario(commits=40), learning_rate=RATES, seed=[0, 1]), tmp_path / "store", jobs=0)


def test_a_store_has_the_table_of_its_sweep(swept, tmp_path):
    found, expected = asim.load(tmp_path / "store").table(), swept.table()
    assert found.fields == expected.fields
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_every_result_is_that_of_the_sweep(swept, tmp_path):
    found = asim.load(tmp_path / "store")
    assert [*found] == [one.digest for one in swept.scenarios]
    for one in swept:
        assert_same_result(found[one.scenario.digest], one)


def test_results_are_read_when_they_are_asked_for(swept, tmp_path):
    found = asim.load(tmp_path / "store")
    assert len(found) == 4
    (tmp_path / "store" / [*found][2] / "run.npz").write_bytes(b"")
    assert found[next(iter(found))].scenario == swept.scenarios[0]


def test_lanes_are_found_under_their_own_digests(tmp_path):
    asim.sweep(asim.grid(scenario(commits=40), learning_rate=RATES), tmp_path / "store", jobs=0, lanes=2)
    found = asim.load(tmp_path / "store")
    assert {one.scenario.rule.learning_rate for one in found.values()} == {*RATES}


def test_failures_have_their_reasons(tmp_path, monkeypatch):
    fail_where(monkeypatch, lambda rate: "too large" if rate > 0.03 else None)
    asim.sweep(asim.grid(scenario(commits=40), learning_rate=RATES), tmp_path / "store", jobs=0)
    found = asim.load(tmp_path / "store")
    ((digest, reason),) = found.failed.items()
    assert reason == "ZeroDivisionError: too large"
    assert len(found) == 1
    assert found.get(digest) is None
    with pytest.raises(KeyError, match="has no result: ZeroDivisionError: too large"):
        found[digest]


def test_several_sweeps_and_cases_are_one_table(swept, tmp_path):
    asim.sweep(asim.grid(scenario(commits=40), case={"three": {"kappa": 3.0}}), tmp_path / "store", jobs=0)
    table = asim.load(tmp_path / "store").table()
    assert table["case"].tolist() == ["", "", "", "", "three"]
    assert asim.best(asim.load(tmp_path / "store"), per="learning_rate").rows == 2


def test_a_damaged_entry_is_no_result(swept, tmp_path):
    (tmp_path / "store" / swept.scenarios[1].digest / "summary.json").write_text("{")
    found = asim.load(tmp_path / "store")
    assert len(found) == 3
    assert found.states[swept.scenarios[1].digest] == "missing"
    assert found.table()["status"].tolist() == ["done", "missing", "done", "done"]


def test_a_part_of_ones_own_is_loaded_as_data(tmp_path):
    def loss(params, batch, key):
        return params["x"] ** 2

    own = scenario(commits=40)
    workload = asim.Workload(init=lambda key: {"x": 1.0}, loss=loss)
    own = asim.Scenario(own.cluster, asim.rules.Downpour(0.1), workload, commits=40)
    asim.sweep([own], tmp_path / "store", jobs=0)
    (found,) = asim.load(tmp_path / "store").values()
    assert found.scenario is None
    assert len(found.run.loss) == 40


def test_a_copy_and_a_tag(swept, tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNCSIM_TAGS", str(tmp_path / "tags.json"))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    assert len(asim.load(tmp_path / "copy")) == 4


def test_nothing_is_written(swept, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
    found = asim.load(tmp_path / "store")
    found.table()
    assert [*found.values()]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")} == before


def test_a_scenario_is_for_one_run(swept, tmp_path):
    with pytest.raises(ValueError, match="`scenario` is for the folder of one run; this is a store"):
        asim.load(tmp_path / "store", scenario=scenario())


def test_a_store_that_was_asked_for_nothing(swept, tmp_path):
    for path in (tmp_path / "store" / "sweeps").iterdir():
        path.unlink()
    found = asim.load(tmp_path / "store")
    assert len(found) == 4
    with pytest.raises(ValueError, match="was asked for nothing yet"):
        found.table()
