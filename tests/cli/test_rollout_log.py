"""`asyncsim calibrate` of a log of rollouts, recognised by its columns."""

import json
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from tests.cli.commands import assert_one_line

SCRIPT = """import asyncsim as asim
one = asim.delays.Constant(1.0)
engines = {"slots": 32, "group": 4, "batch": 4, "refill": "group"}
model = asim.rollouts.areal(max_head_offpolicyness=1, generate=one, train=one, **engines)
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log of known rollouts, with Unix times and groups that were never trained."""
    monkeypatch.chdir(tmp_path)
    law = delays.LogNormal(30.0, 0.8)
    hidden = asim.Rollouts(
        slots=32, group=4, batch=4, generate=law, train=delays.Gamma(9.0, 0.3), refill="group", lead=1
    )
    trace = asim.simulate(hidden, commits=400, seed=3)
    columns = np.stack([trace.start_time, trace.arrive_time, trace.serve_time, trace.commit_time], axis=1) + 1e9
    rows = [",".join(f"{value:.4f}" for value in row) for row in columns]
    rows += [f"{1e9 + start:.4f},,," for start in trace.unfinished.start_time]
    Path("log.csv").write_text("\n".join(["opened,ready,taken,trained", *rows, ""]))
    Path("system.py").write_text(SCRIPT)
    return trace


@pytest.mark.whole_pages
def test_lengths_steps_and_other_leads(log, command):
    numbers = json.loads(command("calibrate", "log.csv", "--model", "system.py", "--json").out)
    own = numbers["what_if"]["lead"].index(1)
    found = numbers["what_if"]["steps_per_second"][own]
    assert found == pytest.approx(numbers["log"]["steps_per_second"], rel=0.05)
    assert numbers["log"]["group_staleness"] == pytest.approx(log.staleness.mean())
    assert numbers["fits"]
    fit = asim.Fit.load("runs/calibrate/fit.json")
    assert fit.cluster.generate.mean == numbers["parameters"]["generate.mean"]["estimate"]
    assert Path("runs/calibrate/calibration.png").stat().st_size > 10_000
    few = ("--lead", "2", "--points", "2", "--draws", "2", "--out", "more")
    assert command("run", "runs/calibrate/scenario.py", *few).status == 0
    assert command("trace", "check", "log.csv").status == 0


def test_without_a_script_a_group_is_one_sample(log, command):
    done = command("calibrate", "log.csv", "--quick")
    assert "a group counts as one sample on one of" in " ".join(done.out.split())


def test_too_few_groups(command):
    """Which logs are refused is tested with traces."""
    Path("bad.csv").write_text("opened,ready,taken,trained\n1,2,2,3\n")
    assert_one_line(command("calibrate", "bad.csv"), 2, "`log` must have 30 trained groups or more; got 1")
