"""Costs of kept runs, from their schedules and the bytes in their summaries."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, protocols
from asyncsim.cli._compare import spent_over_commits
from asyncsim.costs import sizes
from asyncsim.costs._usage import sizes_in

POWER, PRICE = asim.Power(busy=300.0, idle=60.0), asim.Price(per_hour=3600.0)
SERVERS = [asim.Server(), asim.Server(atomic=False), asim.Server(atomic=False, resume="own")]


@pytest.mark.parametrize("server", SERVERS, ids=["atomic", "separate", "own"])
@pytest.mark.parametrize("workers", [1, 3])
def test_sizes_come_back_from_a_summary(server, workers):
    """Also where the schedule does not show that workers pull in a request of its own."""
    cluster = asim.Cluster(workers, delays.Exponential(1.0), server=server, protocol=protocols.Ringmaster(2))
    result = asim.run(asim.Scenario(cluster, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0] * 5), commits=30))
    spent = asim.cost(result.trace, **sizes(result), power=POWER)
    again = asim.cost(result.trace, **sizes_in(result.trace, result.summary), power=POWER)
    assert again.summary() == spent.summary()
    assert (result.summary["bytes_up"], result.summary["bytes_down"]) == (spent.bytes_up, spent.bytes_down)
    curve = spent_over_commits(result.trace, result.summary, POWER, PRICE)
    assert [*curve] == ["bytes", "joules", "money"]
    assert curve["bytes"][-1] == spent.bytes_sent
    assert curve["joules"][-1] == pytest.approx(spent.joules)
    assert (np.diff(curve["bytes"]) >= 0).all()


@pytest.mark.quick
def test_a_run_of_a_part_of_its_schedule_counts_that_part():
    log = asim.simulate(asim.Cluster(2, delays.Exponential(1.0)), commits=40)
    result = asim.run(asim.Scenario(log, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=10))
    assert len(result.trace) == 40
    assert (result.summary["bytes_up"], result.summary["bytes_down"]) == (10 * 4, 10 * 4)
    assert sizes_in(result.trace, {"commits": 10}) == {}  # a summary of an earlier asyncsim has no bytes
    found = asim.cost(result.trace, **sizes_in(result.trace, result.summary))
    assert (found.duration, found.bytes_up) == (log.commit_time[9], 40)
    assert len(spent_over_commits(result.trace, result.summary, POWER, None)["joules"]) == 10


def test_messages_of_a_pipeline_have_no_known_size():
    pipeline = asim.Pipeline(stages=2, forward=delays.Constant(1.0), schedule="1f1b", micro_batches=2)
    result = asim.run(asim.Scenario(pipeline, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=8))
    assert (result.summary["bytes_up"], result.summary["bytes_down"]) == (None, None)
    assert sizes_in(result.trace, result.summary) == {}
    with pytest.raises(ValueError, match="the messages of a Pipeline are others"):
        sizes(result)


def test_a_table_of_a_sweep():
    cluster = asim.Cluster(2, delays.Exponential(1.0))
    base = asim.Scenario(cluster, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=20)
    swept = asim.sweep(asim.grid(base, seed=[0, 1]), jobs=0)
    table = swept.table(power=POWER, price=PRICE)
    for seed, joules, money in zip(table["seed"], table["joules"], table["money"], strict=True):
        trace = base.override(seed=int(seed)).simulate()
        spent = asim.cost(trace, message_bytes=4, parameter_bytes=4, power=POWER, price=PRICE)
        assert (joules, money) == (spent.joules, spent.money)
