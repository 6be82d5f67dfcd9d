"""A signal ends a command with one line and the status that shells expect, whenever it comes."""

import signal
import subprocess
import sys

import pytest

from asyncsim.cli.interrupts import Terminated, exit_status, quitting_at_once, raise_from_now_on

SIGNALS = [signal.SIGINT, signal.SIGTERM]
SEND_ON_IMPORT = """
import os, sys
from asyncsim.cli import main
class Sender:
    def find_spec(self, name, *further):
        if name == sys.argv[1]:
            os.kill(os.getpid(), int(sys.argv[2]))
sys.meta_path.insert(0, Sender())
main(arguments=["stability", "--help"])
"""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("module", ["click", "asyncsim.cli.stability", "jax", "numpy.linalg"])
def test_while_modules_are_imported(module: str, number: signal.Signals) -> None:
    arguments = [sys.executable, "-c", SEND_ON_IMPORT, module, str(int(number))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "Error: Interrupted.\n")


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_later_there_is_something_to_clean_up(number: signal.Signals, error: type[KeyboardInterrupt]) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with quitting_at_once():
        raise_from_now_on()
        with pytest.raises(KeyboardInterrupt) as caught:
            signal.raise_signal(number)
    assert type(caught.value) is error
    assert exit_status(caught.value) == 128 + number
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with quitting_at_once():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            raise_from_now_on()
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
