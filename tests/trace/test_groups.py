"""Reads of different versions by parameter group: their properties, their files, and refusals."""

import dataclasses

import pytest

import asyncsim as asim
from asyncsim.trace._regroup import in_steps, with_gap
from tests.problems import gamma_trace, refusals

pytestmark = pytest.mark.quick

ORDER = [0, 1, 0, 1, 0]
READS = {"first": [0, 0, 1, 2, 3], "second": [0, 1, 2, 3, 4]}


def grouped(**changes):
    return asim.Trace.from_commits(ORDER, groups=READS | changes)


def test_a_job_begins_with_its_oldest_read():
    trace = grouped()
    assert trace.read_version.tolist() == READS["first"]
    assert trace.group_staleness.tolist() == [[0, 0], [1, 0], [1, 0], [1, 0], [1, 0]]
    assert (trace.group_staleness.max(axis=1) == trace.staleness).all()
    assert asim.statistics(trace).by_group["second"].max == 0


def test_a_read_that_waits_is_dated_when_the_server_had_its_version():
    trace = asim.Trace.from_commits([0, 1, 0], groups={"all": [0, 1, 2]})
    assert trace.read_time.tolist() == [0.0, 1.0, 2.0]


def test_every_file_gives_the_same_trace(tmp_path):
    trace = grouped()
    trace.save(tmp_path / "trace.npz")
    trace.to_csv(tmp_path / "trace.csv")
    copies = (
        asim.Trace.load(tmp_path / "trace.npz"),
        asim.Trace.from_csv(tmp_path / "trace.csv"),
        asim.Trace.from_columns(trace.to_columns(unfinished=True)),
        asim.Trace.from_columns({"worker": ORDER} | {f"read_version[{name}]": v for name, v in READS.items()} | TIMES),
    )
    assert [copy.digest for copy in copies] == [trace.digest] * 4
    assert copies[0].groups == ("first", "second")


TIMES = {"commit_time": [1.0, 2.0, 3.0, 4.0, 5.0]}


def test_groups_are_part_of_the_digest():
    same = {"first": READS["first"], "other": READS["second"]}
    digests = {grouped().digest, grouped(second=READS["first"]).digest, asim.Trace.from_commits(ORDER).digest}
    assert len(digests | {asim.Trace.from_commits(ORDER, groups=same).digest}) == 4


def test_a_table_of_a_trace_without_groups_has_no_columns_of_theirs():
    assert not [name for name in gamma_trace().to_columns(unfinished=True) if "[" in name]


def test_in_steps_of_several_commits():
    trace = in_steps(grouped(), 2)
    assert trace.group_read_version.tolist() == [[0, 0], [0, 0], [0, 1], [1, 1], [1, 2]]
    trace.check()


test_invalid_arguments_are_refused = refusals(
    (lambda: grouped(first=[0, 0, 0, 2, 3]), r"`read_version` must include the same worker's previous commit; row 2"),
    (lambda: grouped(second=[0, 1, 2, 3, 9]), r"`read_version\[second\]` must be from `read_version` to `version`"),
    (lambda: grouped(second=[0, 1, 2, 3, 3.5]), r"`read_version\[second\]` must be a whole number; row 4 has 3.5"),
    (lambda: asim.Trace.from_commits(ORDER, groups=[[0] * 5]), "`groups` must be a mapping or None; got"),
    (lambda: grouped(second=[0, 1]), r"`read_version\[second\]` must have one entry per row; got 2 for 5 rows"),
    (lambda: grouped(**{"a[b": READS["first"]}), r"`groups` must be names; got 'a\[b'"),
    (lambda: dataclasses.replace(grouped(), groups=("a", "a")), "`groups` must not name a group twice; got 'a' twice"),
    (lambda: dataclasses.replace(grouped(), groups=("a",)), r"shape \(5, 1\); got shape \(5, 2\)"),
    (lambda: dataclasses.replace(grouped(), read_version=[0] * 5).check(), "`read_version` must be the smallest of"),
    (
        lambda: dataclasses.replace(grouped(), pull_version=grouped().read_version).check(),
        r"`pull_version` must not precede `read_version\[second\]`; row 1 has 0",
    ),
    (lambda: with_gap(grouped(), 1), "no faults or groups"),
    (
        lambda: asim.Trace.from_columns({"worker": [0], "read_version[a]": [-1]} | {"commit_time": [1.0]}),
        r"`read_version\[a\]` must be known for a commit; row 0",
    ),
)
