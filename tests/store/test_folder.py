"""A folder: one process at a time, one study's files, and nothing left of those that were killed."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsim.store import _entry as keeping
from asyncsim.store import _lease as lease
from asyncsim.store._entry import Folder
from asyncsim.store._labels import HOLDER
from tests.study.problems import contents

LABEL, NAMES = "scenario.json", ("one.bin", "two.bin", "summary.json")
A, B = '{"@asyncsim": "a"}', '{"@asyncsim": "b"}'  # contents of files that are told to be asyncsim's


class Fake:
    """A study without results."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    def describe(self) -> dict[str, Any]:
        return {"name": self.digest}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "out", LABEL, NAMES)


def fill(folder: Folder, digest: str, force: bool = False) -> None:
    with folder.lease(Fake(digest), force) as work:
        for name in NAMES:
            (work / name).write_text(A)


class TestLock:
    def test_the_process_at_work_is_named(self, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(keeping, "TIMEOUT", 0.0)
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
        monkeypatch.setattr(keeping, "TIMEOUT", 0.0)
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
        done: list[Path] = []

        def stopping(step: Callable[..., object]) -> Callable[..., None]:
            def do(path: Path, *more: Any, **options: Any) -> None:
                if path != folder.path:  # which is not removed, because it is not empty
                    if len(done) == steps:
                        raise KeyboardInterrupt
                    done.append(path)
                step(path, *more, **options)

            return do

        def fill_and_stop() -> None:
            with folder.lease(Fake("b"), force=True) as work:
                for name in NAMES:
                    (work / name).write_text(B)
                for owner, name in ((os, "replace"), (Path, "unlink"), (Path, "rmdir")):
                    monkeypatch.setattr(owner, name, stopping(getattr(owner, name)))

        fill(folder, "a")
        (folder / "notes.txt").write_text("mine")
        with pytest.raises(KeyboardInterrupt):
            fill_and_stop()
        monkeypatch.undo()
        with folder.lease(Fake("b")) as work:
            assert [(work / name).read_text() for name in NAMES] == [B] * 3
        assert [(folder / name).read_text() for name in NAMES] == [B] * 3
        assert contents(folder.path).keys() == {LABEL, *NAMES, "notes.txt"}
