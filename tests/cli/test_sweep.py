"""`asyncsim sweep`: a grid from the command line, what a store holds, and one line for every mistake."""

import csv
import json

import pytest

from asyncsim.scenario.fields import Field
from asyncsim.study.sweep import sweep
from tests.cli.commands import COMPARISON, assert_one_line

GRID = ("--grid", "learning_rate=.02,.05", "--grid", "seed=0:3", "--commits", "40")


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Computed in this process, which has compiled already."""
    from asyncsim.cli import sweep as module

    monkeypatch.setattr(
        module, "sweep", lambda scenarios, store, jobs, executor, **more: sweep(scenarios, store, 0, **more)
    )


@pytest.fixture
def script(scripts):
    return "study.py"


@pytest.fixture
def done(command, script):
    found = command("sweep", script, *GRID, "--store", "store", "--json")
    assert found.status == 0, found.err
    return json.loads(found.out)


def test_a_grid(done):
    assert done["fields"] == ["learning_rate", "seed"]
    assert done["columns"]["seed"] == [0, 1, 2] * 2
    assert done["columns"]["status"] == ["done"] * 6
    assert done["columns"]["commits"] == [40] * 6


def test_for_people(command, script):
    found = command("sweep", script, *GRID)
    assert found.status == 0
    assert "Final loss, quartiles over the seeds:" in found.out
    assert "Results in runs/study,sweep: asyncsim sweep table runs/study,sweep" in found.out


def test_status(done, command):
    assert json.loads(command("sweep", "status", "store", "--json").out) == {
        "done": 6,
        "running": 0,
        "failed": 0,
        "missing": 0,
        "reasons": {},
    }
    assert command("sweep", "status", "store").out.split()[:2] == ["done", "6"]


def test_table(done, command, tmp_path):
    assert json.loads(command("sweep", "table", "store", "--json").out) == done
    assert command("sweep", "table", "store", "--csv", "all.csv").status == 0
    with open("all.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["final_loss"]) for row in rows] == done["columns"]["final_loss"]
    assert "learning rate" in command("sweep", "table", "store").out


def test_plot(done, command, tmp_path):
    found = json.loads(command("sweep", "plot", "store", "--x", "learning_rate", "--json").out)
    assert (tmp_path / found["picture"]).read_bytes()[1:4] == b"PNG"
    assert found["best"]["columns"]["learning_rate"] == [0.05]
    assert "The lowest final loss" in command("sweep", "plot", "store", "--x", "learning_rate", "--out", "a.png").out


def test_draws(command, script):
    drawn = ("--sample", "learning_rate=loguniform:1e-3:1", "--count", "2", "--grid", "seed=0:2", "--commits", "40")
    columns = json.loads(command("sweep", script, *drawn, "--json").out)["columns"]
    assert columns["seed"] == [0, 1, 0, 1]
    rates = columns["learning_rate"]
    assert rates[0] == rates[1] != rates[2] == rates[3]


def test_a_failure_has_a_status(command, script, monkeypatch):
    from asyncsim.study import work

    def fail(unit, trace, unfinished):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(work, "compute", fail)
    found = command("sweep", script, "--grid", "seed=0:2", "--store", "store")
    assert found.status == 1
    assert "2 of 2 runs failed, the first with: ZeroDivisionError: no" in found.err
    assert "failed: seed 0\n  ZeroDivisionError: no" in command("sweep", "status", "store").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--grid", "learnin_rate=1"), "Did you mean `learning_rate`?"),
        (("--grid", "seed=5:5"), "'5:5' is an empty range"),
        (("--grid", "workers=2,x"), "`workers` does not take its value number 2: 'x' is not a whole number"),
        (("--grid", "workers=2,0"), "`workers` does not take its value number 2, 0"),
        (("--grid", "learning_rate=.1,,.2"), "an empty value number 2"),
        (("--grid", "learning_rate=0:1"), "A range first:end is for whole numbers."),
        (("--grid", "seed"), "it has no `=`"),
        (("--grid", "seed=1", "--grid", "seed=2"), "names 'seed' twice"),
        (("--sample", "learning_rate=uniform:0:1"), "`--count` must be given"),
        (("--sample", "learning_rate=uniform:0", "--count", "2"), "uniform:LOW:HIGH"),
        (("--grid", "kappa=1", "--rule", "downpour"), "`kappa`"),
        (("--store", "study.py"), "`store` 'study.py' is a file"),
        (("--store", "."), "holds other files"),
    ],
)
def test_mistakes(command, script, arguments, words):
    assert_one_line(command("sweep", script, *arguments), 2, words)


def test_many_runs_want_a_word(command, script):
    assert_one_line(command("sweep", script, "--grid", "seed=0:1000000"), 2, "1,000,000 runs", "--yes")


def test_a_scheduler_that_does_not_answer(command, script, monkeypatch):
    from asyncsim.cli import sweep as module

    assert_one_line(command("sweep", script, "--scheduler-file", "no.json"), 1, "'no.json' is not a file")
    pytest.importorskip("distributed", reason="a Dask cluster")
    monkeypatch.setattr(module, "REACHED", 0.5)
    assert_one_line(command("sweep", script, "--scheduler", "tcp://127.0.0.1:9"), 1, "cannot be reached within")


def test_other_things_than_a_scenario(command, tmp_path):
    (tmp_path / "both.py").write_text(COMPARISON)
    assert_one_line(command("sweep", "both.py", "--grid", "seed=0:2"), 2, "has a comparison")
    assert_one_line(command("sweep", "table", "nothing"), 2, "does not exist")


def test_help(command, script):
    assert "--grid" in command("sweep", "--help").out
    assert "--learning-rate" in command("sweep", script, "--help").out


def test_values():
    from asyncsim.cli.sweep import parse_values

    assert parse_values(Field("seed", "integer", ""), "4:0:-2") == [4, 2]
    assert parse_values(Field("on", "switch", ""), "true,false") == [True, False]
    assert parse_values(Field("rule", "text", "", choices=("gem", "agn")), "agn, gem") == ["agn", "gem"]
