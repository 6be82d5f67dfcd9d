"""A store whose files are swapped, altered, emptied or not its own: nothing of it is believed or lost."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.files import _atomic
from asyncsim.store import _entries as entries
from asyncsim.study._store import open_store
from tests.cli.commands import Command
from tests.study.problems import scenario

RATES = (0.05, 0.1)


def asked() -> list[asim.Scenario]:
    return asim.grid(scenario(commits=40), learning_rate=RATES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two results."""
    place = tmp_path_factory.mktemp("finished") / "store"
    asim.sweep(asked(), place, jobs=0)
    return place


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "store"))


@pytest.fixture
def losses(finished: Path) -> list[float]:
    return asim.sweep(asked(), finished, jobs=0).table()["final_loss"].tolist()


def folders(store: Path) -> list[Path]:
    """Those of the results, in the order of the scenarios."""
    return [store / one.digest for one in asked()]


def swap(one: Path, other: Path) -> None:
    one.rename(one.with_name("aside"))
    other.rename(one)
    one.with_name("aside").rename(other)


def table(command: Command, store: Path) -> dict[str, list[Any]]:
    done = command("sweep", "table", store, "--json")
    assert done.status == 0
    return json.loads(done.out)["columns"]


def assert_computed_again(store: Path, losses: list[float]) -> None:
    """The same sweep computes what is lacking, and the results are those of before."""
    with pytest.warns(UserWarning, match=r"2 results in .* are damaged\. They are computed again\."):
        again = asim.sweep(asked(), store, jobs=0)
    assert len(again.computed) == 2
    assert again.table()["final_loss"].tolist() == losses
    assert [result.summary["final_loss"] for result in again] == losses
    assert not asim.sweep(asked(), store, jobs=0).computed


class TestAltered:
    """A file that is not what was written there is as good as missing."""

    def test_swapped_summaries_are_computed_again(self, store: Path, losses: list[float], command: Command) -> None:
        one, other = folders(store)
        swap(one / "summary.json", other / "summary.json")
        assert table(command, store)["status"] == ["missing", "missing"]
        assert {row["state"] for row in json.loads(command("runs", store, "--json").out)["runs"]} == {"damaged"}
        assert json.loads(command("show", one, "--json").out)["summary"] == {}
        assert_computed_again(store, losses)

    @pytest.mark.parametrize("damage", [lambda text: text.replace("0.05", "0.06"), lambda text: "{}", lambda text: ""])
    def test_a_damaged_record_of_a_sweep_is_named(
        self, store: Path, damage: Callable[[str], str], command: Command
    ) -> None:
        (path,) = (store / "sweeps").iterdir()
        path.write_text(damage(path.read_text()))
        for words in (("table", store), ("status", store), ("plot", store, "--x", "learning_rate")):
            done = command("sweep", *words)
            assert (done.status, done.out) == (1, "")
            assert f"{path.name}' is damaged" in done.err
            assert "Traceback" not in done.err
        found = asim.sweep(asked(), store, jobs=0)
        assert not found.computed
        assert table(command, store)["learning_rate"] == list(RATES)


class TestEmptied:
    """What a power cut may leave."""

    @pytest.mark.parametrize("names", [("scenario.json", "summary.json"), ("run.npz", "trace.npz")])
    def test_results_are_computed_again(self, store: Path, losses: list[float], names: tuple[str, str]) -> None:
        """A note and a folder of somebody else beside them stay."""
        for folder, name, size in zip(folders(store), names, (50, 0), strict=True):
            (folder / "note.txt").write_text("mine")
            (folder / "plots").mkdir()
            os.truncate(folder / name, size)
        assert set(open_store(store).states(one.digest for one in asked()).values()) == {"missing"}
        assert_computed_again(store, losses)
        assert all((folder / "note.txt").read_text() == "mine" for folder in folders(store))
        assert all((folder / "plots").is_dir() for folder in folders(store))

    def test_a_failure_without_a_reason_is_computed_again(self, store: Path, losses: list[float]) -> None:
        shutil.rmtree(folders(store)[0])
        (store / "failed" / f"{asked()[0].digest}.json").write_text("")
        again = asim.sweep(asked(), store, jobs=0)
        assert again.computed == (asked()[0].digest,)
        assert again.table()["final_loss"].tolist() == losses

    @pytest.mark.parametrize("text", ["", "{", "[]"])
    def test_a_damaged_marker_of_the_store_is_written_again(self, store: Path, text: str, command: Command) -> None:
        (store / "store.json").write_text(text)
        assert table(command, store)["status"] == ["done", "done"]
        assert not asim.sweep(asked(), store, jobs=0).computed
        assert json.loads((store / "store.json").read_text())["format"] == entries.FORMAT

    def test_a_flipped_bit_is_found_on_request(self, store: Path, losses: list[float]) -> None:
        folder = folders(store)[0]
        content = bytearray((folder / "run.npz").read_bytes())
        content[len(content) // 2] ^= 1
        (folder / "run.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"damaged.* with `--retry-failed`; in Python, `retry_failed=True`"):
            list(asim.sweep(asked(), store, jobs=0))
        again = asim.sweep(asked(), store, jobs=0, retry_failed=True)
        assert again.computed == (asked()[0].digest,)
        assert [result.summary["final_loss"] for result in again] == losses

    def test_files_are_flushed_before_they_are_renamed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All of a result, and nothing of it is in its place before."""
        monkeypatch.setattr(entries, "_flushing", entries._Flushing())
        flushed, fsync = [], os.fsync
        (one,) = asked()[:1]

        def noted(opened: int) -> None:
            assert not (tmp_path / "store" / one.digest).exists()
            flushed.append(os.fstat(opened).st_ino)
            fsync(opened)

        made = asim.run(one)
        store = open_store(tmp_path / "store")
        store.trace(one)
        monkeypatch.setattr(os, "fsync", noted)
        store.put(made, {})
        monkeypatch.undo()
        kept = store.folder(one.digest)
        assert {path.stat().st_ino for path in (kept, *kept.iterdir())} <= set(flushed)


class TestForeignFiles:
    """Nothing that somebody else has put there is removed."""

    def test_a_folder_with_the_name_of_a_scenario_stays(self, tmp_path: Path) -> None:
        base = scenario(commits=40)
        before = asim.run(base, tmp_path / "top/gem").summary
        (tmp_path / "top/gem/note.txt").write_text("mine")
        (tmp_path / "top/downpour").write_text("a file of mine")
        comparison = asim.Comparison({"gem": base.override(seed=1), "downpour": base.override(rule="downpour")})
        with pytest.warns(UserWarning, match="was there before and stays"):
            results = asim.compare(comparison, tmp_path / "top")
        assert (tmp_path / "top/gem/note.txt").read_text() == "mine"
        assert (tmp_path / "top/downpour").read_text() == "a file of mine"
        assert asim.load(tmp_path / "top/gem").summary == before
        found = asim.load(tmp_path / "top")
        assert {name: one.summary for name, one in found.items()} == {n: one.summary for n, one in results.items()}

    def test_foreign_files_among_replaced_results_stay(self, tmp_path: Path) -> None:
        comparison = asim.Comparison({"gem": scenario(commits=40)})
        first = asim.compare(comparison, tmp_path)["gem"].folder
        assert first is not None
        (tmp_path / "best").symlink_to(first)
        for place in (tmp_path, tmp_path / "runs", first, tmp_path / "runs/traces"):
            (place / "note.txt").write_text("mine")
        for other in (comparison, asim.Comparison({"gem": scenario(commits=40, seed=1)})):
            results = asim.compare(other, tmp_path, force=True)
            assert results["gem"].recomputed
            assert asim.load(tmp_path)["gem"].summary == results["gem"].summary
        for place in (tmp_path, tmp_path / "runs", first, tmp_path / "runs/traces"):
            assert (place / "note.txt").read_text() == "mine"
        assert (tmp_path / "best").is_symlink()

    def test_a_store_beside_an_experiment_stays(self, tmp_path: Path) -> None:
        def compute(store: str = "", rate: float = 0.1) -> dict[str, np.ndarray]:
            """Some losses.

            Args:
                store: Where runs are kept.
                rate: Step size.
            """
            one = scenario(commits=40, learning_rate=rate)
            return {"loss": asim.sweep([one], store, jobs=0).table()["final_loss"]}

        asim.sweep(asked()[:1], tmp_path / "store", jobs=0)
        asim.Experiment(compute, lambda figure, numbers: None).run(tmp_path)
        store = open_store(tmp_path / "store", create=False)
        assert {*filter(store.has, store.digests())} == {asked()[0].digest}
        assert {path.name for path in tmp_path.iterdir()} == {
            *("store", "experiment.json", "numbers.npz", "summary.json", "report.png")
        }


def test_a_finished_sweep_needs_no_permission_to_write(
    store: Path, losses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for module, names in (
        (_atomic, ["_write"]),
        (os, ["link", "rename", "mkdir", "unlink"]),
        (Path, ["touch", "unlink"]),
    ):
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    found = asim.sweep(asked(), store, jobs=0)
    assert not found.computed
    assert found.table()["final_loss"].tolist() == losses
    more = [*asked(), scenario(commits=40, learning_rate=0.2)]
    with pytest.raises(OSError, match="Read-only"):
        asim.sweep(more, store, jobs=0)
