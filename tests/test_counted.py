"""One of a kind has a noun in the singular, in all that is written about it."""

import re

import asyncsim as asim
from asyncsim._metrics import counted

ONE = re.compile(r"(?<![\d.,])1 (workers|commits|seeds|steps|runs|slots|samples|simulations|rows)\b")


def test_a_noun_agrees_with_its_number():
    assert [counted(number, "worker", ",") for number in (0, 1, 2, 1000)] == [
        "0 workers",
        "1 worker",
        "2 workers",
        "1,000 workers",
    ]


def test_objects_with_one_of_a_kind_are_described_in_the_singular():
    cluster = asim.Cluster(1, asim.delays.Constant(1.0))
    trace = asim.simulate(cluster, commits=1)
    quadratic = asim.workloads.Quadratic([1.0])
    scenario = asim.Scenario(cluster=cluster, rule=asim.rules.Downpour(0.1), workload=quadratic, commits=1)
    run = asim.replay(trace, asim.rules.Downpour(0.1), quadratic, seed=[0])
    shown = [repr(one) for one in (cluster, trace, scenario, run, asim.cost(trace, message_bytes=1, parameter_bytes=1))]
    assert not [text for text in shown if ONE.search(text)]
    assert "1 commit by 1 worker" in repr(trace)
