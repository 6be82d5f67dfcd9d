"""The command under its other name."""

import subprocess
import sys

import asyncsim


def test_python_m_asyncsim() -> None:
    done = subprocess.run([sys.executable, "-m", "asyncsim", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"asyncsim {asyncsim.__version__}\n", "")
