"""Processes killed at random moments, here and on a Dask cluster: every result is there, as if nothing had been."""

import multiprocessing
import multiprocessing.process
import os
import random
import signal
import threading
from contextlib import suppress
from multiprocessing import forkserver

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.folders import holders
from asyncsim.study.units import untimed
from tests.study import killed

LONG = bool(os.environ.get("ASYNCSIM_LONG_TESTS"))  # as `tests.hostile` sets it: a process takes seconds to start
UNITS, KILLS = (200, 6) if LONG else (40, 1)
IMPORTED = ["distributed", "asyncsim.study.work", "tests.study.killed"]  # by each process
FORKED = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"  # how Dask starts processes, read when it is imported


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    monkeypatch.setenv(killed.LOG, str(tmp_path / "log"))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")


@pytest.fixture(autouse=True)
def many_processes_start(monkeypatch):
    """In the long tests, two dozen: they are forked by a server that has imported what they need, before JAX starts.

    The short ones start them as users do.
    """
    if LONG:
        monkeypatch.setenv(FORKED, "forkserver")
        context = multiprocessing.get_context("forkserver")
        monkeypatch.setattr(multiprocessing, "get_context", lambda method: context)
        pytest.importorskip("distributed", reason="a Dask cluster")  # which has its own list of what is imported
        context.set_forkserver_preload(IMPORTED)
    yield
    if LONG:
        forkserver._forkserver._stop()  # whose environment names the log of this test


class Killer:
    """Kills a random process whenever a few more runs are done, at a random moment soon after.

    One that has computed something: else the same run, begun anew by a process that compiles, would be hit three times,
    and that is one that has failed.

    Args:
        processes: Gives the numbers of the processes that compute.
    """

    def __init__(self, processes):
        self.processes = processes
        self.random = random.Random(0)
        self.planned, self.killed = 0, 0
        self.due = UNITS // (KILLS + 1)

    def __call__(self, progress):
        if progress.done >= self.due and self.planned < KILLS:
            self.planned += 1
            self.due += UNITS // (KILLS + 1)
            threading.Timer(self.random.uniform(0, 0.05), self.kill).start()

    def kill(self):
        with suppress(IndexError, OSError):  # one that has just ended
            os.kill(self.random.choice(killed.have_computed(self.processes())), signal.SIGKILL)
            self.killed += 1


def many():
    return asim.grid(killed.scenario(), seed=range(UNITS))


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """What is computed in one process, one after another."""
    folder = tmp_path_factory.mktemp("serial")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(killed.LOG, str(folder / "log"))
        return list(asim.sweep(many(), folder / "store", jobs=0))


def assert_as_if_nothing_had_been(results, serial):
    """Every result equals that of a serial sweep bit for bit, and only what was killed was computed twice."""
    counts = killed.counted()
    assert len(counts) == UNITS
    assert sum(counts.values()) <= UNITS + KILLS
    assert len(results.computed) == len(set(results.computed))
    for one, other in zip(results, serial, strict=True):
        np.testing.assert_array_equal(one.run.loss, other.run.loss, strict=True)
        np.testing.assert_array_equal(one.run.central["x"], other.run.central["x"])
        assert untimed(one.summary) == untimed(other.summary)


def children():
    """The numbers of this process's children that compute."""
    started = [process.pid for process in list(multiprocessing.process._children)]
    return [number for number in sorted(started) if holders._start_of(number)]


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="finds the processes to kill in /proc")
def test_processes_of_this_machine(tmp_path, serial):
    killer = Killer(children)
    poisoned = [killed.scenario(killed.poison, seed=UNITS)] if LONG else []  # which kills three
    results = asim.sweep([*many(), *poisoned], tmp_path / "store", jobs=2, progress=killer)
    assert 0 < killer.killed <= KILLS
    states = list(results.states.values())
    assert states == ["done"] * UNITS + ["failed"] * len(poisoned)
    for one in poisoned:
        assert "its process died 3 times" in results.store.failure(one.digest)["reason"]
    results = asim.Sweep(many(), results.store, results.computed, {})
    assert_as_if_nothing_had_been(results, serial)
    assert not list((tmp_path / "store" / "claims").glob("*.json"))


def test_a_cluster(tmp_path, serial):
    distributed = pytest.importorskip("distributed", reason="a Dask cluster")
    import dask

    quiet = {"distributed.logging.distributed": "critical", "distributed.worker.daemon": False}
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        killer = Killer(lambda: list(client.run(os.getpid).values()))
        poisoned = [killed.scenario(killed.poison, seed=UNITS)] if LONG else []  # which kills four
        asked = [*many(), *poisoned]
        results = asim.sweep(asked, tmp_path / "store", executor=client.get_executor(retries=2), progress=killer)
    assert 0 < killer.killed <= KILLS
    assert list(results.states.values()) == ["done"] * UNITS + ["failed"] * len(poisoned)
    results = asim.Sweep(many(), results.store, results.computed, {})
    assert_as_if_nothing_had_been(results, serial)
