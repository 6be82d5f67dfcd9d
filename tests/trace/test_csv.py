"""Flat tables and CSV: written tables are read back bit for bit, and logs become valid traces."""

import bz2
import csv
import dataclasses
import gzip
import lzma
import os
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsim.cluster import Cluster, Network, Server, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.engine._plan import make_plan
from asyncsim.trace import Fate, Trace, TraceError
from asyncsim.trace import _csv as csv_files
from asyncsim.trace._columns import COMMIT_TIMES
from asyncsim.trace._csv import part_path
from asyncsim.trace._flat import COLUMNS
from tests.cluster.problems import MOVING, NETWORKS, clusters
from tests.problems import assert_refused, full_disk, random_trace, refusals
from tests.trace.test_trace import ORDERS, assert_equal

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
CHANGES: dict[str, Any] = {"closing": 0.4, "waiting": 0.6, "early": 0.5, "crashing": 0.2}


def write(path: Path, text: str) -> Path:
    path.write_text(text, errors="surrogateescape")
    return path


def read_log(path: Path, text: str, **options) -> Trace:
    return Trace.from_csv(write(path, text), **options)


class TestRoundTrip:
    @FEW
    @given(clusters(), st.integers(0, 3))
    def test_every_cluster(self, tmp_path_factory, cluster, seed):
        trace, path = simulate(cluster, commits=40, seed=seed), tmp_path_factory.getbasetemp() / "every.csv"
        assert_equal(Trace.from_columns(trace.to_columns(unfinished=True), faults=trace.faults), trace)
        trace.to_csv(path)
        assert_equal(Trace.from_csv(path), trace)
        assert part_path(path, "faults").exists() == bool(len(trace.faults))

    @FEW
    @given(st.integers(0, 99), st.fixed_dictionaries({}, optional={k: st.just(v) for k, v in CHANGES.items()}))
    def test_every_valid_trace(self, tmp_path_factory, seed, changes):
        """Workers that never read at all are among them."""
        trace = random_trace(seed, workers=7, commits=12, **changes)
        path = tmp_path_factory.getbasetemp() / "valid.csv"
        trace.to_csv(path)
        assert_equal(Trace.from_csv(path), trace)
        assert_equal(Trace.from_columns(trace.to_columns(unfinished=True)), trace)

    def test_empty_trace(self, tmp_path):
        trace = Trace.from_commits([], workers=3)
        trace.to_csv(tmp_path / "empty.csv")
        assert_equal(Trace.from_csv(tmp_path / "empty.csv"), trace)

    @pytest.mark.parametrize("steps", [(3, 1, 2, 5), (4, 4, 4, 4)])
    def test_local_steps(self, tmp_path, steps):
        """Also of a worker without a job, in any order of the rows, and under names."""
        law, path = Gamma(1.0, 0.5), tmp_path / "steps.csv"
        for trace in (
            simulate(Cluster(4, law, local_steps=steps), commits=30),
            dataclasses.replace(random_trace(2, workers=4, commits=8, **CHANGES), local_steps=steps),
            dataclasses.replace(Trace.from_commits([0, 1], workers=4), local_steps=steps, names=("b", "a", "d", "c")),
        ):
            trace.to_csv(path)
            again = Trace.from_csv(path)
            assert dict(zip(again.names or range(4), again.local_steps.tolist(), strict=True)) == dict(
                zip(trace.names or range(4), steps, strict=True)
            )
            if not trace.names:
                assert_equal(again, trace)
            assert again.notes == ()
        log = {"worker": [1, 0, 1], "commit_time": [3.0, 2.0, 1.0], "local_steps": [5.0, 2.0, 5.0]}
        assert Trace.from_columns(log).local_steps.tolist() == [2, 5]
        assert Trace.from_columns(log).to_columns()["local_steps"].tolist() == [5, 2, 5]
        assert "local_steps" not in Trace.from_commits([0, 1]).to_columns()
        assert Trace.from_columns(log | {"local_steps": [np.nan] * 3}).local_steps is None

    def test_longer_than_a_block(self, tmp_path, monkeypatch):
        monkeypatch.setattr(csv_files, "_BLOCK", 16)
        trace = simulate(Cluster(3, Gamma(1.0, 0.5)), commits=40)
        trace.to_csv(tmp_path / "long.csv")
        assert_equal(Trace.from_csv(tmp_path / "long.csv"), trace)

    def test_columns_are_plain_and_equally_long(self):
        trace = random_trace(workers=9, commits=5, **CHANGES)
        columns, jobs = trace.to_columns(unfinished=True), len(trace) + len(trace.unfinished)
        assert tuple(columns) == COLUMNS
        assert {values.dtype.kind for values in columns.values()} == set("iUbf")
        assert {len(values) for values in columns.values()} == {jobs + (columns["fate"] == "idle").sum()}
        assert [Fate[name.upper()] for name in columns["fate"][len(trace) : jobs]] == trace.unfinished.fate.tolist()
        assert set(columns["worker"].tolist()) == set(range(9))

    def test_tables_with_gaps_hold_floats(self):
        """As in a data frame that has read empty cells."""
        trace = random_trace(**CHANGES)
        columns = trace.to_columns(unfinished=True)
        loose = {name: v.astype(float) if v.dtype.kind in "ib" else v.tolist() for name, v in columns.items()}
        assert_equal(Trace.from_columns(loose), trace)

    def test_only_the_faults_of_the_trace_that_was_there_are_removed(self, tmp_path):
        own = part_path(tmp_path / "a.csv", "faults")
        for text, stays in (("my,notes\n1,2\n", True), ("kind,worker,start_time,end_time\ncrash,0,1,2\n", False)):
            own.write_text(text)
            Trace.from_commits([0, 1]).to_csv(tmp_path / "a.csv")
            assert own.exists() == stays

    @pytest.mark.parametrize(("write", "read"), [(Trace.to_csv, Trace.from_csv), (Trace.save, Trace.load)])
    def test_full_disk_leaves_the_old_file_whole(self, tmp_path, monkeypatch, write, read):
        path, trace = tmp_path / "trace.csv", Trace.from_commits([0, 1, 0])
        write(trace, path)
        names = sorted(tmp_path.iterdir())
        monkeypatch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match=r"trace\.csv' could not be written: No space left"):
            write(Trace.from_commits([0]), path)
        assert sorted(tmp_path.iterdir()) == names
        assert_equal(read(path), trace)


class TestNotes:
    """They are in a file beside the trace, so that every program reads the table itself."""

    NOTES = (
        'Column \'loss\' was ignored. Is read_at `read_time`? Then give `columns={"read_time": "read_at"}`.',
        "ü, 2 s",
    )

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        trace = dataclasses.replace(Trace.from_commits([0, 1, 0]), notes=self.NOTES, names=("a", "b"))
        trace.to_csv(tmp_path / "run.csv")
        return tmp_path / "run.csv"

    def test_they_come_back_with_the_names_of_derived_columns(self, path):
        again = Trace.from_csv(path)
        assert (again.notes, again.derived) == (self.NOTES, Trace.from_commits([0, 1]).derived)
        assert again.digest == Trace.from_commits([0, 1, 0]).digest

    @pytest.mark.parametrize(("suffix", "module"), [(".gz", gzip), (".bz2", bz2), (".xz", lzma)])
    def test_a_table_that_is_compressed_later_keeps_what_lies_beside_it(self, path, suffix, module):
        compressed = Path(f"{path}{suffix}")
        compressed.write_bytes(module.compress(path.read_bytes()))
        again = Trace.from_csv(compressed)
        assert (again.notes, again.derived) == (self.NOTES, Trace.from_commits([0, 1]).derived)

    def test_a_log_and_its_copy_have_the_same_notes(self, tmp_path):
        log = simulate(Cluster(3, Gamma(1.0, 0.5)), commits=200)
        trace = Trace.from_columns({"worker": log.worker, "commit_time": log.commit_time, "loss": log.read_time})
        trace.to_csv(tmp_path / "copy.csv")
        again = Trace.from_csv(tmp_path / "copy.csv")
        assert (again.notes, again.derived) == (trace.notes, trace.derived)
        assert len(trace.notes) == 1

    def test_a_note_about_names_that_a_copy_has_too_is_there_once(self, tmp_path):
        trace = Trace.from_columns({"worker": [3511, 3512], "commit_time": [1.0, 2.0]})
        assert len(trace.notes) == 1
        trace.to_csv(tmp_path / "copy.csv")
        assert Trace.from_csv(tmp_path / "copy.csv").notes == trace.notes

    def test_the_table_itself_is_read_by_others(self, path):
        assert pandas.read_csv(path)["worker"].tolist()[:3] == ["a", "b", "a"]

    def test_those_of_the_trace_before_are_removed(self, path):
        simulate(Cluster(2, Gamma(1.0, 0.5)), commits=3).to_csv(path)
        assert [*path.parent.iterdir()] == [path]
        assert Trace.from_csv(path).notes == ()

    def test_a_file_of_somebody_else_is_neither_read_nor_replaced(self, path):
        write(part_path(path, "notes"), "my,notes\n1,2\n")
        trace = Trace.from_csv(path)
        assert (trace.notes, trace.derived) == ((), ())
        with pytest.raises(FileExistsError, match=r"would replace 'run\.notes\.csv', which holds no notes of a trace"):
            dataclasses.replace(trace, notes=self.NOTES).to_csv(path)

    @pytest.mark.parametrize(
        ("rows", "match"),
        [
            ("remark,x", r"run\.notes\.csv: `kind` must be known; line 2 has 'remark'"),
            ("note,x\nnote,", r"run\.notes\.csv: `text` must be known; line 3 has nothing"),
            ("note,x,y", r"run\.notes\.csv: .*must have 2 cells in every row; line 2 has 3"),
            ("derived,read_tme", r"`derived` must name columns of the commits; got 'read_tme'"),
            ("note,\udcff", "must be UTF-8 text"),
        ],
        ids=["kind", "no text", "cells", "name", "bytes"],
    )
    def test_a_damaged_one_is_refused_by_name(self, path, rows, match):
        write(part_path(path, "notes"), f"kind,text\n{rows}\n")
        with pytest.raises(TraceError, match=match):
            Trace.from_csv(path)


def minimal(trace: Trace, *names: str) -> dict[str, np.ndarray]:
    return {name: getattr(trace, name) for name in names}


class TestInferredColumns:
    @FEW
    @given(ORDERS.filter(lambda order: len(order[1]) > 0), st.randoms(use_true_random=False))
    def test_worker_and_time_alone_give_from_commits(self, order, random):
        """In any order of the rows, because no two times are equal."""
        trace = Trace.from_commits(order[1], workers=order[0])
        rows = list(range(len(trace)))
        random.shuffle(rows)
        log = {name: values[rows] for name, values in minimal(trace, "worker", "commit_time").items()}
        assert_equal(Trace.from_columns(log, workers=order[0]), trace)

    @FEW
    @given(st.integers(1, 5), MOVING, NETWORKS, st.sampled_from([Constant(0.0), Constant(0.3), Exponential(0.2)]))
    def test_asynchronous_from_reads_and_commits(self, workers, law, network, service):
        """An atomic server: versions follow from the times, whatever the delays, ties included."""
        trace = simulate(Cluster(workers, law, network, Server(service=service)), commits=40)
        log = minimal(trace, "worker", "read_time", "finish_time", "commit_time")
        found = Trace.from_columns(log, workers=workers)
        assert_equal(found, trace, (*log, "read_version", "version", "pull_version", "closes_step"))
        assert make_plan(found).digest(40) == make_plan(trace).digest(40)

    @pytest.mark.parametrize("pull", ["before_commit", "at_read"])
    def test_separate_requests_and_buffers_from_times(self, pull):
        """Continuous times tie only if a worker that waits reads at the very end of the step."""
        network, server = Network(latency=Gamma(0.1, 0.5)), Server(service=Exponential(0.05), atomic=False, pull=pull)
        for protocol in (protocols.Asynchronous(), protocols.KBatchAsync(3), protocols.SSP(1)):
            trace = simulate(Cluster(5, Gamma(1.0, 0.5), network, server, protocol), commits=200)
            names = ("worker", "read_time", "commit_time", "closes_step", "pull_version")
            found = Trace.from_columns(minimal(trace, *names))
            assert_equal(found, trace, ("read_version", "version"))

    def test_jobs_that_never_commit_from_times(self):
        trace = simulate(Cluster(5, Gamma(1.0, 0.5), protocol=protocols.Ringmaster(3, stop=True)), commits=200)
        columns = trace.to_columns(unfinished=True)
        assert (columns["fate"] == "cancelled").sum() > 10
        for name in ("version", "pull_version", "end_version"):
            del columns[name]
        assert_equal(Trace.from_columns(columns), trace)

    def test_a_missing_time_is_the_next_one_known(self):
        log = {"worker": [0], "read_time": [1.0], "arrive_time": [4.0], "commit_time": [6.0]}
        trace = Trace.from_columns(log)
        assert [getattr(trace, name).item() for name in COMMIT_TIMES] == [1.0, 1.0, 4.0, 4.0, 6.0, 6.0]

    @pytest.mark.parametrize(
        ("log", "read_version"),
        [
            # Worker 0 reads right after its own commit at 2, before that of worker 1; worker 2 waited and sees both.
            (
                {"worker": [2, 0, 1, 0, 2], "read_time": [0, 0, 0, 2, 2], "commit_time": [1, 2, 2, 3, 4]},
                [0, 0, 0, 2, 3],
            ),
            # All begin with version 0, even if another worker has committed at time 0.
            ({"worker": [0, 1, 0], "read_time": [0, 0, 0], "commit_time": [0, 0, 1]}, [0, 0, 1]),
        ],
    )
    def test_reads_that_tie(self, log, read_version):
        assert Trace.from_columns(log).read_version.tolist() == read_version

    def test_names_in_natural_order(self, tmp_path):
        text = "commit_time,worker\n3,ps-10\n1,ps-9\n2,ps-10\n"
        trace = read_log(tmp_path / "log.csv", text)
        assert trace.worker.tolist() == [0, 1, 1]
        assert trace.commit_time.tolist() == [1.0, 2.0, 3.0]

    def test_names_of_workers_in_faults(self, tmp_path):
        write(tmp_path / "log.faults.csv", "kind,worker,start_time,end_time\nslowdown,b,101,\nserver_pause,,102,103\n")
        trace = read_log(tmp_path / "log.csv", "worker,commit_time\na,102\nb,104\n", start=100)
        assert trace.faults.worker.tolist() == [1, -1]
        assert trace.faults.start_time.tolist() == [1.0, 2.0]
        assert trace.faults.end_time.tolist() == [np.inf, 3.0]

    def test_files_of_spreadsheets(self, tmp_path):
        text = '\ufeffworker,commit_time,closes_step\r\n0.0,"1.5",TRUE\r\n\r\n1.0, 2 ,FALSE\r\n'
        trace = read_log(tmp_path / "log.csv", text)
        assert trace.closes_step.tolist() == [True, False]
        assert trace.commit_time.tolist() == [1.5, 2.0]


BAD_LOGS = [
    ("worker,commit_time\nRh\udcf4ne,1\n", "it must be UTF-8 text; got byte 0xf4"),
    ("", "it must name the columns in its first line"),
    ("\n", "it must name the columns in its first line"),
    ("worker,commit_time\n", "`worker` must name at least one worker"),
    ("wroker,commit_time\n0,1\n", "`worker` is missing; .* Rename `wroker`"),
    ("worker,time\n0,1\n", "`commit_time` is missing; .* Rename `time`"),
    ("worker,commit_time,worker\n0,1,0\n", "`worker` must be named once; got it 2 times"),
    ("worker,commit_time\n0,1\n0,soon\n", "`commit_time` must be a number; line 3 has 'soon'"),
    ("worker,commit_time\n0,1\n0,nan\n", "`commit_time` must be known for a commit; line 3 has 'nan'"),
    ("worker,commit_time\n0,1\n0,inf\n", "`commit_time` must be known for a commit; line 3 has 'inf'"),
    ("worker,commit_time\n0,1\n\n0,\n", "`commit_time` must be known for a commit; line 4 has nothing"),
    ("worker,commit_time\n0,-1\n", "`commit_time` must be finite and not negative; line 2 has -1\\."),
    ("worker,commit_time\n0,1\n0\n", "it must have 2 cells in every row; line 3 has 1"),
    ("worker,commit_time\n0,1,2\n", "it must have 2 cells in every row; line 2 has 3"),
    ("worker,commit_time\n0,1\nx,2\n", "`worker` must be all numbers or all names; line 3 has 'x'"),
    ("worker,commit_time\n0,1\n,2\n", "`worker` must be known; line 3 has nothing"),
    ("worker,commit_time\n0,1\n2,1\n", "`worker` must not leave out 1 if it names larger numbers; line 3 has 2"),
    ("worker,commit_time\n0,1\n-3,2\n", "`worker` must be from 0 to 0; line 3 has -3"),
    ("worker,commit_time,read_time\n0,3,0\n1,1,2\n", "`commit_time` must not precede `read_time`; line 3 has 1\\."),
    ("worker,commit_time,read_time\n0,3,0\n0,9,2\n", "`read_time` must not precede the end .*; line 3 has 2\\."),
    ("worker,commit_time,read_time\n0,5,2\n0,3,0\n", "`read_time` must not precede the end .*; line 2 has 2\\."),
    ("worker,commit_time,version\n0,1,0\n1,2,1.5\n", "`version` must be a whole number; line 3 has 1.5"),
    ("worker,commit_time,read_version\n0,1,0\n1,2,2\n", "`read_version` must be from 0 to `version`; line 3 has 2"),
    ("worker,commit_time,closes_step\n0,1,1\n0,2,\n", "`closes_step` must be true or false; line 3 has nothing"),
    ("worker,commit_time,closes_step\n0,1,2\n", "`closes_step` must be true or false; line 2 has 2"),
    ("worker,commit_time,fate\n0,1,commited\n", "`fate` must be one of .*; line 2 has 'commited'. .*'committed'"),
    ("worker,commit_time,fate\n0,1,lost\n", "`commit_time` must be empty where it does not apply; line 2 has 1\\."),
    ("worker,commit_time,end_time\n0,1,1\n", "`end_time` must be empty where it does not apply; line 2 has 1\\."),
    ("worker,commit_time,fate,read_time\n0,1,committed,0\n0,,lost,1\n", "`end_time` must be infinite .*; line 3"),
    ('worker,commit_time\n"0,1\n', "it must be a CSV file"),
    ("worker,commit_time\n0,1\n0,1e308\n", r"`commit_time` must be at most 9e\+15 seconds; line 3 has 1e308"),
    ("worker,commit_time\n0,1\n1,2\n0,1\n", "`commit_time` must differ .* otherwise equal row; line 4 has 1. Remove"),
    (f"worker,commit_time\n0,1\n{'a' * 201},2\n", "`worker` must have at most 200 characters; line 3 has 'aaa"),
    (f"worker,commit_time\n0,{'z' * 9999}\n", "`commit_time` must be a number; line 2 has 'zzz"),
    (f"worker,commit_time\n0,{'1,' * 2**19}\n", "it must have lines of at most 1048576 characters; line 2 is longer"),
    (",".join(map(str, range(100_000))), "it must have at most 1000 columns; got 100000. Keep"),
    ("worker,commit_time\na,1700000001\nb,1700000000\n", "`commit_time` must count from .*; line 3 has 17.*0.0"),
    ("worker,read_time,commit_time\na,2e8,2.1e8\n", "`read_time` must count from the start of the run; line 2 has 2"),
    (
        "worker,commit_time\n" + "".join(f"0,{900 + k}\n" for k in range(11)),
        "`commit_time` must count .*; line 2 has 900",
    ),
]


class TestStart:
    UNIX = "worker,commit_time\na,1700000001.5\nb,1700000000.5\na,1700000004\n"

    def test_unix_time(self, tmp_path):
        trace = read_log(tmp_path / "log.csv", self.UNIX, start="first")
        assert trace.commit_time.tolist() == [0.0, 1.0, 3.5]
        assert_equal(trace, read_log(tmp_path / "log.csv", self.UNIX, start=1700000000.5))

    def test_zero_takes_times_as_they_are(self, tmp_path):
        assert read_log(tmp_path / "log.csv", self.UNIX, start=0).seconds == 1700000004.0

    def test_first_is_the_first_read(self, tmp_path):
        text = "worker,read_time,commit_time\n0,1700000002,1700000009\n1,1700000001,1700000004\n"
        assert read_log(tmp_path / "log.csv", text, start="first").read_time.tolist() == [0.0, 1.0]

    @pytest.mark.parametrize("make", [Trace.from_commits, lambda *a, **k: Trace.from_columns(columns(*a), **k)])
    def test_without_a_file(self, make):
        worker, time = [0, 1, 0], [1.7e9, 1.7e9 + 1, 1.7e9 + 2]
        with pytest.raises(TraceError, match=r"`commit_time` must count from the start .*; row 0 has 17.* Give"):
            make(worker, time)
        with pytest.raises(TraceError, match=r"`commit_time` must be at most 9e\+15 seconds; row 2 has 1e\+300"):
            make(worker, [0, 1, 1e300])
        assert make(worker, time, start="first").commit_time.tolist() == [0.0, 1.0, 2.0]
        assert make(worker, time, start=1.7e9 - 5).commit_time.tolist() == [5.0, 6.0, 7.0]

    def test_long_first_jobs_stay(self):
        """A start that takes long, and clusters too slow for any heuristic."""
        assert Trace.from_commits([0, 1, 0, 1], [1000, 1000, 1001, 1001]).seconds == 1001
        assert simulate(Cluster(2, Constant(1e9)), commits=2).seconds == 1e9

    def test_equal_rows_that_are_two_commits(self):
        log = {"worker": [0, 0], "commit_time": [1.0, 1.0]}
        for more in ({"version": [0, 1]}, {"read_time": [0.0, 1.0]}):
            assert len(Trace.from_columns(log | more)) == 2


def columns(worker, time):
    return {"worker": worker, "commit_time": time}


@pytest.mark.parametrize("read", [Trace.from_csv, Trace.load])
def test_a_missing_file_is_named(tmp_path, read):
    with pytest.raises(FileNotFoundError, match=r"`path` '.*none\.csv' is not a file\. Check the name"):
        read(tmp_path / "none.csv")


def two_commits(start=None, **changed):
    return Trace.from_columns({"worker": [0, 1], "commit_time": [1.0, 2.0]} | changed, start=start)


test_bad_columns_are_named = refusals(
    ({"worker": [0]}, "`commit_time` must have one entry per row; got 2 for 1 rows"),
    ({"worker": [[0, 1]]}, r"`worker` must be one-dimensional; got shape \(1, 2\)"),
    ({"commit_time": ["1", "b"]}, "`commit_time` must be a number; row 1 has 'b'"),
    ({"state_lost": [0, 3]}, "`state_lost` must be true or false; row 1 has 3"),
    # Rows are those given, although the last of them is the first commit.
    ({"read_time": [0.0, 3.0], "commit_time": [2.0, 1.0]}, r"`commit_time` must not precede `read_time`; row 1 has 1"),
    *(({"start": start}, "`start` must be") for start in ("frist", np.inf, np.nan)),
    call=lambda change: two_commits(**change),
)


def assert_one_traceback(error: BaseException) -> None:
    """No traceback of the parts that found the mistake stands before it."""
    assert "".join(traceback.format_exception(error)).count("Traceback") == 1


class TestBadInput:
    @pytest.mark.parametrize(("text", "message"), BAD_LOGS)
    def test_is_named_with_its_line(self, tmp_path, text, message):
        with pytest.raises(ValueError, match=rf"log\.csv' holds no valid trace: {message}") as caught:
            read_log(tmp_path / "log.csv", text)
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith((".", "?"))
        assert_one_traceback(caught.value)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("kind,worker,start_time\n", "it must have the columns kind, worker"),
            ("kind,worker,start_time,end_time\ncrush,0,1,2\n", "`kind` must be known; line 2 has 'crush'. .*'crash'"),
            ("kind,worker,start_time,end_time\ncrash,9,1,2\n", "`worker` must be known; line 2 has 9"),
            (
                "kind,worker,start_time,end_time\ncrash,0,1,1e308\n",
                r"log\.faults\.csv: `end_time` must be at most 9e\+15 seconds; line 2 has",
            ),
            (
                "kind,worker,start_time,end_time\ncrash,0,1,2\ncrash,0,3,2\n",
                r"log\.faults\.csv: `faults.end_time` must not precede `start_time`; line 3 has 2\.",
            ),
        ],
    )
    def test_wrong_faults_are_refused(self, tmp_path, text, message):
        write(tmp_path / "log.faults.csv", text)
        with pytest.raises(ValueError, match=rf"holds no valid trace: .*{message}") as caught:
            read_log(tmp_path / "log.csv", "worker,commit_time\n0,4\n")
        assert_one_traceback(caught.value)

    @pytest.mark.parametrize("name", ["fate", "read_version", "version", "closes_step"])
    def test_no_altered_cell_goes_unnoticed(self, tmp_path, name):
        """All times differ here, so that each determines which version was read."""
        trace, path = random_trace(commits=12, **CHANGES), tmp_path / "trace.csv"
        trace.to_csv(path)
        with open(path, newline="") as file:
            header, *rows = list(csv.reader(file))
        column = header.index(name)
        swapped = {"True": "False", "False": "True", "committed": "lost", "": "1"}
        for row in rows:
            before = row[column]
            if name == "closes_step" and row is rows[len(trace) - 1]:
                continue  # no other row shows whether the last step is complete
            row[column] = swapped.get(before) or ("committed" if name == "fate" else str(int(before) + 1))
            write(path, "\n".join(map(",".join, [header, *rows])))
            with pytest.raises(ValueError, match=r"trace\.csv' holds no valid trace"):
                Trace.from_csv(path)
            row[column] = before

    def test_reads_by_version_alone(self):
        """Each at the time of the worker's previous commit, with which it must agree."""
        trace = Trace.from_commits([0, 1, 0, 1, 1])
        log = minimal(trace, "worker", "commit_time", "read_version", "start_time")
        assert_equal(Trace.from_columns(log), trace)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,1,2 1,2,3 0,3,4", "`local_steps` must be the same in all rows of a worker; line 4 has 4. Leave out"),
        ("0,1,2 1,2,0", "`local_steps` must be at least 1; line 3 has 0. Give"),
        ("0,1,2 1,2,", "`local_steps` must be at least 1; line 3"),
        ("0,1,2 1,2,1.5", "`local_steps` must be a whole number; line 3 has 1.5"),
        ("0,1,2 1,2,ten", "`local_steps` must be a number; line 3 has"),
        ("0,1,2 2,2,3", "`worker` must not leave out 1"),
    ],
)
def test_local_steps_that_no_trace_has_are_refused(tmp_path, rows, message):
    text = "\n".join(["worker,commit_time,local_steps", *rows.split(" ")])
    assert_refused(lambda: read_log(tmp_path / "log.csv", f"{text}\n"), message)


def test_a_worker_without_rows_has_the_local_steps_of_all_others_or_is_refused():
    log = {"worker": [0, 1], "commit_time": [1.0, 2.0], "local_steps": [2, 3]}
    message = "`local_steps` must be known for every worker; got none for 2. Give worker 2 a row with the fate idle"
    assert_refused(lambda: Trace.from_columns(log, workers=3), message)
    assert Trace.from_columns(log | {"local_steps": [3, 3]}, workers=3).local_steps.tolist() == [3, 3, 3]
