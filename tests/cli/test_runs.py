"""`asyncsim runs`: a line per run, filters, orders, and mistakes."""

import json
import os
import socket
from pathlib import Path

import pytest

from asyncsim.store import tags
from asyncsim.store._lease import this_process
from tests.cli.commands import Command, assert_one_line
from tests.store.test_listing import SUMMARY, a_run


@pytest.fixture(autouse=True)
def some_runs(command: Command) -> None:
    """Two runs, one of them with a tag, and a damaged one."""
    tags.add(a_run("runs/first"), "best")
    a_run("runs/second", workers=20, rule="agn", summary=None)
    (a_run("runs/third") / "scenario.json").write_text("{")


def test_a_line_per_run(command: Command) -> None:
    lines = command("runs", "--sort", "name").out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "first", "second", "third"]
    assert lines[1].split()[1:6] == ["best", "gem", "4", "40", "0.5"]
    assert [line.split()[-1] for line in lines[1:]] == ["complete", "begun", "damaged"]
    assert not any(line.endswith(" ") for line in lines)


def test_conditions_select_and_a_field_sorts(command: Command) -> None:
    def listed(*flags: str) -> list[str]:
        return [run["name"] for run in json.loads(command("runs", "--json", *flags).out)["runs"]]

    assert listed("--rule", "gem") == ["first"]
    assert listed("--where", "workers>10", "--where", "state=begun") == ["second"]
    assert listed("--sort", "workers", "--reverse") == ["second", "first", "third"]
    assert listed("--sort", "n") == ["first", "second", "third"]


def test_json_has_settings_and_results(command: Command) -> None:
    found = json.loads(command("runs", "runs", "--json").out)
    assert found["folder"] == str(Path("runs").absolute())
    first = next(run for run in found["runs"] if run["name"] == "first")
    assert first["summary"]["final_loss"] == 0.5
    assert first["scenario"]["rule"]["learning_rate"] == 0.1
    assert (first["tags"], first["workers"], first["state"]) == (["best"], 4, "complete")


def test_an_empty_list_is_one_line(command: Command) -> None:
    done = command("runs", "--rule", "gme")
    assert (done.status, done.out) == (0, "")
    assert done.err == "There are no runs below 'runs' like that, of 3. Did you mean 'gem'?\n"
    Path("empty").mkdir()
    assert "no runs below 'empty'" in command("runs", "empty").err
    Path("runs").rename("elsewhere")
    assert command("runs").status == 0


def test_wrong_usage_is_one_line(command: Command) -> None:
    assert_one_line(command("runs", "nothing"), 2, "FOLDER must be a path or a tag; 'nothing' does not exist")
    assert_one_line(command("runs", "tags.json"), 2, "FOLDER must be a folder; 'tags.json' is none")
    (_, line) = command("runs", "best").out.splitlines()  # a tag, of one run
    assert line.startswith("first ")
    assert_one_line(command("runs", "--where", "workers"), 2, "`--where` must be a field, a comparison and a value")
    assert_one_line(command("runs", "--where", "wokers>1"), 2, "Did you mean 'workers'?")
    assert_one_line(command("runs", "--sort", "wokers"), 2, "Did you mean 'workers'?")


@pytest.mark.filterwarnings("always")
def test_runs_are_listed_although_the_tags_are_damaged(command: Command) -> None:
    Path("tags.json").write_text("{")
    done = command("runs")
    assert done.status == 0
    assert "first" in done.out
    assert done.err.startswith("Warning: The file of the tags")
    assert command("show", "./runs/first").status == 0


def test_a_run_in_progress_is_listed_with_its_host(command: Command) -> None:
    """Which process holds a folder is tested with the store."""

    def state(**changes: object) -> tuple[str, str]:
        """In the list, and by itself."""
        holder.write_text(json.dumps(this_process() | changes))
        line = next(line for line in command("runs").out.splitlines() if line.startswith("second"))
        return line.partition("agn")[2].strip(), command("show", "runs/second").out

    holder = Path("runs/second/.holder")
    line, shown = state()
    assert line.endswith("  running")
    assert f"process {os.getpid()} on {socket.gethostname()} since " in shown
    assert "is at work there" in shown
    line, shown = state(host="gpu3 pid:[1]")
    assert line.endswith("  running on gpu3")
    assert "on gpu3 since " in shown


@pytest.mark.parametrize("narrow", [False, True])
def test_a_line_fits_the_terminal_without_columns_that_json_has(
    command: Command, monkeypatch: pytest.MonkeyPatch, narrow: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "80" if narrow else "140")
    long = "gem_digits,kappa=2,commits_per_worker=30"
    tags.add(a_run(f"runs/{long}", summary=SUMMARY | {"test_accuracy": 0.9582}), "kappa2")
    listed = command("runs", "--rule", "gem")  # The damaged run has no rule.
    heads, *lines = listed.out.splitlines()
    assert max(map(len, lines)) <= (80 if narrow else 140)
    assert any(line.startswith(f"{long}  kappa2  ") for line in lines)
    assert heads.endswith("final loss  test accuracy") == narrow
    assert (
        listed.err == "Left out at 80 characters: state, when, commits, workers, rule. --json prints all.\n"
    ) == narrow
    assert bool(listed.err) == narrow


def test_a_state_other_than_complete_is_never_left_out(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    done = command("runs")
    assert done.err == "Left out at 40 characters: when, commits, workers, rule. --json prints all.\n"
    assert [line.split()[-1] for line in done.out.splitlines()[1:] if "best" not in line] == ["begun", "damaged"]
