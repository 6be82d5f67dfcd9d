"""`asyncsim compare`: the differences between runs of every kind, and refusals."""

import json
from pathlib import Path

import pytest

import asyncsim as asim
from asyncsim.store import tags
from asyncsim.study._load import study_of
from tests.cli.commands import Command, assert_one_line

pytestmark = pytest.mark.usefixtures("scripts")


@pytest.mark.whole_pages
def test_two_runs_have_a_table_and_a_picture(command: Command) -> None:
    study = study_of("study.py")
    for name, kappa in (("baseline", 1.0), ("kappa2", 2.0)):
        asim.run(study.override(kappa=kappa), f"runs/{name}", picture=False)
        tags.add(f"runs/{name}")
    done = command("compare", "baseline", "kappa2")
    assert done.status == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[:2] == [["scenario", "baseline", "kappa2"], ["rule.kappa", "1", "2"]]
    assert ["mean", "staleness", "2.96", "2.96"] in lines
    assert Path("runs/compare,runs=baseline_kappa2/compare.png").stat().st_size > 10_000
    numbers = json.loads(Path("runs/compare,runs=baseline_kappa2/compare.json").read_text())
    assert numbers["scenarios"] == {"rule.kappa": {"baseline": 1.0, "kappa2": 2.0}}
    losses = {
        name: json.loads(Path(folder, "summary.json").read_text())["final_loss"]
        for name, folder in numbers["runs"].items()
    }
    assert numbers["results"]["final_loss"] == losses


def test_members_of_a_comparison_are_compared_with_a_run(command: Command) -> None:
    command("run", "both.py")
    command("run", "study.py", "--learning-rate", "1e6")  # diverges
    done = command("compare", "runs/both", "runs/study,learning_rate=1000000", "--out", "here", "--json")
    found = json.loads(done.out)
    assert json.loads(Path("here/compare.json").read_text()) == found
    assert list(found["runs"]) == ["both/gem", "both/downpour", "study,learning_rate=1000000"]
    assert found["scenarios"]["rule"]["both/downpour"] == "downpour"
    assert found["results"]["diverged_at"]["study,learning_rate=1000000"] is not None
    assert Path("here/compare.png").is_file()
    command("run", "study.py", "--kappa", "2", "--momentum", "0.5", "--seed", "1")
    shown = command("compare", "runs/study,learning_rate=1000000", "runs/study,momentum=0.5,kappa=2,seed=1").out
    (line,) = (line for line in shown.splitlines() if line.startswith("rule.learning_rate"))
    assert line.split()[1:] == ["1,000,000", "0.05"]  # long names do not split the table


def test_equal_scenarios_are_said_to_be_equal(command: Command) -> None:
    command("run", "study.py")
    command("run", "study.py", "--out", "other/study")
    done = command("compare", "runs/study", "other/study")
    assert done.out.startswith("The scenarios are the same.\n")
    assert "other/study" in done.out


def test_a_run_without_results_is_compared(command: Command) -> None:
    command("run", "study.py")
    command("run", "study.py", "--out", "other/study")
    for name in ("run.npz", "summary.json"):
        Path("other/study", name).unlink()
    assert command("compare", "runs/study", "other/study").status == 0


def test_wrong_usage_is_one_line(command: Command) -> None:
    command("run", "study.py", "--tag", "baseline")
    command("run", "powers.py")
    assert_one_line(command("compare"), 2, "Missing argument 'RUN...'")
    assert_one_line(command("compare", "baseline"), 1, "`RUN` must name two runs or more; got baseline")
    assert_one_line(command("compare", "baseline", "basline"), 1, "Did you mean 'baseline'?")
    assert_one_line(command("compare", "baseline", "runs/powers"), 1, "'runs/powers' is one of an experiment")
    command("run", "study.py", "--seed", "1")
    Path("runs/study,seed=1/scenario.json").write_text("{")
    assert_one_line(command("compare", "baseline", "runs/study,seed=1"), 1, "is damaged")


def test_settings_are_compared_over_their_seeds(command: Command) -> None:
    for seed in range(3):
        for rule in ("gem", "downpour"):
            command("run", "study.py", "--rule", rule, "--seed", seed, "--commits", 40, "--out", f"runs/{rule}{seed}")
    names = [f"runs/{rule}{seed}" for rule in ("downpour", "gem") for seed in range(3)]
    (words,) = json.loads(command("compare", *names, "--json").out)["verdicts"]
    assert words.startswith("gem − downpour: ")
    assert "3 seeds" in words
    assert words in " ".join(command("compare", *names).out.split())
    (words,) = json.loads(command("compare", "runs/downpour0", "runs/gem0", "--json").out)["verdicts"]
    assert "at 1 seed, so there is no interval; give two seeds or more" in words
    (words,) = json.loads(command("compare", "runs/downpour0", "runs/gem1", "--json").out)["verdicts"]
    assert "no seed at which both have a result" in words
    assert json.loads(command("compare", "runs/gem0", "runs/gem1", "--json").out)["verdicts"] == []
    command("run", "study.py", "--rule", "gem", "--commits", 80, "--out", "runs/long")
    (words,) = json.loads(command("compare", "runs/gem0", "runs/long", "--json").out)["verdicts"]
    assert words.startswith("No verdict: `commits` differs (40, 80)")
