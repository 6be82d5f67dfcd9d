"""Windows of local steps from the command line: the times of their jobs, and a sweep at equal seconds."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim

MEAN, CV, WORKERS = 0.5, 0.4, 4
SCRIPT = f"""
import asyncsim as asim

scenario = asim.Scenario(
    asim.Cluster({WORKERS}, asim.delays.Gamma(mean={MEAN}, cv={CV})),
    asim.rules.local(asim.rules.SharedNesterov(0.05, momentum=0.9), window=5, learning_rate=0.01),
    asim.workloads.Quadratic([1.0, 0.1]),
    commits=400,
)

if __name__ == "__main__":
    asim.main(scenario)
"""


@pytest.fixture(autouse=True)
def script(command):
    """The file diloco.py in the folder of the command."""
    Path("diloco.py").write_text(SCRIPT)


def times_of_jobs(command, *flags):
    done = command("run", "diloco.py", *flags, "--out", "here", "--force")
    assert done.status == 0, done.err
    trace = asim.Trace.load("here/trace.npz")
    return trace.finish_time - trace.start_time


def test_jobs_of_a_window_of_ten_take_ten_times_as_long(command):
    one, ten = (times_of_jobs(command, "--compute", "constant", "--window", window) for window in (1, 10))
    np.testing.assert_allclose(ten, 10 * one)
    assert one == pytest.approx(MEAN)


@pytest.mark.parametrize("window", [4, 25])
def test_the_cv_of_a_window_falls_with_the_root_of_its_steps(command, window):
    times, cv = times_of_jobs(command, "--window", window), CV / math.sqrt(window)
    assert times.mean() == pytest.approx(window * MEAN, rel=5 * cv / math.sqrt(len(times)))
    # The relative standard error of a standard deviation of N nearly normal times is near 1/√(2N).
    assert times.std() / times.mean() == pytest.approx(cv, rel=5 / math.sqrt(2 * len(times)))


def test_a_sweep_over_windows_at_equal_seconds_takes_equally_many_gradients(command):
    seconds, windows = 300.0, (1, 10)
    grid = ("--grid", f"window={','.join(map(str, windows))}", "--seconds", seconds)
    done = command("sweep", "diloco.py", *grid, "--store", "store", "--json")
    assert done.status == 0, done.err
    columns = json.loads(done.out)["columns"]
    assert columns["status"] == ["done"] * len(windows)
    gradients = seconds / MEAN * WORKERS
    for window, commits in zip(windows, columns["commits"], strict=True):
        # Times of renewals have variance cv² per gradient, and a window that is cut off at the end has no commit.
        assert abs(window * commits - gradients) < 5 * CV * math.sqrt(gradients) + WORKERS * window
