"""Two commands on one store: they share the work; killed together and started again, they finish it."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.study._store import open_store
from tests.study import killed

RUNS = 40
PROGRAM = f"""
import asyncsim as asim
from tests.study import killed
results = asim.sweep(asim.grid(killed.scenario(), seed=range({RUNS})), "store", jobs=0)
results.table().to_csv(f"{{__import__('sys').argv[1]}}.csv")
print(len(results.computed))
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv(killed.LOG, str(tmp_path / "log"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in ("", *sys.path) if path))
    monkeypatch.chdir(tmp_path)


def start(name):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, name], stdout=subprocess.PIPE, text=True)


def test_two_commands(tmp_path):
    first = [start("a"), start("b")]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (tmp_path / "store" / "store.json").is_file():
        time.sleep(0.05)
    while time.monotonic() < deadline and len(open_store("store").present()) < RUNS // 4:
        time.sleep(0.01)
    for process in first:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    before = open_store("store").present()
    assert len(before) < RUNS
    second = [start("a"), start("b")]
    computed = [int(process.communicate(timeout=120)[0]) for process in second]
    assert sum(computed) == RUNS - len(before)  # nothing twice
    assert sum(killed.counted().values()) <= RUNS + len(first)  # but what was killed
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    serial = asim.sweep(asim.grid(killed.scenario(), seed=range(RUNS)), tmp_path / "serial", jobs=0).table()
    both = asim.Sweep(asim.grid(killed.scenario(), seed=range(RUNS)), open_store("store")).table()
    for name in set(serial) - {"wall_seconds", "commits_per_second"}:
        np.testing.assert_array_equal(both[name], serial[name])
