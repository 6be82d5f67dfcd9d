"""Workers on a graph: their schedules, and one commit with its mixing beside a commit around a server.

`pytest tests/benchmarks/bench_gossip.py` prints all rates, and with `--smoke` tries a hundredth of the commits.

What a schedule on 1 000 workers with four neighbours each moves at least, in a commit: a row of the trace is 79 bytes,
and a source of a mixing 37. Pairs have four sources, a push has two, a round five for each worker, and random pairs
two, which are 227, 153, 264 and 153 bytes. NumPy writes these at hundreds of MB/s, so that not they are
the floor, but the event of each commit in Python: one heap operation and one draw of a time, about a microsecond. Where
messages take time, a pair has three events in place of one (computed, arrived, answered), a push has three as well
(computed, left, arrived), and each has a draw. Rounds need no events, only a draw for each of their four messages.

A commit of DOWNPOUR on P parameters reads the worker's row and the central variable and writes both: 4·P numbers. The
average of a pair reads and writes two variables besides: 8·P numbers in all, so that the ratio is at least 2 where
gradients cost nothing. Where messages take time, the two halves of an average are made apart, each from two variables:
6·P numbers for the two, and 2·P for the copy of each value that changes while its message is on its way. With a copy
for each message, the ratio is 3.5.
"""

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import graphs

COMMITS = 4000
WORKERS, PARAMETERS = 32, 17_226
FLOORS = {"instant": 2.0, "slow": 3.5}  # numbers moved in a commit of a pair over those of DOWNPOUR
LAW = asim.delays.Exponential(1.0)
REGULAR = graphs.RandomRegular(degree=4)
SLOW = asim.Network(latency=asim.delays.Exponential(0.05), bandwidth=1e8, message_bytes=4e6)
GROUPS = {"graph": graphs.RandomGroups(size=2), "exchange": "adapt_then_combine"}
SCHEDULES = {  # arguments, commits, and the least rate in thousands of commits a second
    "pair": ({}, 1_000_000, 200),
    "push": ({"exchange": "push"}, 1_000_000, 200),
    "rounds": ({"exchange": "rounds"}, 1_000_000, 200),
    "random pairs": (GROUPS, 200_000, 100),
    "slow pair": ({"network": SLOW}, 200_000, 50),
    "slow push": ({"network": SLOW, "exchange": "push"}, 200_000, 50),
    "slow rounds": ({"network": SLOW, "exchange": "rounds"}, 200_000, 100),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_of_gossip(name, benchmark, report, scaled):
    changes, commits, least = SCHEDULES[name]
    gossip, commits = asim.Gossip(1000, LAW, **{"graph": REGULAR, **changes}), scaled(commits)
    trace = benchmark.pedantic(asim.simulate, args=(gossip,), kwargs={"commits": commits}, rounds=3)
    assert len(trace) == commits
    rate = commits / benchmark.stats.stats.min / 1e3
    report(f"schedule, n = 1000, {name}", rate, "k commits/s", at_least=least)


@pytest.mark.parametrize("messages", FLOORS)
def test_commit_of_a_pair(messages, versus, report, scaled):
    commits, law = scaled(COMMITS), asim.delays.Exponential(1.0)
    workload = asim.workloads.Quadratic(np.linspace(0.1, 1.0, PARAMETERS).tolist())
    network = SLOW if messages == "slow" else asim.Network()
    pair = asim.simulate(asim.Gossip(WORKERS, law, graph="complete", network=network), commits=commits)
    server = asim.simulate(asim.Cluster(WORKERS, law), commits=commits)

    def replay(trace):
        return lambda: jax.block_until_ready(asim.replay(trace, asim.rules.Downpour(0.01), workload).state.central)

    ratio = versus(replay(pair), replay(server), rounds=7)
    report(f"commit of a pair over DOWNPOUR's, n = {WORKERS}, {messages}", ratio, "×", at_most=1.5 * FLOORS[messages])
