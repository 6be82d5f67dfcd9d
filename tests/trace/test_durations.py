"""Logs with durations in place of stamps: the start and the length of a task, a finish, or a read and its latency."""

import json

import numpy as np
import pandas as pd
import pytest

import asyncsim as asim
from tests.calibration import heap

CLUSTER = heap.Cluster(3, heap.gamma(1.0, 0.3), heap.gamma(0.05, 0.5), heap.gamma(0.02, 0.3))
LOG = pd.DataFrame(heap.simulate(CLUSTER, 60, seed=3)).astype({"worker": int})
COMPUTE = LOG.finish_time - LOG.start_time
PER_SECOND = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
# Columns that stay -> those that the duration stands for, and the duration.
WAYS = {
    "start": (["start_time", "commit_time"], COMPUTE, "finish_time"),
    "start and read": (["read_time", "start_time", "commit_time"], COMPUTE, "finish_time"),
    "finish": (["finish_time", "commit_time"], COMPUTE, "start_time"),
    "latency": (["read_time"], LOG.commit_time - LOG.read_time, "commit_time"),
    "latency to the commit": (["commit_time"], LOG.commit_time - LOG.read_time, "read_time"),
}


def table_of(way, unit="s", of_duration=None, origin=0.0, name="duration"):
    """A log with a duration."""
    stamps, duration, _ = WAYS[way]
    table = LOG[["worker", *stamps]].copy()
    table[stamps] = (table[stamps] + origin) * PER_SECOND[unit]
    table[name] = duration * PER_SECOND[of_duration or unit]
    return table


def difference(trace, way):
    """The largest error of the column that the log lacks, but for a start of the run."""
    target = WAYS[way][2]
    wrong = getattr(trace, target) - LOG[target].to_numpy()
    return np.abs(wrong - wrong[0]).max()


@pytest.mark.parametrize("origin", [0.0, 1.7e9])
@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize("way", WAYS)
def test_a_duration_gives_the_stamp_that_is_not_there(tmp_path, way, unit, origin):
    """Of Unix times in nanoseconds a float64 keeps 256 ns, and in seconds 240 ns."""
    table = table_of(way, unit, origin=origin, name="took")
    table.to_csv(tmp_path / "log.csv", index=False)
    how = {"columns": {"duration": "took"}, "unit": unit, "start": "first" if origin else None}
    for trace in (asim.Trace.from_columns(table, **how), asim.Trace.from_csv(tmp_path / "log.csv", **how)):
        assert difference(trace, way) < 2e-6
        assert any(f"`{WAYS[way][2]}` is" in note for note in trace.notes)
        trace.check()


@pytest.mark.parametrize("of_duration", PER_SECOND)
@pytest.mark.parametrize("of_stamps", ["s", "ms"])
@pytest.mark.parametrize("way", WAYS)
def test_durations_have_a_unit_of_their_own(way, of_stamps, of_duration):
    """By `unit` of each column, or by the name of the column."""
    units = {"duration": of_duration} | dict.fromkeys(WAYS[way][0], of_stamps)
    trace = asim.Trace.from_columns(table_of(way, of_stamps, of_duration), columns={"duration": "duration"}, unit=units)
    assert difference(trace, way) < 1e-6
    if of_stamps == "s":
        table = table_of(way, "s", of_duration, name=f"task_{of_duration}")
        assert difference(asim.Trace.from_columns(table, columns={"duration": f"task_{of_duration}"}), way) < 1e-6


@pytest.mark.parametrize("stamp", ["start", "finish"])
def test_tasks_without_a_commit_commit_when_they_finish(tmp_path, stamp):
    """As the timeline of a Ray program has them, in JSON."""
    table = table_of(stamp)[["worker", f"{stamp}_time", "duration"]]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, table.to_dict("records"))))
    trace = asim.Trace.from_csv(tmp_path / "log.jsonl")
    order = LOG.finish_time.argsort()
    np.testing.assert_allclose(trace.commit_time, LOG.finish_time[order], atol=1e-9)
    np.testing.assert_allclose(trace.start_time, LOG.start_time[order], atol=1e-9)


def test_tasks_of_one_worker_may_touch():
    """The end of one is the start of the next, which a sum of Unix times misses by rounding."""
    finish = 1.7e9 + np.cumsum(np.full(50, 0.1))
    log = {"worker": np.zeros(50, int), "finish_time": finish, "duration": np.full(50, 0.1)}
    trace = asim.Trace.from_columns(log, start="first")
    assert trace.seconds == pytest.approx(5.0)


@pytest.mark.parametrize("way", ["start", "finish"])
def test_a_column_that_is_no_duration_of_the_job_is_ignored(way):
    """It is called `duration`, counts in another unit, and nobody asked for it."""
    trace = asim.Trace.from_columns(table_of(way, of_duration="ms"))
    assert any("'duration' was ignored" in note for note in trace.notes)
    assert (trace.commit_time == LOG.commit_time).all()


@pytest.mark.parametrize(
    "columns", [["commit_time"], ["start_time", "finish_time", "commit_time"], ["read_time", "commit_time"]]
)
def test_a_duration_that_says_nothing_is_ignored(columns):
    trace = asim.Trace.from_columns(LOG[["worker", *columns]].assign(duration=COMPUTE))
    assert "Column 'duration' was ignored." in trace.notes
    assert trace.digest == asim.Trace.from_columns(LOG[["worker", *columns]]).digest


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"finish": "ms"}, "`unit` must name columns of times"),
        ({"commit_time": "h"}, r"`unit\['commit_time'\]` must be"),
    ],
    ids=["column", "unit"],
)
def test_units_are_of_columns_that_the_log_has(unit, message):
    with pytest.raises(ValueError, match=message):
        asim.Trace.from_columns(LOG, unit=unit)


def test_a_negative_duration_is_refused():
    table = table_of("start")
    table.loc[7, "duration"] = -1.0
    with pytest.raises(asim.TraceError, match=r"`duration`.* must not be negative; row 7 has -1\.0"):
        asim.Trace.from_columns(table, columns={"duration": "duration"})
