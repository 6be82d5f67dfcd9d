"""The order of tasks, waiting for others that never end, runs that never end, and workers that cannot work."""

import dataclasses
import itertools
import os
import signal
import time
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import asyncsim as asim
from asyncsim.engine import _chunks as chunks
from asyncsim.pool import _queue as queue
from asyncsim.pool import _slots as slots
from asyncsim.study._store import open_store
from tests.study.problems import refuse_first, scenario

BASE = scenario(commits=40)
ASKED = asim.grid(BASE, seed=range(3))


@dataclasses.dataclass(frozen=True)
class Unanswered(asim.delays.Constant, named=False):
    """A law whose first draw takes much longer than any test."""

    def sample(self, generator, size, /):
        time.sleep(60)
        return super().sample(generator, size)


@dataclasses.dataclass(frozen=True)
class SlowToEnd(Unanswered, named=False):
    """The same in a process that closes its pipes, as a killed process does, and does not end for a while."""

    def sample(self, generator, size, /):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        return super().sample(generator, size)


def test_a_warning_names_the_process_that_is_waited_for(tmp_path, monkeypatch):
    """It holds the lease of a run and never ends it; the others are computed meanwhile."""
    monkeypatch.setattr(queue, "WARNING_SECONDS", 0.1)
    words = r"^Waiting for process \d+ on \S+, which holds the leases of 1 of these runs"
    with (
        open_store(tmp_path).lease([ASKED[0].digest]),
        pytest.warns(UserWarning, match=words) as warnings,
        pytest.raises(RuntimeError, match=r"Waited 0 seconds for process \d+ on .*1 of these runs"),
    ):
        asim.sweep(ASKED, tmp_path, jobs=0, patience=0.4)
    assert len(warnings) == 1
    assert asim.sweep(ASKED, tmp_path, jobs=0).computed == (ASKED[0].digest,)


class TestRunLimit:
    def test_a_run_over_it_has_failed_with_the_reason(self, tmp_path, monkeypatch):
        """Of a clock by which every look takes a tenth of a second."""
        monkeypatch.setattr(chunks, "LONGEST", 64)
        ticks = itertools.count()
        monkeypatch.setattr(queue, "monotonic", lambda: next(ticks) / 10)
        long = BASE.override(commits=1000)
        results = asim.sweep([BASE, long], tmp_path, jobs=0, run_limit=1.0)
        assert list(results.states.values()) == ["done", "failed"]
        assert results.troubles[long.digest].startswith("it took longer than 1 seconds, which is its `run_limit`")
        assert asim.sweep([long], tmp_path, jobs=0, run_limit=1000.0).computed == ()  # failures are kept
        shorter = dataclasses.replace(long, commits=200)
        assert len(asim.sweep([shorter], tmp_path, jobs=0, run_limit=1000.0, retry_failed=True).computed) == 1

    @pytest.mark.parametrize(("seconds", "state"), [(1.0, "failed"), (12.0, "done")])
    def test_lanes_may_take_it_once_for_each(self, tmp_path, monkeypatch, seconds, state):
        """The two replays together see the clock some 16 times, a second each."""
        monkeypatch.setattr(chunks, "LONGEST", 64)
        ticks = itertools.count()
        monkeypatch.setattr(queue, "monotonic", lambda: next(ticks))
        pair = asim.grid(BASE.override(commits=1000), learning_rate=[0.1, 0.2])
        results = asim.sweep(pair, tmp_path, jobs=0, lanes=2, run_limit=seconds)
        assert [*results.states.values()] == [state] * 2
        if state == "failed":
            assert {reason.partition(",")[0] for reason in results.troubles.values()} == {
                "it took longer than 1 seconds"
            }

    def test_of_several_runs_only_the_long_one_fails(self, tmp_path, monkeypatch):
        from asyncsim.study import _replay as replay_module

        replay = replay_module.replay_to_end

        def slow(scenario, *more):
            if scenario.rule.learning_rate == 0.2:
                time.sleep(0.5)
            return replay(scenario, *more)

        asim.run(BASE)  # which compiles
        monkeypatch.setattr(replay_module, "replay_to_end", slow)
        many = asim.grid(BASE, learning_rate=[0.1, 0.2, 0.3])
        results = asim.sweep(many, tmp_path, jobs=0, run_limit=0.4)
        assert list(results.states.values()) == ["done", "failed", "done"]

    def test_a_process_that_does_not_answer_is_killed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(slots, "GRACE", 2.0)
        stuck = BASE.override(compute=Unanswered(1.0))
        results = asim.sweep([stuck], tmp_path, jobs=1, run_limit=1.0)
        assert results.states == {stuck.digest: "failed"}
        failure = results.store.read_failure(stuck.digest)
        assert "longer than 1 seconds" in failure["reason"]
        assert not failure["details"]  # no traceback of the run, which did not notice the limit by itself


def test_a_run_has_failed_even_if_its_process_is_slow_to_end(tmp_path, monkeypatch):
    """Such a process is still alive, and holds a lease, when its pipes say that it is dead."""
    monkeypatch.setattr(slots, "GRACE", 0.2)
    monkeypatch.setattr(queue, "MOST_DEATHS", 1)
    dead = BASE.override(compute=SlowToEnd(1.0))
    results = asim.sweep([dead], tmp_path, jobs=1)
    assert "its process died 1 times" in results.troubles[dead.digest]
    assert results.states == {dead.digest: "failed"}


class Troubled(Executor):
    """Tasks fail with an error before they are computed, the first few of them or all."""

    _max_workers = 1

    def __init__(self, error=None, most=100, **changes):
        self.error, self.most, self.changes, self.asked = error, most, changes, 0

    def submit(self, function, task):
        future = Future()
        self.asked += 1
        is_troubled = self.asked <= self.most
        try:
            if is_troubled and self.error is not None:
                raise self.error
            future.set_result(function(dataclasses.replace(task, **self.changes) if is_troubled else task))
        except CancelledError:
            future.cancel()
            future.set_running_or_notify_cancel()
        except Exception as error:
            future.set_exception(error)
        return future


class TestWorkers:
    """A process that cannot work."""

    @pytest.mark.parametrize(
        ("executor", "words"),
        [
            (Troubled(store="/no/such/store"), r"process \d+ on .*`store` '/no/such/store' is not there"),
            (Troubled(ModuleNotFoundError("No module named 'asyncsim'")), "No module named 'asyncsim'"),
            (Troubled(CancelledError()), "`executor` is gone"),
        ],
        ids=["blind", "bare", "gone"],
    )
    def test_troubled_workers_leave_nothing_in_the_store(self, tmp_path, executor, words):
        """Neither results nor failures, so that the same sweep goes on."""
        with pytest.raises(RuntimeError, match=words):
            asim.sweep(ASKED, tmp_path, executor=executor)
        assert list(open_store(tmp_path).states(one.digest for one in ASKED).values()) == ["missing"] * 3

    def test_another_worker_computes_what_one_cannot(self, tmp_path):
        results = asim.sweep(ASKED, tmp_path, executor=Troubled(most=2, store="/no/such/store"))
        assert set(results.states.values()) == {"done"}

    def test_a_result_that_could_not_be_written_is_computed_again(self, tmp_path, monkeypatch):
        refused = refuse_first(monkeypatch)
        with ThreadPoolExecutor(1) as executor:
            results = asim.sweep(ASKED, tmp_path, executor=executor)
        assert refused
        assert set(results.states.values()) == {"done"}


def test_each_schedule_and_program_goes_to_one_slot():
    """Of as many programs as slots, or of one: else two processes compile, or simulate, the same."""
    for programs in (1, 2):
        keys = [(str(p), str(seed)) for p in range(programs) for seed in range(8) for _ in range(3)]
        tasks = queue.Queue(None, [SimpleNamespace(program=program, schedule=schedule) for program, schedule in keys])
        slots = [SimpleNamespace(program="", schedule="", seen=[]) for _ in range(2)]
        while tasks:
            for slot, other in (slots, slots[::-1]):
                task = tasks.next(slot.program, slot.schedule, [other])
                slot.program, slot.schedule = task.program, task.schedule
                slot.seen.append((task.program, task.schedule))
        first, second = ({*slot.seen} for slot in slots)
        assert not first & second
        assert sorted(slots[0].seen + slots[1].seen) == sorted(keys)
        assert {program for program, _ in first}.isdisjoint(program for program, _ in second) == (programs == 2)
