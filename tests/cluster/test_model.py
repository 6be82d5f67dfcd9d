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
    (lambda: Network(bandwidth=[1e9, 0.0]), "`bandwidth` must be finite and positive; got 0.0"),
    (lambda: Network(bandwidth=[]), r"`bandwidth` must be a number or one for each worker; got \[\]"),
    (lambda: Network(bandwidth="fast"), "`bandwidth` must be .*; got 'fast'"),
    (
        lambda: Cluster(3, ONE, network=Network(upload_bandwidth=[1e9, 1e8])),
        "`upload_bandwidth` must have one number per worker; got 2 for 3 workers",
    ),
    (lambda: Network(duplex="full"), "`duplex` must be left out without a shared link; got 'full'"),
    (lambda: Network(duplex="both"), "`duplex` must be one of 'half', 'full'; got 'both'"),
    (lambda: Network(collective="rign"), "`collective` must be one of 'none', 'ring'; got 'rign'. Did you mean 'ring'"),
    (lambda: Network(collective="ring", shared=True), "`shared` must be left out with `collective='ring'`"),
    (lambda: Network(collective="ring", compression=0.5), "`compression` must be left out with `collective='ring'`"),
    *(
        (
            lambda parts=parts: Cluster(4, ONE, Network(collective="ring"), **parts),
            f"`collective` must be left out with this `{name}`, because a ring .*; got 'ring' and ",
        )
        for name, parts in {
            "protocol": {},
            "server": {"protocol": protocols.Synchronous(), "server": Server(slots=2)},
            "faults": {"protocol": protocols.Synchronous(), "faults": [faults.Crash(1, 2.0)]},
        }.items()
    ),
    (
        lambda: Cluster(4, ONE, Network(collective="ring"), protocol=protocols.Synchronous(backup=1)),
        "`collective` must be left out with this `protocol`, because a ring needs every worker",
    ),
    (
        lambda: Cluster(4, ONE, Network(collective="ring"), protocol=protocols.KSync(4)),
        "`collective` must be left out with this `protocol`",
    ),
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
        lambda: simulate(Cluster(2, ONE, network=Network(bandwidth=[1e9, 1e8])), commits=1),
        "`message_bytes` must be given with a finite `bandwidth`; got None with 1e.08",
    ),
    (
        lambda: simulate(Cluster(2, Constant(0.0), server=Server(slots=2)), seconds=1.0),
        "`seconds` never pass while worker 0 has only zero delays",
    ),
)


def test_a_standstill_is_named(monkeypatch):
    monkeypatch.setattr(events, "MOST_IDLE_EVENTS", 10_000)
    with pytest.raises(ValueError, match="`seconds` never pass: 10000 events at time 0 and no end"):
        simulate(Cluster(1, Constant(0.0), protocol=protocols.SSP(0)), seconds=1.0)


def commits_per_second(**parts):
    cluster = Cluster(40, Gamma(1.0, 0.3), **parts)
    return asim.statistics(simulate(cluster, commits=4000)).commits_per_second


def test_a_shared_link_is_half_or_full_duplex():
    """A half-duplex link carries both messages of a commit, 0.08 s each, one after the other, a switch one each way."""
    seconds = 10e6 / 1.25e8
    for duplex, messages in (("half", 2), ("full", 1)):
        network = Network(bandwidth=1.25e8, message_bytes=10e6, shared=True, duplex=duplex)
        assert commits_per_second(network=network) == pytest.approx(1 / (messages * seconds), rel=0.01)


def test_a_queue_before_own_links_is_a_full_duplex_link():
    seconds = 10e6 / 1.25e8
    full = Network(bandwidth=1.25e8, upload_bandwidth=math.inf, message_bytes=10e6)
    service = Server(service=Constant(seconds))
    assert commits_per_second(network=full, server=service) == pytest.approx(1 / seconds, rel=0.01)


def test_each_worker_may_have_a_bandwidth_of_its_own():
    """A commit takes the second of its computation and the seconds of its own link, each way."""
    network = Network(bandwidth=[1.0, 2.0, 4.0], upload_bandwidth=np.array([2.0, 4.0, 1.0]), message_bytes=1.0)
    trace = simulate(Cluster(3, ONE, network=network), commits=60)
    downloads, uploads = np.array([1.0, 0.5, 0.25]), np.array([0.5, 0.25, 1.0])
    later = trace.read_time > 0  # at the start everyone has the parameters
    w = trace.worker
    np.testing.assert_allclose((trace.start_time - trace.read_time)[later], downloads[w[later]])
    np.testing.assert_allclose(trace.arrive_time - trace.finish_time, uploads[w])
    assert (network.download_seconds, network.upload_seconds) == (1.0, 1.0)


def test_a_number_for_each_worker_that_is_the_same_is_one_number():
    one = Network(latency=Exponential(0.1), bandwidth=2.0, message_bytes=1.0)
    each = Network(latency=Exponential(0.1), bandwidth=[2.0] * 3, message_bytes=1.0)
    traces = [simulate(Cluster(3, Gamma(1.0, 0.5), network=network), commits=40) for network in (one, each)]
    np.testing.assert_array_equal(*(trace.commit_time for trace in traces))


def test_other_numbers_of_workers_keep_the_shares_of_the_bandwidths():
    cluster = Cluster(4, ONE, network=Network(bandwidth=[1e9, 1e9, 1e8, 1e8], message_bytes=4.0))
    more = asim.components.override(cluster, workers=6)
    assert more.network.bandwidth == (1e9, 1e9, 1e9, 1e8, 1e8, 1e8)


class TestRing:
    """Rounds whose updates the workers exchange by a ring all-reduce."""

    @staticmethod
    def trace(rounds=20, **network):
        cluster = Cluster(
            4,
            Gamma(1.0, 0.5),
            network=Network(message_bytes=6.0, collective="ring", **network),
            protocol=protocols.Synchronous(),
        )
        return simulate(cluster, commits=4 * rounds)

    def test_a_round_takes_the_slowest_worker_and_the_exchange(self):
        """2(P - 1)/P·bytes/bandwidth of the slowest link, and 2(P - 1) latencies."""
        trace = self.trace(latency=Constant(0.01), bandwidth=[2.0, 3.0, 4.0, 4.0], upload_bandwidth=5.0)
        exchange = 2 * 3 / 4 * 6.0 / 2.0 + 2 * 3 * 0.01
        finish, commit = trace.finish_time.reshape(-1, 4), trace.commit_time.reshape(-1, 4)
        np.testing.assert_allclose(commit, np.tile(finish.max(axis=1) + exchange, (4, 1)).T)
        np.testing.assert_allclose(trace.read_time.reshape(-1, 4)[1:], commit[:-1])
        np.testing.assert_array_equal(trace.start_time, trace.read_time)  # nothing is downloaded
        assert not trace.staleness.any()
        assert trace.closes_step.reshape(-1, 4).tolist() == [[False, False, False, True]] * 20

    def test_the_wait_for_the_slowest_is_queueing_and_the_exchange_service(self):
        trace = self.trace(bandwidth=3.0)
        finish, serve = trace.finish_time.reshape(-1, 4), trace.serve_time.reshape(-1, 4)
        np.testing.assert_array_equal(trace.arrive_time, trace.finish_time)
        np.testing.assert_allclose(serve, np.tile(finish.max(axis=1), (4, 1)).T)
        np.testing.assert_allclose(trace.commit_time - trace.serve_time, 2 * 3 / 4 * 6.0 / 3.0)

    def test_each_step_waits_for_the_slowest_latency(self):
        """Mean of the largest of four exponential ones, six times: 6·(1 + 1/2 + 1/3 + 1/4)·mean."""
        trace = self.trace(rounds=400, latency=Exponential(0.1))
        exchange = (trace.commit_time - trace.serve_time)[::4]
        expected = 6 * 0.1 * (1 + 1 / 2 + 1 / 3 + 1 / 4)
        error = exchange.std() / np.sqrt(len(exchange))
        assert abs(exchange.mean() - expected) < 4 * error

    def test_without_bytes_and_latency_a_round_takes_the_slowest_worker(self):
        ring = self.trace()
        plain = simulate(Cluster(4, Gamma(1.0, 0.5), protocol=protocols.Synchronous()), commits=80)
        np.testing.assert_array_equal(ring.commit_time[3::4], plain.commit_time[3::4])

    def test_a_ring_of_one_sends_nothing(self):
        network = Network(Constant(0.5), bandwidth=1.0, message_bytes=6.0, collective="ring")
        trace = simulate(Cluster(1, ONE, network=network, protocol=protocols.Synchronous()), commits=3)
        assert trace.commit_time.tolist() == [1.0, 2.0, 3.0]

    def test_a_slow_worker_holds_up_its_rounds(self):
        slow = faults.Slowdown(worker=2, start=0.0, seconds=1.5, factor=3.0)
        network = Network(bandwidth=6.0, message_bytes=4.0, collective="ring")
        parts = {"network": network, "protocol": protocols.Synchronous(), "faults": [slow]}
        trace = simulate(Cluster(4, ONE, **parts), commits=8)
        assert trace.commit_time[[3, 7]].tolist() == [pytest.approx(1.5 + 0.5 + 1), pytest.approx(3 + 1 + 1)]
