"""Processes that compute: they do not run the main program again, and they end with it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import asyncsim as asim

print("once")
scenario = asim.Scenario(
    cluster=asim.Cluster(workers=2, compute=asim.delays.Constant(1.0)),
    rule=asim.rules.Downpour(0.1),
    workload=asim.workloads.Quadratic([1.0]),
    commits=20,
)
results = asim.sweep(asim.grid(scenario, seed=range(3)), "store", jobs=1)
print(len(results.computed))
"""


def test_a_script_without_a_guard(tmp_path, monkeypatch):
    """Nothing asks for `if __name__ == "__main__"`."""
    (tmp_path / "study.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    done = subprocess.run([sys.executable, "study.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["once", "3"]
    assert not done.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_they_end_with_the_one_that_started_them(tmp_path, monkeypatch):
    endless = SCRIPT.replace("commits=20", "commits=10_000_000")
    (tmp_path / "study.py").write_text(endless)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    process = subprocess.Popen(
        [sys.executable, "study.py"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    leases, deadline = tmp_path / "store" / "leases", time.monotonic() + 90
    while time.monotonic() < deadline and not list(leases.glob("*.json")):
        time.sleep(0.05)
    from asyncsim.store._lease import holders

    (holder,) = holders(leases).values()
    assert holder["process"] != process.pid
    process.kill()
    process.wait()
    while time.monotonic() < deadline and holders(leases):
        time.sleep(0.05)
    assert holders(leases) == {}
