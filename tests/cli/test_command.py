"""Errors are one line each, whatever happens."""

import importlib
import os
import subprocess
import sys
import warnings
from unittest.mock import Mock

import pytest

from asyncsim.study import _replay
from tests.cli.commands import Command, assert_one_line

pytestmark = pytest.mark.usefixtures("scripts")


def test_an_unexpected_error_is_one_line_without_a_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lack of memory is no bug."""
    finish = Mock(side_effect=[MemoryError("Unable to allocate 7 TiB"), *[TypeError("oops")] * 2])
    monkeypatch.setattr(_replay, "finish", finish)
    done = command("run", "study.py")
    assert_one_line(done, 1, "Error: Out of memory. Unable to allocate 7 TiB")
    assert "TRACEBACK" not in done.err
    assert_one_line(command("run", "study.py"), 1, "TypeError: oops", "ASYNCSIM_TRACEBACK=1")
    monkeypatch.setenv("ASYNCSIM_TRACEBACK", "1")
    assert "Traceback" in command("run", "study.py").err


def test_a_warning_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gem` and `dana` both have variants, of different names."""
    monkeypatch.setattr(importlib.import_module("asyncsim.cli._run"), "run_study", lambda *args, **more: None)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = command("run", "study.py", "--rule", "dana")
        assert "Warning" not in command("run", "study.py", "--rule", "dana", "--variant", "slim").err
    assert done.status == 0
    assert done.err.splitlines() == [
        "a script may print",
        "Warning: rule 'dana' does not accept the `variant` 'script' of 'gem'; its default is used.",
    ]


def test_a_missing_extra_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("asyncsim.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    for name in [name for name in sys.modules if name.startswith("rich.")]:
        monkeypatch.delitem(sys.modules, name)
    assert_one_line(command("run", "study.py"), 1, "needs rich", "pip install 'asyncsim[cli]'")


def test_a_closed_pipe_ends_a_command_in_silence() -> None:
    """Of a command that starts no JAX, since all of them print in the same way."""
    for arguments in (["tags", "--json"], ["--help"]):
        line = [sys.executable, "-c", "import asyncsim; asyncsim.main()", *arguments]
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        assert done.returncode == 1
        assert done.stderr == ""
