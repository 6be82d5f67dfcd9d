"""Logs of a server with a single loop, which sees a message only when it takes it up: nobody waits in such a log."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.calibration._stages import stages_of
from tests.calibration import heap

COMPUTE, LATENCY, SERVICE = heap.gamma(0.2, 0.5), heap.gamma(0.02, 0.5), heap.gamma(0.012, 0.5)
COMMITS = 1000
NOTE = "at once after the one before"


def log(workers, sees="take up", *, stamps=True, service=SERVICE, compute=COMPUTE):
    """The log of a server that sees a message when it takes it up, or else when it arrives."""
    columns = heap.simulate(heap.Cluster(workers, compute, LATENCY, service), COMMITS, seed=workers)
    if sees == "take up":
        columns["arrive_time"] = columns["serve_time"]
    if not stamps:
        columns["start_time"], columns["finish_time"] = columns["read_time"], columns["arrive_time"]
    return asim.Trace.from_columns(columns)


@pytest.mark.parametrize("workers", [4, 12, 24])
@pytest.mark.parametrize("missing", [(), ("arrive_time",)], ids=["arrivals", "no arrivals"])
def test_messages_contain_no_wait(workers, missing):
    """With 24 workers and a server that is always busy, the mean of all messages is 42 ms, and not 20."""
    columns = heap.simulate(heap.Cluster(workers, COMPUTE, LATENCY, SERVICE), COMMITS, seed=workers)
    columns["arrive_time"] = columns["serve_time"]
    for name in missing:
        del columns[name]
    stages = stages_of(asim.Trace.from_columns(columns))
    latency = stages.latency.durations
    assert abs(latency.mean() - LATENCY.mean) < 4 * latency.std() / np.sqrt(len(latency))
    assert len(stages.compute.durations) == COMMITS
    assert sum(NOTE in note for note in stages.notes) == 1
    assert not any("clock" in note for note in stages.notes)


@pytest.mark.parametrize("workers", [12, 16])
def test_jobs_without_stamps_contain_no_wait(workers):
    """The messages remain in them."""
    stages = stages_of(log(workers, stamps=False))
    jobs, truth = stages.compute.durations, COMPUTE.mean + 2 * LATENCY.mean
    assert abs(jobs.mean() - truth) < 4 * jobs.std() / np.sqrt(len(jobs))
    assert sum(NOTE in note for note in stages.notes) == 1


def test_fewer_workers_are_predicted():
    """15 % too slow, if the waits of the log count as messages."""
    fit = asim.calibrate(log(24), law="gamma")
    truth = heap.throughput(heap.Cluster(4, COMPUTE, LATENCY, SERVICE), 4, commits=20_000)
    assert fit.what_if(workers=4, draws=8)["throughput"].median == pytest.approx(truth, rel=0.05)


NOT_ONE = {
    "arrivals are seen": lambda: log(16, sees="arrive"),
    "arrivals are seen, no stamps": lambda: log(16, sees="arrive", stamps=False),
    "one worker": lambda: log(1),
    "a server in little use": lambda: log(4, service=heap.gamma(0.001, 0.5)),
    "no service": lambda: log(16, service=None),
}


@pytest.mark.parametrize("make", NOT_ONE.values(), ids=NOT_ONE)
def test_other_logs_count_whole(make):
    trace = make()
    stages = stages_of(trace)
    assert not any(NOTE in note for note in stages.notes)
    assert len(stages.compute.durations) == len(trace)


def test_a_recorder_in_a_loop_is_recognised(tmp_path):
    """Whose stamps differ by some microseconds: the arrival and the take-up, and the take-up and the commit before."""
    columns = heap.simulate(heap.Cluster(16, COMPUTE, LATENCY, SERVICE), COMMITS, seed=0)
    columns["arrive_time"] = (np.array(columns["serve_time"]) - 2e-6).tolist()
    columns["commit_time"] = (np.array(columns["commit_time"]) - 5e-6).tolist()
    columns["read_time"] = np.maximum(np.array(columns["read_time"]) - 5e-6, 0).tolist()
    assert any(NOTE in note for note in stages_of(asim.Trace.from_columns(columns)).notes)
