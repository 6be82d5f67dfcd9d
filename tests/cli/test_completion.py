"""`asyncsim completion`: completion in bash, fish and zsh, whose script asks asyncsim for tags only."""

import contextlib
import io
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import asyncsim as asim
from asyncsim.cli._command import COMMANDS
from asyncsim.cli._completion import SHELLS
from asyncsim.components._families import built_in_classes
from asyncsim.store import tags

BOTH = ["baseline", "my best run"]
FLAGS = {
    "--workers",
    "--compute",
    "--mean",
    "--rule",
    "--learning-rate",
    "--kappa",
    "--compressor",
    "--partition-alpha",
}
OFFERED = {  # words of a line, the last of which is completed -> what it may become; sets are part of that
    (): [*COMMANDS],
    ("unt",): ["untag"],
    ("trace", ""): ["check", "info", "cost", "export"],
    ("run", "study.py", "--"): FLAGS | {"--out", "--json"},
    ("sweep", "study.py", "--"): FLAGS | {"--grid", "--json"},
    ("run", "study.py", "--rule", "ge"): ["gem"],
    ("run", "study.py", "--rule", ""): {*built_in_classes("rules")},
    ("run", "--atomic", ""): ["true", "false"],
    ("run", "--workers", ""): [],
    ("sweep", "plot", "store", "--y", "final"): ["final_loss"],
    ("runs", "--sort", "final"): ["final_loss"],
    ("rules", "downp"): ["downpour"],
    ("completion", "z"): ["zsh"],
    ("path", ""): BOTH,
    ("untag", "my"): ["my best run"],
    ("show", ""): {*BOTH, "study.py"},
    ("compare", "baseline", "b"): ["baseline", "bin"],
    ("run", "stu"): ["study.py"],
    ("run", "study.py", "--out", "stu"): ["study.py"],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script for each shell, two tags, and a program that writes down how it is called."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:
            asim.main(arguments=["completion", shell])
        (folder / f"source.{shell}").write_text(out.getvalue())
    (folder / "names").write_text("\n".join([*BOTH, ""]))
    program = folder / "bin" / "asyncsim"
    program.parent.mkdir()
    tags = f'[ "$*" = "tags --names" ] && [ -e {folder}/names ] && exec cat {folder}/names'  # at once
    program.write_text(f'#!/bin/sh\necho "$*" >> {folder}/calls\n{tags}\nexec {sys.executable} -m asyncsim "$@"\n')
    program.chmod(0o755)
    (folder / "study.py").touch()
    return folder


@pytest.fixture(autouse=True)
def typed(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASYNCSIM_TAGS", str(here / "tags.json"))
    monkeypatch.setenv("PATH", f"{here / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(here))  # where fish keeps things
    for name in BOTH:
        tags.add(here, name, move=True)
    (here / "calls").write_text("")
    return here


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell}")


def said(shell: str, script: str, folder: Path, error: str = "") -> list[str]:
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=False, cwd=folder)
    assert error in done.stderr if error else not done.stderr
    return done.stdout.splitlines()


def offered_in_bash(line: tuple[str, ...], folder: Path) -> list[str]:
    words = " ".join(f"'{word}'" for word in ("asyncsim", *(line or ("",))))
    script = f"""
        compopt() {{ :; }}  # which bash has only while somebody types
        . ./source.bash
        COMP_WORDS=({words}); COMP_CWORD=$(({len(line) or 1})); _asyncsim asyncsim
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return [word for word in said("bash", script, folder) if word]


def offered_in_fish(line: tuple[str, ...], folder: Path) -> list[str]:
    found = said("fish", f"source source.fish; complete -C 'asyncsim {' '.join(line)}'", folder)
    return [word.partition("\t")[0] for word in found]


@pytest.mark.parametrize("line", OFFERED, ids=" ".join)
@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in ("bash", "fish")])
def test_each_shell_offers_these_words(typed: Path, shell: str, line: tuple[str, ...]) -> None:
    found = {"bash": offered_in_bash, "fish": offered_in_fish}[shell](line, typed)
    expected = OFFERED[line]
    if isinstance(expected, set):
        assert expected <= set(found)
    else:
        assert sorted(word.rstrip("/") for word in found) == sorted(expected)
    asked = {"tags --names"} if any("my best run" in found or word in BOTH for word in found) else set()
    calls = set((typed / "calls").read_text().splitlines())
    assert asked <= calls <= {"tags --names"}
    if not {line[0] if line else "", *line[:1]} & {"path", "untag", "show", "compare", "run"}:
        assert not calls


@needs("bash")
def test_bash_splits_at_the_sign_of_equality(typed: Path) -> None:
    assert offered_in_bash(("run", "--rule", "=", "ge"), typed) == ["gem"]
    assert "gem" in offered_in_bash(("run", "--rule", "="), typed)
    assert offered_in_bash(("run", "--learning_r"), typed) == ["--learning-rate"]


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in ("bash", "fish")])
def test_warp_changes_into_the_folder_of_a_tag(typed: Path, shell: str) -> None:
    status = "$status" if shell == "fish" else "$?"
    script = f"source ./source.{shell}; warp 'my best run' && pwd; warp nosuch || echo status {status}"
    assert said(shell, script, typed, "no tag 'nosuch'") == [str(typed), "status 1"]


@needs("bash")
def test_warp_is_completed_with_tags(typed: Path) -> None:
    script = "compopt() { :; }; . ./source.bash; COMP_WORDS=(warp my) COMP_CWORD=1; _warp_completion"
    assert said("bash", f"{script}; printf '%s\\n' \"${{COMPREPLY[@]}}\"", typed) == ["my best run"]


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in ("bash", "fish")])
def test_damaged_tags_are_not_offered(typed: Path, shell: str) -> None:
    tags.file().write_text("{")
    (typed / "names").rename(typed / "aside")
    try:
        found = {"bash": offered_in_bash, "fish": offered_in_fish}[shell](("show", "stu"), typed)
        assert found == ["study.py"]
    finally:
        (typed / "aside").rename(typed / "names")
        tags.file().unlink()


@needs("zsh")
def test_zsh_shows_explanations(typed: Path) -> None:
    """Typed at a terminal, since zsh completes nowhere else; the key is one that completes and writes the line down."""
    lines = [
        ("asyncsim run study.py --rule ge", "asyncsim run study.py --rule gem "),
        ("asyncsim run --rule=ge", "asyncsim run --rule=gem "),
        ("asyncsim sweep stat", "asyncsim sweep status "),
        ("asyncsim runs --sor", "asyncsim runs --sort "),
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
    """A program at a terminal."""

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
