"""A folder: one process at a time, one study's files, and nothing left of those that were killed."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import asyncsim as asim
from asyncsim.plots.style import read_png_metadata
from asyncsim.store import _entry as keeping
from asyncsim.store import _files as files
from asyncsim.store import _lease as lease
from asyncsim.store._entry import Folder
from asyncsim.store._labels import HOLDER
from tests.conftest import draw_empty_pages
from tests.problems import full_disk, interrupt
from tests.study.problems import FILES, assert_same_run, contents, scenario

LABEL, NAMES = "scenario.json", ("one.bin", "two.bin", "summary.json")

pytestmark = pytest.mark.usefixtures("empty_pages")


class Fake:
    """A study without results."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    def describe(self) -> dict[str, Any]:
        return {"name": self.digest}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "out", LABEL, NAMES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders a and b of two scenarios that differ in the seed."""
    out = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        draw_empty_pages(patch)
        for seed, name in enumerate("ab"):
            asim.run(scenario(seed=seed), out / name)
    return out


@pytest.fixture
def both(finished: Path, tmp_path: Path) -> Path:
    """A copy of the two folders."""
    return Path(shutil.copytree(finished, tmp_path / "both"))


def fill(folder: Folder, digest: str, force: bool = False) -> None:
    with folder.lease(Fake(digest), force) as work:
        for name in NAMES:
            (work / name).write_text(digest)


class TestLock:
    def test_the_process_at_work_is_named(self, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(keeping, "PATIENCE", 0.0)
        for force in (False, True):
            with (
                folder.lease(Fake("a")),
                pytest.raises(ValueError, match=rf"in use by process {os.getpid()} on .*since.*\. Wait .*`--out`"),
                folder.lease(Fake("b"), force),
            ):
                pass
        (folder / "one.bin").write_text("a")
        assert contents(folder.path).keys() == {LABEL, "one.bin"}

    def test_other_processes_are_seen_until_they_are_killed(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeping, "PATIENCE", 0.0)
        folder.path.mkdir()
        with subprocess.Popen(["sleep", "60"]) as other:
            holder = {**lease.this_process(), "process": other.pid, "started": lease._start_of(other.pid)}
            (folder / HOLDER).write_text(json.dumps(holder))
            with pytest.raises(ValueError, match=f"in use by process {other.pid} on"):
                fill(folder, "a")
            other.kill()
        fill(folder, "a")
        assert contents(folder.path).keys() == {LABEL, *NAMES}

    def test_what_a_killed_process_left_is_swept(self, folder: Folder) -> None:
        folder.path.mkdir()
        for name in (f".{HOLDER}.{'0' * 16}.tmp", f".one.bin.{'0' * 16}.tmp", f".scenario.json.{'f' * 16}.tmp"):
            (folder / name).write_text("half")
        others = {".one.bin.tmp", f".three.bin.{'0' * 16}.tmp"}
        for name in others:
            (folder / name).write_text("mine")
        fill(folder, "a")
        assert contents(folder.path).keys() == {LABEL, *NAMES, *others}

    @pytest.mark.parametrize("steps", range(9))
    def test_publishing_is_finished_by_the_next(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch, steps: int
    ) -> None:
        """Four old files are removed, four new ones are moved, and the empty folder is removed."""
        done: list[Any] = []

        def counted(step: Any) -> Any:
            def stopping(*args: Any, **kwargs: Any) -> None:
                if len(done) == steps:
                    raise KeyboardInterrupt
                done.append(args)
                step(*args, **kwargs)

            return stopping

        def fill_and_stop() -> None:
            with folder.lease(Fake("b"), force=True) as work:
                for name in NAMES:
                    (work / name).write_text("b")
                monkeypatch.setattr(os, "replace", counted(os.replace))
                monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
                monkeypatch.setattr(Path, "rmdir", counted_but_of_place(Path.rmdir))

        def counted_but_of_place(rmdir: Any) -> Any:
            return lambda path: (rmdir if path == folder.path else counted(rmdir))(path)

        fill(folder, "a")
        (folder / "notes.txt").write_text("mine")
        with pytest.raises(KeyboardInterrupt):
            fill_and_stop()
        monkeypatch.undo()
        with folder.lease(Fake("b")) as work:
            assert [(work / name).read_text() for name in NAMES] == ["b"] * 3
        assert [(folder / name).read_text() for name in NAMES] == ["b"] * 3
        assert contents(folder.path).keys() == {LABEL, *NAMES, "notes.txt"}


class TestReadOnly:
    @pytest.fixture
    def read_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing can be written or removed."""

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr(lease, "_create", refuse)
        monkeypatch.setattr(files, "_write", refuse)
        monkeypatch.setattr(Path, "unlink", refuse)

    @pytest.mark.parametrize("assembled", [False, True])
    def test_results_are_found(self, both: Path, request: pytest.FixtureRequest, assembled: bool) -> None:
        """Also next to others that a killed process did not publish."""
        if assembled:
            (both / "b").rename(both / "a" / keeping.ASSEMBLED)
        request.getfixturevalue("read_only")
        assert not asim.run(scenario(), both / "a").recomputed

    @pytest.mark.usefixtures("read_only")
    def test_the_message_is_the_intended_one(self, tmp_path: Path) -> None:
        with pytest.raises(
            OSError, match=r"scenario.json' could not be written: Read-only.*can be written to"
        ) as caught:
            asim.run(scenario(), tmp_path)
        assert caught.value.errno == errno.EROFS

    def test_a_lock_on_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lease, "_create", lambda *args: full_disk())
        with pytest.raises(OSError, match=r"`out` .* cannot be locked: No space left.*Choose another"):
            asim.run(scenario(), tmp_path)


class TestOwner:
    """Each file says whose it is, and is believed only if it is the scenario's own."""

    @pytest.mark.parametrize(("name", "kind"), [("trace.npz", "trace"), ("run.npz", "run")])
    def test_files_of_another_scenario_are_refused(self, both: Path, name: str, kind: str) -> None:
        for other in ("trace.npz", "run.npz"):
            if other != name:
                (both / "a" / other).unlink()  # nothing beside it contradicts it
        shutil.copy(both / "b" / name, both / "a" / name)
        with pytest.raises(ValueError, match=rf"{name}' is not the {kind} of this scenario.*Delete it.*`--force`"):
            asim.run(scenario(), both / "a")

    def test_a_foreign_picture_is_drawn_again(self, both: Path, finished: Path) -> None:
        drawn = (finished / "a" / "report.png").read_bytes()
        for found in ((finished / "b" / "report.png").read_bytes(), b"", drawn[:500] + b"x" + drawn[501:]):
            (both / "a" / "report.png").write_bytes(found)
            asim.run(scenario(), both / "a")
            assert (both / "a" / "report.png").read_bytes() == drawn

    def test_a_replaced_run_does_not_keep_the_picture(self, both: Path) -> None:
        other = scenario(seed=1)
        asim.run(other, both / "a", force=True, picture=False)
        assert contents(both / "a").keys() == FILES - {"report.png"}
        asim.run(other, both / "a")
        assert read_png_metadata(both / "a" / "report.png")["Study"] == other.digest


class TestSummary:
    """It is derived from the run, and never believed."""

    def test_a_changed_digit_is_put_right(self, both: Path) -> None:
        path = both / "a" / "summary.json"
        before = path.read_bytes()
        changed = json.loads(before) | {"final_loss": 0.125}
        path.write_text(json.dumps(changed, indent=2))
        found = asim.run(scenario(), both / "a")
        assert not found.recomputed
        assert found.summary["final_loss"] != 0.125
        assert path.read_bytes() == before

    def test_is_not_lost_with_the_run_when_it_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        module = sys.modules["asyncsim.study._run"]
        with monkeypatch.context() as patch:
            patch.setattr(module, "summarise", interrupt)
            with pytest.raises(KeyboardInterrupt):
                asim.run(scenario(), tmp_path)
        monkeypatch.setattr(module, "finish", interrupt)
        assert_same_run(
            asim.run(scenario(), tmp_path).run,
            asim.Run.load(tmp_path / "run.npz", scenario().rule, scenario().workload),
        )
