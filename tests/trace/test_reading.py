"""Logs as people have them: files of every kind, dates, units and names, and messages that show what stands there."""

import bz2
import gzip
import io
import json
import lzma
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asyncsim as asim
from asyncsim.trace import Trace
from asyncsim.trace._values import Unit
from tests.problems import refusals

START = 1_714_564_800  # 2024-05-01T12:00:00Z
WORKER = ["node-9", "node-10", "node-8", "node-10", "node-9", "node-8", "node-10", "node-8"]
READ = np.array([0.0, 0.25, 0.5, 1.5, 2.0, 2.25, 3.0, 4.0])
COMMIT = np.array([1.25, 1.5, 2.25, 3.0, 3.5, 4.0, 4.25, 5.5])
EXPECTED = Trace.from_columns({"worker": [1, 2, 0, 2, 1, 0, 2, 0], "read_time": READ, "commit_time": COMMIT}, start=0)
NAMES = ("node-8", "node-9", "node-10")
FRAME = pd.DataFrame({"worker": WORKER, "read_time": READ, "commit_time": COMMIT})
Write = Callable[[pd.DataFrame, Path], Any]


def compressed(module: Any) -> Write:
    return lambda frame, path: path.write_bytes(module.compress(frame.to_csv(index=False).encode()))


def as_text(change: Callable[[str], str], encoding: str = "utf-8", **settings: Any) -> Write:
    return lambda frame, path: path.write_text(change(frame.to_csv(index=False, **settings)), encoding=encoding)


def same(text: str) -> str:
    return text


FILES: dict[str, Write] = {
    "CSV": as_text(same),
    "semicolons and commas": as_text(same, sep=";", decimal=","),
    "tabs": as_text(same, sep="\t"),
    "bars": as_text(same, sep="|"),
    "control characters": as_text(same, sep="\x01"),
    "quoted decimal commas": as_text(same, decimal=",", quoting=1),
    "blanks": as_text(lambda text: text.replace(",", "   ").replace("\n", "  \n")),
    "blanks after commas": as_text(lambda text: text.replace(",", ", ")),
    "empty lines": as_text(lambda text: text.replace("\n", "\r\n\r\n")),
    "blank lines first": as_text(lambda text: "\n\n" + text),
    "quoted": as_text(same, quoting=1),
    "UTF-16": as_text(same, encoding="utf-16"),
    "a byte order mark": as_text(same, encoding="utf-8-sig"),
    "a row of numbers in front": lambda frame, path: frame.to_csv(path),
    "gzip": compressed(gzip),
    "bzip2": compressed(bz2),
    "xz": compressed(lzma),
    "JSON lines": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "compressed JSON lines": lambda frame, path: frame.to_json(path, orient="records", lines=True, compression="gzip"),
    "JSON records": lambda frame, path: frame.to_json(path, orient="records"),
    "indented JSON": lambda frame, path: path.write_text(json.dumps(frame.to_dict("records"), indent=2)),
    "JSON columns": lambda frame, path: path.write_text(json.dumps(frame.to_dict("list"))),
    "parquet": lambda frame, path: frame.to_parquet(path, engine="pyarrow"),
    "parquet with an index": lambda frame, path: frame.set_index("commit_time").to_parquet(path, engine="pyarrow"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("suffix", [".csv", ".log"])
def test_a_file_of_any_kind_is_read_whatever_its_name(tmp_path: Path, name: str, suffix: str) -> None:
    FILES[name](FRAME, tmp_path / f"log{suffix}")
    trace = Trace.from_csv(tmp_path / f"log{suffix}")
    assert (trace.digest, trace.names) == (EXPECTED.digest, NAMES)


def dates(seconds: np.ndarray, zone: str = "", separator: str = "T") -> list[str]:
    hours = timedelta(hours=int(zone[:3])) if zone[:1] in ("+", "-") else timedelta()
    moments = [datetime.fromtimestamp(START + second, UTC) + hours for second in seconds.tolist()]
    return [f"{moment:%Y-%m-%d}{separator}{moment:%H:%M:%S.%f}{zone}" for moment in moments]


def stamps(unit: str, zone: str | None = None) -> Callable[[np.ndarray], Any]:
    def convert(seconds: np.ndarray) -> Any:
        moments = pd.Series(pd.to_datetime(START * 10**9 + (1e9 * seconds).astype("int64"), utc=zone is not None))
        return (moments if zone is None else moments.dt.tz_convert(zone)).dt.as_unit(unit)

    return convert


TIMES: dict[str, Callable[[np.ndarray], Any]] = {
    "ISO": dates,
    "Z": lambda s: dates(s, "Z"),
    "a zone": lambda s: dates(s, "+02:00"),
    "a zone without a colon": lambda s: dates(s, "-0700"),
    "a blank": lambda s: dates(s, separator=" "),
    "UTC in words": lambda s: dates(s, " UTC", separator=" "),
    "the comma of Python's logging": lambda s: [text.replace(".", ",") for text in dates(s, separator=" ")],
    "datetimes": lambda s: [datetime.fromtimestamp(START + second, UTC) for second in s.tolist()],
    "datetimes without a zone": lambda s: [datetime(2024, 5, 1, 12) + timedelta(seconds=x) for x in s.tolist()],
    **{f"datetime64[{unit}]": stamps(unit) for unit in ("ms", "us", "ns")},
    "datetime64 with a zone": stamps("us", "Europe/Berlin"),
    "NumPy's datetime64[ms]": lambda s: stamps("ms")(s).to_numpy(),
    "pyarrow's timestamps": lambda s: stamps("ns")(s).astype("timestamp[ns][pyarrow]"),
    "durations": lambda s: pd.to_timedelta(s, unit="s"),
    "durations of NumPy as objects": lambda s: pd.Series([*(1e6 * s).astype("m8[us]")], dtype=object),
    "NumPy's datetime64 as objects": lambda s: pd.Series([*stamps("ms")(s).to_numpy("M8[ms]")], dtype=object),
    "times of day": lambda s: [(datetime(2024, 5, 1) + timedelta(seconds=second)).time() for second in s.tolist()],
    "durations as texts": lambda s: [str(timedelta(seconds=second)) for second in s.tolist()],
    "durations of a clock": lambda s: [f"00:00:{second:06.3f}" for second in s.tolist()],
    "texts": lambda s: [str(second) for second in s.tolist()],
    "nullable floats": lambda s: pd.array(s, dtype="Float64"),
    "objects": lambda s: np.array(s.tolist(), object),
}


@pytest.mark.parametrize("name", TIMES)
def test_dates_and_durations_become_seconds(tmp_path: Path, name: str) -> None:
    """In a frame and in a file, from the first of them on. They are exact, although Unix times have 53 bits."""
    frame = FRAME.assign(read_time=TIMES[name](READ), commit_time=TIMES[name](COMMIT))
    assert Trace.from_columns(frame).digest == EXPECTED.digest
    frame.to_csv(tmp_path / "log.csv", index=False)
    trace = Trace.from_csv(tmp_path / "log.csv")
    assert trace.digest == EXPECTED.digest
    is_dated = not name.startswith(("durations", "times of day", "texts", "nullable", "objects"))
    assert (trace.notes[:1] == ("Times count from the earliest date, 2024-05-01T12:00:00.000000 UTC.",)) == is_dated


def test_dates_and_times_from_the_start_are_not_mixed() -> None:
    """But dates and Unix times are one clock."""
    for other in (READ, pd.to_timedelta(READ, unit="s"), [str(second) for second in READ]):
        with pytest.raises(asim.TraceError, match="`read_time` must be dates too, as `commit_time` is"):
            Trace.from_columns(FRAME.assign(read_time=other, commit_time=dates(COMMIT)))
    trace = Trace.from_columns(FRAME.assign(read_time=START + READ, commit_time=dates(COMMIT)))
    assert trace.digest == EXPECTED.digest


def test_dates_in_json_and_parquet_are_those_of_a_table(tmp_path: Path) -> None:
    frame = FRAME.assign(read_time=dates(READ, "Z"), commit_time=dates(COMMIT, "Z"))
    frame.to_json(tmp_path / "log.json", orient="records", lines=True)
    assert Trace.from_csv(tmp_path / "log.json").digest == EXPECTED.digest
    FRAME.assign(read_time=stamps("us")(READ), commit_time=stamps("us")(COMMIT)).to_parquet(tmp_path / "log.parquet")
    assert Trace.from_csv(tmp_path / "log.parquet").digest == EXPECTED.digest


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_numbers_count_in_the_unit_of_the_log(tmp_path: Path, unit: Unit) -> None:
    """Also Unix nanoseconds, of which no float has all digits."""
    per = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    for since, start in ((0, None), (START * per, "first"), (START * per, START * per)):
        whole = {name: since + (per * FRAME[name]).astype("int64") for name in ("read_time", "commit_time")}
        frame = FRAME.assign(**whole)
        assert Trace.from_columns(frame, unit=unit, start=start).digest == EXPECTED.digest
        frame.to_csv(tmp_path / "log.csv", index=False)
        assert Trace.from_csv(tmp_path / "log.csv", unit=unit, start=start).digest == EXPECTED.digest
    if unit == "ms":
        small = {name: (per * FRAME[name]).astype(np.int16) for name in ("read_time", "commit_time")}
        unix = FRAME["commit_time"].mul(per).astype("int64") + START * per
        assert Trace.from_columns(FRAME.assign(**small), unit=unit).digest == EXPECTED.digest
        with pytest.raises(asim.TraceError, match="`read_time` must be"):
            Trace.from_columns(
                FRAME.assign(read_time=small["read_time"], commit_time=unix), unit=unit, start=START * per
            )
    fractions = FRAME.assign(read_time=per * READ, commit_time=per * COMMIT)
    assert Trace.from_columns(fractions, unit=unit).digest == EXPECTED.digest


@pytest.mark.parametrize("resolution", ["s", "ms", "us", "ns"])
def test_datetimes_of_any_resolution_are_51_seconds(resolution: str) -> None:
    """(They were read as 50 901.)"""
    seconds = np.floor(np.linspace(0.0, 51.2, 65) * 5) / 5 if resolution != "s" else np.arange(52.0)
    moments = pd.Series(pd.to_datetime(START + seconds, unit="s")).astype(f"datetime64[{resolution}]")
    trace = Trace.from_columns(pd.DataFrame({"worker": np.arange(len(seconds)) % 4, "commit_time": moments}))
    assert trace.seconds == pytest.approx(seconds[-1], abs=2e-3)


RENAMED = FRAME.rename(columns={"worker": "host", "read_time": "pulled_at", "commit_time": "pushed_at"})
COLUMNS = {"worker": "host", "read_time": "pulled_at", "commit_time": "pushed_at"}


class TestColumns:
    def test_other_names_are_given(self, tmp_path: Path) -> None:
        frame = RENAMED.assign(worker=0)  # is another column then
        trace = Trace.from_columns(frame, columns=COLUMNS)
        assert (trace.digest, trace.notes) == (EXPECTED.digest, ("Column 'worker' was ignored.",))
        frame.to_csv(tmp_path / "log.csv", index=False)
        assert Trace.from_csv(tmp_path / "log.csv", columns=COLUMNS).digest == EXPECTED.digest

    def test_unknown_ones_are_listed_once(self, tmp_path: Path) -> None:
        frame = FRAME.assign(loss="x", lr=[{}] * len(FRAME), read_bytes=3)
        trace = Trace.from_columns(frame)
        assert trace.digest == EXPECTED.digest
        assert trace.notes == ("Columns 'loss', 'lr', 'read_bytes' were ignored.",)
        frame.to_csv(tmp_path / "log.csv", index=False)
        assert Trace.from_csv(tmp_path / "log.csv").notes == trace.notes

    @pytest.mark.parametrize(
        ("name", "meant"), [("start_tme", "start_time"), ("finished_at", "finish_time"), ("serve_ts", "serve_time")]
    )
    def test_a_name_with_the_same_stem_is_asked_about(self, name: str, meant: str) -> None:
        (note,) = Trace.from_columns(FRAME.assign(**{name: 1.0})).notes
        assert f'Is {name} `{meant}`? Then give `columns={{"{meant}": "{name}"}}`' in note

    def test_no_other_name_is_guessed(self) -> None:
        """The nearest one by letters is no guess."""
        with pytest.raises(
            asim.TraceError,
            match=r"`worker` is missing; .*\. Record who commits, and when\. If it has another name, give",
        ):
            Trace.from_columns({"order": [0], "commit_time": [1.0]})


class TestMissing:
    @pytest.mark.parametrize("mask", [[False] * 8, [False, True] + [False] * 6])
    def test_masked_entries_are_missing(self, mask: list[bool]) -> None:
        columns = {"worker": WORKER, "read_time": READ, "commit_time": np.ma.array(COMMIT, mask=mask)}
        if not any(mask):
            assert Trace.from_columns(columns).digest == EXPECTED.digest
            return
        with pytest.raises(asim.TraceError, match="`commit_time` must be known for a commit; row 1 has nothing"):
            Trace.from_columns(columns)

    def test_a_job_that_never_committed_has_no_time(self) -> None:
        """However a missing number is written."""
        fate = ["committed", "in_flight"]
        for missing in (None, np.nan, pd.NA, pd.NaT):
            log = {"worker": ["a", "b"], "read_time": [0.0, 0.5], "commit_time": [1.0, missing], "fate": fate}
            for frame in (log, pd.DataFrame(log)):
                trace = Trace.from_columns(frame)
                assert (len(trace), trace.unfinished.worker.tolist()) == (1, [1])
        masked = np.ma.array([1.0, 7.0], mask=[False, True])
        log = {"worker": ["a", "b"], "read_time": [0.0, 0.5], "commit_time": masked, "fate": fate}
        assert len(Trace.from_columns(log)) == 1

    def test_a_column_without_values_is_no_column(self) -> None:
        trace = Trace.from_columns(FRAME.assign(start_time=np.nan))
        assert trace.digest == EXPECTED.digest
        assert trace.notes == ("`start_time` has no values, and is taken to be missing.",)


class TestWorkers:
    @pytest.mark.parametrize(
        ("worker", "names"),
        [
            (["b", "a", "b"], ("a", "b")),
            ([3512, 3511, 3512], ("3511", "3512")),
            ([2.0, 1.0, 2.0], ("1", "2")),
            ([2**40, 7, 7], ("7", str(2**40))),
            (["10.0.0.10", "10.0.0.9", "10.0.0.9"], ("10.0.0.9", "10.0.0.10")),
            (["Rhône", "Aare", "Rhône"], ("Aare", "Rhône")),
            (pd.Categorical(["b", "a", "b"], categories=["b", "c", "a"]), ("a", "b")),
            ([0, 1, 0], ()),
            (["0", "1", "0"], ()),
        ],
    )
    def test_names_of_any_kind_are_kept(self, tmp_path: Path, worker: Any, names: tuple[str, ...]) -> None:
        frame = pd.DataFrame({"worker": worker, "commit_time": [1.0, 2.5, 3.0]})
        assert Trace.from_columns(frame).names == names
        frame.to_csv(tmp_path / "log.csv", index=False)
        trace = Trace.from_csv(tmp_path / "log.csv")
        assert trace.names == names
        trace.to_csv(tmp_path / "again.csv")
        assert Trace.from_csv(tmp_path / "again.csv").names == names

    @pytest.mark.parametrize("read", ["columns", "file"])
    def test_zeros_before_a_number_tell_names_apart(self, tmp_path: Path, read: str) -> None:
        """(Worker 01 was taken for worker 1.) Numbers that are written in several ways are one."""
        for worker, names in ((["1", "01", "1"], ("01", "1")), (["0", "1.0", "0.0"], ()), (["000", "001", "000"], ())):
            frame = pd.DataFrame({"worker": worker, "commit_time": [1.0, 2.5, 3.0]})
            frame.to_csv(tmp_path / "log.csv", index=False)
            trace = Trace.from_columns(frame) if read == "columns" else Trace.from_csv(tmp_path / "log.csv")
            assert trace.workers == 2
            assert (trace.worker[0], trace.names) == (trace.worker[2], names)

    def test_numbers_that_do_not_begin_with_0_are_noted(self) -> None:
        trace = Trace.from_columns({"worker": [1, 2, 3], "commit_time": [1.0, 2.0, 2.5]})
        assert trace.workers == 3
        assert trace.notes[0].startswith("Workers have numbers from 1 to 3, and none the number 0")


LONG = {"worker": np.arange(40) % 4, "commit_time": 1000.0 * np.cumsum(np.linspace(9.0, 11.0, 40))}


class TestNotesAboutUnits:
    def test_a_mean_job_of_more_than_a_day(self) -> None:
        (note,) = Trace.from_columns(LONG | {"commit_time": 2.5 * LONG["commit_time"]}).notes
        assert note.startswith("A mean job takes 9.78e+04 s, more than a day.")
        assert '"ms"' in note
        assert not Trace.from_columns(LONG | {"commit_time": LONG["commit_time"] / 1000}).notes

    def test_differences_that_are_all_whole(self) -> None:
        whole = np.round(LONG["commit_time"])
        for times in (whole, whole + 0.25, whole.astype(int)):
            (note,) = Trace.from_columns(LONG | {"commit_time": times}).notes
            assert note.startswith("All times differ by whole numbers. If they are not seconds, give `unit`")
        assert not Trace.from_columns(LONG | {"commit_time": whole}, unit="ms").notes

    def test_our_own_files_hold_no_findings(self, tmp_path: Path) -> None:
        trace = asim.simulate(asim.Cluster(4, asim.delays.Constant(1.0)), commits=40)
        trace.to_csv(tmp_path / "run.csv")
        assert Trace.from_csv(tmp_path / "run.csv").notes == ()


LINES = '{"worker": 0, "commit_time": 1}\n\n{"worker": 1, "commit_time": %s}\n'
RECORDS = '[\n  {"worker": 0,\n   "commit_time": 1},\n  {"worker": 1,\n   "commit_time": %s}\n]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LINES % '"soon"', "`commit_time` must be a number; line 3 has 'soon'"),
        (LINES % "-1.50", "`commit_time` must be finite and not negative; line 3 has -1.5"),
        (LINES % "null", "`commit_time` must be known for a commit; line 3 has nothing"),
        (LINES % "3" + '{"worker": 1, "comm', "it must have a JSON object in every line; line 4 has"),
        (LINES % "3" + "[1, 2]\n", r"it must have a JSON object in every line; line 4 has '\[1, 2\]'"),
        (RECORDS % '"soon"', "`commit_time` must be a number; line 4 has 'soon'"),
        (RECORDS % "3" + "]", "it must be a JSON file; Extra data: line 6 column 2"),
        ('{"traceEvents": [],\n "other": 3}', "it must be an array of records; got an object with the keys 'traceEv"),
        ('[{"host": 1, "commit_time": 2}]', "`worker` is missing; got 'host', 'commit_time'"),
        ("worker;commit_time\n0;1,5\n0;-2,50\n", "`commit_time` must be finite and not negative; line 3 has '-2,50'"),
        (
            "worker;commit_time\n0;1,5\n0;1.234,5\n",
            "`commit_time` must be a number with a decimal comma, .*; line 3 has '1.234,5'",
        ),
        ("worker\tcommit_time\n0\t1.50\n0\t-2.500\n", r"`commit_time` must be finite .*; line 3 has -2\.500\."),
        ("worker commit_time\n0 1.50\n0 soon\n", "`commit_time` must be a number; line 3 has 'soon'"),
        (
            "worker,commit_time\na,2024-05-01T12:00:00Z\na,2024-05-01T12:00:01Z\na,tomorrow\n",
            "`commit_time` must be a date .*as in other rows; line 4 has 'tomorrow'",
        ),
        (
            "worker,read_time,commit_time\na,2024-05-01T12:00:00Z,2024-05-01T11:59:59Z\n",
            "`commit_time` must not precede `read_time`; line 2 has '2024-05-01T11:59:59Z'",
        ),
        ("worker,commit_time\n0,1700000000000\n0,1700000001000\n", "`commit_time` must count from .*give `unit`"),
        ("0,1.5\n1,2.5\n", "it must name the columns in its first line; got '0', '1.5'"),
        ("worker,commit_time\n0,1\n0,2,3\n", "it must have 2 cells in every row; line 3 has 3"),
        ("worker,commit_time\n\n0,1\n\n0\n", "it must have 2 cells in every row; line 5 has 1"),
        ('worker,commit_time\n"a\nb",1\nc,x\n', "`commit_time` must be a number; line 4 has 'x'"),
        (
            "[project]\nname = 3\n",
            r"it is neither a trace \(\.npz\) nor a log; got '\[project\]'\. Give a file made by",
        ),
        ("PK\x03\x04", "it must be a log; got a trace"),
        ("PAR1", "it must be a whole parquet file"),
    ],
)
def test_a_message_shows_the_value_as_it_stands(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"log\.txt' holds no valid trace: {message}") as caught:
        Trace.from_csv(path)
    assert "\n" not in str(caught.value)
    assert "CSV" not in str(caught.value).partition("trace: ")[2].partition("Record")[0]


def test_rows_that_were_sorted_are_noted(tmp_path: Path) -> None:
    """As those of several workers' files that were joined."""
    FRAME.sort_values(["worker", "commit_time"]).to_csv(tmp_path / "log.csv", index=False)
    trace = Trace.from_csv(tmp_path / "log.csv")
    assert trace.digest == EXPECTED.digest
    assert trace.notes == ("Rows are not in the order of `commit_time`, first in line 5: they were sorted by it.",)


@pytest.mark.parametrize("start", ["2024-05-01T12:00:00Z", "2024-05-01 14:00:00+02:00", "2024-05-01", START])
def test_a_run_of_dates_may_begin_at_a_date(start: str | float) -> None:
    trace = Trace.from_columns(FRAME.assign(read_time=dates(READ), commit_time=dates(COMMIT)), start=start)
    begin = 0 if start != "2024-05-01" else 43_200
    np.testing.assert_array_equal(trace.commit_time, EXPECTED.commit_time + begin)
    rollouts = {"opened": dates(READ), "trained": dates(COMMIT)}
    assert Trace.from_rollouts(rollouts, start=start).commit_time[-1] == begin + COMMIT[-1]


def test_records_and_arrays_with_names_are_tables() -> None:
    numbered = FRAME.assign(worker=EXPECTED.worker)
    for frame in (numbered.to_dict("records"), numbered.to_records(index=False), numbered.to_dict("list")):
        assert Trace.from_columns(frame).digest == EXPECTED.digest


def test_a_header_may_have_blanks_in_its_names(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("worker id,commit time\na,1\nb,2.5\n")
    trace = Trace.from_csv(tmp_path / "log.csv", columns={"worker": "worker id", "commit_time": "commit time"})
    assert trace.names == ("a", "b")
    with pytest.raises(ValueError, match=r'`worker` is missing; .*`--columns "worker=worker id"`'):
        Trace.from_csv(tmp_path / "log.csv")


@pytest.mark.parametrize("cell", [object(), {1.0}, [1.0], ("a",)], ids=["object", "set", "list", "tuple"])
@pytest.mark.parametrize("name", ["read_time", "commit_time"])
def test_cells_that_are_no_times_are_refused_by_name(name: str, cell: Any) -> None:
    with pytest.raises(asim.TraceError, match=f"`{name}` must be a number; row 0 has"):
        Trace.from_columns(FRAME.assign(**{name: [cell] * len(FRAME)}))


test_what_is_no_table_is_refused = refusals(
    ("log.csv", r"`frame` must be a mapping, records or a data frame; got 'log\.csv'\. Read a file by `from_csv`"),
    ([1, 2], r"`frame` must be a mapping, records or a data frame; got \[1, 2\]"),
    (pd.DataFrame([[0, 1.0, 2.0]], columns=["worker", "commit_time", "commit_time"]), "`commit_time` must be named on"),
    call=Trace.from_columns,
)


def test_a_message_names_the_column_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("host,t\na,1\na,x\n")
    with pytest.raises(ValueError, match=r"`commit_time` \(`t` in the log\) must be a number; line 3 has 'x'"):
        Trace.from_csv(path, columns={"worker": "host", "commit_time": "t"})


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode())[:-12])
    for read in (Trace.from_csv, Trace.load):
        with pytest.raises(ValueError, match=r"log\.csv\.gz' holds no valid trace: it must be a whole file"):
            read(path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_once(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its rows are not in order, so that a note names a line."""
    path, opened, really_open = tmp_path / "log", [], io.open
    FILES[name](FRAME[::-1], path)

    def count(file: Any, *args: Any, **settings: Any) -> Any:
        opened.append(str(file))
        return really_open(file, *args, **settings)

    for place in ("io.open", "builtins.open"):
        monkeypatch.setattr(place, count)
    Trace.from_csv(path, start=0)
    assert opened.count(str(path)) == 1


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path: Path, name: str) -> None:
    """With other bytes in some places, or cut off."""
    rng, path = np.random.default_rng(0), tmp_path / "log"
    FILES[name](FRAME.assign(read_time=dates(READ, "Z"), commit_time=dates(COMMIT, "Z")), path)
    whole = path.read_bytes()
    for trial in range(20):
        changed = bytearray(whole)
        for place in rng.integers(len(whole), size=1 + trial % 3):
            changed[place] = rng.integers(256)
        path.write_bytes(changed[: len(whole) - (trial % 5 == 0) * int(rng.integers(len(whole)))])
        assert "\n" not in refusal_of(path)


def refusal_of(path: Path) -> str:
    try:
        Trace.from_csv(path)
    except asim.TraceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("module", ["pandas", "pyarrow"])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    path = tmp_path / "log"
    FILES["CSV" if module == "pandas" else "parquet"](FRAME, path)
    if module == "pandas":
        monkeypatch.setitem(sys.modules, "pandas", None)
    else:
        monkeypatch.setattr(pd, "read_parquet", _without_pyarrow)
    with pytest.raises(ImportError, match=r"which is not installed\. Run: pip install 'asyncsim\[(logs|parquet)\]'"):
        Trace.from_csv(path)


def test_arrays_need_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, names, dates and durations that NumPy knows, missing ones among them."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    moments = {name: stamps_of_numpy(FRAME[name].to_numpy()) for name in ("read_time", "commit_time")}
    for times in ({"read_time": READ, "commit_time": COMMIT.tolist()}, moments):
        columns = {"worker": WORKER, **times, "fate": ["committed"] * len(WORKER)}
        assert Trace.from_columns(columns).digest == EXPECTED.digest
    log = {"worker": ["a", "b"], "read_time": [0.0, 0.5], "commit_time": [1.0, np.nan]}
    assert len(Trace.from_columns(log | {"fate": ["committed", "in_flight"]})) == 1
    with pytest.raises(ImportError, match=r"Run: pip install 'asyncsim\[logs\]'"):
        Trace.from_columns({"worker": ["a"], "commit_time": ["2024-05-01T12:00:00Z"]})


def stamps_of_numpy(seconds: np.ndarray) -> np.ndarray:
    return np.datetime64("2024-05-01T12:00:00", "ms") + (1000 * seconds).astype("m8[ms]")


def _without_pyarrow(*args: Any, **settings: Any) -> None:
    raise ImportError("Missing optional dependency 'pyarrow'. pyarrow is required for parquet support.")


LOG = pd.DataFrame(
    {"opened": [10.0, 10.0, 11.0, 14.0], "ready": [12.0, 13.0, 15.0, 16.5], "trained": [14.0, 14.0, 18.0, np.nan]}
)


class TestRollouts:
    @pytest.mark.parametrize("name", sorted(FILES.keys() - {"parquet with an index"}))
    def test_the_reader_is_the_same(self, tmp_path: Path, name: str) -> None:
        log = LOG.dropna()
        FILES[name](log, tmp_path / "log")
        expected = Trace.from_rollouts(**{column: log[column].to_numpy() for column in log})
        assert Trace.from_csv(tmp_path / "log").digest == expected.digest
        assert Trace.from_rollouts(tmp_path / "log").digest == expected.digest

    def test_names_units_and_dates_are_those_of_commits(self) -> None:
        expected = Trace.from_rollouts(LOG)
        renamed = (1000 * LOG).rename(columns={"opened": "t0", "trained": "done_at"}).assign(reward=0.5)
        trace = Trace.from_rollouts(renamed, columns={"opened": "t0", "trained": "done_at"}, unit="ms")
        assert (trace.digest, trace.notes) == (expected.digest, ("Column 'reward' was ignored.",))
        moments = pd.DataFrame({name: pd.to_datetime(START + column, unit="s") for name, column in LOG.items()})
        assert Trace.from_rollouts(moments).digest == expected.digest
        texts = {name: column.astype(str).tolist() for name, column in moments.items()}
        assert Trace.from_rollouts(**texts).digest == expected.digest


test_wrong_columns_are_refused = refusals(
    (
        {"columns": {"wroker": "host"}},
        "`columns` must name columns of a trace; got 'wroker'. Did you mean `worker`",
    ),
    ({"columns": {"worker": "hots"}}, "`columns` names 'hots' for `worker`, which .* not have; .* mean `host`"),
    ({"unit": "min"}, "`unit` must be .*'ns'.*'min'"),
    (
        {"frame": RENAMED.rename(columns={"pushed_at": "committed"}), "columns": {"worker": "host"}},
        "`commit_time` is missing; got 'host', .* Rename `committed`, or give `col",
    ),
    call=lambda changes: Trace.from_columns(**{"frame": RENAMED} | changes),
)


test_wrong_rollouts_are_refused = refusals(
    ({"log": LOG, "opened": [1.0]}, "`log` must be left out where `opened` is given"),
    ({}, "`opened` is missing; got no columns. Record when each group was opened"),
    ({"log": LOG[["opened"]]}, "`trained` is missing"),
    ({"log": LOG.assign(trained=9.5)}, "`trained` must be later than `opened`; row 0 has 9.5"),
    call=lambda given: Trace.from_rollouts(**given),
)
