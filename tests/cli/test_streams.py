"""Standard streams that are closed, full, or that nobody reads any more: no traceback, and results are kept."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsim.cli import _streams as streams
from asyncsim.cli._streams import Closed
from tests.cli.commands import Command

COMMAND = f'"{sys.executable}" -c "from asyncsim.cli import program; program()"'
LOST = "standard output is closed"

LINES = [  # arguments, redirections, status, words on standard error
    ("--version", ">&-", 1, LOST),
    ("--help", ">&- 2>&-", 1, ""),
    ("rules gem", ">&-", 1, LOST),
    ("tags --json", ">&- <&-", 1, LOST),
    ("tags", ">&-", 0, "There are no tags"),  # which is said on standard error
    ("tags", "2>&-", 0, ""),
    ("--version", ">/dev/full", 1, "No space left on device"),
    ("nonsense", "2>/dev/full", 2, ""),
    ("nonsense", "2>&- >&-", 2, ""),
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(("arguments", "redirections", "status", "words"), LINES)
def test_a_line_ends_without_a_traceback(
    tmp_path: Path, arguments: str, redirections: str, status: int, words: str
) -> None:
    """Lines whose commands start no JAX, as a shell runs them."""
    line = f"set -o pipefail; {COMMAND} {arguments} {redirections}"
    environment = os.environ | {"ASYNCSIM_TAGS": str(tmp_path / "tags.json"), "ASYNCSIM_TRACEBACK": "1"}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, check=False)
    said = [part for part in done.stderr.splitlines() if not part.startswith((" ", "Traceback", "OSError"))]
    assert done.returncode == status
    assert "Exception ignored" not in done.stderr
    assert words in done.stderr
    assert len(said) == bool(words)


@pytest.mark.usefixtures("scripts")
class TestCommands:
    """The commands that compute, in this process."""

    @pytest.mark.parametrize(
        ("words", "status"),
        [
            (("run", "study.py"), 0),
            (("run", "study.py", "--json"), 1),
            (("run", "both.py"), 0),
            (("run", "powers.py"), 0),
            (("sweep", "study.py", "--grid", "seed=0:2", "--jobs", "0"), 0),
        ],
    )
    def test_a_closed_output_still_says_where_results_are(
        self, command: Command, words: tuple[str, ...], status: int
    ) -> None:
        """On standard error. What a program was to read, it says, is missing."""
        with contextlib.redirect_stdout(Closed()):
            done = command(*words)
        assert done.status == status
        assert ("Results in" if status == 0 else LOST) in done.err
        assert "Traceback" not in done.err
        assert list(Path("runs").rglob("summary.json"))

    def test_a_table_that_cannot_be_printed_is_an_error(self, command: Command) -> None:
        command("sweep", "study.py", "--grid", "seed=0:2", "--jobs", "0", "--store", "some")
        for words in (("sweep", "table", "some"), ("sweep", "status", "some"), ("runs", "some"), ("rules",)):
            with contextlib.redirect_stdout(Closed()):
                done = command(*words)
            assert done.status == 1
            assert "Traceback" not in done.err


def test_no_file_takes_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """Else what a library prints would be written into the file that is opened next."""
    program = (
        "import os, sys; from asyncsim.cli._streams import replace_closed; replace_closed(); "
        f"file = open({str(tmp_path / 'file')!r}, 'w'); "
        "os.write(1, b'out'); os.write(2, b'err'); print('dropped'); print('dropped', file=sys.stderr); "
        "assert file.fileno() > 2 and sys.stdin.read() == ''; "
        "assert all(map(os.get_inheritable, range(3)))"
    )
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "$1" <&- >&- 2>&-', "bash", program], capture_output=True, check=False
    )
    assert done.returncode == 0
    assert (tmp_path / "file").read_bytes() == b""


def test_streams_that_are_open_stay() -> None:
    before = sys.stdin, sys.stdout, sys.stderr
    streams.replace_closed()
    assert (sys.stdin, sys.stdout, sys.stderr) == before
