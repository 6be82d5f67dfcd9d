"""A sweep killed at random moments, here and on a Dask cluster: repeated, it ends as if it had not been disturbed.

By default one worker and then the process that started it are killed. `ASYNCSIM_KILLS=100` kills at a hundred random
moments on each of the two.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.files._json import read_owned
from asyncsim.store import _lease as lease
from asyncsim.study._store import open_store
from tests.study import killed
from tests.study.problems import present, untimed

LONG = bool(os.environ.get("ASYNCSIM_LONG_TESTS"))
KILLS = int(os.environ.get("ASYNCSIM_KILLS", 100 if LONG else 0))  # random ones, on each of the two
SEED = int(os.environ.get("ASYNCSIM_KILLS_SEED", 0))
KINDS = random.Random(SEED).choices(("worker", "worker", "parent", "group"), k=KILLS) or ("worker", "parent")
RUNS = 16 if KILLS else 6
WORKERS = 2 if KILLS else 1
MOST_HITS = 2  # kills of one run by one command, of which three are a failure
LATEST = 1.0  # seconds from one kill to the next, at most, where there is something to kill
STARTED = 8.0  # seconds in which a command starts, roughly
SCRIPT = """
import sys
from tests.study import killed

print("once", flush=True)
killed.sweep(*sys.argv[1:])
"""

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs process groups and /proc")


class Killer:
    """Repeats a command until it has been killed often enough and then ends by itself.

    Whenever the sweep is complete before that, half of its results are removed.

    Args:
        folder: For the script and the store of the sweep.
        where: Argument of the command.
        others: Gives the numbers of the processes that compute, if they are not the command's own.
    """

    def __init__(self, folder, where, others=None):
        self.store, self.printed, self.said = (folder / name for name in ("store", "printed", "said"))
        (folder / "study.py").write_text(SCRIPT)
        self.command = [sys.executable, folder / "study.py", self.store, str(RUNS), where]
        self.random, self.others = random.Random(SEED), others

    def start(self):
        self.hits = {}
        with open(self.printed, "w") as printed, open(self.said, "a") as said:
            self.process = subprocess.Popen(self.command, start_new_session=True, stdout=printed, stderr=said)

    def run(self):
        """Kill, repeat, and let the last command end."""
        self.start()
        for kind in KINDS:
            latest = LATEST if kind == "worker" else self.random.choice([LATEST, STARTED])
            time.sleep(self.random.uniform(0, latest) if KILLS else 0)
            self.wait_for_others()
            while not self.kill(kind):
                if self.process.poll() is not None:
                    self.finish()
                    self.start()
                time.sleep(0.01)
            if kind != "worker":
                self.process.wait()
                self.start()
        self.finish(discard=False)

    def wait_for_others(self):
        """Dask gives up a worker that dies while it starts, so all of them have to be there."""
        if self.others:
            wait_until(lambda: len(self.others()) >= WORKERS)

    def finish(self, discard=True):
        """The command ends by itself; then some of its results are removed, so that there is something to kill.

        Its processes do not run the script again, although the script has no `if __name__ == "__main__"`, and nothing
        but the script prints.
        """
        assert self.process.wait(timeout=300) == 0, self.said.read_text()[-2000:]
        assert self.printed.read_text() == "once\n"
        store = open_store(self.store)
        for digest in self.random.sample(sorted(present(store)), RUNS // 2) if discard else ():
            store.discard(digest)

    def kill(self, kind):
        """Whether there was something to kill."""
        held = lease.holders(self.store / "leases") if self.store.is_dir() else {}
        if self.process.poll() is not None or not (held or KILLS):
            return False
        if kind == "worker":
            return self.kill_worker(held)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL) if kind == "group" else self.process.kill()
        for number in self.others() if self.others and kind == "group" else ():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        if not self.others:  # processes of this machine end with the one that started them
            wait_until(lambda: not any(map(lease.is_alive, held.values())))
        return True

    def kill_worker(self, held):
        """One that is at work: it holds a lease, of a run that has not been hit too often."""
        processes = {digest: holder.get("process") for digest, holder in held.items()}  # None: just given back
        allowed = {*processes.values()} - {None} if self.others is None else {*self.others()}
        found = sorted(one for one in held if processes[one] in allowed and self.hits.get(one, 0) < MOST_HITS)
        if not found:
            return False
        digest = self.random.choice(found)
        try:
            os.kill(processes[digest], signal.SIGKILL)
        except ProcessLookupError:  # has just ended
            return False
        self.hits[digest] = self.hits.get(digest, 0) + 1
        return True


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def contents(folder):
    """All that a store keeps, but for times and commands."""
    store = open_store(folder)
    found = {}
    for digest in present(store):
        run = np.load(store.folder(digest) / "run.npz")
        trace = asim.Trace.load(store.folder(digest) / "trace.npz")
        arrays = {name: (run[name].dtype, run[name].tobytes()) for name in run if not name.startswith("note/")}
        label = read_owned(store.folder(digest) / "scenario.json", digest)
        del label["origin"]  # the command and its date
        found[digest] = arrays, trace.digest, untimed(store.summary(digest) or {}), label
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What this process computes, which nobody kills."""
    folder = tmp_path_factory.mktemp("undisturbed")
    killed.sweep(folder, RUNS, "0")
    return contents(folder)


@pytest.fixture
def environment(monkeypatch, undisturbed):
    """That of the commands."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in ("", *sys.path) if path))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv(killed.PAUSE, "0.2")


def assert_as_if_nothing_had_been(killer, undisturbed):
    """The store holds the same, bit for bit, and nothing that dead processes left."""
    found = contents(killer.store)
    assert [name for name in {**found, **undisturbed} if found.get(name) != undisturbed.get(name)] == []
    for name in ("leases", "failed", ".making", "unfinished"):
        assert not list((killer.store / name).iterdir()), name


@pytest.mark.usefixtures("environment")
def test_processes_of_this_machine(tmp_path, undisturbed):
    killer = Killer(tmp_path, str(WORKERS))
    killer.run()
    assert_as_if_nothing_had_been(killer, undisturbed)


@pytest.mark.skipif(not KILLS, reason="starts a Dask cluster, and `ASYNCSIM_KILLS` asks for no kills")
@pytest.mark.usefixtures("environment")
def test_a_cluster(tmp_path, undisturbed):
    distributed = pytest.importorskip("distributed", reason="a Dask cluster")
    import dask

    settings = {
        "distributed.logging.distributed": "critical",
        "distributed.worker.daemon": False,
        # So long after each death the cluster looks whether a worker of this name is there, and else gives it up for
        # good: with a death a second, one that is just starting again. By default, 15 s.
        "distributed.deploy.lost-worker-timeout": "1 day",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
    ):

        def workers():
            """Those that have started: Dask gives up a worker that dies before."""
            processes = [nanny.process for nanny in cluster.workers.values() if nanny.process is not None]
            return [process.pid for process in processes if process.status.name == "running"]

        killer = Killer(tmp_path, cluster.scheduler_address, workers)
        killer.run()
    assert_as_if_nothing_had_been(killer, undisturbed)


@pytest.mark.skipif(not LONG, reason="starts five processes")
def test_a_run_that_kills_its_process_costs_only_itself(tmp_path):
    asked = [*asim.grid(killed.scenario(), seed=range(4)), killed.scenario(killed.poison, seed=4)]
    results = asim.sweep(asked, tmp_path / "store", jobs=2)
    assert list(results.states.values()) == ["done"] * 4 + ["failed"]
    assert "its process died 3 times" in results.troubles[asked[-1].digest]
