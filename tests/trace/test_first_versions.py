"""Logs whose versions begin at 1, in the middle of a run, or count what a commit made: the same schedule is read."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.delays import Gamma

TRACE = asim.simulate(asim.Cluster(6, Gamma(1.0, 0.4)), commits=300, seed=3)
COLUMNS = {name: getattr(TRACE, name) for name in ("worker", "commit_time", "version", "read_version")}


def log(version=0, read=0, cut=0, columns=tuple(COLUMNS)):
    """The log with other first versions, without its first rows."""
    changed = COLUMNS | {"version": TRACE.version + version, "read_version": TRACE.read_version + read}
    start = TRACE.commit_time[cut - 1] if cut else 0.0
    changed["commit_time"] = TRACE.commit_time - start
    return asim.Trace.from_columns({name: changed[name][cut:] for name in columns})


@pytest.mark.parametrize("first", [1, 7, 100_000])
def test_versions_that_begin_later_are_counted_from_there(first):
    trace = log(first, first)
    assert trace.notes == (f"Versions of the log begin at {first}, and were counted from there.",)
    np.testing.assert_array_equal(trace.staleness, TRACE.staleness)
    alone = log(first, columns=("worker", "commit_time", "version"))
    np.testing.assert_array_equal(alone.staleness, TRACE.staleness)


def test_the_version_that_a_commit_made_is_recognised_by_the_next_read():
    trace = log(1)
    assert trace.notes == ("`version` was taken for the one that a commit made, which its worker read next.",)
    np.testing.assert_array_equal(trace.version, TRACE.version)
    np.testing.assert_array_equal(trace.staleness, TRACE.staleness)


@pytest.mark.parametrize("made", [0, 1], ids=["applied to", "made"])
@pytest.mark.parametrize("cut", [1, 40, 250])
def test_a_part_of_a_run_has_the_staleness_of_the_whole_but_for_jobs_from_before(cut, made):
    """At most one job of each worker had read before the part, and is as stale as the part can show."""
    trace = log(made, cut=cut)
    early = TRACE.read_version[cut:] < cut
    assert early.sum() <= TRACE.workers
    np.testing.assert_array_equal(trace.staleness[~early], TRACE.staleness[cut:][~early])
    np.testing.assert_array_equal(trace.staleness[early], np.flatnonzero(early))
    jobs = "1 job had" if early.sum() == 1 else f"{early.sum()} jobs had"
    assert trace.notes[-1] == f"{jobs} read before the log began, and count as read at its beginning."
    assert any("begin at" in note for note in trace.notes)
    trace.check()


@pytest.mark.parametrize("k", [2, 3])
def test_steps_of_several_commits_may_begin_later_too(k):
    cluster = asim.Cluster(6, Gamma(1.0, 0.4), protocol=asim.protocols.KBatchAsync(k))
    whole = asim.simulate(cluster, commits=60 * k, seed=1)
    names = ("worker", "commit_time", "read_version", "closes_step")
    columns = {name: getattr(whole, name) for name in names} | {"version": whole.version + 5}
    trace = asim.Trace.from_columns(columns | {"read_version": whole.read_version + 5})
    np.testing.assert_array_equal(trace.staleness, whole.staleness)
    np.testing.assert_array_equal(trace.version, whole.version)


@pytest.mark.parametrize("change", ["older than an own commit", "from the future"])
def test_reads_that_no_first_version_explains_are_refused(change):
    read = np.maximum(TRACE.read_version - 40, 0) if change.startswith("older") else TRACE.read_version + 30
    with pytest.raises(asim.TraceError, match="version"):
        asim.Trace.from_columns(COLUMNS | {"version": TRACE.version + 9, "read_version": read})


def test_files_of_our_own_begin_at_0(tmp_path):
    TRACE.to_csv(tmp_path / "log.csv")
    trace = asim.Trace.from_csv(tmp_path / "log.csv")
    assert trace.notes == ()
    assert trace.digest == TRACE.digest
