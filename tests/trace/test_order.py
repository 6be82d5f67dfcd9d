"""Rows out of order: parts of a log that were joined are sorted, and a clock that steps back is named with its row."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.trace import Trace

TRACE = asim.simulate(asim.Cluster(6, asim.delays.Gamma(1.0, 0.5)), commits=400, seed=1)
WORKER, TIME = TRACE.worker, TRACE.commit_time
STEP = "`commit_time` steps back by"
Log = dict[str, np.ndarray]


def log_of(order: np.ndarray, time: np.ndarray = TIME) -> Log:
    return {"worker": WORKER[order], "commit_time": time[order]}


def set_back(*rows: int, by: float) -> Log:
    """A server whose clock is set back before some rows."""
    later = sum((np.arange(len(TIME)) >= row for row in rows), np.zeros(len(TIME), int))
    return log_of(np.arange(len(TIME)), TIME - by * later)


def notes_of(log: Log) -> list[str]:
    return [note for note in Trace.from_columns(log, start=float(log["commit_time"].min() - 1)).notes if "sort" in note]


@pytest.mark.parametrize("by", [2.0, 5.0, float(TIME[199]), 1e4], ids=["a job", "some", "all", "far"])
def test_a_step_back_is_named_with_its_row(by: float) -> None:
    (note,) = notes_of(set_back(200, by=by))
    if by > TIME[-1]:  # What comes after it is a part of its own, as if an earlier one had been joined behind.
        assert note.startswith("Rows are not in the order of `commit_time`, first in row 200")
        assert "If a clock was set back there, as times of day are at midnight, correct the times" in note
    else:
        step = TIME[199] - TIME[200] + by
        assert note.startswith(f"{STEP} {step:.3g} s in row 200, and workers")


def test_the_first_of_several_steps_is_named_and_the_others_are_counted() -> None:
    (note,) = notes_of(set_back(100, 250, 300, by=4.0))
    assert re.search(r"s in row 100, as it does 2 times more, and", note)


def test_a_file_has_the_line_of_a_step(tmp_path: Path) -> None:
    log = set_back(200, by=5.0)
    lines = ["worker,commit_time", *(f"{w},{t!r}" for w, t in zip(*(v.tolist() for v in log.values()), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    assert any(note.startswith(STEP) and "in line 202," in note for note in Trace.from_csv(tmp_path / "log.csv").notes)


def test_two_runs_in_one_log_are_a_step_back() -> None:
    both = {"worker": np.append(WORKER, WORKER), "commit_time": np.append(TIME, 1.1 * TIME)}
    (note,) = notes_of(both)
    assert note.startswith(STEP)
    assert "in row 400, and" in note


def test_a_step_of_one_client_is_named_in_a_log_of_files_that_were_joined() -> None:
    rows = [np.flatnonzero(worker == WORKER) for worker in range(6)]
    time = TIME.copy()
    time[rows[3][20:]] -= 5.0
    (note,) = notes_of(log_of(np.concatenate(rows), time))
    assert f"in row {sum(map(len, rows[:3])) + 20}, and" in note


@pytest.mark.parametrize(
    "order",
    [
        lambda: np.random.default_rng(0).permutation(400),
        lambda: np.arange(400)[::-1],
        lambda: np.argsort(WORKER, kind="stable"),
        lambda: np.roll(np.arange(400), 150),
        lambda: np.concatenate([np.arange(300, 400), np.arange(150, 300), np.arange(150)]),
        lambda: np.argsort(TRACE.read_time, kind="stable"),
        lambda: np.insert(np.delete(np.arange(400), 200), 202, 200),
    ],
    ids=["at random", "newest first", "by worker", "two parts", "three parts", "by read", "one row late"],
)
def test_other_orders_are_sorted_without_a_step(order: Callable[[], np.ndarray]) -> None:
    (note,) = notes_of(log_of(order()))
    assert note.startswith("Rows are not in the order of `commit_time`")
    assert "they were sorted by it." in note  # Two parts may also be those before and after midnight.


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_one_wrong_time_is_no_step(factor: float) -> None:
    log = set_back(399, by=0.0)
    log["commit_time"][200] *= factor
    assert not any(note.startswith(STEP) for note in notes_of(log))


def test_a_job_across_a_step_is_refused_with_the_question() -> None:
    read = np.where(TRACE.read_time >= TIME[199], TRACE.read_time - 5, TRACE.read_time)
    with pytest.raises(asim.TraceError, match=r"row 20\d .*did a clock step back\?"):
        Trace.from_columns(set_back(200, by=5.0) | {"read_time": read})


class TestAWorkerThatJoinsLate:
    """Its first job began at an unknown time, but not after the times that the log has of it."""

    ROWS = np.flatnonzero((WORKER != 5) | (TRACE.read_time > 32))  # Its first job is shorter than a typical one.

    def read(self, **columns: np.ndarray) -> Trace:
        trace = Trace.from_columns(log_of(self.ROWS) | columns)
        assert any(note.startswith("Worker 5 joined late") for note in trace.notes)
        return trace

    @pytest.mark.parametrize("name", ["start_time", "finish_time", "arrive_time", "serve_time"])
    def test_it_reads_before_the_first_time_of_its_job(self, name: str) -> None:
        began = TRACE.start_time[self.ROWS]
        trace = self.read(**{name: began})
        first = int(np.argmax(trace.worker == 5))
        assert 0 < trace.read_time[first] <= began[first]

    def test_versions_of_groups_say_what_it_read(self) -> None:
        whole = Trace.from_columns(log_of(self.ROWS) | {"read_time": TRACE.read_time[self.ROWS]})
        groups = {f"read_version[{name}]": whole.read_version for name in ("head", "tail")}
        assert self.read(**groups).staleness.tolist() == whole.staleness.tolist()


@pytest.mark.parametrize("tick", [1.0, 2.0, 5.0])
def test_a_job_of_no_ticks_after_a_pause_has_not_read_its_own_commit(tick: float) -> None:
    """By a coarse clock it reads and commits at one moment, and not when its worker committed before."""
    generator = np.random.default_rng(0)
    worker, jobs, pauses = np.repeat([0, 1, 2], 200), generator.exponential(2.0, 600), generator.exponential(2.0, 600)
    ends = np.concatenate([np.cumsum(part) for part in np.split(jobs + pauses, 3)])
    order = np.argsort(ends)
    log = {"worker": worker, "read_time": ends - jobs, "commit_time": ends}
    table = {name: values[order] if name == "worker" else values[order] // tick * tick for name, values in log.items()}
    trace = asim.Trace.from_columns(table)
    assert (trace.staleness >= 0).all()
    assert (trace.read_time == table["read_time"]).all()
