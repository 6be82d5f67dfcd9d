"""`asyncsim completion`: what a shell is offered, and what bash, fish and zsh make of it."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsim.cli.completion import SHELLS, answer, completions
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


@pytest.fixture
def typed(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the program that shells call, what there is to complete, and the functions of each shell."""
    vocabulary()
    program = tmp_path / "bin" / "asyncsim"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from asyncsim.cli import program; program()' \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    tags.add(tmp_path, "gem,workers=30")
    (tmp_path / "study.py").touch()
    for shell in SHELLS:
        (tmp_path / f"source.{shell}").write_text(command("completion", shell).out)
    return tmp_path


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell}")


@needs("bash")
def test_in_bash(typed: Path) -> None:
    """The functions themselves, with the program that they call."""
    script = f"""
        compopt() {{ :; }}  # which bash has only while somebody types
        . {typed}/source.bash
        tell() {{ printf '%s\\n' "${{COMPREPLY[@]}}"; }}
        ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _asyncsim_completion asyncsim; tell; }}
        ask asyncsim run study.py --rule ge
        ask asyncsim path my
        COMP_WORDS=(warp ba); COMP_CWORD=1; _warp_completion; tell
        warp 'my best run' && pwd
        warp nosuch || echo "status $?"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, cwd="/")
    assert done.stdout.splitlines() == ["gem", "my best run", "baseline", str(typed), "status 1"], done.stderr


@needs("fish")
def test_in_fish(typed: Path) -> None:
    """Names and explanations hold commas, and words may be quoted."""
    script = f"""
        source {typed}/source.fish
        complete -C 'asyncsim run study.py --rule ge'
        complete -C 'asyncsim path gem'
        complete -C 'asyncsim path "my b'
        complete -C 'asyncsim untag st; asyncsim run stu'
        complete -C 'asyncsim swee'
        complete -C 'warp ba'
        warp 'my best run' && pwd
        warp nosuch || echo "status $status"
    """
    environment = {**os.environ, "HOME": str(typed)}  # where fish keeps things
    done = subprocess.run(
        ["fish", "-c", script], capture_output=True, text=True, check=False, cwd=typed, env=environment
    )
    assert done.stdout.splitlines() == [
        "gem",
        f"gem,workers=30\t{typed}",
        f"my best run\t{typed}",
        "study.py",
        "sweep\tRun many scenarios made of one, and keep each result.",
        "baseline",
        str(typed),
        "status 1",
    ], done.stderr


@needs("zsh")
def test_in_zsh(typed: Path) -> None:
    """Typed at a terminal, since zsh completes nowhere else; the key is one that completes and writes the line down."""
    lines = [
        ("asyncsim run study.py --rule ge", "asyncsim run study.py --rule gem "),
        ("asyncsim path gem", "asyncsim path gem,workers=30 "),
        ("asyncsim path my", "asyncsim path my\\ best\\ run "),
        ("asyncsim path 'my b", "asyncsim path 'my best run' "),
        ("asyncsim run stu", "asyncsim run study.py "),
        ("warp ba", "warp baseline "),
    ]
    (typed / "setup").write_text(f"""
        autoload -Uz compinit && compinit -D -u
        before=(${{(k)parameters}})
        source {typed}/source.zsh
        complete-and-tell() {{ zle complete-word; print -r -- "$BUFFER" >> {typed}/told; zle kill-buffer; print DONE }}
        zle -N complete-and-tell
        bindkey '^X' complete-and-tell
    """)
    shell = Typing(["zsh", "-f", "-i"], cwd=typed)
    shell.enter(f"source {typed}/setup; print SET''UP\n", "SETUP")
    for line, _ in lines:
        shell.enter(f"{line}\x18", "DONE")
    shell.enter("print LEFT: ${${(k)parameters}:|before} END''ED\n", "ENDED")
    shell.enter("warp 'my best run' && print AT $PWD; warp nosuch || print STATUS'' $?\n", "STATUS 1")
    screen = shell.close()
    assert (typed / "told").read_text().splitlines() == [completed for _, completed in lines], screen
    assert f"AT {typed}" in screen
    (left,) = re.findall(r"LEFT: (.*?) ?ENDED", screen)
    assert set(left.split()) <= {"before", "_", "?", "BUFFER"}, left


class Typing:
    """A program at a terminal.

    Args:
        command: Its command line.
        cwd: Where it runs.
    """

    def __init__(self, command: list[str], cwd: Path) -> None:
        self.terminal, its_end = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "PS1": "> ", "HOME": str(cwd)}
        self.process = subprocess.Popen(
            command, stdin=its_end, stdout=its_end, stderr=its_end, cwd=cwd, env=environment, start_new_session=True
        )
        os.close(its_end)
        self.screen = ""

    def enter(self, text: str, answer: str) -> None:
        """Type, and wait for what is to appear after that."""
        seen = len(self.screen)
        os.write(self.terminal, text.encode())
        while answer not in self.screen[seen:]:
            ready, _, _ = select.select([self.terminal], [], [], 60)
            assert ready, self.screen
            self.screen += os.read(self.terminal, 65536).decode(errors="replace")

    def close(self) -> str:
        """All that was shown, after the program has been hung up."""
        self.process.terminate()
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)
        return self.screen
