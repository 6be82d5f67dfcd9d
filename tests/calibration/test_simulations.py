"""Simulations in processes that die, models that hang or vary, calls that share a folder, and damaged files."""

import signal
import sys
import threading
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration import LogUniform, Model
from asyncsim.calibration import _simulations as drawn
from asyncsim.pool import _slots as slots
from asyncsim.pool._parcels import dumps
from asyncsim.store import _lease as lease
from tests.problems import assert_refused, refusals

SEEN = (("commit_time",),)
PRIOR = {"mean": LogUniform(0.1, 10)}
SPREAD = delays.Gamma(1.0, 0.5)


def build(p):
    return asim.Cluster(2, delays.Gamma(p["mean"], 0.5))


def job(make=build):
    return drawn.Job(Model(make, PRIOR), 40, SEEN, 0)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr(drawn, "COMMITS_PER_SECOND", 200)  # ten simulations


class Dead(Executor):
    """An executor whose process dies when it should give a result."""

    def __init__(self, *args, **kwargs):
        self._processes = {}

    def submit(self, function, argument):
        future = Future()
        future.set_exception(BrokenProcessPool("dead"))
        return future


def test_simulations_are_kept_and_the_same_everywhere(tmp_path):
    whole = drawn.simulations(job(), 40, jobs=0)
    here = drawn.simulations(job(), 15, folder=tmp_path, jobs=0)
    reports = []
    more = drawn.simulations(job(), 40, folder=tmp_path, jobs=1, progress=reports.append)
    assert (reports[0].done, reports[-1].done, reports[-1].new) == (20, 40, 20)
    np.testing.assert_array_equal(here.values, whole.values[:15])
    np.testing.assert_array_equal(more.values, whole.values)
    np.testing.assert_array_equal(more.statistics, whole.statistics)


def test_ctrl_c_loses_little(tmp_path):
    """Finished groups are stored, and the same call goes on from there."""

    def stop(progress):
        if progress.new == 20:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        drawn.simulations(job(), 1000, folder=tmp_path, jobs=0, progress=stop)
    reports = []
    drawn.simulations(job(), 20, folder=tmp_path, jobs=0, progress=reports.append)
    assert reports[0].done == reports[-1].done == 20


def test_processes_that_always_die(monkeypatch):
    monkeypatch.setattr(slots, "ProcessPoolExecutor", Dead)
    message = r"Simulations 0 to 9 failed: its process died 3 times \(BrokenProcessPool: dead\).*`jobs=0` shows why"
    with pytest.raises(drawn.ProcessesDied, match=message):
        drawn.simulations(job(), 30, jobs=1)


def test_calls_that_share_a_folder_share_the_work(tmp_path, monkeypatch):
    """What another call has kept meanwhile is not made again, and both give the same."""
    plain, made = drawn.simulate_group, []

    def beside(one, begin, size):
        """Another call comes by while the first group is made, and keeps all of them but the last."""
        made.append(begin)
        for other in range(0, 30, 10) if len(made) == 1 else ():
            drawn.write_group(tmp_path, other, plain(one, other, size))
        return plain(one, begin, size)

    monkeypatch.setattr(drawn, "simulate_group", beside)
    shared = drawn.simulations(job(), 40, folder=tmp_path, jobs=0)
    assert made == [0, 30]
    monkeypatch.setattr(drawn, "simulate_group", plain)
    np.testing.assert_array_equal(shared.statistics[0], drawn.simulations(job(), 40, jobs=0).statistics[0])


def test_simulations_that_another_process_makes_are_waited_for(tmp_path):
    """The lease of the second group is held until all others are there."""
    (tmp_path / "leases").mkdir()
    reports = []
    with ExitStack() as held:
        assert held.enter_context(lease.hold_batch(tmp_path / "leases", [drawn._Group(10, 10, None).name]))

        def tell(progress):
            reports.append(progress.done)
            if progress.done == 20:
                assert not list(tmp_path.glob("simulations-00000010.npz"))
                held.close()

        found = drawn.simulations(job(), 30, folder=tmp_path, jobs=0, progress=tell)
    assert reports[-1] == 30
    np.testing.assert_array_equal(found.values, drawn.simulations(job(), 30, jobs=0).values)


def goes_down(p):
    faults = [asim.faults.Crash(w, time=p["mean"]) for w in range(2)]
    return asim.Cluster(2, delays.Constant(1.0), faults=faults)


def goes_on(p):
    loss = asim.faults.MessageLoss(1 - 1e-6 * p["mean"], timeout=1.0)
    return asim.Cluster(2, delays.Constant(1.0), faults=[loss])


test_models_that_fail_for_some_values = refusals(
    (lambda p: build(p) if p["mean"] <= 1 else 1 / 0, r"`build` fails at mean=\d.*ZeroDivisionError: division by zero"),
    (lambda p: build(p) if p["mean"] <= 1 else sys.exit("bye"), r"fails at mean=\d.*SystemExit: bye. Narrow the prior"),
    (
        lambda p: asim.Cluster(2 if p["mean"] < 1.01 else 3, SPREAD),
        r"as many workers for all values; got 2, and 3 at mean=\d",
    ),
    (goes_down, r"a cluster that fails at mean=.*`commits` never come.* Narrow the prior"),
    call=lambda make: drawn.simulations(job(make), 20, jobs=0),
)


def test_a_model_that_goes_on_for_ever(monkeypatch):
    monkeypatch.setattr(drawn, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(drawn, "MOST_SLOWER", 0.1)
    message = r"a cluster that fails at mean=.*takes more than 0 s, for \d+ of 40 commits. Narrow the prior"
    assert_refused(lambda: drawn.simulations(job(goes_on), 20, jobs=0), message)


def test_what_a_model_prints_is_not_a_result(capsys):
    """Processes write where the command does, of which the output may be read by a program."""

    def prints(p):
        print("building")
        return build(p)

    drawn._work((drawn._Group(0, 2, None), dumps(job(prints))))
    captured = capsys.readouterr()
    assert "building" in captured.err
    assert captured.out.count("building") == 1  # of `Model` itself, which a command runs as part of a script


def test_models_that_cannot_travel():
    lock = threading.Lock()

    def build_with(p):
        return build(p) if lock else None

    with pytest.raises(ValueError, match=r"cannot be sent to other processes: .* or give `jobs=0`"):
        drawn.simulations(job(build_with), 20, jobs=1)


def test_damaged_simulations_are_missing(tmp_path):
    group = drawn.Simulations(np.arange(1.0, 11.0)[:, None], (np.ones((10, 3)),))
    drawn.write_group(tmp_path, 0, group)
    np.testing.assert_array_equal(drawn.read_group(tmp_path, 0, 10, job()).values, group.values)
    assert drawn.read_group(tmp_path, 1, 10, job()) is None
    assert drawn.read_group(tmp_path, 0, 20, job()) is None  # of another size
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    assert drawn.read_group(tmp_path, 0, 10, job()) is None
