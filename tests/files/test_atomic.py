"""A file is written whole or not at all."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from asyncsim.files._atomic import atomic_write, require_folder
from tests.problems import full_disk


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "result.bin"
    path.write_bytes(b"old")
    return path


def half_then_full(file: BinaryIO) -> None:
    file.write(b"half")
    full_disk()


def test_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    atomic_write(tmp_path / "atomic", lambda file: None)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "atomic")]
    assert modes[0] == modes[1]


def test_replaces_the_file_also_through_a_link(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old.parent)
    Path("latest").symlink_to(old.name)
    for name in ("latest", old.name):
        atomic_write(name, lambda file, name=name: file.write(name.encode()))
        assert old.read_bytes() == name.encode()
        assert sorted(old.parent.iterdir()) == [old.with_name("latest"), old]
        assert Path("latest").is_symlink()


@pytest.mark.parametrize("stage", ["write", "fsync", "replace"])
def test_full_disk_leaves_the_old_file_whole(old: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    if stage != "write":
        monkeypatch.setattr(os, stage, full_disk)
    with pytest.raises(OSError, match=r"`path` '.*result\.bin' could not be written: No space.*Free") as caught:
        atomic_write(old, half_then_full if stage == "write" else lambda file: file.write(b"new"))
    assert caught.value.errno == errno.ENOSPC
    assert old.read_bytes() == b"old"
    assert list(old.parent.iterdir()) == [old]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_any_other_error_passes_and_leaves_the_old_file_whole(old: Path, error: type[BaseException]) -> None:
    def stop(file: BinaryIO) -> None:
        file.write(b"half")
        raise error

    with pytest.raises(error):
        atomic_write(old, stop)
    assert old.read_bytes() == b"old"
    assert list(old.parent.iterdir()) == [old]


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        OSError, match=r"`path` '.*nowhere.*' could not be written: No such file.*create it first"
    ) as caught:
        atomic_write(tmp_path / "nowhere" / "a", lambda file: None)
    assert "space" not in str(caught.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="A folder is needed where a file is"):
        atomic_write(tmp_path / "file" / "a", lambda file: None)


def test_file_and_folder_are_flushed_around_the_rename(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut leaves the old file or the new one, and never an empty one."""
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def flush(opened: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(opened).st_mode) else "file")
        fsync(opened)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("rename"), replace(*paths)))
    atomic_write(old, lambda file: file.write(b"new"))
    assert done == ["file", "rename", "folder"]


@pytest.mark.parametrize("out", [5, "", "  ", b"folder", "a\0b", ["folder"]])
def test_what_is_not_a_folder_is_refused_in_one_line(out: object) -> None:
    with pytest.raises(ValueError, match=r"^`out` must be the path of a folder; got .*\.$"):
        require_folder("out", out)
