"""One name, one meaning: an argument means the same in every rule that has it."""

import inspect

import pytest

import asyncsim as asim
from asyncsim._component import ours


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
