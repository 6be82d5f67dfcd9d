"""`asyncsim completion`: what a shell is offered, and that bash understands its source."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsim.cli.completion import answer, completions
from asyncsim.cli.vocabulary import Words, make_vocabulary, vocabulary
from asyncsim.folders import tags
from asyncsim.rules import CONSTRUCTORS
from asyncsim.scenario.catalogue import all_fields
from tests.cli.commands import Command, assert_one_line


@pytest.fixture(scope="module")
def words() -> Words:
    return make_vocabulary()


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSIM_TAGS", str(tmp_path / "tags.json"))
    monkeypatch.setenv("ASYNCSIM_CACHE", str(tmp_path / "cache"))
    tags.add(tmp_path, "baseline")
    tags.add(tmp_path, "my best run")


def offered(words: Words, *line: str) -> list[str]:
    """What the last word of a line may become; "file" for whatever the shell lists."""
    found = completions(line[:-1], line[-1], words)
    return [item.value if item.type == "plain" else item.type for item in found]


def test_commands(words: Words) -> None:
    from asyncsim.cli.app import COMMANDS

    assert offered(words, "") == list(COMMANDS)
    assert offered(words, "unt") == ["untag"]
    assert offered(words, "trace", "") == ["check", "info", "export"]
    assert "status" in offered(words, "sweep", "")


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_fields_and_their_values(words: Words, command: str) -> None:
    flags = offered(words, command, "study.py", "--")
    assert {f"--{field.name.replace('_', '-')}" for field in all_fields()} <= set(flags)
    assert offered(words, command, "study.py", "--rule", "") == list(CONSTRUCTORS)
    assert offered(words, command, "--rule=ge") == ["--rule=gem"]
    assert offered(words, command, "--rule", "=", "ge") == ["gem"]  # as bash splits it
    assert offered(words, command, "--learning_r") == ["--learning-rate"]
    assert offered(words, command, "--atomic", "") == ["true", "false"]
    assert offered(words, command, "--workers", "") == []


def test_tags_and_files(words: Words) -> None:
    both = ["baseline", "my best run"]
    for line in (("show",), ("compare", "baseline"), ("run",), ("trace", "info"), ("tag",), ("sweep", "table")):
        assert offered(words, *line, "") == [*both, "file"]
    for line in (("path",), ("untag",), ("retag",)):
        assert offered(words, *line, "my") == ["my best run"]
    assert offered(words, "run", "study.py", "--out", "") == ["file"]
    assert "final_loss" in offered(words, "runs", "--sort", "")
    assert offered(words, "rules", "gem") == ["gem"]
    assert offered(words, "completion", "z") == ["zsh"]
    assert offered(words, "nosuch", "") == []


def test_the_vocabulary_is_kept(words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.cli import vocabulary as module

    assert vocabulary() == words
    monkeypatch.setattr(module, "make_vocabulary", lambda: pytest.fail("made again"))
    assert vocabulary() == words
    (tmp_path / "cache" / "completion.json").write_text("{")
    monkeypatch.setattr(module, "make_vocabulary", lambda: words)
    assert vocabulary() == words
    monkeypatch.setenv("ASYNCSIM_CACHE", "/dev/null/nowhere")  # which cannot be written
    assert vocabulary() == words


def test_damaged_tags_are_not_offered(words: Words) -> None:
    tags.file().write_text("{")
    assert offered(words, "show", "") == ["file"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_source(command: Command, shell: str) -> None:
    done = command("completion", shell)
    assert done.status == 0
    assert "_ASYNCSIM_COMPLETE" in done.out
    assert "warp" in done.out
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.out, text=True, check=False).returncode == 0


def test_mistakes(command: Command) -> None:
    assert_one_line(command("completion", "tcsh"), 2, "'tcsh'")
    assert answer("tcsh_complete") == answer("bash_source") == 1


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_in_bash(command: Command, tmp_path: Path) -> None:
    """The functions themselves, with the program that they call."""
    vocabulary()
    place = tmp_path / "bin"
    place.mkdir()
    program = place / "asyncsim"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from asyncsim.cli import program; program()' \"$@\"\n")
    program.chmod(0o755)
    (tmp_path / "source").write_text(command("completion", "bash").out)
    script = f"""
        PATH={place}:$PATH
        compopt() {{ :; }}  # which bash has only while somebody types
        . {tmp_path}/source
        tell() {{ printf '%s\\n' "${{COMPREPLY[@]}}"; }}
        ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _asyncsim_completion asyncsim; tell; }}
        ask asyncsim run study.py --rule ge
        ask asyncsim path my
        COMP_WORDS=(warp ba); COMP_CWORD=1; _warp_completion; tell
        warp 'my best run' && pwd
        warp nosuch || echo "status $?"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, cwd="/")
    assert done.stdout.splitlines() == ["gem", "my best run", "baseline", str(tmp_path), "status 1"], done.stderr
