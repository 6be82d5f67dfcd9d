"""Commits per second of the schedule, from the cluster to the checked trace."""

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
    report(f"schedule, n = {workers}, server queue", measured, "k commits/s", at_least=120 if workers == 30 else 50)


@pytest.mark.parametrize("protocol", [protocols.SSP(3), protocols.KSync(8), protocols.KBatchAsync(8)], ids=repr)
def test_schedule_of_protocols(protocol, benchmark, report, scaled):
    measured = rate(benchmark, asim.Cluster(30, ONE, protocol=protocol), scaled(100_000), rounds=3)
    report(f"schedule, n = 30, {protocol!r}", measured, "k commits/s", at_least=30)
