"""Data sets: their contents, and damaged files, of which no part is read."""

import gzip
import hashlib
import importlib.util
import math
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from asyncsim.datasets import CIFAR10, MNIST, Dataset, Digits
from asyncsim.datasets import _published as published
from asyncsim.datasets._dataset import loaded
from asyncsim.datasets._published import CHECKSUMS, FOLDER, MIRRORS, TEST, read_idx
from tests.datasets.test_images import write_cifar
from tests.problems import refusals

LABELS = "train-labels-idx1-ubyte"
IMAGES = "train-images-idx3-ubyte"


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def arrays(shape: tuple[int, int] = (5, 4), train: int = 12, test: int = 7) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = lambda n: np.arange(n) % 3  # noqa: E731
    images = lambda n: rng.integers(256, size=(n, *shape))  # noqa: E731
    halves = {"train": (images(train), labels(train)), "t10k": (images(test), labels(test))}
    return {
        f"{half}-{kind}-ubyte": array
        for half, pair in halves.items()
        for kind, array in zip(("images-idx3", "labels-idx1"), pair, strict=True)
    }


def write(folder: Path, gzipped: bool = False) -> dict[str, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (written := arrays()).items():
        content = idx(array)
        (folder / (name + ".gz" * gzipped)).write_bytes(gzip.compress(content) if gzipped else content)
    return written


# Dataset


def small(**changed: Any) -> Dataset:
    fields = {
        "name": "small",
        "train_inputs": np.arange(12.0).reshape(4, 3),
        "train_labels": [0, 1, 0, 1],
        "test_inputs": np.ones((2, 3)),
        "test_labels": [1, 0],
        "classes": 2,
    }
    return Dataset(**{**fields, **changed})


def test_arrays_are_converted_and_cannot_be_written() -> None:
    mine = np.arange(12, dtype=np.float32).reshape(4, 3)
    data = small(train_inputs=mine)
    assert (data.train_inputs.dtype, data.train_labels.dtype) == (np.float32, np.int32)
    with pytest.raises(ValueError, match="read-only"):
        data.train_inputs[0, 0] = 1
    mine[0, 0] = 0  # the caller's own array stays as it was


def test_fingerprint_tells_data_apart_and_not_files() -> None:
    same = small(name="other", train_inputs=np.asfortranarray(np.arange(12.0, dtype=np.float32).reshape(4, 3)))
    assert small().fingerprint == same.fingerprint
    others = [small(test_inputs=np.zeros((2, 3))), small(test_labels=[0, 1]), small(train_labels=[1, 1, 0, 1])]
    reshaped = small(train_inputs=np.arange(12.0).reshape(4, 3, 1), test_inputs=np.ones((2, 3, 1)))
    assert len({data.fingerprint for data in (small(), reshaped, *others)}) == 5


test_what_does_not_fit_is_named_in_one_line = refusals(
    ({"train_inputs": np.ones(4)}, r"`train_inputs` must have shape \(examples, …\).*got \(4,\)"),
    ({"test_inputs": np.ones((0, 3)), "test_labels": []}, r"`test_inputs` .* at least one example"),
    ({"test_inputs": np.ones((2, 0))}, r"`test_inputs` .* at least one number"),
    ({"test_inputs": np.ones((2, 4))}, r"`test_inputs` must have examples .* \(3,\); got \(4,\)"),
    ({"train_inputs": np.full((4, 3), np.nan)}, "`train_inputs` must be finite"),
    ({"train_inputs": np.full((4, 3), 1e300)}, "`train_inputs` must be finite as float32"),
    ({"train_inputs": [["a"]]}, "`train_inputs` must be one array of numbers; got list"),
    ({"train_inputs": [[1.0], [1.0, 2.0]]}, "`train_inputs` must be one array of numbers"),
    ({"train_labels": [0, 1, 0]}, r"`train_labels` must have shape \(4,\).*got \(3,\)"),
    ({"train_labels": [0.0, 1.0, 0.0, 1.0]}, "`train_labels` must be integers; got float64"),
    ({"test_labels": [0, 2]}, "`test_labels` must lie from 0 to `classes` - 1, here 1; got 0 to 2"),
    ({"test_labels": [0, -1]}, "`test_labels` must lie from 0"),
    ({"classes": 0}, "`classes` must be an integer of at least 1; got 0"),
    call=lambda changed: small(**changed),
)


# Digits


def test_train_and_test_digits_are_all_digits_once() -> None:
    data, source = Digits(), load_digits()
    images = np.concatenate([data.train_inputs, data.test_inputs]) * 6.0168 + 4.8842
    key = lambda array: sorted(map(bytes, array.reshape(len(array), -1).astype(np.uint8)))  # noqa: E731
    assert key(images.round()) == key(source.images)
    assert abs(images.mean() - 4.8842) < 1e-4
    assert np.concatenate([data.train_inputs, data.test_inputs]).std() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.01, 0.999])
def test_digits_are_split_by_class(fraction: float) -> None:
    data = Digits(fraction)
    train, test = (np.bincount(labels, minlength=10) for labels in (data.train_labels, data.test_labels))
    assert len(data.test_labels) == math.floor(1797 * fraction + 1e-9)
    assert np.abs(test - fraction * (train + test)).max() <= 1


@pytest.mark.parametrize("fraction", [0, -0.1, 1.0, 2.0, 1e-5, math.nan, "0.2"])
def test_digits_needs_images_on_both_sides(fraction: Any) -> None:
    with pytest.raises(ValueError, match="`test_fraction` must"):
        Digits(fraction)


@pytest.mark.parametrize("place", [published.DIGITS_FILE, Path("moved.csv.gz")])
def test_digits_are_those_of_scikit_learn(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without importing it, or by its own function where its file is elsewhere."""
    monkeypatch.setattr(published, "DIGITS_FILE", place)
    source = load_digits()
    for found, expected in zip(published._digits(), (source.images, source.target), strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


def test_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    loaded.cache_clear()
    with pytest.raises(ImportError, match=r"scikit-learn.* pip install 'asyncsim\[datasets\]'"):
        Digits()


# IDX files


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("inside", ["", "mnist"])
def test_a_folder_of_ones_own(tmp_path: Path, gzipped: bool, inside: str) -> None:
    written = write(tmp_path / inside, gzipped)
    data = MNIST(tmp_path)
    pixels = (data.train_inputs * 0.3081 + 0.1307) * 255
    np.testing.assert_allclose(pixels, written[IMAGES], atol=1e-3)
    np.testing.assert_array_equal(data.train_labels, written[LABELS])
    np.testing.assert_array_equal(data.test_labels, written["t10k-labels-idx1-ubyte"])
    assert (data.train_inputs.dtype, data.shape, data.classes) == (np.float32, (5, 4), 3)


IN_FOLDERS = {
    "MNIST": (MNIST, write, "mnist", LABELS),
    "CIFAR-10": (CIFAR10, write_cifar, FOLDER, TEST[0]),
}
every_format = pytest.mark.parametrize("title", IN_FOLDERS)


@every_format
def test_folder_from_the_environment(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, put, inside, _ = IN_FOLDERS[title]
    put(tmp_path / inside)
    monkeypatch.setenv("ASYNCSIM_DATA", str(tmp_path))
    assert kind().fingerprint == kind(str(tmp_path / inside)).fingerprint


def broken_compression(content: bytes) -> bytes:
    compressed = bytearray(gzip.compress(content))
    compressed[-6] ^= 0xFF  # in the checksum
    return bytes(compressed)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda content: b"", "ends in its header, after 0 bytes"),
    "header cut": (lambda content: content[:6], "ends in its header, after 6 bytes"),
    "truncated": (lambda content: content[:-1], "is truncated: 11 bytes of data instead of the 12 in its header"),
    "trailing": (lambda content: content + b"!", "has trailing bytes: 13 bytes of data instead of the 12"),
    "trailing gzip": (lambda content: gzip.compress(content + b"!"), "has trailing bytes"),
    "web page": (lambda content: b"<html>404</html>", "magic number is 0x3c68746d, not 0x00000801"),
    "images": (lambda content: idx(np.zeros((12, 5, 4))), "magic number is 0x00000803, not 0x00000801"),
    "gzip cut": (lambda content: gzip.compress(content)[:-9], "gzip compression is damaged"),
    "gzip header only": (lambda content: b"\x1f\x8b", "gzip compression is damaged"),
    "gzip bits": (broken_compression, "gzip compression is damaged"),
    "gzip trailing": (lambda content: gzip.compress(content) + b"!", "gzip compression is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_named_with_the_remedy(tmp_path: Path, damage: str) -> None:
    written = write(tmp_path)
    change, message = DAMAGES[damage]
    (tmp_path / LABELS).write_bytes(change(idx(written[LABELS])))
    with pytest.raises(ValueError, match=message) as caught:
        MNIST(tmp_path)
    assert str(tmp_path / LABELS) in str(caught.value)
    assert "Fetch it again" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("images", "labels"), [(12, 11), (12, 13), (12, 0), (0, 0)])
def test_images_and_labels_must_be_as_many(tmp_path: Path, images: int, labels: int) -> None:
    write(tmp_path)
    (tmp_path / IMAGES).write_bytes(idx(np.zeros((images, 5, 4))))
    (tmp_path / LABELS).write_bytes(idx(np.zeros(labels)))
    with pytest.raises(ValueError, match=rf"{IMAGES}' holds {images} images .*{LABELS}' {labels} labels"):
        MNIST(tmp_path)


@every_format
def test_missing_file_is_named(title: str, tmp_path: Path) -> None:
    kind, put, _, name = IN_FOLDERS[title]
    put(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name}' is missing"):
        kind(tmp_path)


@every_format
@pytest.mark.parametrize("place", ["absent", "", "file"])
def test_missing_folder_is_named_and_nothing_is_downloaded(
    title: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = IN_FOLDERS[title][0]
    (tmp_path / "file").touch()
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=rf"`path` '.*' holds no {title} files"):
        kind(tmp_path / place)
    monkeypatch.setenv("ASYNCSIM_DATA", str(tmp_path / place))
    with pytest.raises(FileNotFoundError, match=rf"ASYNCSIM_DATA '.*' holds no {title} files"):
        kind()


def test_read_idx_copies_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(idx(np.arange(6).reshape(1, 2, 3)))
    array = read_idx(tmp_path / "a", axes=3)
    assert array.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert not array.flags.owndata


# Download: a stand-in for pooch, without a network


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requested addresses. The first mirror is down; the second has small files."""
    pooch = pytest.importorskip("pooch")
    files, asked = arrays(), []

    def retrieve(url: str, known_hash: str, fname: str, path: Path) -> None:
        asked.append(url)
        if url.startswith(MIRRORS[0]):
            raise OSError("Max retries\nexceeded")
        assert url == MIRRORS[1] + fname
        assert known_hash == CHECKSUMS[fname.removesuffix(".gz")]
        path.mkdir(parents=True, exist_ok=True)
        (path / fname).write_bytes(gzip.compress(idx(files[fname.removesuffix(".gz")])))

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    return asked


def test_downloads_into_the_cache_from_the_next_mirror(asked: list[str], tmp_path: Path) -> None:
    data = MNIST()
    assert len(asked) == 8
    assert data.fingerprint == MNIST(tmp_path / "asyncsim").fingerprint


def test_empty_setting_is_no_setting(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSIM_DATA", "")
    assert len(MNIST().train_labels) == 12
    assert asked


def test_failed_download_names_the_remedy(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["asyncsim.datasets._published"], "MIRRORS", MIRRORS[:1])
    with pytest.raises(FileNotFoundError, match=r"could not be downloaded: Max retries exceeded.*ASYNCSIM_DATA"):
        MNIST()


@every_format
def test_download_needs_pooch(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pooch.* pip install 'asyncsim\[datasets\]'"):
        IN_FOLDERS[title][0]()


# The real thing


@pytest.mark.skipif(not os.environ.get("ASYNCSIM_DATA"), reason="set ASYNCSIM_DATA to a folder with MNIST's files")
def test_real_mnist() -> None:
    data = MNIST()
    pixels = ((data.test_inputs * 0.3081 + 0.1307) * 255).round()
    assert hashlib.md5(idx(pixels)).hexdigest() == "2646ac647ad5339dbf082846283269ea"
    assert hashlib.md5(idx(data.train_labels)).hexdigest() == "a25bea736e30d166cdddb491f175f624"
    assert data.train_inputs.shape == (60_000, 28, 28)
    mean = data.train_inputs.mean(dtype=np.float64)
    variance = np.square(data.train_inputs, dtype=np.float64).mean() - mean**2
    assert (mean, variance) == (pytest.approx(0, abs=2e-4), pytest.approx(1, abs=2e-4))
