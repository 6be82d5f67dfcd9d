"""A sweep killed at random moments, here and on a Dask cluster: repeated, it ends as if it had not been disturbed."""

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
from asyncsim.store import _lease as lease
from asyncsim.store._files import read_owned
from asyncsim.study._store import open_store
from tests.study import killed
from tests.study.problems import untimed

LONG = bool(os.environ.get("ASYNCSIM_LONG_TESTS"))
KILLS = int(os.environ.get("ASYNCSIM_KILLS", 100 if LONG else 4))  # on each of the two
SEED = int(os.environ.get("ASYNCSIM_KILLS_SEED", 0))
RUNS = 16
WORKERS = 2
KINDS = ("worker", "worker", "parent", "group")  # each as likely
MOST_HITS = 2  # kills of one run by one command, of which three are a failure
LATEST = 1.0  # seconds from one kill to the next, at most, where there is something to kill
STARTED = 8.0  # seconds in which a command starts, roughly

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs process groups and /proc")


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(killed.LOG, str(tmp_path_factory.mktemp("here") / "log"))
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in ("", *sys.path) if path))
        patch.setenv("JAX_PLATFORMS", "cpu")
        patch.setenv(killed.PAUSE, "0.2")
        yield


class Killer:
    """Repeats a command until it has been killed often enough and then ends by itself.

    Whenever the sweep is complete before that, half of its results are removed.

    Args:
        store: Folder of the sweep.
        arguments: Of the command.
        others: Gives the numbers of the processes that compute, if they are not the command's own.
    """

    def __init__(self, store, arguments, others=None):
        self.store, self.arguments, self.others = store, arguments, others
        self.random = random.Random(SEED)
        self.kills = dict.fromkeys(KINDS, 0)
        self.said = store.parent / "said"

    def start(self):
        self.hits, self.begun = {}, time.monotonic()
        command = [sys.executable, "-m", "tests.study.killed", str(self.store), str(RUNS), *self.arguments]
        with open(self.said, "a") as said:
            self.process = subprocess.Popen(command, start_new_session=True, stderr=said)

    def run(self):
        """Kill, repeat, and let the last command end."""
        self.start()
        for _ in range(KILLS):
            kind = self.random.choice(KINDS)
            latest = LATEST if kind == "worker" else self.random.choice([LATEST, STARTED])
            time.sleep(self.random.uniform(0, latest))
            self.wait_for_others()
            while not self.kill(kind):
                if self.process.poll() is not None:
                    self.finish()
                    self.start()
                time.sleep(0.01)
            self.kills[kind] += 1
            if kind != "worker":
                self.process.wait()
                self.start()
        self.finish(discard=False)

    def wait_for_others(self):
        """Dask gives up a worker that dies while it starts, so all of them have to be there."""
        end = time.monotonic() + 60
        while self.others and len(self.others()) < WORKERS:
            assert time.monotonic() < end, "Dask has not started its workers again"
            time.sleep(0.02)

    def finish(self, discard=True):
        """The command ends by itself; then some of its results are removed, so that there is something to kill."""
        assert self.process.wait(timeout=300) == 0, self.said.read_text()[-2000:]
        store = open_store(self.store)
        for digest in self.random.sample(sorted(store.present()), RUNS // 2) if discard else ():
            store.discard(digest)

    def kill(self, kind):
        """Whether there was something to kill."""
        if self.process.poll() is not None:
            return False
        if kind == "worker":
            return self.kill_worker()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL) if kind == "group" else self.process.kill()
        for number in self.others() if self.others and kind == "group" else ():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return True

    def kill_worker(self):
        """One that is at work: it holds a lease, of a run that has not been hit too often."""
        held = lease.holders(self.store / "leases") if self.store.is_dir() else {}
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


def contents(folder):
    """All that a store keeps, but for times and commands."""
    store = open_store(folder)
    found = {}
    for digest in store.present():
        run = np.load(store.folder(digest) / "run.npz")
        trace = asim.Trace.load(store.folder(digest) / "trace.npz")
        arrays = {name: (run[name].dtype, run[name].tobytes()) for name in run if not name.startswith("note/")}
        label = read_owned(store.folder(digest) / "scenario.json", digest)
        del label["origin"]  # the command and its date
        found[digest] = arrays, trace.digest, untimed(store.summary(digest) or {}), label
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, here):
    """What the command gives that nobody kills."""
    folder = tmp_path_factory.mktemp("undisturbed")
    subprocess.run([sys.executable, "-m", "tests.study.killed", folder, str(RUNS)], check=True)
    return contents(folder)


def assert_as_if_nothing_had_been(killer, undisturbed):
    """The store holds the same, bit for bit, and nothing that dead processes left."""
    print(killer.kills)
    assert sum(killer.kills.values()) == KILLS
    found = contents(killer.store)
    assert [name for name in {**found, **undisturbed} if found.get(name) != undisturbed.get(name)] == []
    for name in ("leases", "failed", ".making", "unfinished"):
        assert not list((killer.store / name).iterdir()), name


def test_processes_of_this_machine(tmp_path, undisturbed):
    killer = Killer(tmp_path / "store", [])
    killer.run()
    assert_as_if_nothing_had_been(killer, undisturbed)


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

        killer = Killer(tmp_path / "store", [cluster.scheduler_address], workers)
        killer.run()
    assert_as_if_nothing_had_been(killer, undisturbed)


@pytest.mark.skipif(not LONG, reason="starts five processes")
def test_a_run_that_kills_its_process_costs_only_itself(tmp_path):
    asked = [*asim.grid(killed.scenario(), seed=range(4)), killed.scenario(killed.poison, seed=4)]
    results = asim.sweep(asked, tmp_path / "store", jobs=2)
    assert list(results.states.values()) == ["done"] * 4 + ["failed"]
    assert "its process died 3 times" in results.troubles[asked[-1].digest]
