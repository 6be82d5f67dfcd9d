"""The trace: its columns, its checks and its files."""

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim import _memory as memory
from asyncsim.trace import Fate, Trace, Unfinished
from asyncsim.trace._columns import COMMIT_COLUMNS, FAULT_COLUMNS, UNFINISHED_COLUMNS
from asyncsim.trace._invariants import conservation
from asyncsim.trace._trace import FORMAT_VERSION
from tests.problems import refusals

ORDERS = st.integers(1, 6).flatmap(
    lambda workers: st.tuples(st.just(workers), st.lists(st.integers(0, workers - 1), max_size=40))
)


@pytest.fixture
def trace() -> Trace:
    return Trace.from_commits([0, 1, 2, 1, 0, 2, 2], commit_time=[1, 2, 2, 3, 5, 8, 9], workers=4)


def named(worker: list[int], commit_time: list[float]) -> dict[str, list]:
    return {"worker": worker, "commit_time": commit_time}


def columns(trace: Trace) -> dict[str, np.ndarray]:
    rest = {f"unfinished.{name}": getattr(trace.unfinished, name) for name in UNFINISHED_COLUMNS}
    faults = {f"faults.{name}": getattr(trace.faults, name) for name in FAULT_COLUMNS}
    groups = {"groups": np.array(trace.groups, np.str_), "group_read_version": trace.group_read_version}
    steps = {"local_steps": np.zeros(0, np.int32) if trace.local_steps is None else trace.local_steps}
    return {name: getattr(trace, name) for name in COMMIT_COLUMNS} | rest | faults | groups | steps


def assert_equal(one: Trace, other: Trace, names: Iterable[str] | None = None) -> None:
    """Two traces have the same columns, all of them or some."""
    assert one.workers == other.workers
    found, expected = columns(one), columns(other)
    for name in names or found:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name, strict=True)


def with_entry(trace: Trace, name: str, row: int, value: object) -> Trace:
    """The trace with one entry overwritten, unchecked."""
    table = trace.unfinished if name.startswith("unfinished.") else trace
    field = name.removeprefix("unfinished.")
    column = np.array(getattr(table, field))
    column[row] = value
    changed = dataclasses.replace(table, **{field: column})
    return dataclasses.replace(trace, unfinished=changed) if isinstance(changed, Unfinished) else changed


class TestColumns:
    def test_types_and_lengths(self, trace: Trace) -> None:
        assert len(trace) == 7
        for name, dtype in COMMIT_COLUMNS.items():
            assert getattr(trace, name).dtype == dtype
            assert getattr(trace, name).shape == (7,)
        for name, dtype in UNFINISHED_COLUMNS.items():
            assert getattr(trace.unfinished, name).dtype == dtype
        assert trace.staleness.dtype == np.int32
        assert trace.seconds == 9.0

    def test_are_read_only(self, trace: Trace) -> None:
        with pytest.raises(ValueError, match="read-only"):
            trace.worker[0] = 1
        with pytest.raises(dataclasses.FrozenInstanceError):
            trace.workers = 3  # pyright: ignore[reportAttributeAccessIssue]

    def test_callers_array_stays_writable(self) -> None:
        worker = np.array([0, 1], dtype=np.int32)
        trace = Trace.from_commits(worker)
        worker[0] = 1
        assert trace.worker.tolist() == [0, 1]


test_a_column_that_does_not_fit_is_refused = refusals(
    ([[0]], r"`version` must be one-dimensional; got shape \(1, 1\)"),
    ([0.5] * 7, "`version` must be a column of int32; got float64"),
    ([0] * 6, "`version` must have one entry per row; got 6 for 7 rows"),
    ([0, 2**40, 0, 0, 0, 0, 0], f"`version` must fit int32; row 1 has {2**40}"),
    call=lambda column: dataclasses.replace(Trace.from_commits([0] * 7), version=column),
)


class TestFromCommits:
    @settings(max_examples=40)
    @given(ORDERS)
    def test_each_worker_reads_right_after_its_own_commit(self, order: tuple[int, list[int]]) -> None:
        """And has a job in flight at the end. Times are 1, 2, 3, … by default, and any workers may never commit."""
        workers, commits = order
        read = [0] * workers
        trace = Trace.from_commits(commits, workers=workers)
        for row, worker in enumerate(commits):
            assert trace.read_version[row] == trace.read_time[row] == read[worker]
            read[worker] = row + 1
        rest = trace.unfinished
        assert (trace.workers, len(trace), trace.seconds) == (workers, len(commits), len(commits))
        assert trace.commit_time.tolist() == [version + 1 for version in trace.version] == [*range(1, len(commits) + 1)]
        assert trace.staleness.tolist() == (trace.version - trace.read_version).tolist()
        assert trace.start_time.tolist() == trace.read_time.tolist()
        assert trace.pull_version.tolist() == trace.version.tolist()
        assert trace.closes_step.all()
        assert rest.worker.tolist() == list(range(workers))
        assert rest.read_version.tolist() == rest.read_time.tolist() == read
        assert (rest.fate == Fate.IN_FLIGHT).all()
        assert len(set(conservation(trace))) == 1

    def test_workers_are_counted_by_the_largest_number(self) -> None:
        assert Trace.from_commits([2, 0, 1]).workers == 3

    @pytest.mark.parametrize("make", [Trace.from_commits, lambda w, t, **n: Trace.from_columns(named(w, t), **n)])
    def test_more_workers_than_memory(self, make: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory, "total", lambda: 1e9)
        with pytest.raises(ValueError, match="`workers` of 1000000000 takes at least 45 GB of memory"):
            make([0], [1.0], workers=10**9)


test_bad_input_is_named = refusals(
    ({"worker": [0, -1]}, "`worker` must be from 0 to 0; row 1 has -1"),
    ({"worker": [0, 0.5]}, "row 1 has 0.5"),
    ({"worker": [np.nan]}, "row 0 has nothing"),
    ({"worker": [0, 1, 3], "workers": 3}, "from 0 to 2; row 2 has 3"),
    ({"worker": [0], "workers": 0}, "`workers` must be an integer of at least 1; got 0"),
    ({"worker": [0], "workers": 1.5}, "`workers` must be an integer or None; got 1.5"),
    ({"worker": []}, "`worker` must name at least one worker"),
    ({"worker": [1, 2, 3]}, "`worker` must not leave out 0 if .*; row 0 has 1. Number .* from 0, or give `workers`"),
    ({"worker": [0, 1, 3, 1]}, "`worker` must not leave out 2 if it names larger numbers; row 2 has 3"),
    ({"worker": [[0]]}, r"`worker` must be one-dimensional; got shape \(1, 1\)"),
    ({"worker": ["a"]}, "`worker` must be a number or an array of numbers; got"),
    ({"worker": [0, 1], "commit_time": [1.0]}, "`commit_time` must have one entry per commit; got 1 for 2"),
    ({"worker": [0, 1], "commit_time": [1.0, np.inf]}, "`commit_time` must be finite.*; row 1 has inf"),
    ({"worker": [0, 1], "commit_time": [-1.0, 1]}, "`commit_time` must be finite and not negative; row 0 has -1.0"),
    ({"worker": [0, 0], "commit_time": [3, 2]}, "`commit_time` must not decrease.*; row 1 has 2.0"),
    ({"worker": [0, 1, 2], "commit_time": [1, 3, 2]}, "`commit_time` must not decrease.*; row 2 has 2.0"),
    call=lambda given: Trace.from_commits(**given),
)


class TestCheck:
    @pytest.mark.parametrize(
        ("name", "row", "value", "message"),
        [
            ("worker", 3, 4, "`worker` must be from 0 to 3; row 3 has 4"),
            ("worker", 3, 2, "`read_time` must not precede the end of the same worker's .*; row 5 has 2.0"),
            ("worker", 3, 0, "`read_time` must not precede the end of the same worker's .*; row 4 has 1.0"),
            ("version", 3, 2, "`version` must count the rows before it that close a step; row 3 has 2"),
            ("closes_step", 3, False, "`version` must count .*; row 4 has 4"),
            ("read_version", 3, 4, "`read_version` must be from 0 to `version`; row 3 has 4"),
            ("read_version", 3, -1, "`read_version` must be from 0 to `version`; row 3 has -1"),
            ("read_version", 5, 4, "closed by `read_time`; row 5 has 4.* sum to 20, .* to 21"),
            ("read_version", 5, 2, "`read_version` must include the same worker's .*; row 5 has 2"),
            ("pull_version", 4, 5, "`pull_version` must be from `read_version` to `version`; row 4 has 5"),
            ("pull_version", 4, 0, "`pull_version` must be from `read_version` to `version`; row 4 has 0"),
            ("read_time", 0, np.nan, "`read_time` must be finite and not negative; row 0 has nan"),
            ("start_time", 5, -1.0, "`start_time` must be finite and not negative; row 5 has -1.0"),
            ("start_time", 5, 1.0, "`start_time` must not precede `read_time`; row 5 has 1.0"),
            ("finish_time", 5, 1.0, "`finish_time` must not precede `start_time`; row 5 has 1.0"),
            ("arrive_time", 5, 7.0, "`arrive_time` must not precede `finish_time`; row 5 has 7.0"),
            ("serve_time", 5, 7.0, "`serve_time` must not precede `arrive_time`; row 5 has 7.0"),
            ("commit_time", 5, 7.0, "`commit_time` must not precede `serve_time`; row 5 has 7.0"),
            ("commit_time", 5, 9.5, "`commit_time` must not decrease from row to row; row 6 has 9.0"),
            ("read_time", 5, 1.5, "`read_time` must not precede the end of the same .*; row 5 has 1.5"),
            ("unfinished.worker", 0, 9, "`unfinished.worker` must be from 0 to 3; row 0 has 9"),
            ("unfinished.worker", 3, 1, "`unfinished.read_time` must not precede the end .*; row 1 has 3"),
            ("unfinished.read_version", 2, 8, "`unfinished.read_version` must be from 0 to 7; row 2 has 8"),
            ("unfinished.read_version", 0, 6, "`unfinished.read_version` .* by `read_time`; row 0 has 6"),
            ("unfinished.read_time", 2, np.inf, "`unfinished.read_time` must be finite .*; row 2 has inf"),
            ("unfinished.fate", 2, 7, "`unfinished.fate` must be a known fate; row 2 has 7"),
        ],
    )
    def test_finds_damage(self, trace: Trace, name: str, row: int, value: object, message: str) -> None:
        damaged = with_entry(trace, name, row, value)
        with pytest.raises(ValueError, match=message) as caught:
            damaged.check()
        assert "\n" not in str(caught.value)


class TestFile:
    def test_name_is_used_as_it_is(self, trace: Trace, tmp_path: Path) -> None:
        trace.save(tmp_path / "run.trace")
        assert [path.name for path in tmp_path.iterdir()] == ["run.trace"]

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            *(
                ("a.npz", some, "is damaged or not a trace file .*Restore it")
                for some in (b"", b"0,1.0\n", b"PK\x03\x04")
            ),
            ("a.npy", b"\x93NUMPY", r"is neither a trace \(\.npz\) nor a log"),
            ("a.npz", b"worker,fate,commit_time\n0,,1.0\n", r"is a CSV file\. Read it by `Trace\.from_csv`"),
        ],
    )
    def test_other_files(self, tmp_path: Path, name: str, content: bytes, message: str) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name}' {message}"):
            Trace.load(tmp_path / name)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"format_version": FORMAT_VERSION + 1},
                rf"by a newer asyncsim \(format {FORMAT_VERSION + 1}; .* reads {FORMAT_VERSION}\)\. Update asyncsim",
            ),
            ({"format_version": 4}, r"by an older asyncsim \(format 4; .* Make the trace again"),
            ({"format_version": None}, "not a trace file .it has no format version"),
            ({"format_version": "one"}, "not a trace file .it has no format version"),
            ({"read_time": None}, "lacks the column `read_time`"),
            ({"workers": 3.5}, "holds no valid trace: `workers` must be an integer"),
            ({"workers": 2}, "holds no valid trace: `worker` must be from 0 to 1; row 2 has 2"),
            ({"version": np.zeros(3)}, "holds no valid trace: `version` must be a column of int32"),
        ],
    )
    def test_wrong_content(self, trace: Trace, tmp_path: Path, change: dict, message: str) -> None:
        path = tmp_path / "wrong.npz"
        content = columns(trace) | {"format_version": FORMAT_VERSION, "workers": trace.workers} | change
        np.savez(path, **{name: value for name, value in content.items() if value is not None})
        with pytest.raises(ValueError, match=rf"wrong\.npz' .*{message}"):
            Trace.load(path)


def test_a_read_that_missed_a_step_is_refused():
    """Worker 1 reads after the first commit closed a step, and claims the version before it."""
    late = [0.0, 1.5]
    trace = dataclasses.replace(Trace.from_commits([0, 1]), read_time=late, start_time=late)
    with pytest.raises(ValueError, match=r"`read_version` must be .* closed by `read_time`; row 1 has 0"):
        trace.check()
