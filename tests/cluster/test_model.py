"""Clusters are described in one line, and arguments that do not fit are refused in one line."""

import math

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import faults, protocols
from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.cluster import _events as events
from asyncsim.delays import Constant, Empirical, Exponential, Gamma
from tests.problems import refusals

pytestmark = pytest.mark.quick

ONE = Constant(1.0)


def test_variable_speed_slows_workers_down():
    """Work of a second at speeds 1 and 1/3, in periods of 5 and 1 s on average: mean speed (5 + 1/3)/6."""
    speed = asim.delays.SlowPeriods(3.0, Exponential(5.0), Exponential(1.0))
    trace = simulate(Cluster(4, asim.delays.VariableSpeed(Constant(1.0), speed)), seconds=4000.0)
    # Variance of the slow share over t seconds, as for any on/off process: 2·(5·1)²/6³/t, of speed (2/3)² of it.
    spread = 2 / 3 * np.sqrt(2 * 25 / 216 / 4000 / 4)
    assert abs(len(trace) / 4000 / 4 - (5 + 1 / 3) / 6) < 4 * spread + 1 / 4000


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (Cluster(20, Gamma(1.0, 0.3)), "Cluster(20 workers, Gamma(mean=1.0, cv=0.3))"),
        (Cluster(1, ONE), "Cluster(1 worker, Constant(value=1.0))"),
        (Cluster(2, [ONE, ONE]), "Cluster(2 workers, Constant(value=1.0))"),
        (Cluster(3, [ONE, Constant(2.0), ONE]), "Cluster(3 workers, 2 different laws)"),
        (Cluster(4, ONE, protocol=protocols.KAsync(2)), "Cluster(4 workers, Constant(value=1.0), KAsync(k=2))"),
        (
            Cluster(4, ONE, Network(bandwidth=1e9), Server(slots=2, atomic=False)),
            "Cluster(4 workers, Constant(value=1.0), Network(bandwidth=1000000000.0), Server(slots=2, atomic=False))",
        ),
        (
            Cluster(4, ONE, faults=[faults.Crash(1, 3.0), faults.Crash(2, 3.0), faults.ServerPause(1.0, 2.0)]),
            "Cluster(4 workers, Constant(value=1.0), 3 faults (Crash, ServerPause))",
        ),
    ],
)
def test_repr_names_the_fields_that_differ_from_the_defaults(cluster, expected):
    assert repr(cluster) == expected


def test_repr_is_one_short_line_whatever_the_parts():
    text = repr(Cluster(5, Empirical(np.linspace(0.0, 1.0, 1000)), Network(latency=[Exponential(1.0)] * 5)))
    assert "\n" not in text
    assert len(text) < 250


test_one_line_with_name_value_and_remedy = refusals(
    (lambda: Cluster(0, ONE), "`workers` must be an integer of at least 1; got 0"),
    (lambda: Cluster(3, [ONE] * 2), "`compute` must have one law per worker; got 2 for 3 workers"),
    (lambda: Cluster(2, 1.0), r"`compute` must be a law of delays .*; got 1\.0.*`Constant\(1\.0\)`"),
    (lambda: Cluster(2, [ONE, None]), "`compute` must be a law of delays .*None"),
    (lambda: protocols.KSync(0), "`k` must be an integer of at least 1; got 0"),
    (lambda: protocols.Ringmaster(0), "`limit` must be an integer of at least 1; got 0"),
    (lambda: protocols.Malenia(0), "`batch` must be an integer of at least 1; got 0"),
    (lambda: protocols.Rennala(0), "`batch` must be an integer of at least 1; got 0"),
    (lambda: Network(bandwidth=0.0), "`bandwidth` must be finite and positive; got 0.0"),
    (lambda: Network(upload_bandwidth=0.0), "`upload_bandwidth` must be finite and positive; got 0.0"),
    (lambda: Network(compression=0), "`compression` must be finite and positive; got 0"),
    (lambda: Server(slots=0), "`slots` must be an integer of at least 1; got 0"),
    (lambda: faults.Slowdown(0, 0.0, 0.0, 2.0), "`seconds` must be finite and positive; got 0.0"),
    (lambda: faults.Slowdown(0, 0.0, 1.0, 0.0), "`factor` must be finite and positive; got 0.0"),
    (lambda: faults.MessageLoss(0.1, 0.0), "`timeout` must be finite and positive; got 0.0"),
    (lambda: faults.MessageLoss(0.1, 1.0, attempts=0), "`attempts` must be an integer of at least 1; got 0"),
    (lambda: Cluster(4, ONE, protocol=protocols.KSync(5)), "`k` must be at most .*; got 5 for 4 workers"),
    (lambda: Cluster(4, ONE, protocol=protocols.KAsync(5)), "`k` must be at most .*; got 5 for 4 workers"),
    (lambda: Cluster(4, ONE, protocol=protocols.Synchronous(backup=4)), "`backup` must be less than .*; got 4 for 4"),
    (lambda: Cluster(4, ONE, protocol=protocols.Asynchronous), "`protocol` must be an asyncsim"),
    (lambda: Cluster(3, ONE, network=Network(latency=[ONE])), "`latency` must have one law per worker; got 1 for 3"),
    (lambda: Cluster(3, ONE, network=1e9), "`network` must be an asyncsim Network; got 1000000000.0"),
    (lambda: Server(atomic=Constant(1.0)), "`atomic` must be True or False; got Constant"),
    (lambda: Server(pull="at_commit"), "`pull` must be one of .*; got 'at_commit'. Did you mean 'before_commit'"),
    (lambda: Cluster(3, ONE, server=Exponential(1.0)), "`server` must be an asyncsim Server; got Exponential"),
    (lambda: Cluster(3, ONE, faults=[faults.Crash(3, 1.0)]), "workers 0 to 2; entry 0 names worker 3"),
    (lambda: Cluster(3, ONE, faults=["crash"]), "`faults` must hold faults; entry 0 is 'crash'"),
    (lambda: faults.MessageLoss(1.0, 1.0), "`probability` must be less than 1; got 1.0"),
    (lambda: faults.Sessions(Constant(0.0), ONE), "`online` must have a positive mean"),
    (lambda: faults.ServerPause(0.0, 2.0, every=1.0), "`every` must be more than `seconds`; got 1.0 and 2.0"),
    (
        lambda: simulate(Cluster(2, ONE, network=Network(bandwidth=1e9)), commits=1),
        "`message_bytes` must be given with a finite `bandwidth`; got None with 1e.09",
    ),
    (
        lambda: simulate(Cluster(2, Constant(0.0), server=Server(slots=2)), seconds=1.0),
        "`seconds` never pass while worker 0 has only zero delays",
    ),
)


def test_a_standstill_is_named(monkeypatch):
    monkeypatch.setattr(events, "PATIENCE", 10_000)
    with pytest.raises(ValueError, match="`seconds` never pass: 10000 events at time 0 and no end"):
        simulate(Cluster(1, Constant(0.0), protocol=protocols.SSP(0)), seconds=1.0)


def commits_per_second(**parts):
    cluster = Cluster(40, Gamma(1.0, 0.3), **parts)
    return asim.statistics(simulate(cluster, commits=4000)).commits_per_second


def test_a_shared_link_is_half_duplex_and_a_queue_before_own_links_is_full_duplex():
    """A shared link carries both messages of a commit, 0.08 s each, one after the other, a switch one each way."""
    seconds = 10e6 / 1.25e8
    half = Network(bandwidth=1.25e8, message_bytes=10e6, shared=True)
    full = Network(bandwidth=1.25e8, upload_bandwidth=math.inf, message_bytes=10e6)
    assert commits_per_second(network=half) == pytest.approx(1 / (2 * seconds), rel=0.01)
    service = Server(service=Constant(seconds))
    assert commits_per_second(network=full, server=service) == pytest.approx(1 / seconds, rel=0.01)
