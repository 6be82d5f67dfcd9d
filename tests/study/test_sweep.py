"""Sweeps in this process: nothing is computed twice, failures are kept, other processes' work is waited for."""

import dataclasses
import gc
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.pool._parcels import unpack
from asyncsim.study import _store as work_module
from asyncsim.study._store import Store
from tests.study.problems import scenario
from tests.study.test_batches import assert_same_result

BASE = scenario(commits=40)


def many(**fields):
    return asim.grid(BASE, **(fields or {"learning_rate": [0.1, 0.2], "seed": range(2)}))


def sweep(scenarios, place, **options):
    return asim.sweep(scenarios, place, jobs=0, **options)


@pytest.fixture
def broken(monkeypatch):
    """A computation that fails where the step size is 0.2."""
    compute = work_module.compute

    def fail(batch, trace, unfinished):
        if any(one.rule.learning_rate == 0.2 for one in batch.scenarios):
            raise ZeroDivisionError("the step size is 0.2")
        return compute(batch, trace, unfinished)

    monkeypatch.setattr(work_module, "compute", fail)


class TestResults:
    def test_each_is_that_of_a_run(self, tmp_path):
        asked = many()
        results = sweep(asked, tmp_path)
        assert len(results) == len(results.computed) == 4
        for one, result in zip(asked, results, strict=True):
            assert_same_result(result, asim.run(one))
        assert_same_result(results.result(asked[1]), asim.run(asked[1]))

    def test_a_larger_grid_adds_to_it(self, tmp_path):
        assert len(sweep(many(seed=range(2)), tmp_path).computed) == 2
        assert sweep(many(seed=range(2)), tmp_path).computed == ()
        assert sweep(many(seed=range(3)), tmp_path).computed == (many(seed=[2])[0].digest,)

    def test_one_that_is_missing_is_computed_as_the_first_time(self, tmp_path):
        asked = many()
        results = sweep(asked, tmp_path)
        before = results.result(asked[2])
        results.store.discard(asked[2].digest)
        again = sweep(asked, tmp_path)
        assert again.computed == (asked[2].digest,)
        assert_same_result(again.result(asked[2]), before)

    def test_progress(self, tmp_path):
        told = []
        sweep(many(seed=range(3)), tmp_path, progress=told.append)
        assert [(one.done, one.failed, one.total) for one in told] == [(0, 0, 3), (1, 0, 3), (2, 0, 3), (3, 0, 3)]

    def test_seeds_of_one_schedule(self, tmp_path):
        results = sweep(many(seed=range(3)), tmp_path, shared_schedule=True)
        times = [result.trace.commit_time for result in results]
        np.testing.assert_array_equal(times[0], times[2])
        assert len(list((tmp_path / "traces").iterdir())) == 1

    def test_divergence_is_a_result(self, tmp_path):
        results = sweep(many(rule=["downpour"], learning_rate=[0.1, 1e30]), tmp_path)
        table = results.table()
        assert table["status"].tolist() == ["done", "done"]
        assert np.isnan(table["final_loss"]).tolist() == [False, True]
        assert table["diverged_at"][1] >= 0


@pytest.mark.usefixtures("optimised")
class TestExact:
    """Each result of a sweep is that of `asyncsim.run` to the last bit, with the programs that people have."""

    def assert_exact(self, base):
        many = asim.grid(base, learning_rate=[0.02, 0.05, 0.1])
        for one, result in zip(many, asim.sweep(many, jobs=0), strict=True):
            assert_same_result(result, asim.run(one))

    @pytest.mark.networks
    def test_a_small_network_with_batch_1_and_gem(self):
        network = asim.workloads.MLP(asim.datasets.Digits(), hidden=(8,), batch_size=1)
        self.assert_exact(dataclasses.replace(scenario(commits=300), workload=network))

    def test_a_quadratic_with_downpour(self):
        quadratic = asim.workloads.Quadratic([1.0, 0.1, 0.3, 0.7, 0.2], noise=0.1)
        self.assert_exact(dataclasses.replace(scenario(rule="downpour", commits=300), workload=quadratic))


class TestLanes:
    """Several scenarios in one program: a choice, kept apart from exact results and marked."""

    def test_are_kept_apart_and_found_again(self, tmp_path):
        asked = many(learning_rate=[0.1, 0.2, 0.3])
        exact = sweep(asked, tmp_path)
        lanes = sweep(asked, tmp_path, lanes=2)
        assert len(lanes.computed) == 3
        assert not set(lanes.computed) & set(exact.computed)
        assert sweep(asked, tmp_path, lanes=2).computed == ()
        for one, result, own in zip(asked, lanes, exact, strict=True):
            assert result.scenario == one
            np.testing.assert_allclose(result.run.loss, own.run.loss, rtol=1e-4)
            np.testing.assert_array_equal(lanes.result(one).run.loss, result.run.loss)
        assert len(sweep(asked, tmp_path, lanes=3).computed) == 3  # another program
        assert [result.scenario for result in sweep(asked, tmp_path, lanes=3, wait=False)] == [*asked]

    def test_one_lane_is_a_run_of_its_own(self, tmp_path):
        assert len(sweep(many(), tmp_path).computed) == 4
        assert sweep(many(), tmp_path, lanes=1).computed == ()

    def test_the_table_says_so(self, tmp_path):
        from asyncsim.study.table import table_of

        lanes = sweep(many(learning_rate=[0.1, 0.2, 0.3]), tmp_path, lanes=2)
        assert lanes.table()["lanes"].tolist() == [2, 2, 2]
        assert lanes.table().fields == ["learning_rate"]
        exact = sweep(many(learning_rate=[0.1, 0.2]), tmp_path)
        assert "lanes" not in exact.table()
        both = table_of(lanes.store, lanes.store.sweeps())
        assert set(both.fields) == {"learning_rate", "lanes"}
        assert set(both["lanes"][~np.isnan(both["lanes"])]) == {2}
        assert set(asim.best(both)["runs"]) == {1}

    def test_one_that_is_missing_is_computed_as_the_first_time(self, tmp_path):
        asked = many(learning_rate=[0.1, 0.2, 0.3])
        lanes = sweep(asked, tmp_path, lanes=3)
        before = lanes.result(asked[1])
        lanes.store.discard(lanes.computed[1])
        again = sweep(asked, tmp_path, lanes=3)
        assert again.computed == (lanes.computed[1],)
        assert_same_result(again.result(asked[1]), before)

    def test_are_loaded(self, tmp_path):
        asked = many(learning_rate=[0.1, 0.2])
        lanes = sweep(asked, tmp_path, lanes=2)
        for one, digest in zip(asked, lanes.computed, strict=True):
            loaded = asim.load(tmp_path / digest)
            assert_same_result(loaded, lanes.result(one))
            assert_same_result(asim.load(tmp_path / digest, scenario=one), loaded)
            assert_same_result(asim.run(loaded.scenario), asim.run(one))

    def test_fail_together(self, tmp_path, broken):
        asked = many(learning_rate=[0.1, 0.2])
        lanes = sweep(asked, tmp_path, lanes=2)
        assert list(lanes.states.values()) == ["failed", "failed"]
        with pytest.raises(ValueError, match="has no result: ZeroDivisionError"):
            lanes.result(asked[0])

    def test_are_computed_by_other_processes(self, tmp_path):
        with ThreadPoolExecutor(1) as executor:
            lanes = asim.sweep(many(), tmp_path / "by an executor", executor=executor, lanes=2)
        here = sweep(many(), tmp_path / "here", lanes=2)
        for one, other in zip(lanes, here, strict=True):
            assert_same_result(one, other)


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
    def test_an_error_stops_nobody_else(self, tmp_path, broken):
        asked = many()
        results = sweep(asked, tmp_path)
        assert list(results.states.values()) == ["done", "done", "failed", "failed"]
        failure = results.store.failure(asked[2].digest)
        assert failure["reason"] == "ZeroDivisionError: the step size is 0.2"
        assert "test_sweep.py" in failure["details"]
        with pytest.raises(ValueError, match=r"has no result: ZeroDivisionError: the step size is 0.2"):
            results.result(asked[2])
        assert results.table()["reason"].tolist()[1:3] == ["", "ZeroDivisionError: the step size is 0.2"]

    def test_a_failure_is_not_tried_again_unless_asked(self, tmp_path, broken, monkeypatch):
        sweep(many(), tmp_path)
        monkeypatch.undo()
        assert sweep(many(), tmp_path).computed == ()
        assert len(sweep(many(), tmp_path, retry_failed=True).computed) == 2

    def test_a_full_disk_is_not_kept_as_a_failure(self, tmp_path, monkeypatch):
        make = Store._make
        first = many()[0].digest

        def fail(self, digest, fill):
            if digest == first:
                raise OSError(28, "No space left on device")
            return make(self, digest, fill)

        monkeypatch.setattr(Store, "_make", fail)
        results = sweep(many(), tmp_path)
        assert len(results.computed) == 3
        assert list(results.troubles) == [first]
        assert "No space left" in results.troubles[first]
        assert list(results.states.values()).count("missing") == 1
        monkeypatch.undo()
        assert sweep(many(), tmp_path).computed == (first,)

    def test_ctrl_c_keeps_what_is_done(self, tmp_path):
        def stop(progress):
            if progress.done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sweep(many(seed=range(4)), tmp_path, progress=stop)
        assert len(sweep(many(seed=range(4)), tmp_path).computed) == 2


class TestOthers:
    def test_batches_that_others_compute_are_waited_for(self, tmp_path):
        asked = many(seed=range(2))
        store = sweep(asked, tmp_path).store
        aside = tmp_path.parent / "aside"
        store.folder(asked[0].digest).rename(aside)

        def give_back():
            time.sleep(0.5)
            aside.rename(store.folder(asked[0].digest))

        with store.lease([asked[0].digest]) as mine:
            assert mine
            thread = threading.Thread(target=give_back)
            thread.start()
            held = threading.Timer(0.7, lambda: [path.unlink() for path in (tmp_path / "leases").glob("*.json")])
            held.start()
            results = sweep(asked, tmp_path)
            thread.join()
        assert results.computed == ()
        assert len(list(results)) == 2


class TestExecutors:
    @pytest.mark.parametrize("wait", [True, False])
    def test_any_executor(self, tmp_path, wait):
        with ThreadPoolExecutor(2) as executor:
            results = [*asim.sweep(many(seed=range(3)), tmp_path, executor=executor, wait=wait)]
        for result in results:
            assert_same_result(result, asim.run(result.scenario))
        assert {result.scenario for result in results} == {*many(seed=range(3))}

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

    def test_quarantined_batches_are_tried_alone(self, tmp_path):
        """Of several batches that were there when a process died, the culprit fails and the others finish."""
        culprit = many(seed=range(4))[2].digest

        class Shared(Executor):
            """Computes nothing before it has four batches; one of them kills the process, and all of them with it."""

            _max_workers = 2

            def __init__(self):
                self.futures, self.most = [], 0

            def submit(self, function, task):
                future = Future()
                self.futures.append((future, function, task))
                self.most = max(self.most, len(self.futures))
                threading.Timer(0.05, self.work).start()
                return future

            def work(self):
                taken, self.futures = self.futures, []
                batches = [unpack(Store(tmp_path).data, task.parcel)[task.place] for _, _, task in taken]
                if any(culprit in batch.digests for batch in batches):
                    for future, _, _ in taken:
                        future.set_exception(BrokenExecutor("a process died"))
                    return
                for future, function, task in taken:
                    future.set_result(function(task))

        executor = Shared()
        results = asim.sweep(many(seed=range(4)), tmp_path, executor=executor)
        assert executor.most > 1
        assert [results.states[one.digest] for one in many(seed=range(4))] == ["done", "done", "failed", "done"]
        assert results.troubles[culprit].startswith("its process died 3 times")


class TestWithoutStore:
    def test_a_temporary_one_lasts_as_long_as_the_results(self):
        results = asim.sweep(many(), jobs=0)
        place = results.store.path
        assert len(list(results)) == 4
        del results
        gc.collect()
        assert not place.exists()


class TestLabels:
    def test_are_fields(self):
        asked = many(learning_rate=[0.1, 0.2, 0.1])
        table = asim.sweep(asked, jobs=0).table(which=["a", "b", "c"])
        assert table["which"].tolist() == ["a", "b"]  # the third is the first
        assert table.fields == ["which", "learning_rate"]
        assert asim.best(table, per="which")["learning_rate"].tolist() == [0.1, 0.2]
        with pytest.raises(ValueError, match="`which` must have 3 values"):
            asim.sweep(asked, jobs=0).table(which=["a"])


@pytest.mark.parametrize(
    ("scenarios", "options", "words"),
    [
        ([], {}, "`scenarios` must hold at least one"),
        ([], {"wait": False}, "`scenarios` must hold at least one"),  # at once, and not with the first result
        (BASE, {}, "`scenarios` must be a sequence; got "),
        (3, {}, "`scenarios` must be a sequence; got "),
        ([BASE, 3], {}, "number 2 is a int"),
        ([BASE], {"jobs": -1}, "`jobs` must be an integer of at least 0"),
        ([BASE], {"lanes": 0}, "`lanes` must be an integer of at least 1"),
    ],
)
def test_what_is_refused(scenarios, options, words):
    with pytest.raises(ValueError, match=words):
        asim.sweep(scenarios, None, **{"jobs": 0, **options})


class TestDeaths:
    def test_a_batch_of_several_is_tried_one_by_one_before_it_has_failed(self, tmp_path):
        culprit = many(learning_rate=[0.1, 0.2, 0.3])[1].digest

        class Deadly(Executor):
            _max_workers = 1

            def submit(self, function, task):
                future = Future()
                batch = unpack(Store(tmp_path).data, task.parcel)[task.place]
                if culprit in batch.digests:
                    future.set_exception(BrokenExecutor("a process died"))
                else:
                    future.set_result(function(task))
                return future

        results = asim.sweep(many(learning_rate=[0.1, 0.2, 0.3]), tmp_path, executor=Deadly())
        assert list(results.states.values()) == ["done", "failed", "done"]


class TestTable:
    def test_the_best(self, tmp_path):
        results = sweep(many(), tmp_path)
        own, same = results.best(), asim.best(results)
        assert {name: column.tolist() for name, column in own.items()} == {n: c.tolist() for n, c in same.items()}
        with pytest.raises(ValueError, match="`largest` must be given"):
            results.best("mean_staleness")

    def test_columns(self, tmp_path):
        table = sweep(many(), tmp_path).table()
        assert table.fields == ["learning_rate", "seed"]
        assert list(table)[:4] == ["learning_rate", "seed", "commits", "simulated_seconds"]
        assert list(table)[-2:] == ["status", "digest"]
        assert table["digest"].tolist() == [one.digest for one in many()]
        assert table["commits"].tolist() == [40] * 4

    def test_csv_has_all_digits(self, tmp_path):
        table = sweep(many(), tmp_path / "store").table()
        table.to_csv(tmp_path / "table.csv")
        lines = (tmp_path / "table.csv").read_text().splitlines()
        cells = dict(zip(lines[0].split(","), lines[2].split(","), strict=True))
        assert float(cells["final_loss"]) == table["final_loss"][1]
        assert cells["test_accuracy"] == ""

    def test_pandas_if_it_is_there(self, tmp_path):
        pandas = pytest.importorskip("pandas", reason="the table as a data frame")
        frame = sweep(many(), tmp_path).table().to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert frame["seed"].tolist() == [0, 1, 0, 1]

    def test_of_everything_that_a_store_was_asked_for(self, tmp_path):
        from asyncsim.study.table import table_of

        sweep(many(seed=range(2)), tmp_path)
        store = sweep(many(workers=[2, 4]), tmp_path).store
        table = table_of(store, store.sweeps())
        rows = set(zip(table["workers"].tolist(), table["seed"].tolist(), strict=True))
        assert rows == {(4, 0), (4, 1), (2, 0)}
        assert (table["status"] == "done").all()


class TestLongRuns:
    def test_a_checkpoint_is_gone_on_from(self, tmp_path, short_chunks, monkeypatch):
        """A batch that is interrupted ends as if it had not been."""
        from asyncsim.engine import ReplayInterrupted
        from asyncsim.study import _batches as batches

        one = dataclasses.replace(scenario(commits=400), workload=asim.workloads.Quadratic([1.0, 0.1] * 800, noise=0.1))
        replay = batches.replay_to_end
        begun = []

        def interrupted(scenario, trace, before, seconds, progress, checkpoint):
            begun.append(0 if before is None else before.commits)

            def stop(progress):
                if len(begun) == 1 and progress.done >= 192:
                    raise KeyboardInterrupt

            return replay(scenario, trace, before, seconds, stop, checkpoint)

        monkeypatch.setattr(batches, "replay_to_end", interrupted)
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
