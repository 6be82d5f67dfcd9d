"""A store: atomic results, found again by their scenario, and refusals."""

import errno
import json
import os

import pytest

import asyncsim as asim
from asyncsim.store import _entries as entries
from asyncsim.store._labels import STORE_FOLDERS as FOLDERS
from asyncsim.study._batches import batches_of
from asyncsim.study._replay import compute
from asyncsim.study._store import open_store
from tests.problems import full_disk
from tests.study.problems import scenario


@pytest.fixture(scope="module")
def result():
    (batch,) = batches_of([scenario(commits=40)])
    ((found, seconds),) = compute(batch, batch.scenarios[0].simulate())
    return found, seconds


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "store")


def kept(store, result):
    store.trace(result[0].scenario)
    store.put(*result)
    return result[0].scenario


class TestResults:
    def test_an_entry_is_a_folder_of_a_run(self, store, result, monkeypatch):
        """`asyncsim.run` finds everything there."""
        made = kept(store, result)
        again = asim.run(made, store.folder(made.digest), picture=False)
        assert not again.recomputed
        assert again.summary == result[0].summary

    def test_an_entry_has_no_state_of_workers(self, store, result):
        made = kept(store, result)
        found = store.get(made)
        assert found is not None
        assert found.run.state.rows is None
        with pytest.raises(ValueError, match="`resume` must have the workers' state"):
            asim.replay(found.trace, made.rule, made.workload, resume=found.run)

    def test_a_schedule_is_kept_once(self, store):
        for one in asim.grid(scenario(commits=40), learning_rate=[0.1, 0.2]):
            (batch,) = batches_of([one])
            ((found, seconds),) = compute(batch, store.trace(one))
            store.put(found, seconds)
        files = [path.stat().st_ino for path in store.path.rglob("*.npz") if path.name != "run.npz"]
        assert len(files) == 3
        assert len(set(files)) == 1

    def test_without_hard_links_it_is_copied(self, store, result, monkeypatch):
        def refuse(*args):
            raise OSError(errno.EINVAL, "no links")

        monkeypatch.setattr(os, "link", refuse)
        made = kept(store, result)
        assert store.get(made) is not None

    def test_the_first_of_two_stays(self, store, result):
        made = kept(store, result)
        before = (store.folder(made.digest) / "run.npz").stat().st_ino
        store.put(*result)
        assert (store.folder(made.digest) / "run.npz").stat().st_ino == before
        assert not list((store.path / ".making").iterdir())

    def test_a_damaged_schedule_is_made_again(self, store, result):
        made = kept(store, result)
        (path,) = (store.path / "traces").iterdir()
        path.write_bytes(b"no trace")
        assert store.trace(made).digest == result[0].trace.digest


def test_the_four_states(store, result):
    """A result ends a failure."""
    store.fail(result[0].scenario, "once")
    done = kept(store, result)
    failed, running, missing = (scenario(commits=40, seed=seed) for seed in (1, 2, 3))
    store.fail(failed, "ValueError: no", "Traceback")
    with store.lease([running.digest]):
        states = store.states(one.digest for one in (done, failed, running, missing))
    assert list(states.values()) == ["done", "failed", "running", "missing"]
    assert store.read_failure(failed.digest)["reason"] == "ValueError: no"
    assert store.read_failure(done.digest) is None


def test_a_reason_that_cannot_be_kept_is_told_all_the_same(store, monkeypatch):
    failed = scenario(commits=40)
    monkeypatch.setattr(os, "fsync", full_disk)
    assert store.fail(failed, "ValueError: no").startswith("ValueError: no (not kept: ")
    assert store.read_failure(failed.digest) is None


@pytest.mark.parametrize(
    ("place", "create", "words"),
    [
        ("", True, r"holds other files, such as 'empty'\. Choose another folder"),
        ("notes.txt", True, "is a file"),
        ("empty", False, "is empty"),
        ("none", False, "is not a folder"),
    ],
)
def test_other_folders_are_refused_and_stay(tmp_path, place, create, words):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=words):
        open_store(tmp_path / place, create=create)
    assert {path.name for path in tmp_path.rglob("*")} == {"notes.txt", "empty"}


@pytest.mark.parametrize(("number", "words"), [(99, "a newer .* Update"), (1, "an older .* Choose another")])
def test_a_store_of_another_format_is_refused(store, number, words):
    (store.path / "store.json").write_text(json.dumps({"kind": "asyncsim store", "format": number}))
    with pytest.raises(ValueError, match=words.replace(" .* ", rf" asyncsim \(format {number};.*")):
        open_store(store.path)


def test_a_store_that_another_process_has_begun(store):
    (store.path / "store.json").unlink()
    assert open_store(store.path) == store
    assert {path.name for path in store.path.iterdir()} == {*FOLDERS, "store.json"}


@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_a_full_disk_leaves_nothing(store, result, monkeypatch, step):
    monkeypatch.setattr(os, step, full_disk)
    monkeypatch.setattr(entries, "_flushing", entries._Flushing())
    with pytest.raises(OSError, match="No space"):
        kept(store, result)
    assert not store.has(result[0].scenario.digest)
    assert not list((store.path / ".making").iterdir())
