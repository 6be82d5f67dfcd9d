"""`asyncsim sweep plot`: the picture, the best settings, and the runs left out of both."""

import json

import matplotlib.figure
import pytest

from tests.cli.commands import assert_one_line
from tests.study.problems import fail_where

pytestmark = pytest.mark.whole_pages


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
    assert (
        command("sweep", script, "--commits", "40", "--store", "store", "--grid", "learning_rate=.03,.02").status == 1
    )


def test_a_picture_says_what_it_leaves_out_and_what_it_chose_among(mixed, command, texts):
    """Of two rules, of which one has momentum: a field is named if a point has several values of it, else not."""
    left_out = "3 runs without momentum left out; 2 diverged and 1 failed, which counts as worst"
    for flags, told, best_of in (
        ((), "", "best of rule, momentum;"),
        (("--by", "rule"), "", "best of momentum;"),
        (("--by", "momentum", "--heat"), left_out, ""),
        (("--by", "rule,momentum"), left_out, ""),
    ):
        plot = ("sweep", "plot", "store", "--x", "learning_rate", *flags)
        out = command(*plot).out
        assert (f"\n{left_out}.\n" in out) == (left_out in texts[-1]) == bool(told)
        assert best_of in texts[-1].replace("momentum, rule", "rule, momentum")
        assert best_of or "best of" not in texts[-1]
    found = json.loads(command(*plot, "--json").out)
    assert found["left_out"] == {"momentum": 3}
    assert found["worst"] == {"diverged": 2, "failed": 1}


def test_mistakes(mixed, command):
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
