"""The recorder of a parameter server: its lines are what happened, and are there at once."""

import math
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import recorder as module

TIMES = ("read_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")
VERSIONS = ("worker", "read_version", "version", "closes_step")


@pytest.fixture
def recorder(tmp_path):
    recorder = asim.Recorder(tmp_path / "log.csv")
    yield recorder
    recorder.close()


def read(tmp_path, **options):
    return asim.Trace.from_csv(tmp_path / "log.csv", start="first", **options)


def at(recorder, monkeypatch, seconds):
    monkeypatch.setattr(recorder, "now", lambda: float(seconds))


def replay(trace, recorder, monkeypatch, stamps):
    """Let the server of a simulated trace record what happens, with or without the clients' stamps."""
    at(recorder, monkeypatch, 0)
    for worker in range(trace.workers):
        recorder.read(worker)
    for row in range(len(trace)):
        _, *client, arrive, serve, commit = (float(getattr(trace, name)[row]) for name in TIMES)
        worker = int(trace.worker[row])
        at(recorder, monkeypatch, serve)
        closes = bool(trace.closes_step[row])
        with recorder.commit(worker, *client * stamps, arrive=arrive, closes_step=closes):
            at(recorder, monkeypatch, commit)


GAMMA = asim.delays.Gamma
CLUSTERS = {
    "network and queue": asim.Cluster(
        5,
        GAMMA(1.0, 0.5),
        network=asim.Network(latency=GAMMA(0.1, 0.5)),
        server=asim.Server(service=GAMMA(0.15, 0.5)),
    ),
    "no network": asim.Cluster(3, GAMMA(1.0, 0.5)),
    "a server that collects": asim.Cluster(6, GAMMA(1.0, 0.5), protocol=asim.protocols.KBatchAsync(3)),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", CLUSTERS)
def test_lines_are_the_trace_of_what_happened(name, recorder, tmp_path, monkeypatch):
    trace = asim.simulate(CLUSTERS[name], commits=60)
    replay(trace, recorder, monkeypatch, stamps=True)
    log = read(tmp_path)
    for column in VERSIONS:
        assert (getattr(log, column) == getattr(trace, column)).all(), column
    for column in TIMES:
        assert (getattr(log, column) == getattr(trace, column)).all(), column
    assert not log.notes


def test_the_last_gradient_that_is_only_collected_closes_no_step(recorder, tmp_path):
    for worker in "ab":
        recorder.read(worker)
    for worker, closes in (("a", True), ("b", True), ("a", False)):
        with recorder.commit(worker, closes_step=closes):
            pass
    assert read(tmp_path).steps == recorder.version == 2


def test_threads_get_no_time_twice(recorder):
    """With switches between threads after almost every operation."""
    interval, times = sys.getswitchinterval(), [[] for _ in range(4)]

    def ask(mine):
        for _ in range(5000):
            mine.append(recorder.now())

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask, args=(mine,)) for mine in times]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len({time for mine in times for time in mine}) == 20_000
    assert all(mine == sorted(mine) for mine in times)


def test_without_stamps_a_job_lasts_from_its_read_to_its_arrival(recorder, tmp_path, monkeypatch):
    trace = asim.simulate(CLUSTERS["network and queue"], commits=60)
    replay(trace, recorder, monkeypatch, stamps=False)
    log = read(tmp_path)
    assert (log.start_time == trace.read_time).all()
    assert (log.finish_time == trace.arrive_time).all()
    for column in (*VERSIONS, "serve_time", "commit_time"):
        assert (getattr(log, column) == getattr(trace, column)).all(), column


def test_a_later_read_counts(recorder, tmp_path, monkeypatch):
    """Of a worker that pulls in a request of its own, or that was started again."""
    for seconds, event in enumerate(("read a", "read b", "commit b", "commit b", "read a", "commit b", "commit a")):
        at(recorder, monkeypatch, seconds)
        kind, worker = event.split()
        if kind == "read":
            recorder.read(worker)
        else:
            with recorder.commit(worker):
                pass
    log = read(tmp_path)
    assert [log.names[worker] for worker in log.worker] == ["b", "b", "b", "a"]
    assert log.read_time.tolist() == [0, 1, 2, 3]  # from the earliest read that is in the log
    assert log.read_version.tolist() == [0, 1, 2, 2]


def test_threads_commit_one_at_a_time(recorder, tmp_path):
    threads, commits = 8, 20

    def serve(worker):
        recorder.read(worker)
        for _ in range(commits):
            start = time.time()
            with recorder.commit(worker, start, time.time()):
                time.sleep(1e-5)  # Others come in between.

    all_of_them = [threading.Thread(target=serve, args=(worker,)) for worker in range(threads)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()
    log = read(tmp_path)
    assert np.bincount(log.worker).tolist() == [commits] * threads
    assert log.version.tolist() == [*range(threads * commits)]
    assert (log.serve_time[1:] >= log.commit_time[:-1]).all()
    assert (log.staleness >= 0).all()
    assert recorder.version == threads * commits


def test_a_read_waits_for_the_update_under_way(recorder, tmp_path):
    """It would see a part of it, or come between the version and the time of another read."""
    recorder.read(0)
    reader = threading.Thread(target=recorder.read, args=(1,))
    with recorder.commit(0):
        reader.start()
        reader.join(0.05)
    reader.join()
    with recorder.commit(1):
        pass
    assert read(tmp_path).read_version.tolist() == [0, 1]


def test_a_commit_that_fails_leaves_no_line(recorder, tmp_path):
    recorder.read(0)
    with pytest.raises(ZeroDivisionError), recorder.commit(0):
        1 / 0  # noqa: B018
    with recorder.commit(0):
        pass
    assert read(tmp_path).version.tolist() == [0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"worker": "new"}, "`worker` 'new' must read before it commits"),
        ({"start": 1.0}, "`start` and `finish` must both be times, or neither; got 1.0 and None"),
        ({"finish": 1.0}, "`start` and `finish` must both be times, or neither; got None and 1.0"),
        ({"start": 2.0, "finish": 1.0}, "`start` must not be later than `finish`; got 2.0 and 1.0"),
        ({"start": math.nan, "finish": 1.0}, "`start` must not be later than `finish`; got nan and 1.0"),
        ({"start": 1.0, "finish": math.nan}, "`finish` must be a Unix time in seconds; got nan at 1.0"),
        ({"start": 1.7e9, "finish": 1.7e9}, "`finish` must be a Unix time in seconds; got 1700000000.0 at 1.0"),
    ],
)
def test_nonsense_is_refused_before_the_update(call, message, recorder, tmp_path, monkeypatch):
    at(recorder, monkeypatch, 1)
    recorder.read(0)
    with pytest.raises(ValueError, match=message), recorder.commit(**{"worker": 0, **call}):
        pytest.fail("The body was executed.")
    assert recorder.version == 0
    with recorder.commit(0):  # The lock is free again.
        pass
    assert len(read(tmp_path)) == 1


def test_an_existing_log_is_not_replaced(tmp_path):
    (tmp_path / "log.csv").write_text("precious")
    with pytest.raises(FileExistsError, match=r"log\.csv"):
        asim.Recorder(tmp_path / "log.csv")
    assert (tmp_path / "log.csv").read_text() == "precious"


SERVER = """
import os, signal
from recorder import Recorder

recorder = Recorder("log.csv")
recorder.read(0)
for _ in range(5):
    with recorder.commit(0):
        if recorder.version == 4:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_copied_file_needs_nothing_and_a_killed_server_loses_no_line(tmp_path):
    shutil.copy(Path(module.__file__), tmp_path / "recorder.py")
    (tmp_path / "server.py").write_text(SERVER)
    done = subprocess.run([sys.executable, "-S", "server.py"], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode < 0, done.stderr
    assert read(tmp_path).version.tolist() == [0, 1, 2, 3]


def test_times_of_the_server_grow_where_its_clock_is_set_back(recorder, tmp_path, monkeypatch):
    for seconds in (1000.0, 1001.0, 996.0, 996.0, 1003.0):
        monkeypatch.setattr(module.time, "time", lambda seconds=seconds: seconds)
        recorder.read(int(seconds != 1000))
        with recorder.commit(0):
            pass
    log = read(tmp_path)
    assert log.commit_time == pytest.approx([0, 1, 1, 1, 3])
    assert (np.diff(log.commit_time) > 0).all()
