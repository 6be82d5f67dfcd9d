"""A file is written whole or not at all."""

import errno
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from asyncsim.store._files import atomic_write, digest, read_owned, require_folder, to_plain, write_json, write_owned
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


class TestWriteJson:
    def test_what_is_not_finite_is_null(self, tmp_path: Path) -> None:
        values = {"a": (np.int32(1), [True, None, "x", -np.inf]), "b": {"c": np.eye(2)}, "d": np.array([0.5, np.nan])}
        write_json(tmp_path / "a.json", values)
        read = json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail)
        expected = {"a": [1, [True, None, "x", None]], "b": {"c": [[1.0, 0.0], [0.0, 1.0]]}, "d": [0.5, None]}
        assert read == expected == to_plain(values)
        assert type(read["a"][0]) is int

    def test_other_objects_are_refused_and_the_file_stays(self, old: Path) -> None:
        with pytest.raises(TypeError, match="not JSON serializable"):
            write_json(old, {"a": object()})
        assert old.read_bytes() == b"old"


class TestOwned:
    """A file is its owner's, and as it was written, or it is as good as missing."""

    def test_what_was_written_comes_back(self, tmp_path: Path) -> None:
        value = {"b": 0.1, "a": [1, None, "größe", {"x": True}], "c": np.float64("nan"), "2": -0.0}
        write_owned(tmp_path / "a.json", value, "me")
        found = read_owned(tmp_path / "a.json", "me")
        assert found == to_plain(value)
        assert read_owned(tmp_path / "a.json") == found
        assert read_owned(tmp_path / "a.json", "you") is None
        assert json.loads((tmp_path / "a.json").read_text())["a"] == value["a"]

    def test_any_changed_byte_is_noticed_or_changes_nothing(self, tmp_path: Path) -> None:
        path, value = tmp_path / "a.json", {"loss": 0.125, "name": "gem"}
        write_owned(path, value, "me")
        whole = path.read_bytes()
        for place, byte in enumerate(whole):
            for other in {0, ord("0"), ord(" "), ord('"'), byte ^ 1} - {byte}:
                path.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
                assert read_owned(path, "me") in (None, value)
            path.write_bytes(whole[:place])
            assert read_owned(path, "me") in (None, value)

    @pytest.mark.parametrize(
        "text", ["", "{}", "[]", "3", "[" * 100_000, '{"@asyncsim": 3}', '{"@asyncsim": {"owner": "me"}}']
    )
    def test_other_content_is_damage(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "a.json").write_text(text)
        assert read_owned(tmp_path / "a.json") is None

    def test_the_name_of_the_entry_is_kept(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"'@asyncsim' is kept for the checksum of 'a\.json'"):
            write_owned(tmp_path / "a.json", {"@asyncsim": 1}, "me")


@pytest.mark.parametrize("out", [5, "", "  ", b"folder", "a\0b", ["folder"]])
def test_what_is_not_a_folder_is_refused_in_one_line(out: object) -> None:
    with pytest.raises(ValueError, match=r"^`out` must be the path of a folder; got .*\.$"):
        require_folder("out", out)


def test_digest_is_that_of_the_bytes() -> None:
    column = np.arange(6, dtype=np.int32)
    expected = hashlib.sha256(b"x" + column.tobytes()).hexdigest()[:16]
    assert digest("x", column) == digest(b"x", column.tobytes()) == expected
    assert digest(np.arange(12, dtype=np.int32)[::2]) == digest(2 * column)
    assert digest(np.zeros((0, 2))) == digest()
