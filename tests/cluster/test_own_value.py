"""Workers that go on from their pulled value plus their own message, while others commit in between."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim.cluster import Cluster, Server, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.trace import Trace
from asyncsim.trace._columns import COMMIT_COLUMNS, previous_own_row
from tests.cluster.problems import OWN_SERVERS, after_warm_up, clusters, over_seeds
from tests.trace.test_trace import assert_equal, with_entry

SHORT = Constant(0.3)


def own_server(law=SHORT, **arguments):
    return Server(atomic=False, resume="own", pull_to_commit=law, **arguments)


def gap_trace(workers=5, commits=300, seed=0, **arguments):
    return simulate(Cluster(workers, Gamma(1.0, 0.5), server=own_server(**arguments)), commits=commits, seed=seed)


def test_a_worker_goes_on_at_once_from_the_pulled_value():
    trace = gap_trace(service=Exponential(0.05))
    previous = previous_own_row(trace.worker)
    later = previous >= 0
    last = previous[later]
    assert (trace.resumes_own == later).all()
    np.testing.assert_array_equal(trace.start_time[later], trace.commit_time[last])
    np.testing.assert_array_equal(trace.read_version[later], trace.pull_version[last] + 1)
    assert (trace.version - trace.pull_version).mean() > 0.5


@settings(max_examples=25)
@given(clusters(), OWN_SERVERS, st.integers(0, 3))
def test_staleness_counts_the_commits_of_others_since_the_pull(cluster, server, seed):
    cluster = dataclasses.replace(cluster, server=server, protocol=protocols.Asynchronous(), faults=())
    trace = simulate(cluster, commits=60, seed=seed)
    pull = np.zeros(trace.workers, int)
    for k, w in enumerate(trace.worker):
        others = np.count_nonzero(trace.worker[pull[w] : k] != w)
        assert trace.staleness[k] == others
        pull[w] = trace.pull_version[k]


def test_a_trace_without_a_gap_is_the_atomic_one():
    """Its own commit is then all that a worker missed."""
    own, atomic = gap_trace(law=Constant(0.0)), simulate(Cluster(5, Gamma(1.0, 0.5)), commits=300, seed=0)
    assert_equal(own, atomic, COMMIT_COLUMNS.keys() - {"resumes_own", "read_time"})
    rule, workload = asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0, 0.1])
    np.testing.assert_allclose(asim.replay(own, rule, workload).loss, asim.replay(atomic, rule, workload).loss)


def test_the_mean_staleness_is_longer_by_the_mean_gap():
    """n - 1 + (n - 1) D / (X + D), for means D from pull to commit and X of the computation."""
    workers, gap = 8, Exponential(0.5)
    cluster = Cluster(workers, Gamma(1.0, 0.4), server=own_server(gap))

    def measure(trace):
        rows = after_warm_up(trace)
        return trace.staleness[rows].mean(), (trace.version - trace.pull_version)[rows].mean()

    means, errors = over_seeds(measure, cluster, commits=2000)
    between = (workers - 1) * 0.5 / 1.5
    assert abs(means[1] - between) < 4 * errors[1]
    assert abs(means[0] - (workers - 1 + between)) < 4 * errors[0] + workers**2 / 1800  # the first and last jobs


def test_a_worker_reads_the_central_variable_after_a_crash():
    crash = asim.faults.Crash(worker=1, time=5.0, restart_after=2.0)
    trace = simulate(Cluster(3, Gamma(1.0, 0.2), server=own_server(), faults=[crash]), commits=60)
    fresh = ~trace.resumes_own & (previous_own_row(trace.worker) >= 0)
    assert trace.worker[fresh].tolist() == [1]
    assert trace.read_time[fresh] == 7.0


def test_order_and_pulls_determine_the_trace():
    trace = gap_trace()
    again = Trace.from_columns({"worker": trace.worker, "pull_version": trace.pull_version}, resume="own")
    assert_equal(again, trace, ("worker", "read_version", "version", "pull_version", "resumes_own"))
    rule, workload = asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0, 0.1])
    np.testing.assert_array_equal(asim.replay(again, rule, workload).loss, asim.replay(trace, rule, workload).loss)


@pytest.mark.parametrize("collect", [2, 5])
def test_in_other_steps(collect):
    trace = gap_trace()
    grouped = asim.trace._regroup.in_steps(trace, collect)
    grouped.check()
    cluster = Cluster(5, Gamma(1.0, 0.5), protocol=protocols.KBatchAsync(collect), server=own_server())
    assert_equal(grouped, simulate(cluster, commits=300), COMMIT_COLUMNS)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("read_version", +1, "must be the `pull_version` of the same worker's previous commit and its own step"),
        ("read_version", -1, "must be the `pull_version` of the same worker's previous commit and its own step"),
        ("start_time", -0.1, "`start_time` must not precede the end of the same worker's previous job"),
        ("read_time", -9.0, "`read_time` must be within the same worker's previous job"),
        ("state_lost", True, "`resumes_own` must be false where `state_lost`"),
        ("resumes_own", True, "`resumes_own` must be false unless the same worker's previous job was a commit"),
    ],
)
def test_finds_damage(column, change, message):
    trace, row = gap_trace(), 0 if column == "resumes_own" else 100
    with pytest.raises(ValueError, match=re.escape(message)):
        with_entry(trace, column, row, getattr(trace, column)[row] + change).check()


def test_a_pull_before_the_own_commit_is_refused():
    with pytest.raises(ValueError, match="`pull_version` must include the same worker's previous commit; row 3 has 1"):
        Trace.from_columns({"worker": [0, 1, 0, 1], "pull_version": [0, 0, 1, 1]}, resume="own")


@pytest.mark.parametrize("arguments", [{"resume": "own"}, {"pull_to_commit": Constant(1.0)}])
def test_a_server_without_separate_pulls_has_no_gap(arguments):
    (name,) = arguments
    for server in ({}, {"atomic": False, "pull": "at_read"}):
        with pytest.raises(ValueError, match=f"`{name}` must be left out unless workers pull before they commit"):
            Server(**server, **arguments)
    with pytest.raises(ValueError, match="`resume` must be"):
        Server(atomic=False, resume="owned")
