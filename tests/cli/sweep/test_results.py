"""`asyncsim sweep status`, `table` and `plot`: the contents of a store, and runs that a picture leaves out."""

import json

import matplotlib.figure
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


@pytest.mark.whole_pages
def test_plot(done, command, tmp_path):
    found = json.loads(command("sweep", "plot", "store", "--x", "learning_rate", "--json").out)
    assert (tmp_path / found["picture"]).read_bytes()[1:4] == b"PNG"
    assert found["best"]["columns"]["learning_rate"] == [0.05]
    assert "The lowest final loss" in command("sweep", "plot", "store", "--x", "learning_rate", "--out", "a.png").out


@pytest.fixture
def texts(monkeypatch):
    """Title and subtitle of each picture, which is drawn and not saved."""
    texts = []

    def save(figure, *args, **options):
        texts.append(" ".join(text.get_text() for text in figure.texts))

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", save)
    return texts


@pytest.fixture
def mixed(command, script, monkeypatch):
    """Two rules, of which one has no momentum; one run diverges, one fails, one is missing."""
    fail_where(monkeypatch, lambda rate: "no" if rate == 0.03 else None)
    rates = ("--commits", "40", "--store", "store", "--grid", "learning_rate=.02,.05,1e9")
    assert command("sweep", script, *rates, "--grid", "momentum=.5,.9").status == 0
    assert command("sweep", script, *rates, "--rule", "downpour").status == 0
    assert command("sweep", script, *rates[:4], "--grid", "learning_rate=.03,.02").status == 1


@pytest.mark.whole_pages
def test_a_picture_says_what_it_leaves_out_and_what_it_chose_among(mixed, command, texts):
    """Of two rules, of which one has momentum: a field is named if a point has several values of it, else not."""
    left_out = "3 runs without momentum left out; 2 diverged and 1 failed, which counts as worst"
    plot = ("sweep", "plot", "store", "--x", "learning_rate")
    for flags, told, best_of in (
        ((), "", "best of rule, momentum;"),
        (("--by", "rule"), "", "best of momentum;"),
        (("--by", "momentum", "--heat"), left_out, ""),
    ):
        out = command(*plot, *flags).out
        assert (f"\n{left_out}.\n" in out) == (left_out in texts[-1]) == bool(told)
        assert best_of in texts[-1].replace("momentum, rule", "rule, momentum")
        assert best_of or "best of" not in texts[-1]
    found = json.loads(command(*plot, "--by", "rule,momentum", "--json").out)
    assert left_out in texts[-1]
    assert "best of" not in texts[-1]
    assert found["left_out"] == {"momentum": 3}
    assert found["worst"] == {"diverged": 2, "failed": 1}
    mistakes = {
        ("--x", "momentm"): "Did you mean `momentum`?",
        ("--x", "seed"): "must be a field in which the runs differ",
        ("--x", "momentum", "--by", "momentum"): "must name different fields",
        ("--x", "momentum", "--heat"): "needs one other field",
        ("--x", "momentum", "--y", "test_accuracy"): "is not there in any of these 7 runs: 2 diverged, 1 failed",
        ("--x", "momentum", "--y", "final_los"): "Did you mean 'final_loss'?",
    }
    for arguments, words in mistakes.items():
        assert_one_line(command("sweep", "plot", "store", *arguments), 2, words)
