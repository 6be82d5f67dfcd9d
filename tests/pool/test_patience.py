"""Waiting for others that never end, runs that never end, and workers that cannot work."""

import dataclasses
import itertools
import json
import time
import warnings
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest

import asyncsim as asim
from asyncsim.engine import _chunks as chunks
from asyncsim.pool import _queue as patience
from asyncsim.pool import _slots as slots
from asyncsim.study._store import open_store
from tests.study.problems import scenario

BASE = scenario(commits=40)
ASKED = asim.grid(BASE, seed=range(3))


def hanging(params, batch, key):
    """A loss whose first evaluation waits for ever, as long as a test goes."""
    import jax

    jax.debug.callback(lambda: time.sleep(30))
    return params["x"] ** 2


class TestWaiting:
    """Another process holds the lease of a run and never ends it."""

    def test_ends_with_who_is_waited_for(self, tmp_path):
        with open_store(tmp_path).lease([ASKED[0].digest]) as mine:
            assert mine
            with pytest.raises(RuntimeError, match=r"Waited 0 seconds for process \d+ on .*1 of these runs"):
                asim.sweep(ASKED, tmp_path, jobs=0, patience=0.3)
        again = asim.sweep(ASKED, tmp_path, jobs=0)
        assert again.computed == (ASKED[0].digest,)  # the others were computed while it waited

    def test_is_said_after_a_minute(self, tmp_path, monkeypatch):
        monkeypatch.setattr(patience, "SAID", 0.1)
        with (
            open_store(tmp_path).lease([ASKED[0].digest]),
            pytest.warns(
                UserWarning, match=r"^Waiting for process \d+ on \S+, which holds the leases of 1 of these runs"
            ) as said,
            pytest.raises(RuntimeError),
        ):
            asim.sweep(ASKED, tmp_path, jobs=0, patience=1.0)
        assert len(said) == 1

    def test_nothing_is_said_before(self, tmp_path):
        with warnings.catch_warnings(), open_store(tmp_path).lease([ASKED[0].digest]):
            warnings.simplefilter("error")
            with pytest.raises(RuntimeError):
                asim.sweep(ASKED, tmp_path, jobs=0, patience=0.3)

    def test_refused(self, tmp_path):
        for name in ("patience", "run_limit"):
            with pytest.raises(ValueError, match=f"`{name}` must"):
                asim.sweep(ASKED, tmp_path, jobs=0, **{name: -1.0})


class TestRunLimit:
    def test_a_run_over_it_has_failed_with_the_reason(self, tmp_path, monkeypatch):
        """Of a clock by which every look takes a tenth of a second."""
        monkeypatch.setattr(chunks, "LONGEST", 64)
        ticks = itertools.count()
        monkeypatch.setattr(patience, "monotonic", lambda: next(ticks) / 10)
        long = BASE.override(commits=1000)
        results = asim.sweep([BASE, long], tmp_path, jobs=0, run_limit=1.0)
        assert list(results.states.values()) == ["done", "failed"]
        assert results.troubles[long.digest].startswith("it took longer than 1 seconds, which is its `run_limit`")
        assert asim.sweep([long], tmp_path, jobs=0, run_limit=1000.0).computed == ()  # failures are kept
        shorter = dataclasses.replace(long, commits=200)
        assert len(asim.sweep([shorter], tmp_path, jobs=0, run_limit=1000.0, retry_failed=True).computed) == 1

    def test_of_those_in_turn_only_that_one(self, tmp_path, monkeypatch):
        from asyncsim.study import _batches as batches

        replay = batches.replay_to_end

        def slow(scenario, trace, before, seconds, progress, checkpoint):
            if scenario.rule.learning_rate == 0.2:
                time.sleep(0.5)
            return replay(scenario, trace, before, seconds, progress, checkpoint)

        asim.run(BASE)  # which compiles
        monkeypatch.setattr(batches, "replay_to_end", slow)
        many = asim.grid(BASE, learning_rate=[0.1, 0.2, 0.3])
        results = asim.sweep(many, tmp_path, jobs=0, run_limit=0.4)
        assert list(results.states.values()) == ["done", "failed", "done"]

    def test_a_process_that_does_not_answer_is_killed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(slots, "GRACE", 2.0)
        workload = asim.Workload(init=lambda key: {"x": 1.0}, loss=hanging)
        stuck = asim.Scenario(BASE.cluster, asim.rules.Downpour(0.1), workload, commits=8)
        begun = time.monotonic()
        results = asim.sweep([stuck], tmp_path, jobs=1, run_limit=1.0)
        assert time.monotonic() - begun < 28
        assert list(results.states.values()) == ["failed"]
        assert "longer than 1 seconds" in next(iter(results.troubles.values()))


class Elsewhere(Executor):
    """Processes of which the first few see the store under another path, or do not."""

    _max_workers = 1

    def __init__(self, blind):
        self.blind, self.asked = blind, 0

    def submit(self, function, task):
        future = Future()
        self.asked += 1
        task = dataclasses.replace(task, store="/no/such/store") if self.asked <= self.blind else task
        try:
            future.set_result(function(task))
        except Exception as error:
            future.set_exception(error)
        return future


class TestWorkers:
    """A process that cannot work."""

    def test_that_does_not_see_the_store_leaves_nothing_in_it(self, tmp_path):
        with pytest.raises(RuntimeError, match=r"process \d+ on .*`store` '/no/such/store' is not there"):
            asim.sweep(ASKED, tmp_path, executor=Elsewhere(blind=100))
        assert list(open_store(tmp_path).states(one.digest for one in ASKED).values()) == ["missing"] * 3
        results = asim.sweep(ASKED, tmp_path, jobs=0)
        assert len(results.computed) == 3

    def test_what_one_cannot_do_another_one_does(self, tmp_path):
        results = asim.sweep(ASKED, tmp_path, executor=Elsewhere(blind=2))
        assert set(results.states.values()) == {"done"}

    def test_that_cannot_import_the_library(self, tmp_path):
        class Bare(Executor):
            _max_workers = 1

            def submit(self, function, task):
                future = Future()
                future.set_exception(ModuleNotFoundError("No module named 'asyncsim'"))
                return future

        with pytest.raises(RuntimeError, match="No module named 'asyncsim'"):
            asim.sweep(ASKED, tmp_path, executor=Bare())
        assert not list((tmp_path / "failed").iterdir())

    def test_that_cannot_write(self, tmp_path, monkeypatch):
        from asyncsim.study._store import Store

        make, full = Store._make, []

        def fail_once(self, digest, fill):
            if not full:
                full.append(digest)
                raise OSError(28, "No space left on device")
            return make(self, digest, fill)

        monkeypatch.setattr(Store, "_make", fail_once)
        with ThreadPoolExecutor(1) as executor:
            results = asim.sweep(ASKED, tmp_path, executor=executor)
        assert full
        assert set(results.states.values()) == {"done"}

    def test_an_executor_that_is_gone(self, tmp_path):
        class Gone(Executor):
            _max_workers = 1

            def submit(self, function, task):
                future = Future()
                future.cancel()
                future.set_running_or_notify_cancel()
                return future

        with pytest.raises(RuntimeError, match="`executor` is gone"):
            asim.sweep(ASKED, tmp_path, executor=Gone())


def test_what_workers_print_is_not_a_result(tmp_path, monkeypatch, capfd):
    """`--json` prints one object, whatever a rule prints in another process."""
    (tmp_path / "talking.py").write_text(TALKING)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        asim.main(arguments=["sweep", "talking.py", "--grid", "seed=0:2", "--jobs", "1", "--store", "S", "--json"])
    out, err = capfd.readouterr()
    assert "I am the rule" in err
    assert json.loads(out)["columns"]["status"] == ["done", "done"]


TALKING = """
import asyncsim as asim
from asyncsim.rules._rule import Info, Rule, Sent

class Talking(Rule):
    elementwise = True

    def send(self, gradient, state, view):
        print("I am the rule")
        update = -0.1 * gradient
        return Sent(message=update, state=state, info=Info(update=update))

scenario = asim.Scenario(
    cluster=asim.Cluster(workers=2, compute=asim.delays.Constant(1.0)),
    rule=Talking(),
    workload=asim.workloads.Quadratic([1.0]),
    commits=8,
)
"""
