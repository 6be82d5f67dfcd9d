"""Loading scripts: their mistakes are told in one line, with file and line number."""

from pathlib import Path

import pytest

from tests.cli.commands import COMPARISON, SCRIPT, Command, assert_one_line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = (", ("broken.py, line 1", "SyntaxError")),
        ("x = 1\ny = '\0'", ("broken.py, line 2: holds a NUL byte", "Save it as UTF-8")),
        ("\n\n1 / 0", ("broken.py, line 3", "ZeroDivisionError: division by zero")),
        ("import asyncsim as asim\nasim.Cluster(0, asim.delays.Constant(1.0))", ("line 2: `workers` must be",)),
        ("import nosuchmodule", ("broken.py, line 1", "No module named 'nosuchmodule'")),
        ("open('no/such/file')", ("line 1", "No such file or directory: no/such/file")),
        ("raise SystemExit(3)", ("broken.py, line 1", "SystemExit")),
        ("x = 3", ("broken.py defines no `scenario`, `comparison` or", "Write `scenario = asim.Scenario(...)`")),
        ("scenario = 3", ("broken.py defines no `scenario`", "Its `scenario` is of type int; write")),
        (SCRIPT.replace("scenario", "senario"), ("Rename `senario` to `scenario`",)),
        (COMPARISON + "experiment = comparison", ("defines both `experiment` and `comparison`",)),
    ],
)
def test_mistakes_name_file_and_line(command: Command, text: str, words: tuple[str, ...]) -> None:
    Path("broken.py").write_text(text)
    assert_one_line(command("run", "broken.py"), 1, *words)
