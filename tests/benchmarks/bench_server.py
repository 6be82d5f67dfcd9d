"""A real server with real processes: errors of predictions for other numbers of workers than those of the log.

`python -m tests.benchmarks.server` does the same once, and prints logs, fits and loads.
"""

import math
import os
from dataclasses import replace

import pytest

import asyncsim as asim
from tests.benchmarks.server import Job, predict, run


@pytest.fixture
def report_errors(tmp_path, report, smoke):
    """Run a job, fit its log, and run it again with other numbers of workers."""

    def compare(what: str, job: Job, others: list[int], at_most: float) -> None:
        fit = asim.calibrate(run(job, tmp_path / "log.csv"), law="gamma" if smoke else None)
        for workers in others:
            trace = run(replace(job, workers=workers), tmp_path / f"{workers}.csv")
            for one in predict(fit, trace, draws=2 if smoke else 16):
                asked = f"{one.quantity} of {workers} workers by a log of {job.workers}"
                report(f"{what}: {asked}", 100 * abs(one.error), "% error", at_most=at_most)

    return compare


@pytest.mark.parametrize("server", ["threads", "loop"])
def test_sleeping_workers(server, report_errors, smoke):
    if smoke:
        job = Job(2, 40, server=server, compute=0.02, latency=0.002, service=0.0012)
        report_errors(server, job, [3], at_most=10)
    else:
        report_errors(server, Job(4, 400, server=server), [8, 16], at_most=10)


def test_gradients(report_errors, smoke):
    """More processes than cores share these, which no log of fewer shows, so that the error has no target."""
    if smoke:
        report_errors("gradients", Job(2, 40, kind="gradients", batch=64), [3], at_most=math.inf)
    else:
        cores = os.cpu_count() or 1
        report_errors("gradients", Job(cores, 400, kind="gradients"), [1, 2 * cores], at_most=math.inf)
