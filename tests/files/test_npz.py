"""A file of arrays gives the numbers that were written, or an error of one line."""

import io
import os
import random
import re
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from asyncsim.files import _npz as npz


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.npz"


def content(array: np.ndarray) -> bytes:
    """The bytes of a .npy file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def with_header(text: str, data: bytes = b"\0" * 16, version: int = 1) -> bytes:
    """A .npy file with a header of one's own."""
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def pack(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in {"format_version": content(np.array(1)), **members}.items():
            archive.writestr(f"{name}.npy", data)


def read(path: Path, *names: str) -> npz.Arrays:
    return npz.read(path, names or None, kind="example", version=1)


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def assert_one_line(path: Path, words: str) -> None:
    with pytest.raises(ValueError, match=f"`path` .* is damaged or not a example file .*{words}.* Restore") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_every_kind_of_array_comes_back(path: Path) -> None:
    arrays = {
        "floats": np.linspace(0, 1, 7),
        "by_columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "empty": np.zeros((0, 3), np.int8),
        "single": np.array(3),
        "words": np.array(["a", "bcd"]),
        "no_words": np.array([], np.str_),
        "swapped": np.array([1, 2], ">i4"),
        "records": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        "raw": np.array([b"ab"], "V2"),
    }
    npz.write(path, arrays, version=1, notes={"origin": "here", "seconds": 0.1})
    found = read(path)
    assert [*found] == [*arrays]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
        assert found[name].flags.writeable
    assert npz.read_notes(path) == {"origin": "here", "seconds": 0.1}


@pytest.mark.parametrize("name", ["file", "args", "kwds", "allow_pickle", "größe", "one.npy"])
def test_an_array_has_any_name(path: Path, name: str) -> None:
    npz.write(path, {name: np.arange(3)}, version=1)
    with np.load(path) as archive:
        assert archive[name].tolist() == [0, 1, 2]


def test_equal_contents_make_equal_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = []
    for now in (1e9, 1.5e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        npz.write(path, {"x": np.arange(3), "y": np.array("text")}, version=1, notes={"origin": "here"})
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]


def test_python_objects_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        npz.write(path, {"x": np.array([object()])}, version=1)
    assert not path.exists()


def test_any_changed_byte_is_refused_or_changes_no_number(path: Path) -> None:
    arrays = {"loss": np.array([0.5, 0.25], np.float32)}
    npz.write(path, arrays, version=1)
    whole = path.read_bytes()
    rng = random.Random(0)
    for place, byte in enumerate(whole):
        for other in {rng.choice([0, ord("/"), rng.randrange(256)]), byte ^ 1 << rng.randrange(8)} - {byte}:
            path.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
            try:
                found = read(path)
            except ValueError:
                continue
            assert found.keys() == arrays.keys(), (place, other)
            for name, array in arrays.items():
                np.testing.assert_array_equal(found[name], array, strict=True, err_msg=f"{place} {other}")


def test_any_missing_end_is_refused(path: Path) -> None:
    npz.write(path, {"x": np.arange(2)}, version=1)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is damaged or not a example file"):
            read(path)
    path.write_bytes(whole + b"\0")
    assert_one_line(path, "something follows the end")


def test_an_array_that_the_directory_skips_is_missed(path: Path) -> None:
    """A longer comment of one entry can hide the next one."""
    npz.write(path, {"x": np.arange(2), "y": np.arange(3)}, version=1)
    whole = bytearray(path.read_bytes())
    entries = [match.start() for match in re.finditer(b"PK\x01\x02", whole)]
    whole[entries[1] + 32] = whole.rindex(b"PK\x05\x06") - entries[2]  # the comment's length
    path.write_bytes(whole)
    assert_one_line(path, "its directory lists 2 arrays of 3")


@pytest.mark.parametrize("shape", ["(1000000000000,)", f"({10**30},)", f"({10**30}, 0)", "(-1, -2)", "(3,)"])
def test_headers_that_claim_too_much_take_no_memory(path: Path, shape: str) -> None:
    pack(path, {"x": with_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n")})
    with little_memory(), pytest.raises(ValueError, match="is damaged"):
        read(path)


def test_a_directory_that_claims_too_much_takes_no_memory(path: Path) -> None:
    npz.write(path, {"x": np.arange(2)}, version=1)
    whole = bytearray(path.read_bytes())
    entry = whole.rindex(b"PK\x01\x02")
    for claimed in (24, 20):  # bytes, and bytes when compressed
        whole[entry + claimed : entry + claimed + 4] = (0xF0000000).to_bytes(4, "little")
        path.write_bytes(whole)
        assert_one_line(path, "claims? 40265\\d+ bytes, more than the file can hold")


HEADERS = {
    "not a dictionary": "[1, 2]",
    "unclosed": "{'descr': '<f8', (",
    "nested": "{" + "(" * 5000,
    "too long": "{'descr': '<f8'," + " " * 20_000 + "}",
    "no type": "{'descr': 'xyz', 'fortran_order': False, 'shape': (2,)}",
    "other keys": "{'descr': '<f8'}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
    "escape": "{'descr': '\\<f8', 'fortran_order': False, 'shape': (2,)}",
    "zero byte": "{'descr': '<f8\0', 'fortran_order': False, 'shape': (2,)}",
}


@pytest.mark.parametrize("text", HEADERS.values(), ids=HEADERS)
def test_damaged_headers_are_one_line(path: Path, text: str) -> None:
    for version in (1, 2, 3, 9):
        pack(path, {"x": with_header(text, version=version)})
        assert_one_line(path, "")
    for data in (b"", b"\x93NUMPY", b"nonsense", with_header("")):  # members without an array
        pack(path, {"x": data})
        assert_one_line(path, "")


def test_encrypted_members_are_refused(path: Path) -> None:
    npz.write(path, {"x": np.arange(2)}, version=1)
    whole = bytearray(path.read_bytes())
    whole[whole.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(whole)
    assert_one_line(path, "'x.npy' is encrypted")


def test_a_file_of_another_owner_counts_as_missing(path: Path) -> None:
    def found(owner: str | None) -> npz.Arrays | None:
        return npz.read_if_whole(path, kind="example", version=1, owner=owner)

    assert found(None) is None
    npz.write(path, {"x": np.arange(2)}, version=1, notes={npz.OWNER: "ab12"})
    for owner in ("ab12", None):
        arrays = found(owner)
        assert arrays is not None
        assert [*arrays] == ["x"]
    assert found("cd34") is None
    os.truncate(path, 100)
    assert found("ab12") is None


def test_small_files_take_no_more_memory_than_measured_numbers_would(path: Path) -> None:
    """Compressed to a thousandth, or laid over each other."""
    pack(path, {"x": content(np.zeros(9 * 2**20)), "y": content(np.arange(9))}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 300_000
    with little_memory():
        assert_one_line(path, r"its arrays claim \d+ bytes, more than the file can hold")
        assert read(path, "y")["y"].tolist() == [*range(9)]  # what nobody asked for is not read


def test_an_array_twice_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("format_version.npy", content(np.array(1)))
        for number in range(2):
            with pytest.warns(UserWarning, match="Duplicate") if number else pytest.MonkeyPatch.context():
                archive.writestr("x.npy", content(np.array(number)))
    assert_one_line(path, "lists an array twice")
