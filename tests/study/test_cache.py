"""The cache of runs: a cached run is the run, it is not replayed again, and what is damaged is replaced."""

import threading
import time

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine import ReplayInterrupted
from asyncsim.study import cache, work
from asyncsim.study.cache import RunCache, cached_run, estimate, in_words
from asyncsim.study.store import open_store

WORKLOAD = asim.workloads.quadratic([1.0, 0.1])
RECORD = {"energy_central": 1, "pi_median": 4, "pi_median_by_tensor": 4}


def scenario(learning_rate=0.01, commits_per_worker=30, **more):
    cluster = asim.Cluster(4, asim.delays.Gamma(mean=1.0, cv=0.3))
    rule = asim.rules.GEM(learning_rate)
    return asim.Scenario(cluster, rule, WORKLOAD, commits_per_worker=commits_per_worker, record=RECORD, **more)


def assert_same(one, other):
    assert vars(one).keys() == vars(other).keys()
    for name, value in vars(one).items():
        theirs = getattr(other, name)
        if not isinstance(value, dict):
            value, theirs = {name: value}, {name: theirs}
        assert value.keys() == theirs.keys()
        for key in value:
            np.testing.assert_array_equal(value[key], theirs[key])


def the_run(folder):
    """The file of the one run that a cache holds."""
    (file,) = folder.glob(f"*/{scenario().digest}/run.npz")
    return file


def test_a_cached_run_is_the_run_and_is_not_replayed_again(tmp_path, monkeypatch):
    uncached = RunCache().get(scenario())
    runs = RunCache(tmp_path)
    assert not runs.has(scenario())
    assert_same(runs.get(scenario()), uncached)
    assert runs.has(scenario())
    assert not runs.has(scenario(seed=1))
    monkeypatch.setattr(work, "compute", lambda *a, **k: pytest.fail("replayed again"))
    assert_same(runs.get(scenario()), uncached)
    assert_same(cached_run(open_store(tmp_path / cache.VERSIONS).get(scenario())), uncached)  # a store as any other
    assert not any((tmp_path / cache.VERSIONS / "unfinished").iterdir())


def test_other_versions_and_older_files_are_not_used(tmp_path, monkeypatch):
    RunCache(tmp_path).get(scenario())
    assert asim.__version__ in cache.VERSIONS
    monkeypatch.setattr(cache, "VERSIONS", "asyncsim-9.9,jax-9.9")
    (tmp_path / f"{scenario().digest}_0.1.0_0.9.2.npz").write_bytes(b"as an earlier asyncsim kept it")
    assert not RunCache(tmp_path).has(scenario())
    assert len(RunCache(tmp_path).unused()) == 2


def test_a_damaged_or_forgotten_run_is_replayed_again(tmp_path):
    runs = RunCache(tmp_path)
    first = runs.get(scenario())
    file = the_run(tmp_path)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.warns(UserWarning, match=r"is damaged\. It is computed again\."):
        assert_same(runs.get(scenario()), first)
    assert file.stat().st_size > 100
    runs.forget(scenario())
    assert not runs.has(scenario())


def test_one_process_replays_a_scenario(tmp_path):
    """Another that asks meanwhile waits for it."""
    found = []
    other = threading.Thread(target=lambda: found.append(RunCache(tmp_path, refuse).get(scenario())))

    def refuse(*progress):
        pytest.fail("replayed at the same time")

    def ask(*progress):
        if not other.ident:
            other.start()
            time.sleep(0.1)
            assert not found

    first = RunCache(tmp_path, ask).get(scenario())
    other.join()
    assert_same(found[0], first)


def test_an_interrupted_run_resumes(tmp_path):
    def stop(_, progress):
        if 0 < progress.done < progress.total:
            raise KeyboardInterrupt

    long = scenario(commits_per_worker=40_000)  # several chunks
    with pytest.raises(ReplayInterrupted):
        RunCache(tmp_path, stop).get(long)
    done = []
    resumed = RunCache(tmp_path, lambda _, progress: done.append(progress.done)).get(long)
    assert len(done) > 0
    assert_same(resumed, RunCache().get(long))


def test_a_diverged_run_is_nan_from_there():
    run = RunCache().get(scenario(learning_rate=1e12))
    assert run.diverged_at is not None
    assert np.isfinite(run.loss[: run.diverged_at]).all()
    assert np.isnan(run.loss[run.diverged_at :]).all()
    assert np.isnan(run.final_loss)
    assert len(run.loss) == len(run.staleness) == 120


def test_what_is_cached_is_the_result():
    result = asim.run(scenario())
    cached = cached_run(result)
    np.testing.assert_array_equal(cached.loss, result.run.loss)
    assert cached.final_loss == result.run.final_loss()
    assert cached.test_loss == result.run.evaluate()["test_loss"]


def test_the_estimate_counts_each_missing_run_once(tmp_path):
    runs = RunCache(tmp_path)
    scenarios = [scenario(), scenario(seed=1), scenario(), scenario(commits_per_worker=50)]
    ahead = estimate(scenarios, runs)
    assert (ahead.runs, ahead.commits) == (3, 4 * (30 + 30 + 50))
    assert ahead.seconds > 0
    runs.get(scenario())
    assert estimate(scenarios, runs).runs == 2
    assert in_words(5400) == "about 1.5 hours"
