"""The flat table of a trace, and errors that name its column, row and value."""

import dataclasses
import pickle

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.trace import Fate, Trace, TraceError
from tests.problems import random_trace

pytestmark = pytest.mark.quick


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


@pytest.mark.parametrize("others", [{}, {"start_time": [0.5, 0.5, 1.5, 2.5]}, {"read_version": [0, 0, 1, 2]}])
def test_a_worker_that_goes_on_from_a_value_that_it_lacks_is_refused_by_the_column_that_says_so(others) -> None:
    """And not by `read_time`, which the log does not have."""
    log = {"worker": [0, 1, 0, 1], "commit_time": [1.0, 2.0, 3.0, 4.0], "resumes_own": [1, 0, 1, 1]}
    with pytest.raises(TraceError, match=r"`resumes_own` must be false unless .*; row 0 has 1"):
        Trace.from_columns(log | others)


def fields(error: TraceError) -> tuple[str | None, int | None, object, str]:
    return error.column, error.row, error.value, error.unit


@pytest.fixture
def trace() -> Trace:
    return random_trace(workers=4, commits=20, crashing=0.3)


def test_a_job_that_did_not_commit_is_named_in_each_table(trace, tmp_path):
    """By its row among the unfinished jobs, by that of the flat table, and by the line of the file."""
    row = int(np.flatnonzero(trace.unfinished.fate == Fate.CRASHED)[0])
    read_version = np.array(trace.unfinished.read_version)
    read_version[row] = 99
    damaged = dataclasses.replace(trace, unfinished=dataclasses.replace(trace.unfinished, read_version=read_version))
    with pytest.raises(TraceError) as caught:
        damaged.check()
    assert fields(caught.value) == ("unfinished.read_version", row, 99, "row")
    with pytest.raises(TraceError) as caught:
        Trace.from_columns(damaged.to_columns(unfinished=True))
    assert fields(caught.value) == ("read_version", len(trace) + row, 99, "row")
    damaged.to_csv(tmp_path / "trace.csv")
    with pytest.raises(TraceError) as caught:
        Trace.from_csv(tmp_path / "trace.csv")
    assert fields(caught.value) == ("read_version", len(trace) + row + 2, 99, "line")
    assert "trace.csv" in caught.value.source


def test_columns_without_a_row():
    with pytest.raises(TraceError, match="`commit_time` is missing; got 'worker'") as caught:
        Trace.from_columns({"worker": [0]})
    assert fields(caught.value) == ("commit_time", None, None, "row")


def test_survives_the_way_from_another_process():
    error = TraceError("version", "must be 0", "Start at 0.", row=3, value=7, source="log.csv: ")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "log.csv: `version` must be 0; row 3 has 7. Start at 0."
    assert fields(copy) == fields(error)
