"""`asyncsim sweep --scheduler`: workers of Dask that cannot work or are gone, and a scheduler that dies."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.cli.commands import assert_one_line

pytest.importorskip("distributed", reason="a Dask cluster")
ENDED = 60.0  # seconds in which a process must have begun, or ended


class Cluster:
    """A scheduler and workers, each a process of this machine."""

    def __init__(self, folder: Path) -> None:
        self.file, self.folder = folder / "scheduler.json", folder
        self.processes = [self._start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")]
        self._wait(lambda: self.file.is_file() and self.file.stat().st_size)

    def worker(self, path: str = "") -> subprocess.Popen:
        from distributed import Client

        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            before = len(client.nthreads())
            process = self._start("dask_worker", "--nthreads", "1", "--no-nanny", path=path)
            self.processes.append(process)
            client.wait_for_workers(before + 1, timeout=ENDED)
        return process

    def _start(self, program: str, *options: str, path: str = "") -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--no-dashboard"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))}
        return subprocess.Popen(
            [*command, "--scheduler-file", str(self.file), *options],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @staticmethod
    def _wait(until) -> None:
        deadline = time.monotonic() + ENDED
        while not until():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def end(self) -> None:
        for process in self.processes[::-1]:
            process.kill()
            process.wait(ENDED)


def kill_when_at_work(process: subprocess.Popen, store: Path) -> None:
    """Kill a process as soon as a worker has taken a lease that was not there before."""

    def leases() -> set[int]:
        return {entry.inode() for entry in os.scandir(store / "leases") if entry.name.endswith(".json")}

    before = leases()

    def watch() -> None:
        Cluster._wait(lambda: leases() - before)
        process.kill()

    threading.Thread(target=watch, daemon=True).start()


@pytest.fixture
def here():
    """The executor computes, and not this process as in the other files."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.end()


def test_workers_that_cannot_compute_are_named(cluster, command, script, tmp_path):
    """One story, because each process takes seconds to begin."""
    sweep = ("sweep", script, "--commits", "40", "--scheduler-file", cluster.file, "--store", "store")
    assert_one_line(command(*sweep), 1, "has no workers yet")

    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "asyncsim.py").write_text("raise ImportError('not installed here')")
    bare = cluster.worker(path=str(tmp_path / "bare"))
    refused = command(*sweep, "--grid", "seed=0:3")
    assert_one_line(refused, 1, "No worker can compute: tcp://127.0.0.1:", "not installed here", "Done: 0 of 3 runs")
    assert not list(Path("store/failed").iterdir())
    assert bare.poll() is None

    good = cluster.worker()
    done = command(*sweep, "--grid", "seed=0:3", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["columns"]["status"] == ["done"] * 3

    bare.kill()
    long = (*sweep, "--grid", "seed=3:5", "--commits-per-worker", "3000000")
    long = tuple(word for word in long if word not in ("--commits", "40"))
    kill_when_at_work(good, tmp_path / "store")
    assert_one_line(command(*long, "--patience", "2"), 1, "Waited 2 seconds for Dask workers (the scheduler has none")

    cluster.worker()
    kill_when_at_work(cluster.processes[0], tmp_path / "store")
    assert_one_line(command(*long), 1, "`executor` is gone", "Done: 0 of 2 runs")
    assert not list(Path("store/failed").iterdir())
