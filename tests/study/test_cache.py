"""The cache of runs: a cached run is the run, it is not replayed again, and what is damaged is replaced."""

import os

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine import ReplayInterrupted
from asyncsim.study import cache, keep
from asyncsim.study.cache import RunCache, cached_run, estimate, in_words

WORKLOAD = asim.workloads.quadratic([1.0, 0.1])
RECORD = {"energy_central": 1, "pi_median": 4, "pi_median_by_tensor": 4}


def scenario(learning_rate=0.01, commits_per_worker=30, **more):
    cluster = asim.Cluster(4, asim.delays.Gamma(mean=1.0, cv=0.3))
    rule = asim.rules.gem(learning_rate)
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


def the_file(folder):
    (file,) = (path for path in folder.iterdir() if path.is_file())
    return file


def test_a_cached_run_is_the_run_and_is_not_replayed_again(tmp_path, monkeypatch):
    uncached = RunCache().get(scenario())
    runs = RunCache(tmp_path)
    assert not runs.has(scenario())
    assert_same(runs.get(scenario()), uncached)
    assert runs.has(scenario())
    assert not runs.has(scenario(seed=1))
    monkeypatch.setattr(cache, "run", lambda *a, **k: pytest.fail("replayed again"))
    assert_same(runs.get(scenario()), uncached)
    file = the_file(tmp_path)
    assert file.name.startswith(scenario().digest)
    assert asim.__version__ in file.name  # another version does not reuse it
    assert not any((tmp_path / "unfinished").iterdir())


def test_a_damaged_or_forgotten_run_is_replayed_again(tmp_path):
    runs = RunCache(tmp_path)
    first = runs.get(scenario())
    file = the_file(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    assert_same(runs.get(scenario()), first)
    assert file.read_bytes() == whole
    runs.forget(scenario())
    assert not runs.has(scenario())


def test_one_process_replays_a_scenario(tmp_path, monkeypatch):
    """Another that asks meanwhile is told who does, and finds the run afterwards."""
    monkeypatch.setattr(keep, "PATIENCE", 0.0)
    asked = []

    def ask(*progress):
        asked.append(progress)
        with pytest.raises(ValueError, match=f"is in use by process {os.getpid()}"):
            RunCache(tmp_path).get(scenario())

    first = RunCache(tmp_path, ask).get(scenario())
    assert asked
    assert_same(RunCache(tmp_path).get(scenario()), first)
    assert {path.name for path in tmp_path.iterdir()} == {the_file(tmp_path).name, "unfinished"}


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
