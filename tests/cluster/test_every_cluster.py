"""What holds of every combination of law, network, server, protocol and faults."""

import numpy as np
import simpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsim.cluster import Cluster, simulate
from asyncsim.cluster.full import Full
from asyncsim.cluster.simulation import run
from asyncsim.trace import Fate, Trace
from asyncsim.trace.columns import COMMIT_COLUMNS
from asyncsim.trace.invariants import conservation
from tests.cluster.problems import LAWS, clusters

MANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(clusters(), st.integers(0, 3))
def test_every_trace_keeps_the_invariants(cluster, seed):
    trace = simulate(cluster, commits=60, seed=seed)
    trace.check()
    aged, pairs = conservation(trace)
    assert aged == pairs
    terms = cluster.protocol.terms(cluster.workers)
    sizes = np.diff(np.flatnonzero(trace.closes_step), prepend=-1)
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


@MANY
@given(clusters(), st.integers(0, 3))
def test_a_longer_run_begins_with_the_shorter(cluster, seed):
    short, long = simulate(cluster, commits=20, seed=seed), simulate(cluster, commits=40, seed=seed)
    for name in COMMIT_COLUMNS:
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name)[:20], err_msg=name)


@settings(max_examples=50, deadline=None)
@given(clusters(), st.integers(0, 3))
def test_seconds_and_commits_give_the_same_run(cluster, seed):
    whole = simulate(cluster, commits=40, seed=seed)
    if cluster.takes_fast_path or whole.seconds == 0:
        return
    part = simulate(cluster, seconds=whole.seconds / 2, seed=seed)
    known = whole.commit_time <= whole.seconds / 2
    assert len(part) == known.sum()
    np.testing.assert_array_equal(part.commit_time, whole.commit_time[known])


@given(clusters(), st.integers(0, 3))
def test_a_saved_trace_is_unchanged(tmp_path_factory, cluster, seed):
    trace = simulate(cluster, commits=30, seed=seed)
    path = tmp_path_factory.getbasetemp() / "every.npz"
    trace.save(path)
    again = Trace.load(path)
    for table in (lambda t: t, lambda t: t.unfinished, lambda t: t.faults):
        for name, column in vars(table(trace)).items():
            if isinstance(column, np.ndarray):
                np.testing.assert_array_equal(column, getattr(table(again), name), strict=True)


@given(st.integers(1, 6), LAWS, st.integers(0, 3))
def test_the_fast_path_agrees_with_the_full_simulation(workers, law, seed):
    cluster = Cluster(workers, law)
    assert cluster.takes_fast_path
    env = simpy.Environment()
    fast, full = simulate(cluster, commits=50, seed=seed), run(env, Full(env, cluster, seed), 50, None)
    for name in COMMIT_COLUMNS:
        np.testing.assert_array_equal(getattr(fast, name), getattr(full, name), err_msg=name)
    order = np.argsort(full.unfinished.worker)
    np.testing.assert_array_equal(fast.unfinished.read_time, full.unfinished.read_time[order])
