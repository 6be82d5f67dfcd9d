"""`asyncsim sweep status`, `table` and `plot`: the contents of a store, and runs that a picture leaves out."""

import json
import re
from pathlib import Path

import matplotlib.figure
import pytest

from tests.cli.commands import assert_one_line
from tests.study.problems import fail_where


def test_status_counts_runs_by_state(done, command):
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


def test_an_unknown_metric_needs_the_direction_of_the_best(measured, command):
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


def test_table_has_a_row_for_each_run(done, command):
    """Its numbers, and those of a CSV file, are tested in `test_same_names.py`."""
    assert json.loads(command("sweep", "table", "store", "--json").out) == done


@pytest.mark.whole_pages
def test_plot_writes_a_picture_and_its_numbers(done, command, tmp_path):
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
def test_a_picture_states_omitted_runs_and_choices(mixed, command, texts):
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


@pytest.mark.whole_pages
@pytest.mark.parametrize(("grid", "is_shown"), [(("momentum=.9",), False), (("momentum=.5,.9",), True)])
def test_arguments_of_one_rule_are_columns_only_if_they_vary_there(command, script, texts, grid, is_shown):
    rates = ("--commits", "40", "--store", "store", "--grid", "learning_rate=.02,.05")
    for flags in (("--grid", *grid), ("--rule", "downpour")):
        assert command("sweep", script, *rates, *flags).status == 0
    header = command("sweep", "table", "store").out.splitlines()[0].split()
    assert ("momentum" in header) == is_shown
    assert "rule" in header
    command("sweep", "plot", "store", "--x", "learning_rate")
    assert ("momentum" in texts[-1]) == is_shown


def test_tables_of_several_rules_fit_80_columns_without_arguments_that_a_rule_implies(command, script, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    grid = ("--commits", "40", "--store", "store", "--grid", "seed=0:2", "--grid", "learning_rate=.02,.05")
    done = command("sweep", script, *grid, "--grid", "rule=gem,fedasync,multi_asgd")
    compared = command("sweep", "table", "store", "--by", "rule", "--best")
    for head in (done.out.splitlines()[1], compared.out.splitlines()[1]):
        assert head.split()[:3] == ["rule", "learning", "rate"]
    assert not {"kappa", "momentum", "mixing"} & {*done.out.split(), *re.findall(r"\w+", compared.out)}


@pytest.fixture
def peak(command, tmp_path):
    """A measure that is largest at the middle step size, whatever the number of workers."""
    (tmp_path / "own.py").write_text(OWN.replace('"f1": -params["x"]', '"f1": -abs(params["x"] - 0.6)'))
    grids = ("--grid", "learning_rate=.025,.05,.1", "--grid", "workers=1,2,4")
    assert command("sweep", "own.py", *grids, "--store", "store").status == 0


@pytest.mark.parametrize(
    ("flags", "edges"),
    [
        (("--x", "workers"), [False]),  # the step size was chosen, and the workers were not
        (("--x", "workers", "--where", "learning_rate<.1"), [True]),
        (("--x", "learning_rate", "--by", "workers"), [False] * 3),
        (("--x", "learning_rate", "--by", "workers", "--where", "learning_rate<.1"), [True] * 3),
        (("--x", "workers", "--by", "learning_rate"), [True] * 3),  # nothing else was chosen
    ],
)
@pytest.mark.usefixtures("texts")
def test_the_edge_of_a_grid_is_that_of_the_chosen_fields_and_else_that_of_the_axis(command, peak, flags, edges):
    best = json.loads(command("sweep", "plot", "store", *flags, "--y", "f1", "--largest", "--json").out)["best"]
    assert best["columns"]["at_the_edge"] == edges


@pytest.mark.whole_pages
def test_a_picture_names_the_chosen_values(command, script, texts):
    grid = ("--grid", "learning_rate=.02,.05", "--grid", "kappa=.5,1", "--commits", "40", "--store", "store")
    assert command("sweep", script, *grid).status == 0
    done = command("sweep", "plot", "store", "--x", "learning_rate")
    for said in (texts[-1], done.err):
        assert "best of kappa; chosen: kappa " in said
    assert "--by kappa draws each of them, --where kappa=VALUE one." in done.err
    found = json.loads(command("sweep", "plot", "store", "--x", "learning_rate", "--json").out)["chosen"]
    assert found["columns"]["learning_rate"] == [0.02, 0.05]
    assert set(found["columns"]["kappa"]) <= {0.5, 1.0}
    one = command("sweep", "plot", "store", "--x", "learning_rate", "--where", "kappa=1")
    assert one.err == ""
    assert "where=kappa-1" in one.out
    assert command("sweep", "plot", "store", "--x", "learning_rate", "--by", "kappa").err == ""


@pytest.mark.parametrize("length", ["commits=40,80", "seconds=5,9", "commits_per_worker=10,20"])
def test_losses_of_runs_of_different_length_are_not_compared(command, script, length):
    grid = ("--grid", "learning_rate=.02,.05", "--grid", length, "--store", "store")
    assert command("sweep", script, *grid).status == 0
    name, values = length.split("=")
    first, second = values.split(",")
    plot = ("sweep", "plot", "store", "--x", "learning_rate")
    assert_one_line(
        command(*plot), 2, f"`{name}` differs ({first}, {second})", f"--where {name}={first}", "--any-length"
    )
    for flags in (("--any-length",), ("--by", name), ("--where", f"{name}={second}")):
        assert command(*plot, *flags).status == 0
    assert command("sweep", "plot", "store", "--x", name).status == 0
    refusal = f"No run is the best, because they differ in {name.replace('_', ' ')}."
    for words in ("status", "table"):
        assert refusal in command("sweep", words, "store").out
    assert_one_line(command("sweep", "table", "store", "--by", "learning_rate", "--best"), 2, f"`{name}` differs")


def test_where_needs_an_existing_column_and_value(done, command):
    table = ("sweep", "table", "store", "--where")
    assert len(json.loads(command(*table, "learning_rate=.05", "--json").out)["columns"]["seed"]) == 3
    assert_one_line(command(*table, "learnin_rate=.05"), 2, "Did you mean 'learning_rate'")
    assert_one_line(command(*table, "learning_rate=7"), 2, "`--where` 'learning_rate' has this value in none of 6 runs")


def losses_at(found, rate):
    """The final losses at a step size, of a table as JSON."""
    rates, losses = (found["columns"][name] for name in ("learning_rate", "final_loss"))
    return [loss for loss, one in zip(losses, rates, strict=True) if one == rate]


def test_means_have_standard_errors_in_every_form(done, command):
    losses = losses_at(done, 0.05)
    mean, error = sum(losses) / 3, (sum((loss - sum(losses) / 3) ** 2 for loss in losses) / 2 / 3) ** 0.5
    found = json.loads(command("sweep", "table", "store", "--mean", "--csv", "means.csv", "--json").out)["columns"]
    assert found["learning_rate"] == [0.02, 0.05]
    assert (found["final_loss"][1], found["final_loss_error"][1]) == (pytest.approx(mean), pytest.approx(error))
    head, _, row = Path("means.csv").read_text().splitlines()
    assert head == "learning_rate,final_loss,final_loss_error,runs,diverged,missing"
    assert [float(value) for value in row.split(",")[1:3]] == pytest.approx([mean, error])
    assert " ± " in command("sweep", "table", "store", "--mean").out
    tex = command("sweep", "table", "store", "--latex").out
    assert tex.startswith("\\begin{tabular}{rrr}\n\\toprule\nlearning rate & final loss & runs \\\\\n")
    assert tex.count("\\pm") == 2


def test_values_of_a_field_are_compared_over_seeds(done, command):
    table = ("sweep", "table", "store", "--by", "learning_rate")
    shown = command(*table)
    assert shown.status == 0, shown.err
    assert "0.05 − 0.02: " in shown.out
    assert "95 %" in shown.out
    assert "3 seeds" in shown.out
    found = json.loads(command(*table, "--json").out)["differences"]["columns"]
    means = [sum(losses_at(done, rate)) / 3 for rate in (0.02, 0.05)]
    assert found["difference"] == [pytest.approx(means[1] - means[0])]
    assert "0.02 − 0.05: " in command(*table, "--baseline", "0.05").out
    assert_one_line(command(*table, "--baseline", "7"), 2, "`baseline` must be one of")
    assert_one_line(command("sweep", "table", "store", "--best"), 2, "need `--by FIELD`")
    assert command(*table, "--latex").out.splitlines()[-1].startswith("% 0.05 − 0.02: ")
