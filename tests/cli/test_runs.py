"""`asyncsim runs`: a line per run, filters, orders, and mistakes."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsim.store import tags
from tests.cli.commands import Command, assert_one_line
from tests.store.test_listing import a_run

HOLD = """
from pathlib import Path
from asyncsim.store._entry import locked
with locked(Path("runs/second")):
    print("held", flush=True)
    input()
"""


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


def test_filters_and_order(command: Command) -> None:
    def listed(*flags: str) -> list[str]:
        return [run["name"] for run in json.loads(command("runs", "--json", *flags).out)["runs"]]

    assert listed("--rule", "gem") == ["first"]
    assert listed("--where", "workers>10", "--where", "state=begun") == ["second"]
    assert listed("--sort", "workers", "--reverse") == ["second", "first", "third"]
    assert listed("--sort", "n") == ["first", "second", "third"]


def test_everything_as_json(command: Command) -> None:
    found = json.loads(command("runs", "runs", "--json").out)
    assert found["folder"] == str(Path("runs").absolute())
    first = next(run for run in found["runs"] if run["name"] == "first")
    assert first["summary"]["final_loss"] == 0.5
    assert first["scenario"]["rule"]["learning_rate"] == 0.1
    assert (first["tags"], first["workers"], first["state"]) == (["best"], 4, "complete")


def test_nothing(command: Command) -> None:
    done = command("runs", "--rule", "gme")
    assert (done.status, done.out) == (0, "")
    assert done.err == "There are no runs below 'runs' like that, of 3. Did you mean 'gem'?\n"
    Path("empty").mkdir()
    assert "no runs below 'empty'" in command("runs", "empty").err
    Path("runs").rename("elsewhere")
    assert command("runs").status == 0


def test_mistakes(command: Command) -> None:
    assert_one_line(command("runs", "nothing"), 2, "FOLDER must be a path or a tag; 'nothing' does not exist")
    assert_one_line(command("runs", "tags.json"), 2, "FOLDER must be a folder; 'tags.json' is none")
    (_, line) = command("runs", "best").out.splitlines()  # a tag, of one run
    assert line.startswith("first ")
    assert_one_line(command("runs", "--where", "workers"), 2, "`--where` must be a field, a comparison and a value")
    assert_one_line(command("runs", "--where", "wokers>1"), 2, "Did you mean 'workers'?")
    assert_one_line(command("runs", "--sort", "wokers"), 2, "Did you mean 'workers'?")


@pytest.mark.filterwarnings("always")
def test_damaged_tags_are_no_reason_to_list_nothing(command: Command) -> None:
    Path("tags.json").write_text("{")
    done = command("runs")
    assert done.status == 0
    assert "first" in done.out
    assert done.err.startswith("Warning: The file of the tags")
    assert command("show", "./runs/first").status == 0


class TestAtWork:
    """A run is running while its process lives: not one that was killed, nor another of the same number."""

    @pytest.fixture
    def holder(self) -> Iterator[Path]:
        """What a process that lives has written into the folder of the run `second`."""
        with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield Path("runs/second/.holder")
            process.kill()

    def state(self, command: Command) -> tuple[str, str]:
        """In the list, and by itself."""
        line = next(line for line in command("runs").out.splitlines() if line.startswith("second"))
        return line.partition("agn")[2].strip(), command("show", "runs/second").out

    def test_here(self, command: Command, holder: Path) -> None:
        number = json.loads(holder.read_text())["process"]
        line, shown = self.state(command)
        assert line.endswith("  running")
        assert f"process {number} on {socket.gethostname()} since " in shown
        assert "is at work there" in shown

    def test_dead(self, command: Command, holder: Path) -> None:
        """Its number has been given to another process."""
        holder.write_text(json.dumps(json.loads(holder.read_text()) | {"process": os.getpid()}))
        line, shown = self.state(command)
        assert line.endswith("  begun")
        assert "go on with it: asyncsim run runs/second" in shown

    def test_elsewhere(self, command: Command, holder: Path) -> None:
        holder.write_text(json.dumps(json.loads(holder.read_text()) | {"host": "gpu3 pid:[1]"}))
        line, shown = self.state(command)
        assert line.endswith("  running on gpu3")
        assert "on gpu3 since " in shown
        os.utime(holder, (1e9, 1e9))  # it has not been renewed
        assert self.state(command)[0].endswith("  begun")
        assert json.loads(command("runs", "--json", "--where", "state=begun").out)["runs"][0]["name"] == "second"
