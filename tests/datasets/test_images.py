"""Colour images: CIFAR-10's files, folders of photographs, and small images enlarged."""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from asyncsim.datasets import CIFAR10, AsColour, Dataset, ImageFolder
from asyncsim.datasets._images import MEANS as PHOTO_MEANS
from asyncsim.datasets._images import STANDARD_DEVIATIONS as PHOTO_DEVIATIONS
from asyncsim.datasets._published import ARCHIVE, CIFAR_DEVIATIONS, CIFAR_MEANS, FOLDER, TEST, TRAIN

pytestmark = pytest.mark.quick


# CIFAR-10


def write_cifar(folder: Path) -> dict[str, np.ndarray]:
    """Files of one to six images; returns their rows, the label first."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, name in enumerate((*TRAIN, *TEST), start=1):
        rows = rng.integers(256, size=(number, 3073)).astype(np.uint8)
        rows[:, 0] %= 10
        rows.tofile(folder / name)
        written[name] = rows
    return written


@pytest.mark.parametrize("inside", ["", FOLDER])
def test_cifar_holds_the_pixels_of_its_files(tmp_path: Path, inside: str) -> None:
    written = write_cifar(tmp_path / inside)
    data = CIFAR10(tmp_path)
    rows = np.concatenate([written[name] for name in TRAIN])
    assert (data.name, data.shape, data.classes) == ("cifar10", (32, 32, 3), 10)
    assert (len(data.train_labels), len(data.test_labels)) == (15, 6)
    np.testing.assert_array_equal(data.train_labels, rows[:, 0])
    np.testing.assert_array_equal(data.test_labels, written[TEST[0]][:, 0])
    pixels = (data.train_inputs * CIFAR_DEVIATIONS + CIFAR_MEANS) * 255
    for image, row, column, channel in [(0, 0, 0, 0), (3, 0, 1, 0), (7, 31, 30, 1), (14, 5, 9, 2)]:
        byte = rows[image, 1 + channel * 1024 + row * 32 + column]  # as the format's description says
        assert pixels[image, row, column, channel] == pytest.approx(byte, abs=1e-3)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it holds 0 bytes"),
        (bytes(3072), "it holds 3072 bytes, which are not one or more rows of 3073"),
        (bytes(2 * 3073 + 1), "it holds 6147 bytes"),
        (b"\x0a" + bytes(3072), "a label is 10, but labels go up to 9"),
    ],
)
def test_damaged_cifar_file_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    write_cifar(tmp_path)
    (tmp_path / TRAIN[2]).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{TRAIN[2]}' is not a whole CIFAR-10 file: {reason}.*Fetch it again"):
        CIFAR10(tmp_path)


class TestDownload:
    """By pooch itself, without the network."""

    @pytest.fixture
    def archive(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A small archive in the user's cache, as if it had been downloaded before."""
        pooch = pytest.importorskip("pooch")
        write_cifar(tmp_path / "source" / FOLDER)
        path = tmp_path / "asyncsim" / ARCHIVE
        path.parent.mkdir()
        with tarfile.open(path, "w:gz") as tar:
            tar.add(tmp_path / "source" / FOLDER, FOLDER)
        monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
        monkeypatch.setattr("asyncsim.datasets._published.CHECKSUM", "md5:" + pooch.file_hash(path, "md5"))
        return path

    def test_is_unpacked_in_the_cache(self, archive: Path) -> None:
        data = CIFAR10()
        assert data.fingerprint == CIFAR10(archive.parents[1] / "source").fingerprint
        assert CIFAR10().fingerprint == data.fingerprint  # and once more, now that everything is there

    def test_damaged_archive_is_fetched_again_and_a_failure_names_the_remedy(
        self, archive: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(self: Any, url: str, *_: Any) -> None:
            raise OSError(f"No way to {url},\nmax retries exceeded.")

        monkeypatch.setattr("pooch.HTTPDownloader.__call__", fail)
        archive.write_bytes(archive.read_bytes()[:-20])
        with pytest.raises(
            FileNotFoundError, match=rf"No way to https://.*/{ARCHIVE}, max .*exceeded\. .*ASYNCSIM_DATA"
        ):
            CIFAR10()


# Folders of photographs

COLOURS = {"ant": (200, 30, 60), "bee": (20, 180, 90), "cat": (5, 10, 250)}


def write_photo(path: Path, colour: tuple[int, ...] = (0, 0, 0), size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, "JPEG", quality=95)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Nine one-coloured photographs of three classes to train on, three to test on."""
    for name, colour in COLOURS.items():
        for number, size in enumerate([(40, 30), (30, 44), (64, 64)]):
            write_photo(tmp_path / "train" / name / f"{number}.JPEG", colour, size)
        write_photo(tmp_path / "val" / name / "0.jpg", colour)
    (tmp_path / "train" / "ant" / "notes.txt").write_text("no image")
    return tmp_path


def test_photographs_have_the_classes_of_their_folders(photos: Path) -> None:
    data = ImageFolder(photos, size=8)
    assert (data.shape, data.classes) == ((8, 8, 3), 3)
    assert data.name == f"{photos.name}-8x8x3"
    assert data.train_labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.test_labels.tolist() == [0, 1, 2]
    pixels = (data.train_inputs * PHOTO_DEVIATIONS + PHOTO_MEANS) * 255
    wanted = np.array(list(COLOURS.values()))[data.train_labels]
    np.testing.assert_allclose(pixels, np.broadcast_to(wanted[:, None, None], pixels.shape), atol=4)  # JPEG rounds


def write_one(folder: Path, pixels: np.ndarray, name: str = "0.png") -> None:
    """One picture of the only class, to train and to test on."""
    for part in ("train", "val"):
        (folder / part / "only").mkdir(parents=True)
        Image.fromarray(pixels).save(folder / part / "only" / name)


@pytest.mark.parametrize("wide", [True, False])
def test_a_wide_image_is_cropped_to_its_middle(tmp_path: Path, wide: bool) -> None:
    """An image of 64 × 32 whose left quarter is white and whose right quarter is black."""
    stripes = np.full((32, 64), 128, np.uint8)
    stripes[:, :16], stripes[:, 48:] = 255, 0
    write_one(tmp_path, stripes if wide else stripes.T)
    data = ImageFolder(tmp_path, size=28)  # the shorter side stays 32, and 28 of it are taken
    pixels = (data.train_inputs[0] * PHOTO_DEVIATIONS + PHOTO_MEANS) * 255
    np.testing.assert_allclose(pixels, 128, atol=1e-3)


def test_a_resized_picture_keeps_its_places(tmp_path: Path) -> None:
    """Brightness that grows evenly from left to right still does."""
    ramp = np.tile(np.arange(64, dtype=np.uint8) * 4, (64, 1))
    write_one(tmp_path, ramp, "0.PNG")
    data = ImageFolder(tmp_path, size=7)
    pixels = (data.train_inputs[0, :, :, 0] * PHOTO_DEVIATIONS[0] + PHOTO_MEANS[0]) * 255
    assert (np.ptp(pixels, axis=0) < 1e-3).all()
    # Pixel j of the eight, of which seven are kept, shows the surroundings of 8j + 3.5. At the edge there are fewer.
    np.testing.assert_allclose(pixels[0, 1:], 4 * (8 * np.arange(1, 7) + 3.5), atol=1)


def test_fewer_classes_and_images_of_each(photos: Path) -> None:
    data = ImageFolder(photos, size=4, classes=2, per_class=1)
    assert (data.train_labels.tolist(), data.test_labels.tolist(), data.classes) == ([0, 1], [0, 1], 2)


def test_too_many_images_are_refused_before_any_is_read(photos: Path) -> None:
    (photos / "train" / "ant" / "0.JPEG").write_bytes(b"never read")
    with pytest.raises(
        ValueError, match=r"`limit_gib` must be at least the 0.00673 GiB of the 12 images; got 0.00"
    ) as caught:
        ImageFolder(photos, limit_gib=0.006)
    assert "`per_class`" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no image", "cut"])
def test_damaged_photograph_is_named(photos: Path, content: bytes | str) -> None:
    path = photos / "train" / "bee" / "1.JPEG"
    path.write_bytes(path.read_bytes()[:-200] if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=r"1\.JPEG' is not a whole image: .*Fetch it again"):
        ImageFolder(photos, size=8)


def test_halves_must_have_the_same_classes(photos: Path) -> None:
    write_photo(photos / "val" / "dog" / "0.jpg")
    with pytest.raises(ValueError, match="must have the same classes in train and val; 'dog' is in one only"):
        ImageFolder(photos, size=8)


def test_a_class_without_images_is_named(photos: Path) -> None:
    (photos / "train" / "emu").mkdir()
    with pytest.raises(FileNotFoundError, match=r"emu' holds no images \(\.jpeg"):
        ImageFolder(photos, size=8)


def test_images_outside_of_class_folders_are_not_enough(tmp_path: Path) -> None:
    write_photo(tmp_path / "train" / "0.JPEG")
    with pytest.raises(FileNotFoundError, match=r"train' holds no class folders with images .*Put each class in one"):
        ImageFolder(tmp_path)


@pytest.mark.parametrize("name", ["size", "classes", "per_class", "limit_gib"])
@pytest.mark.parametrize("value", [0, -1, "8"])
def test_bad_number_is_named(photos: Path, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must be .*; got '?{value}'?\."):
        ImageFolder(photos, **{name: value})


# Small pictures, enlarged


def pictures(height: int, width: int, *channels: int) -> Dataset:
    inputs = np.random.default_rng(0).normal(size=(3, height, width, *channels))
    return Dataset("some", inputs, np.array([0, 1, 0]), inputs[:2], np.array([1, 0]), classes=2)


@pytest.mark.parametrize(("height", "width", "size"), [(28, 28, 32), (5, 3, 12), (3, 5, 13), (4, 4, 4), (1, 2, 7)])
def test_enlarged_images_are_padded_by_their_edge(height: int, width: int, size: int) -> None:
    data = pictures(height, width)
    times = size // max(height, width)
    grown = data.train_inputs.repeat(times, axis=1).repeat(times, axis=2)
    around = [(0, 0)]
    for side in (times * height, times * width):
        around.append(((size - side) // 2, size - side - (size - side) // 2))
    expected = np.pad(grown, around, mode="edge")
    made = AsColour(data, size)
    np.testing.assert_array_equal(made.train_inputs, np.stack([expected] * 3, axis=-1))


@pytest.mark.parametrize("shape", [(4,), (4, 4, 1), (4, 4, 4), (2, 2, 3, 3)])
def test_what_is_no_image_is_refused(shape: tuple[int, ...]) -> None:
    inputs, labels = np.zeros((2, *shape)), np.array([0, 1])
    data = Dataset("odd", inputs, labels, inputs, labels, classes=2)
    with pytest.raises(ValueError, match=r"`data` must be a Dataset of images, .*; got 'odd', \("):
        AsColour(data)


@pytest.mark.parametrize("size", [0, 7, 2.5])
def test_size_must_hold_the_picture(size: Any) -> None:
    with pytest.raises(ValueError, match=rf"`size` must be .*; got {size}\."):
        AsColour(pictures(8, 5), size)
