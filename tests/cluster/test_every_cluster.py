"""Invariants of every combination of law, network, server, protocol and faults."""

import re
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from asyncsim.cluster import Cluster, Server, protocols, simulate
from asyncsim.cluster import _events as events
from asyncsim.cluster._full import FullSimulation
from asyncsim.cluster._no_network import FastQueue, NoNetwork
from asyncsim.cluster._simulation import run
from asyncsim.delays import Constant, Empirical, Exponential
from asyncsim.trace import Fate, Trace
from asyncsim.trace._columns import COMMIT_COLUMNS
from asyncsim.trace._invariants import conservation
from tests.cluster.problems import LAWS, all_protocols, clusters
from tests.trace.test_trace import assert_equal

MANY = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(clusters(), st.integers(0, 3))
@example(Cluster(3, Exponential(1.0), protocol=protocols.Malenia(4)), 0)  # rarely drawn
def test_every_trace_keeps_the_invariants(cluster, seed):
    trace = simulate(cluster, commits=60, seed=seed)
    trace.check()
    aged, pairs = conservation(trace)
    assert aged == pairs
    terms = cluster.protocol.terms(cluster.workers)
    sizes = np.diff(np.flatnonzero(trace.closes_step), prepend=-1)
    if terms.balance is not None:
        assert_balanced(trace, terms.balance)
    elif terms.every is not None:
        assert sizes.max() <= cluster.workers
    elif terms.bound is not None:
        assert sizes.min() >= terms.collect
        assert trace.staleness.max() <= terms.bound or cluster.server.resume == "own"  # where jobs begin with an age
    else:
        assert (sizes == terms.collect).all()
    if terms.limit is not None:
        assert trace.staleness.max() < terms.limit
    if terms.wait:
        steps = set(zip(trace.version.tolist(), trace.worker.tolist(), strict=True))
        assert len(steps) == len(trace)  # nobody contributes twice to a step
    if cluster.server.atomic:
        assert (trace.pull_version == trace.version).all()
    in_flight = trace.unfinished.worker[trace.unfinished.fate == Fate.IN_FLIGHT]
    assert len(set(in_flight.tolist())) == len(in_flight)


def assert_balanced(trace, least):
    """A step is complete with the first commit with which every worker has one and their harmonic mean is S/n."""
    counts, n = np.zeros(trace.workers), trace.workers
    for worker, closes in zip(trace.worker.tolist(), trace.closes_step.tolist(), strict=True):
        counts[worker] += 1
        assert closes == bool(counts.all() and n * n >= least * (1 / np.maximum(counts, 1)).sum() * (1 - 1e-9))
        counts *= not closes


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.integers(0, 3))
def test_a_longer_run_begins_with_the_shorter_and_a_saved_one_is_unchanged(tmp_path_factory, cluster, seed):
    """Whether its length is given in commits or in seconds."""
    short, long = simulate(cluster, commits=20, seed=seed), simulate(cluster, commits=40, seed=seed)
    for name in COMMIT_COLUMNS:
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name)[:20], err_msg=name)
    if long.seconds and not cluster.takes_fast_path:
        part = simulate(cluster, seconds=long.seconds / 2, seed=seed)
        known = long.commit_time <= long.seconds / 2
        assert len(part) == known.sum()
        np.testing.assert_array_equal(part.commit_time, long.commit_time[known])
    path = tmp_path_factory.getbasetemp() / "every.npz"
    long.save(path)
    assert_equal(Trace.load(path), long)


@settings(max_examples=30)
@given(st.integers(1, 6), LAWS, st.integers(0, 3))
def test_the_fast_path_agrees_with_the_full_simulation(workers, law, seed):
    cluster = Cluster(workers, law)
    assert cluster.takes_fast_path
    fast, full = simulate(cluster, commits=50, seed=seed), run(FullSimulation(cluster, seed), 50, None)
    assert_equal(fast, full, COMMIT_COLUMNS)
    order = np.argsort(full.unfinished.worker)
    np.testing.assert_array_equal(fast.unfinished.read_time, full.unfinished.read_time[order])


class AnyTerms(NamedTuple):
    """A protocol of one's own: whatever its terms are."""

    own: protocols.Terms

    def terms(self, workers):
        return self.own


ANY_TERMS = st.builds(
    protocols.Terms,
    collect=st.integers(1, 3),
    limit=st.none() | st.integers(1, 4),
    wait=st.booleans(),
    cancel=st.booleans(),
    slack=st.none() | st.integers(0, 2),
    in_turn=st.booleans(),
    bound=st.none() | st.integers(0, 2),
    every=st.none(),  # which only the full simulation knows
)
COMPUTE = LAWS | st.sampled_from([Constant(0.5), Constant(2.0), Empirical((0.5, 1.0)), Empirical((0.0, 0.25, 1.0))])
SERVICE = st.sampled_from([Constant(0.0), Constant(0.5), Constant(1.0), Empirical((0.0, 0.5)), Exponential(0.5)])


def outcome(simulation, commits, seconds):
    """The trace, or the message of the error: a cluster of one's own may wait for ever."""
    try:
        return run(simulation, commits, seconds)
    except ValueError as error:
        return re.sub("at time .*", "", str(error))


@pytest.mark.parametrize("way", [NoNetwork, FastQueue])
@settings(max_examples=45)
@given(st.data(), st.integers(1, 6), st.integers(0, 3), st.booleans())
def test_every_event_is_that_of_the_full_simulation(way, data, workers, seed, counted):
    """Ties included: most of these laws give the same time again and again. Some runs end while a commit is served."""
    compute = data.draw(COMPUTE | st.lists(COMPUTE, min_size=workers, max_size=workers))
    if way is FastQueue:
        cluster = Cluster(workers, compute, server=Server(service=data.draw(SERVICE.filter(lambda law: law.mean > 0))))
        assert cluster.takes_fast_queue
    else:
        server = Server(slots=data.draw(st.integers(1, 3)), service=data.draw(SERVICE))
        known = all_protocols(workers).filter(lambda protocol: not isinstance(protocol, protocols.Periodic))
        protocol = data.draw(known | st.builds(AnyTerms, ANY_TERMS))
        cluster = Cluster(workers, compute, server=server, protocol=protocol)
        assert cluster.has_no_network
    much = (data.draw(st.integers(1, 60)), None) if counted else (None, data.draw(st.sampled_from([0.3, 2.0, 7.0])))
    with mock.patch.multiple(events, MOST_IDLE_EVENTS=500, REPORT_EVERY=data.draw(st.sampled_from([1, 7, 1000]))):
        found, expected = outcome(way(cluster, seed), *much), outcome(FullSimulation(cluster, seed), *much)
    if isinstance(expected, str):
        assert found == expected
    else:
        assert_equal(found, expected)
