"""A trace says which columns its log recorded. The others were derived from them, and no fit trusts those."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.calibration._statistics import shorten
from asyncsim.files import _npz as npz
from asyncsim.trace import Trace, TraceError
from asyncsim.trace._columns import COMMIT_COLUMNS
from asyncsim.trace._trace import FORMAT_VERSION

SIMULATED = asim.simulate(asim.Cluster(3, asim.delays.Exponential(1.0)), commits=40)
ORDER = [0, 1, 0, 1]


def missing(*recorded: str) -> tuple[str, ...]:
    return tuple(name for name in COMMIT_COLUMNS if name not in recorded)


def test_a_simulated_trace_derives_nothing() -> None:
    assert SIMULATED.derived == ()


@pytest.mark.parametrize(
    "recorded",
    [
        ("worker", "commit_time"),
        ("worker", "read_time", "commit_time"),
        ("worker", "version", "commit_time"),
        ("worker", "read_version", "version", "commit_time"),
        tuple(COMMIT_COLUMNS),
    ],
    ids="+".join,
)
def test_a_table_derives_the_columns_that_it_lacks(recorded: tuple[str, ...]) -> None:
    assert Trace.from_columns({name: getattr(SIMULATED, name) for name in recorded}).derived == missing(*recorded)


def test_an_empty_column_is_derived() -> None:
    log = {"worker": ORDER, "start_time": [np.nan] * 4, "commit_time": [1.0, 2.0, 3.0, 4.0]}
    assert "start_time" in Trace.from_columns(log).derived


def test_times_that_number_the_commits_are_derived() -> None:
    assert Trace.from_columns({"worker": ORDER, "pull_version": [0, 0, 1, 2]}).derived == missing(
        "worker", "pull_version"
    )
    assert Trace.from_commits(ORDER).derived == missing("worker")
    assert Trace.from_commits(ORDER, [1.0, 2.0, 3.0, 4.0]).derived == missing("worker", "commit_time")


def test_versions_of_all_groups_record_the_version_of_the_read() -> None:
    reads = {"head": [0, 0, 1, 2], "tail": [0, 1, 2, 3]}
    assert Trace.from_commits(ORDER, groups=reads).derived == missing("worker", "read_version")
    columns = {f"read_version[{name}]": values for name, values in reads.items()}
    log = {"worker": ORDER, "commit_time": [1.0, 2.0, 3.0, 4.0]} | columns
    assert Trace.from_columns(log).derived == missing("worker", "commit_time", "read_version")


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("ready", {"finish_time", "arrive_time"}),
        ("taken", {"serve_time"}),
        ("version", {"version", "pull_version", "closes_step"}),
        ("read_version", {"read_version"}),
    ],
)
def test_a_log_of_rollouts_derives_the_columns_that_it_lacks(name: str, columns: set[str]) -> None:
    log = {"opened": [0.0, 0.0, 2.0], "ready": [1.0, 1.0, 3.0], "taken": [1.0, 1.0, 3.0], "trained": [2.0, 2.0, 4.0]}
    log |= {"version": [0, 0, 1], "read_version": [0, 0, 1]}
    assert Trace.from_rollouts(log).derived == ("worker", "state_lost", "resumes_own")
    del log[name]
    assert set(Trace.from_rollouts(log).derived) == columns | {"worker", "state_lost", "resumes_own"}


@pytest.mark.parametrize("name", ["read_version", "version", "pull_version"])
def test_an_impossible_version_is_refused_and_not_derived(name: str) -> None:
    log = {"worker": ORDER, "commit_time": [1.0, 2.0, 3.0, 4.0], "version": [0, 1, 2, 3], "read_version": [0, 0, 1, 2]}
    wrong = log | {"pull_version": log["version"]}
    wrong[name] = [*wrong[name][:2], -7, wrong[name][3]]
    with pytest.raises(TraceError, match=f"{name}.*-7|-7.*{name}"):
        Trace.from_columns(wrong)


def test_a_file_keeps_them(tmp_path: Path) -> None:
    trace = Trace.from_commits(ORDER)
    trace.save(tmp_path / "trace.npz")
    assert Trace.load(tmp_path / "trace.npz").derived == trace.derived
    assert trace.digest == replace(trace, derived=()).digest


def test_the_file_of_a_simulated_trace_does_not_mention_them(tmp_path: Path) -> None:
    SIMULATED.save(tmp_path / "trace.npz")
    assert "derived" not in npz.read(tmp_path / "trace.npz", kind="trace", version=FORMAT_VERSION)
    assert Trace.load(tmp_path / "trace.npz").derived == ()


def test_a_part_of_a_log_keeps_them() -> None:
    trace = Trace.from_commits(ORDER, [1.0, 2.0, 3.0, 4.0])
    assert shorten(trace, 2).derived == trace.derived


def test_a_name_of_no_column_is_refused() -> None:
    with pytest.raises(TraceError, match=r"`derived` must name columns of the commits; got 'read_tme'"):
        replace(SIMULATED, derived=("read_tme",))
