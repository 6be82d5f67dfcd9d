"""A file is written whole or not at all."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from asyncsim.files import atomic_write


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "result.bin"
    path.write_bytes(b"old")
    return path


def full_disk(*args: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def half_then_full(file: BinaryIO) -> None:
    file.write(b"half")
    full_disk()


def test_replaces_the_file(old: Path) -> None:
    atomic_write(old, lambda file: file.write(b"new"))
    assert old.read_bytes() == b"new"
    assert list(old.parent.iterdir()) == [old]


def test_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    atomic_write(tmp_path / "atomic", lambda file: None)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "atomic")]
    assert modes[0] == modes[1]


def test_follows_a_link(old: Path) -> None:
    link = old.with_name("latest")
    link.symlink_to(old.name)
    atomic_write(link, lambda file: file.write(b"new"))
    assert link.is_symlink()
    assert old.read_bytes() == b"new"


def test_relative_path(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old.parent)
    atomic_write(old.name, lambda file: file.write(b"new"))
    assert old.read_bytes() == b"new"


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
    with pytest.raises(OSError, match=r"`path` '.*nowhere.*' could not be written: No such file.*existing folder"):
        atomic_write(tmp_path / "nowhere" / "a", lambda file: None)
