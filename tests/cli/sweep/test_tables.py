"""`asyncsim sweep status` and `asyncsim sweep table`: the contents of a store."""

import json

import pytest

from tests.cli.commands import assert_one_line
from tests.study.problems import fail_where


def test_status(done, command):
    assert json.loads(command("sweep", "status", "store", "--json").out) == {
        "done": 6,
        "running": 0,
        "failed": 0,
        "missing": 0,
        "reasons": {},
    }
    assert command("sweep", "status", "store").out.split()[:2] == ["done", "6"]


def test_equal_failures_are_grouped(command, script, monkeypatch):
    fail_where(monkeypatch, lambda rate: "large" if rate > 1 else "small")
    command("sweep", script, "--grid", "learning_rate=.1,2", "--grid", "seed=0:10", "--store", "store")
    lines = command("sweep", "status", "store").out.splitlines()
    assert [line.strip() for line in lines if "ZeroDivisionError" in line] == [
        f"ZeroDivisionError: {size} (10 runs, of which this is the first)" for size in ("small", "large")
    ]
    assert len(json.loads(command("sweep", "status", "store", "--json").out)["reasons"]) == 20


@pytest.fixture
def measured(command, tmp_path):
    """A workload that measures f1, larger for larger step sizes, and an error."""
    (tmp_path / "own.py").write_text(OWN)
    found = command("sweep", "own.py", "--grid", "learning_rate=.1,.2,.4", "--grid", "seed=0:2", "--store", "store")
    assert found.status == 0, found.err


OWN = """
import asyncsim as asim

def evaluate(params):
    return {"f1": -params["x"], "test_error": -params["x"]}

def loss(params, batch, key):
    return params["x"]

scenario = asim.Scenario(
    cluster=asim.Cluster(workers=2, compute=asim.delays.Constant(1.0)),
    rule=asim.rules.Downpour(0.1),
    workload=asim.Workload(init=lambda key: {"x": 1.0}, loss=loss, evaluate=evaluate),
    commits=8,
)
"""


def test_the_direction_of_the_best_is_asked_for_or_known(measured, command):
    plot, words = ("plot", "--x", "learning_rate"), {"--largest": "highest", "--smallest": "lowest"}
    for shown in (plot, ("table",), ("status",)):
        asked = ("sweep", shown[0], "store", *shown[1:], "--y")
        assert_one_line(command(*asked, "f1"), 2, "'f1'", "`--largest` or `--smallest`")
        for flag, rate in (("--largest", "0.4"), ("--smallest", "0.1")):
            out = command(*asked, "f1", flag).out
            line = next(line for line in out.splitlines() if "he highest" in line or "he lowest" in line)
            assert words[flag] in line
            assert rate in out[out.index(line) :]
        assert "he lowest test error" in command(*asked, "test_error").out
        assert_one_line(command(*asked, "test_eror"), 2, "Did you mean 'test_error'?")
    found = json.loads(command(*asked[:1], *plot[:1], "store", *plot[1:], "--y", "f1", "--largest", "--json").out)
    assert found["best"]["columns"]["learning_rate"] == [0.4]


def test_a_split_table_repeats_the_fields(command, script, monkeypatch):
    monkeypatch.setenv("COLUMNS", "66")
    grids = ("--grid", "learning_rate=.02,.05", "--grid", "kappa=1,2", "--grid", "momentum=.5,.9", "--grid", "seed=0:2")
    command("sweep", script, "--commits", "40", *grids, "--store", "store")
    parts = command("sweep", "table", "store").out.split("\n\n")
    heads = [part.splitlines()[:2] for part in parts if "0.02" in part and len(part.splitlines()) > 16]
    assert len(heads) > 1
    for head in heads:
        for name in ("rate", "kappa", "momentum", "seed"):
            assert name in " ".join(head)


def test_table(done, command):
    """Its numbers, and those of a CSV file, are tested in `test_same_names.py`."""
    assert json.loads(command("sweep", "table", "store", "--json").out) == done
