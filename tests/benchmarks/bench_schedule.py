"""Commits per second of the schedule, from the cluster to the checked trace."""

import subprocess
import sys

import pytest

import asyncsim as asim
from asyncsim import protocols

COMMITS = 1_000_000
ONE = asim.delays.Exponential(mean=1.0)
QUEUE = asim.Server(service=asim.delays.Exponential(mean=0.02))


def rate(benchmark, cluster, commits, rounds):
    trace = benchmark.pedantic(asim.simulate, args=(cluster,), kwargs={"commits": commits}, rounds=rounds)
    assert len(trace) == commits
    return commits / benchmark.stats.stats.min / 1e3


@pytest.mark.parametrize("workers", [30, 1000])
def test_schedule(workers, benchmark, report, scaled):
    measured = rate(benchmark, asim.Cluster(workers, ONE), scaled(COMMITS), rounds=3)
    report(f"schedule, n = {workers}, no queue", measured, "k commits/s", at_least=500)


@pytest.mark.parametrize("workers", [30, 1000])
def test_schedule_with_a_queue(workers, benchmark, report, scaled):
    """A thousand workers and a hundred thousand commits should take less than two seconds."""
    measured = rate(benchmark, asim.Cluster(workers, ONE, server=QUEUE), scaled(100_000), rounds=5)
    report(f"schedule, n = {workers}, server queue", measured, "k commits/s", at_least=250 if workers == 30 else 200)


@pytest.mark.parametrize("protocol", [protocols.SSP(3), protocols.KSync(8), protocols.KBatchAsync(8)], ids=repr)
def test_schedule_of_protocols(protocol, benchmark, report, scaled):
    measured = rate(benchmark, asim.Cluster(30, ONE, protocol=protocol), scaled(100_000), rounds=3)
    report(f"schedule, n = 30, {protocol!r}", measured, "k commits/s", at_least=100)


MILLION = "asim.Cluster({workers}, asim.delays.Exponential(1.0)), commits=2 * {workers}"
STOPPED = (
    "asim.Cluster({workers}, [asim.delays.Constant(1 + i**0.5 + abs(noise) * (i + 1)**0.5) for i, noise in "
    "enumerate(np.random.default_rng(0).normal(size={workers}))], protocol=asim.protocols.Ringmaster(6, stop=True)), "
    "seconds=2000.0"
)
MEASURE = """
import time
from pathlib import Path
import numpy as np
import asyncsim as asim
start = time.process_time()
trace = asim.simulate({arguments})
took = time.process_time() - start
# Linux's highest mark of this program alone; `ru_maxrss` would begin with that of the process which started it.
(highest,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
print(took, int(highest) / 1e3, len(trace.unfinished))
"""


@pytest.mark.parametrize(
    ("what", "arguments", "workers", "seconds", "megabytes"),
    [
        ("2 M commits of 1 M workers", MILLION, 1_000_000, 60, 3000),
        ("3.7 M stopped jobs of 6174 workers", STOPPED, 6174, 30, 300),
    ],
    ids=["a million workers", "millions of stopped jobs"],
)
def test_large_schedule(what, arguments, workers, seconds, megabytes, report, scaled):
    """In a process of its own, for its memory."""
    script = MEASURE.format(arguments=arguments.format(workers=scaled(workers)))
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    took, used, jobs = map(float, told.split())
    assert jobs >= scaled(workers) / 2
    report(f"schedule, {what}", took, "s", at_most=seconds)
    report(f"schedule, {what}", used, "MB", at_most=megabytes)
