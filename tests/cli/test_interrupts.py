"""A signal ends a command with one line and the status that shells expect, whenever it comes."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import lazy_loader
import pytest

import asyncsim
from asyncsim.cli._interrupts import Quitting, Terminated, exit_status, raise_from_now_on

SIGNALS = [signal.SIGINT, signal.SIGTERM]
EACH = pytest.mark.parametrize(("number", "error"), [*zip(SIGNALS, (KeyboardInterrupt, Terminated), strict=True)])
PLACES = [str(Path(one.__file__).parents[1]) for one in (asyncsim, lazy_loader)]
ALONE = {"PYTHONPATH": os.pathsep.join(PLACES)}
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


@pytest.mark.parametrize(
    ("module", "number"), [*zip(["click", "asyncsim.cli._theory", "jax", "numpy.linalg"], SIGNALS * 2, strict=True)]
)
def test_a_signal_during_imports_ends_in_one_line(module: str, number: signal.Signals) -> None:
    arguments = [sys.executable, "-c", SEND_ON_IMPORT, module, str(int(number))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "Error: Interrupted.\n")


def test_a_signal_on_the_way_out_ends_in_one_line() -> None:
    """All has been said; whatever other libraries do at the end is cut short."""
    number = signal.SIGINT
    code = f"""
import atexit, os
from asyncsim.cli import program
atexit.register(os.kill, os.getpid(), {int(number)})
program()
"""
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + number, "Error: Interrupted.\n")
    assert done.stdout.startswith("asyncsim ")


def test_little_is_imported_before_the_first_moment() -> None:
    """Until the command's first line has run, Ctrl-C is answered by Python: with a traceback."""
    code = "import sys; before = set(sys.modules); import asyncsim.cli; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=ALONE)
    assert not {"typing", "threading", "click", "numpy"} & set(done.stdout.split())


def send_while_garbage_is_collected(number: signal.Signals) -> None:
    """Python ignores what is raised there, where JAX has a callback."""

    def send(*args: object) -> None:
        gc.callbacks.remove(send)
        signal.raise_signal(number)

    gc.callbacks.append(send)
    gc.collect()
    time.sleep(10)


@EACH
@pytest.mark.parametrize("send", [signal.raise_signal, send_while_garbage_is_collected])
def test_a_signal_during_a_command_raises_an_exception(
    number: signal.Signals, error: type[KeyboardInterrupt], send: Callable[[signal.Signals], None]
) -> None:
    before = [sys.unraisablehook, *map(signal.getsignal, SIGNALS)]
    with Quitting():
        raise_from_now_on()
        with pytest.raises(KeyboardInterrupt) as caught:
            send(number)
    assert type(caught.value) is error
    assert exit_status(caught.value) == 128 + number
    assert [sys.unraisablehook, *map(signal.getsignal, SIGNALS)] == before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Quitting():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            raise_from_now_on()
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
