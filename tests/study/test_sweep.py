"""Sweeps in this process: nothing is computed twice, failures are kept, other processes' work is waited for."""

import dataclasses
import gc
import threading
import time
import warnings
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine import ReplayInterrupted
from asyncsim.pool._parcels import unpack
from asyncsim.study import _replay as replay_module
from asyncsim.study._result_files import Replayed, write_run
from asyncsim.study._store import Store, open_store
from asyncsim.study.table import table_of
from tests.problems import refusals
from tests.study.problems import assert_same_result, fail_where, refuse_first, scenario

BASE = scenario(commits=40)


def many(**fields):
    return asim.grid(BASE, **(fields or {"learning_rate": [0.1, 0.2], "seed": range(2)}))


THREE = many(learning_rate=[0.1, 0.2, 0.3])


def sweep(scenarios, place, **options):
    return asim.sweep(scenarios, place, jobs=0, **options)


@pytest.fixture
def broken(monkeypatch):
    """A computation that fails where the step size is 0.2."""
    fail_where(monkeypatch, lambda rate: "the step size is 0.2" if rate == 0.2 else None)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two step sizes with two seeds."""
    return sweep(many(), tmp_path_factory.mktemp("swept"))


@pytest.fixture(scope="module")
def lanes(tmp_path_factory):
    """Three step sizes in programs of two lanes, in a store that has their exact results as well."""
    place = tmp_path_factory.mktemp("lanes")
    return sweep(THREE, place), sweep(THREE, place, lanes=2), place


class TestResults:
    def test_each_is_that_of_a_run(self, swept):
        assert len(swept) == len(swept.computed) == 4
        for one, result in zip(many(), swept, strict=True):
            assert_same_result(result, asim.run(one))
        assert_same_result(swept.result(many()[1]), asim.run(many()[1]))

    def test_a_larger_grid_computes_the_new_runs_alone(self, swept):
        place = swept.store.path
        assert sweep(many(), place).computed == ()
        larger = many(learning_rate=[0.1, 0.2], seed=range(3))
        assert {*sweep(larger, place).computed} == {one.digest for one in larger if one.seed == 2}
        swept.store.discard(many()[2].digest)
        assert sweep(many(), place).computed == (many()[2].digest,)

    def test_progress_is_reported_after_each_run(self, tmp_path):
        told = []
        sweep(many(seed=range(3)), tmp_path, progress=told.append)
        assert [(one.done, one.failed, one.total) for one in told] == [(0, 0, 3), (1, 0, 3), (2, 0, 3), (3, 0, 3)]

    def test_seeds_of_one_schedule(self, tmp_path):
        results = sweep(many(seed=range(3)), tmp_path, shared_schedule=True)
        times = [result.trace.commit_time for result in results]
        np.testing.assert_array_equal(times[0], times[2])
        assert len(list((tmp_path / "traces").iterdir())) == 1


@pytest.mark.usefixtures("optimised")
@pytest.mark.networks
def test_a_small_network_with_batch_1_and_gem():
    """Each result of a sweep is that of `asyncsim.run` to the last bit, with the programs that people have."""
    network = asim.workloads.MLP(asim.datasets.Digits(), hidden=(8,), batch_size=1)
    asked = asim.grid(dataclasses.replace(scenario(commits=300), workload=network), learning_rate=[0.02, 0.1])
    for one, result in zip(asked, asim.sweep(asked, jobs=0), strict=True):
        assert_same_result(result, asim.run(one))


class TestLanes:
    """Several scenarios in one program: a choice, kept apart from exact results and marked."""

    def test_are_kept_apart_and_found_again(self, lanes):
        exact, swept, place = lanes
        assert len(swept.computed) == 3
        assert not {*swept.computed} & {*exact.computed}
        assert sweep(THREE, place, lanes=1).computed == ()  # one lane is a run of its own
        assert sweep(THREE, place, lanes=2).computed == ()
        for one, result, own in zip(THREE, swept, exact, strict=True):
            assert result.scenario == one
            np.testing.assert_allclose(result.run.loss, own.run.loss, rtol=1e-4)
            np.testing.assert_array_equal(swept.result(one).run.loss, result.run.loss)
        assert [result.scenario for result in sweep(THREE, place, lanes=2, wait=False)] == [*THREE]

    def test_the_table_says_so(self, lanes):
        exact, swept, _ = lanes
        assert swept.table()["lanes"].tolist() == [2, 2, 2]
        assert swept.table().fields == ["learning_rate"]
        assert "lanes" not in exact.table()
        both = table_of(swept.store, swept.store.sweeps())
        assert set(both.fields) == {"learning_rate", "lanes"}
        assert set(both["lanes"][~np.isnan(both["lanes"])]) == {2}
        assert set(asim.best(both)["runs"]) == {1}

    def test_one_that_is_missing_is_computed_as_the_first_time(self, lanes):
        _, swept, place = lanes
        before = swept.result(THREE[1])
        swept.store.discard(swept.computed[1])
        again = sweep(THREE, place, lanes=2)
        assert again.computed == (swept.computed[1],)
        assert_same_result(again.result(THREE[1]), before)

    def test_are_loaded(self, lanes):
        exact, swept, place = lanes
        for one, digest in zip(THREE, swept.computed, strict=True):
            loaded = asim.load(place / digest)
            assert_same_result(loaded, swept.result(one))
            assert_same_result(asim.load(place / digest, scenario=one), loaded)
            assert_same_result(asim.run(loaded.scenario), exact.result(one))

    def test_another_number_of_them_is_another_program(self, lanes, tmp_path):
        """Also where an executor computes them."""
        with ThreadPoolExecutor(1) as executor:
            three = asim.sweep(THREE, lanes[2], executor=executor, lanes=3)
        assert len(three.computed) == 3
        for one, other in zip(three, sweep(THREE, tmp_path, lanes=3), strict=True):
            assert_same_result(one, other)

    def test_fail_together(self, tmp_path, broken):
        lanes = sweep(asked := many(learning_rate=[0.1, 0.2]), tmp_path, lanes=2)
        assert list(lanes.states.values()) == ["failed", "failed"]
        with pytest.raises(ValueError, match="has no result: ZeroDivisionError"):
            lanes.result(asked[0])


class TestArrivals:
    """One result after another, without waiting for all."""

    def test_first_what_is_there_then_what_comes(self, tmp_path):
        asked = many(seed=range(4))
        sweep([asked[2]], tmp_path)
        told = []
        come = sweep(asked, tmp_path, wait=False, progress=lambda progress: told.append(progress.done))
        assert told == []  # it computes while it is asked
        first = next(come)
        assert (first.scenario, told) == (asked[2], [1])
        assert (next(come).scenario, told) == (asked[0], [1, 2])
        assert [result.scenario for result in come] == [asked[1], asked[3]]

    def test_whoever_leaves_keeps_what_is_done(self, tmp_path):
        asked = many(seed=range(4))
        for result in sweep(asked, tmp_path, wait=False):
            if result.scenario == asked[1]:
                break
        assert list(sweep(asked, tmp_path).computed) == [asked[2].digest, asked[3].digest]

    def test_without_those_that_fail(self, tmp_path, broken):
        assert [result.scenario.seed for result in sweep(many(), tmp_path, wait=False)] == [0, 1]


class TestFailures:
    def test_an_error_stops_no_other_run(self, tmp_path, broken, monkeypatch):
        """It is kept, and not tried again unless somebody asks."""
        asked = many()
        results = sweep(asked, tmp_path)
        assert list(results.states.values()) == ["done", "done", "failed", "failed"]
        failure = results.store.read_failure(asked[2].digest)
        assert failure["reason"] == "ZeroDivisionError: the step size is 0.2"
        assert "tests/study/problems.py" in failure["details"]
        with pytest.raises(ValueError, match=r"has no result: ZeroDivisionError: the step size is 0.2"):
            results.result(asked[2])
        assert results.table()["reason"].tolist()[1:3] == ["", "ZeroDivisionError: the step size is 0.2"]
        monkeypatch.undo()
        assert sweep(asked, tmp_path).computed == ()
        assert len(sweep(asked, tmp_path, retry_failed=True).computed) == 2

    @pytest.mark.parametrize("state", ["missing", "failed", "damaged"])
    def test_another_try_continues_an_interrupted_run(self, tmp_path, monkeypatch, state):
        store, resumed = open_store(tmp_path), []
        if state == "failed":
            store.fail(BASE, "it took too long")
        elif state == "damaged":
            store.folder(BASE.digest).mkdir()
            (store.folder(BASE.digest) / "run.npz").touch()
        run = asim.replay(BASE.simulate(), BASE.rule, BASE.workload, BASE.seed, record=BASE.recorded, commits=20)
        write_run(BASE, Replayed(run, {}), store.unfinished(BASE.digest))
        to_end = replay_module.replay_to_end

        def note_earlier(scenario, trace, earlier, *more):
            resumed.append(earlier and earlier.run.commits)
            return to_end(scenario, trace, earlier, *more)

        monkeypatch.setattr(replay_module, "replay_to_end", note_earlier)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert sweep([BASE], tmp_path, retry_failed=True).computed == (BASE.digest,)
        assert resumed == [20]

    def test_another_try_keeps_a_result_that_was_published_meanwhile(self, tmp_path, monkeypatch):
        store, lease = open_store(tmp_path), Store.lease
        store.fail(BASE, "it took too long")
        result = asim.run(BASE)

        def lease_after_publication(self, digests):
            self.put(result, {})
            return lease(self, digests)

        monkeypatch.setattr(Store, "lease", lease_after_publication)
        results = sweep([BASE], tmp_path, retry_failed=True)
        assert (results.computed, [*results.states.values()]) == ((), ["done"])

    def test_another_try_leaves_a_failure_to_the_process_that_has_its_lease(self, tmp_path):
        store = open_store(tmp_path)
        store.fail(BASE, "it took too long")
        with store.lease([BASE.digest]):
            assert sweep([BASE], tmp_path, retry_failed=True).troubles == {BASE.digest: "it took too long"}
        assert store.read_failure(BASE.digest) is not None

    @pytest.mark.parametrize("lanes", [None, 2])
    def test_a_full_disk_is_not_kept_as_a_failure(self, tmp_path, monkeypatch, lanes):
        refused = refuse_first(monkeypatch)
        results = sweep(many(), tmp_path, lanes=lanes)
        assert len(results.computed) == 3
        assert list(results.troubles) == refused
        assert "No space left" in results.troubles[refused[0]]
        assert list(results.states.values()).count("missing") == 1
        assert sweep(many(), tmp_path, lanes=lanes).computed == (*refused,)

    def test_ctrl_c_keeps_what_is_done(self, tmp_path):
        def stop(progress):
            if progress.done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sweep(many(seed=range(4)), tmp_path, progress=stop)
        assert len(sweep(many(seed=range(4)), tmp_path).computed) == 2


class TestOthers:
    def test_two_at_once_share_the_work(self, tmp_path):
        """Nothing is computed twice, and both end with all results."""
        asked = asim.grid(scenario(schedule_seed=0), seed=range(24))
        with ThreadPoolExecutor(2) as threads:
            one, other = threads.map(lambda _: sweep(asked, tmp_path), range(2))
        assert sorted([*one.computed, *other.computed]) == sorted(scenario.digest for scenario in asked)
        assert one.table().to_csv() == other.table().to_csv()

    @pytest.mark.parametrize("wait", [True, False])
    def test_batches_that_others_compute_are_waited_for(self, tmp_path, wait):
        asked, store, held = many(seed=range(2)), open_store(tmp_path), threading.Event()
        done = asim.run(asked[0])

        def keep_after_a_while():
            with store.lease([asked[0].digest]):
                held.set()
                time.sleep(0.5)
                store.put(done, {"wall_seconds": 1.0, "compile_seconds": 0.0})

        threading.Thread(target=keep_after_a_while).start()
        held.wait()
        results = sweep(asked, tmp_path, wait=wait)
        assert {result.scenario for result in results} == {*asked}
        assert not wait or results.computed == (asked[1].digest,)


class TestExecutors:
    @pytest.mark.parametrize("wait", [True, False])
    def test_any_executor(self, tmp_path, swept, wait):
        with ThreadPoolExecutor(2) as executor:
            results = [*asim.sweep(many(), tmp_path, executor=executor, wait=wait)]
        assert {result.scenario for result in results} == {*many()}
        for result in results:
            assert_same_result(result, swept.result(result.scenario))

    def test_one_that_has_broken_down(self, tmp_path):
        class Broken(Executor):
            def submit(self, *arguments):
                raise BrokenExecutor("a process died")

        with pytest.raises(RuntimeError, match="`executor` has broken down"):
            asim.sweep([BASE], tmp_path, executor=Broken())

    def test_workers_with_another_version(self, tmp_path, monkeypatch):
        monkeypatch.setattr(import_module("asyncsim.study._sweep"), "VERSIONS", {"asyncsim": "9.9"})
        with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match=r"this process has asyncsim 9\.9"):
            asim.sweep([BASE], tmp_path, executor=executor)


class Deadly(Executor):
    """Some runs kill the process that computes them."""

    _max_workers = 1

    def __init__(self, place, culprits):
        self.data, self.culprits = Store(place).data, {*culprits}

    def batch(self, task):
        return unpack(self.data, task.parcel)[task.index]

    def is_deadly(self, task):
        return not self.culprits.isdisjoint(self.batch(task).digests)

    def submit(self, function, task):
        self.end(future := Future(), function, task, self.is_deadly(task))
        return future

    def end(self, future, function, task, dies):
        if dies:
            future.set_exception(BrokenExecutor("a process died"))
        else:
            future.set_result(function(task))


class Shared(Deadly):
    """Computes a little later all batches that are there, and one of them kills the process and all of them with it."""

    _max_workers = 2
    waiting, most = (), 0

    def submit(self, function, task):
        self.waiting += ((future := Future(), function, task),)
        self.most = max(self.most, len(self.waiting))
        threading.Timer(0.05, self.work).start()
        return future

    def work(self):
        taken, self.waiting = self.waiting, ()
        dies = any(self.is_deadly(task) for _, _, task in taken)
        for ending in taken:
            self.end(*ending, dies)


class Apart(Deadly):
    """A later seed takes longer, so that one dies while another is quarantined and others still run."""

    _max_workers = 2

    def submit(self, function, task):
        later = 0.05 * (1 + self.batch(task).scenarios[0].seed)
        threading.Timer(later, self.end, ((future := Future()), function, task, self.is_deadly(task))).start()
        return future


@pytest.mark.parametrize(
    ("kind", "asked", "culprits"),
    [(Deadly, THREE, [1]), (Shared, many(seed=range(4)), [2]), (Apart, many(seed=range(4)), [0, 2])],
)
def test_runs_that_kill_their_process_cost_only_themselves(tmp_path, kind, asked, culprits):
    """Those that share a batch or a process with one are quarantined and tried alone."""
    executor = kind(tmp_path, [asked[place].digest for place in culprits])
    results = asim.sweep(asked, tmp_path, executor=executor)
    failed = [place for place, one in enumerate(asked) if results.states[one.digest] == "failed"]
    assert failed == culprits
    assert len(list(results)) == len(asked) - len(culprits)
    assert all(reason.startswith("its process died 3 times") for reason in results.troubles.values())
    assert kind is not Shared or executor.most > 1


def test_a_temporary_store_lasts_as_long_as_the_results():
    results = asim.sweep([BASE], jobs=0)
    place = results.store.path
    assert len(list(results)) == 1
    del results
    gc.collect()
    assert not place.exists()


test_what_is_refused = refusals(
    (([], {}), "`scenarios` must hold at least one"),
    (([], {"wait": False}), "`scenarios` must hold at least one"),  # at once, and not with the first result
    ((BASE, {}), "`scenarios` must be a sequence; got "),
    ((3, {}), "`scenarios` must be a sequence; got "),
    (([BASE, 3], {}), "number 2 is a int"),
    (([BASE], {"jobs": -1}), "`jobs` must be an integer of at least 0"),
    (([BASE], {"lanes": 0}), "`lanes` must be an integer of at least 1"),
    (([BASE], {"patience": -1.0}), "`patience` must"),
    (([BASE], {"run_limit": -1.0}), "`run_limit` must"),
    call=lambda given: asim.sweep(given[0], None, **{"jobs": 0, **given[1]}),
)


class TestTable:
    def test_a_table_has_fields_results_and_digests(self, swept):
        table = swept.table()
        assert table.fields == ["learning_rate", "seed"]
        assert list(table)[:4] == ["learning_rate", "seed", "commits", "simulated_seconds"]
        assert list(table)[-2:] == ["status", "digest"]
        assert table["digest"].tolist() == [one.digest for one in many()]
        assert table["commits"].tolist() == [40] * 4

    def test_labels_are_fields(self):
        results = asim.sweep(many(learning_rate=[0.1, 0.2, 0.1]), jobs=0)
        table = results.table(which=["a", "b", "c"])
        assert table["which"].tolist() == ["a", "b"]  # the third is the first
        assert table.fields == ["which", "learning_rate"]
        assert asim.best(table, per="which")["learning_rate"].tolist() == [0.1, 0.2]
        with pytest.raises(ValueError, match="`which` must have 3 values"):
            results.table(which=["a"])

    def test_infinity_is_a_number(self, tmp_path):
        table = sweep(many(bandwidth=[1e3, np.inf]), tmp_path).table()
        np.testing.assert_array_equal(table["bandwidth"], [1e3, np.inf])

    def test_pandas_if_it_is_there(self, swept):
        pandas = pytest.importorskip("pandas", reason="the table as a data frame")
        frame = swept.table().to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert frame["seed"].tolist() == [0, 1, 0, 1]

    def test_of_everything_that_a_store_was_asked_for(self, tmp_path):
        sweep(many(seed=range(2)), tmp_path)
        store = sweep(many(kappa=[1.0, 2.0]), tmp_path).store
        table = table_of(store, store.sweeps())
        rows = set(zip(table["kappa"].tolist(), table["seed"].tolist(), strict=True))
        assert rows == {(1.0, 0), (1.0, 1), (2.0, 0)}
        assert (table["status"] == "done").all()


class TestLongRuns:
    def test_a_checkpoint_is_gone_on_from(self, tmp_path, short_chunks, monkeypatch):
        """A batch that is interrupted ends as if it had not been."""
        one = scenario(commits=400)
        replay = replay_module.replay_to_end
        begun = []

        def interrupted(scenario, trace, before, progress, *more):
            begun.append(0 if before is None else before.run.commits)

            def stop(progress):
                if len(begun) == 1 and progress.done >= 192:
                    raise KeyboardInterrupt

            return replay(scenario, trace, before, stop, *more)

        monkeypatch.setattr(replay_module, "replay_to_end", interrupted)
        with pytest.raises(ReplayInterrupted):
            sweep([one], tmp_path)
        results = sweep([one], tmp_path)
        assert begun == [0, 192]
        assert_same_result(next(iter(results)), asim.run(one))
        assert not list((tmp_path / "unfinished").iterdir())

    def test_a_recorded_schedule(self, tmp_path):
        trace = asim.Trace.from_commits([0, 1, 1, 0, 1, 0])
        base = asim.Scenario(trace, asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0]))
        asked = asim.grid(base, learning_rate=[0.1, 0.2], seed=range(2))
        results = sweep(asked, tmp_path, shared_schedule=True)
        for one, result in zip(asked, results, strict=True):
            assert_same_result(result, asim.run(one))
        assert results.table().fields == ["learning_rate", "seed"]
