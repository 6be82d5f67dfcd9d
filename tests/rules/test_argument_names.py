"""One name, one meaning: what an argument means does not depend on the rule that has it."""

import inspect

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim._component import ours
from asyncsim._parts import described_arguments


def owners(argument):
    return {name for name, make in ours("rules").items() if argument in inspect.signature(make).parameters}


def test_who_has_what():
    """Another rule that has one of these must mean the same by it."""
    assert owners("limit") == {"ringmaster"}
    assert owners("oldest") == {"drop_stale"}
    assert owners("grace") == {"fedasync", "fadas"}
    assert owners("decay") == {"dc_asgd", "fadas", "gap_aware", "yellowfin"}
    assert owners("server_learning_rate") == {"ca2fl", "diloco", "fadas", "fedbuff", "local_sgd"}
    for gone in ("outer_learning_rate", "local_learning_rate"):
        assert not owners(gone)
    assert owners("learning_rate") == set(ours("rules"))


@pytest.mark.parametrize("name", sorted(owners("decay")))
def test_decay_is_the_share_that_an_average_keeps(name):
    assert described_arguments(inspect.getdoc(ours("rules")[name]))["decay"]


@pytest.mark.parametrize("name", sorted(owners("server_learning_rate")))
def test_the_servers_step_size_multiplies_the_step_of_the_server(name):
    """And `learning_rate` is that of a local step: its direction decides where, the server's decides how far."""
    given = {"window": 1} | ({"buffer": 1} if "buffer" in inspect.signature(ours("rules")[name]).parameters else {})

    rule = ours("rules")[name](0.25, server_learning_rate=[0.5, 1.0], **given, **OWN.get(name, {}))
    run = asim.replay(asim.Trace.from_commits([0]), rule, asim.workloads.Quadratic([1.0]), seed=(0, 0))
    first, second = run.central["x"][:, 0].tolist()
    assert 1 - second == pytest.approx(2 * (1 - first), rel=1e-5)
    assert first != 1


OWN = {"diloco": {"optimiser": "sgd"}}


def test_limit_and_oldest():
    """A gradient of staleness 1 counts up to `oldest` 1, and no longer with a `limit` of 1."""
    trace = asim.Trace.from_commits([0, 1])
    ends = [
        float(asim.replay(trace, rule, asim.workloads.Quadratic([1.0])).central["x"][0])
        for rule in (rules.DropStale(0.5, oldest=1), rules.Ringmaster(0.5, limit=2), rules.Ringmaster(0.5, limit=1))
    ]
    np.testing.assert_allclose(ends, [0.0, 0.0, 0.5])
