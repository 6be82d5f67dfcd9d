"""Commits per second of the schedule, from the cluster to the checked trace."""

import pytest

import asyncsim as asim

COMMITS = 1_000_000


@pytest.mark.parametrize("workers", [30, 1000])
def test_schedule(workers, benchmark, report):
    cluster = asim.Cluster(workers, asim.delays.Exponential(mean=1.0))
    trace = benchmark.pedantic(asim.simulate, args=(cluster,), kwargs={"commits": COMMITS}, rounds=3)
    assert len(trace) == COMMITS
    rate = COMMITS / benchmark.stats.stats.min / 1e3
    report(f"schedule, n = {workers}, no queue", rate, "k commits/s", at_least=500)
