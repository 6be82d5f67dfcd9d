"""Names of columns as people write them, units in names, columns of different units, and identifiers of workers."""

import json

import numpy as np
import pandas as pd
import pytest

import asyncsim as asim
from asyncsim.trace._log import split_unit
from tests.calibration import heap

LOG = pd.DataFrame(heap.simulate(heap.Cluster(4, heap.gamma(1.0, 0.3)), 60, seed=3))[
    ["worker", "read_time", "commit_time"]
]
LOG = LOG.astype({"worker": int})
TRUTH = asim.Trace.from_columns(LOG)
PER_SECOND = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
NAMES = [
    ("Worker", "Read Time", "Commit Time"),
    ("WORKER", "READ_TIME", "COMMIT_TIME"),
    ("#worker", "read_time", "commit_time"),
    ("worker", "readTime", "commitTime"),
    ("worker", "read-time", "commit-time"),
    ("data.worker", "data.read_time", "data.commit_time"),
]
ENDINGS = {
    "ms": (" (ms)", "_ms", "Ms", " [msec]"),
    "us": (" (µs)", "_us"),
    "ns": ("_ns", " (nanoseconds)"),
    "s": (" (s)",),
}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("names", NAMES, ids="-".join)
def test_capitals_and_blanks_make_no_other_column(tmp_path, names, suffix):
    table = LOG.set_axis(names, axis=1)
    path = tmp_path / f"log{suffix}"
    if suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        path.write_text("\n".join(map(json.dumps, table.to_dict("records"))))
    trace = asim.Trace.from_csv(path)
    assert trace.digest == TRUTH.digest
    assert sum("was read as `" in note for note in trace.notes) == sum(a != b for a, b in zip(names, LOG, strict=True))


@pytest.mark.parametrize(("unit", "ending"), [(u, e) for u, endings in ENDINGS.items() for e in endings])
@pytest.mark.parametrize("named", [False, True])
def test_a_unit_in_a_name_counts(unit, ending, named):
    """A column that is called "Commit Time (ms)" was read in seconds, in silence."""
    names = {"read_time": f"Read Time{ending}", "commit_time": f"Commit Time{ending}"}
    table = LOG.assign(**{name: LOG[name] * PER_SECOND[unit] for name in names}).rename(columns=names)
    trace = asim.Trace.from_columns(table, columns=names if named else None)
    np.testing.assert_allclose(trace.commit_time, LOG.commit_time)
    assert sum("as its name says" in note for note in trace.notes) == 2 * (unit != "s")
    # What the user says wins.
    other = asim.Trace.from_columns(table, columns=names, unit="s")
    np.testing.assert_allclose(other.commit_time, LOG.commit_time * PER_SECOND[unit])


@pytest.mark.parametrize("name", ["commit_time", "time", "s", "ms", "worker", "items"])
def test_a_name_without_a_unit_has_none(name):
    assert split_unit(name) == (name, None)


def test_names_that_are_right_need_no_others():
    """A log that has `worker` and `commit_time` may have columns of nearly these names that are something else."""
    trace = asim.Trace.from_columns(LOG.assign(Commit_Time=0.0, Staleness=0.5, Version=7.3))
    assert trace.digest == TRUTH.digest


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(asim.TraceError, match="`commit_time` is missing"):
        asim.Trace.from_columns({"worker": [0], "Commit Time": [1.0], "Commit_time": [2.0]})


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("column", ["read_time", "commit_time"])
def test_each_column_may_have_its_unit(column, unit):
    table = LOG.assign(**{column: LOG[column] * PER_SECOND[unit]})
    trace = asim.Trace.from_columns(table, unit={column: unit})
    np.testing.assert_allclose(trace.commit_time, LOG.commit_time)
    np.testing.assert_array_equal(trace.staleness, TRUTH.staleness)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_columns_of_rollouts_in_other_units_have_a_note(power):
    """Openings in seconds, and steps in another unit, are in order, so that only their spans differ."""
    opened, factor = np.arange(1.0, 101.0), 1000.0**power
    notes = asim.Trace.from_rollouts(opened=opened, trained=(opened + 5) * factor).notes
    assert any("`trained` spans" in note and f"{int(factor):,} times" in note for note in notes)
    right = asim.Trace.from_rollouts(opened=opened, trained=(opened + 5) * factor, unit={"trained": "ms"})
    assert power > 1 or right.seconds == pytest.approx(104.0)


@pytest.mark.parametrize(
    "names",
    [["1e5", "10e4", "2e5", "3e1"], ["1.1", "1.10", "1.2", "1.20"], ["00012e45", "12e45", "1e3", "1000.0e0"]],
    ids=str,
)
def test_names_that_look_like_one_number_are_not_merged(tmp_path, names):
    table = LOG.assign(worker=np.array(names)[LOG.worker])
    table.to_csv(tmp_path / "log.csv", index=False)
    assert sorted(asim.Trace.from_csv(tmp_path / "log.csv").names) == sorted(names)


@pytest.mark.parametrize("first", [2**31, 2**53, 2**60, 2**63 + 1])
@pytest.mark.parametrize("way", ["csv", "jsonl", "frame", "array"])
def test_large_numbers_of_workers_are_not_merged(tmp_path, first, way):
    """Beyond 2⁵³, two neighbours are one float64."""
    worker = np.array([first + int(w) for w in LOG.worker], np.uint64)
    table = LOG.assign(worker=worker)
    if way == "csv":
        table.to_csv(tmp_path / "log.csv", index=False)
        trace = asim.Trace.from_csv(tmp_path / "log.csv")
    elif way == "jsonl":
        rows = [{"worker": int(w), "commit_time": t} for w, t in zip(worker, LOG.commit_time, strict=True)]
        (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
        trace = asim.Trace.from_csv(tmp_path / "log.jsonl")
    else:
        trace = asim.Trace.from_columns(table if way == "frame" else {name: table[name].to_numpy() for name in table})
    assert trace.names == tuple(str(first + w) for w in range(4))
    np.testing.assert_array_equal(trace.worker, LOG.worker)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_floats_that_cannot_tell_times_apart_have_a_note(kind):
    table = LOG.assign(commit_time=(LOG.commit_time + (1.7e9 if kind == np.float32 else 2e3)).astype(kind))
    notes = asim.Trace.from_columns(table[["worker", "commit_time"]].drop_duplicates(), start="first").notes
    assert any(f"`commit_time` is of {np.dtype(kind)}" in note for note in notes)


def test_floats_of_32_bits_that_suffice_have_no_note():
    assert not asim.Trace.from_columns(LOG.astype({"read_time": np.float32, "commit_time": np.float32})).notes


@pytest.mark.parametrize("rows", [slice(None, None, 2), slice(None)], ids=["some rows", "one column"])
def test_dates_with_and_without_a_zone_have_a_note(rows):
    """A local time without its zone is read as UTC, hours away from the others."""
    dates = {
        n: (pd.Timestamp("2026-03-01", tz="UTC") + pd.to_timedelta(LOG[n], unit="s"))
        for n in ("read_time", "commit_time")
    }
    texts = {name: [date.isoformat() for date in values] for name, values in dates.items()}
    texts["commit_time"][rows] = [text.removesuffix("+00:00") for text in texts["commit_time"][rows]]
    trace = asim.Trace.from_columns(LOG.assign(**texts))
    assert any("no time zone" in note for note in trace.notes)
    for same in (dates, {name: values.dt.tz_localize(None) for name, values in dates.items()}):
        assert not any("no time zone" in note for note in asim.Trace.from_columns(LOG.assign(**same)).notes)


ROWS = LOG.to_csv(index=False).splitlines()
COMMENTED = {
    "before the header": ["# host a, 4 gpus, run 7", "#", *ROWS],
    "names the separator": ["sep=,", *ROWS],
    "between the rows": [*ROWS[:20], "# checkpoint saved", *ROWS[20:], "# end"],
    "the header too": ["# run 7", f"#{ROWS[0]}", *ROWS[1:]],
    "the header too, with a blank": [f"# {ROWS[0]}", *ROWS[1:]],
}


@pytest.mark.parametrize("lines", COMMENTED.values(), ids=COMMENTED)
def test_comments_are_no_rows(tmp_path, lines):
    (tmp_path / "log.csv").write_text("\n".join(lines))
    assert asim.Trace.from_csv(tmp_path / "log.csv").digest == TRUTH.digest


def test_errors_name_the_line_that_the_file_has(tmp_path):
    (tmp_path / "log.csv").write_text("\n".join(["# run 7", ROWS[0], "0,0.0,soon"]))
    with pytest.raises(asim.TraceError, match="line 3 has 'soon'"):
        asim.Trace.from_csv(tmp_path / "log.csv")


def test_a_worker_may_begin_with_a_hash(tmp_path):
    table = LOG.assign(worker=[f"#{worker}" for worker in LOG.worker])
    table.to_csv(tmp_path / "log.csv", index=False)
    assert asim.Trace.from_csv(tmp_path / "log.csv").names == ("#0", "#1", "#2", "#3")


def test_a_spreadsheet_is_called_by_its_name(tmp_path):
    (tmp_path / "log.xlsx").write_bytes(b"PK\x03\x04" + bytes(30) + b"xl/workbook.xml")
    with pytest.raises(asim.TraceError, match=r"spreadsheet.*Save the sheet as CSV"):
        asim.Trace.from_csv(tmp_path / "log.xlsx")
