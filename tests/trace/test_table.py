"""The flat table of a trace: commits with their staleness and, on request, the jobs that never committed."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.trace._columns import COMMIT_COLUMNS

CLUSTER = asim.Cluster(
    6,
    asim.delays.Exponential(1.0),
    protocol=asim.protocols.Ringmaster(4, stop=True),
    faults=[asim.faults.Crash(0, 9.0)],
)
TRACE = asim.simulate(CLUSTER, commits=200, seed=0)


@pytest.mark.quick
def test_commits_only() -> None:
    columns = TRACE.to_columns()
    assert len(TRACE.unfinished) > 6
    assert set(columns) == {*COMMIT_COLUMNS, "staleness"}
    for name, column in columns.items():
        np.testing.assert_array_equal(column, getattr(TRACE, name), err_msg=name)
    assert (columns["version"] - columns["read_version"]).mean() == TRACE.staleness.mean() > 0


def test_unfinished_jobs_on_request() -> None:
    whole = TRACE.to_columns(unfinished=True)
    committed = whole["fate"] == "committed"
    for name, column in TRACE.to_columns().items():
        np.testing.assert_array_equal(whole[name][committed], column, err_msg=name)
    assert committed.sum() == len(TRACE)
    assert len(committed) - committed.sum() == len(TRACE.unfinished)
    assert set(whole["staleness"][~committed]) == {-1}


def test_versions_of_groups_are_columns_of_their_own() -> None:
    reads = {"first": [0, 0, 1], "second": [0, 1, 2]}
    columns = asim.Trace.from_commits([0, 1, 0], groups=reads).to_columns()
    assert columns["read_version[first]"].tolist() == reads["first"]
    assert columns["read_version[second]"].tolist() == reads["second"]


def test_a_staleness_that_contradicts_the_versions_is_refused(tmp_path) -> None:
    """With the row of the table or the line of the file, also where rows are sorted by their time."""
    log = {"worker": [0, 0, 1], "commit_time": [3.0, 1.0, 2.0], "staleness": [1, 0, 1]}
    assert asim.Trace.from_columns(log).staleness.tolist() == [0, 1, 1]
    log["staleness"] = [1, 0, 2]
    with pytest.raises(asim.TraceError, match=r"`staleness` must be version - read_version; row 2 has 2\. Correct it"):
        asim.Trace.from_columns(log)
    lines = [",".join(log), *(",".join(map(str, row)) for row in zip(*log.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    with pytest.raises(asim.TraceError, match=r"line 4 has 2"):
        asim.Trace.from_csv(tmp_path / "log.csv")
