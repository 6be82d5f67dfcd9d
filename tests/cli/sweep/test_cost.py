"""The estimate before a large sweep: a compiled program costs its time once in a process, and jobs count."""

import dataclasses
import re

import pytest

import asyncsim as asim
from asyncsim.cli import _sweep as cost
from tests.cli.commands import assert_one_line
from tests.study.problems import scenario


def test_the_probe_leaves_compiling_out(monkeypatch):
    """A run of known time, which the first time includes a compilation of ten thousand times as much."""
    compute, calls = cost.compute, []

    def timed(batch, trace):
        calls.append(batch)
        compiling = 100.0 if len(calls) == 1 else 0.0
        for result, _ in compute(batch, trace):
            yield result, {"wall_seconds": 0.01 + compiling, "compile_seconds": compiling}

    monkeypatch.setattr(cost, "compute", timed)
    monkeypatch.setattr(cost, "PROBE_COMMITS", 40)
    probed = cost.probe(scenario(commits=40))
    assert (probed.seconds, probed.compiling) == pytest.approx((0.01, 100.0))
    assert probed.size > 1000
    calls.clear()
    longer = cost.probe(scenario(commits=10 * cost.PROBE_COMMITS))
    assert longer.seconds == pytest.approx(0.1)


UNKNOWN = {
    "a queue": {"service": 0.05},
    "latency": {"latency": 0.1},
    "synchronous": {"protocol": "synchronous"},
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_commits_of_a_time_are_estimated_from_a_piece_of_the_schedule(name, monkeypatch):
    """The mean of n gaps has a relative error of at most 1/√n, and a number of commits N one of 1/√N."""
    monkeypatch.setattr(cost, "PROBE_COMMITS", 400)
    base = scenario(**UNKNOWN[name], seconds=1000.0)
    short, total = cost.piece_of(base)
    commits = len(base.schedule())
    assert short.total == cost.PROBE_COMMITS
    assert abs(total / commits - 1) < 4 * (cost.PROBE_COMMITS**-0.5 + commits**-0.5)
    assert cost.piece_of(base.override(seconds=10.0))[0].total < cost.PROBE_COMMITS / 2  # no longer than the run itself


@pytest.mark.parametrize(("begins", "commits"), [(0.0, 0), (50.0, 40)])
def test_a_run_whose_server_waits_for_ever_is_measured_whole(begins, commits):
    crash = asim.faults.Crash(0, begins)
    cluster = asim.Cluster(4, asim.delays.Constant(5.0), protocol=asim.protocols.Synchronous(), faults=[crash])
    base = dataclasses.replace(scenario(seconds=100.0), cluster=cluster)
    assert cost.piece_of(base) == (base, pytest.approx(commits, abs=4))
    assert cost.probe(base).size > 1000


def test_no_more_processes_than_cores_compute_at_once(monkeypatch):
    monkeypatch.setattr(cost.memory, "cores", lambda: 8)
    assert [cost.processes_here(jobs) for jobs in (None, 0, 1, 4, 100)] == [8, 1, 1, 4, 8]


def test_time_is_compiling_once_plus_the_runs_of_a_process(command, script, monkeypatch):
    monkeypatch.setattr(cost.memory, "cores", lambda: 4)
    monkeypatch.setattr(cost, "probe", lambda base: cost.Cost(seconds=3.6, compiling=3600.0, size=1000.0))
    asked = ("sweep", script, "--grid", "seed=0:10000", "--jobs")
    for jobs, hours in ((1, 11.0), (4, 3.5)):
        found = command(*asked, jobs)
        assert_one_line(found, 2, "10,000 runs", "Add --yes")
        assert float(re.search(r"about ([\d.]+) h in", found.err)[1]) == hours
