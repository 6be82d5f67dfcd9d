"""CIFAR-10 in its binary version: a byte for the label, then 3072 for the picture."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.datasets._dataset import Dataset
from asyncsim.datasets._sources import VARIABLE, import_optional, in_one_line, keep_absolute, named_folder

# Of the training pixels, red, green and blue, on a scale from 0 to 1, rounded to four digits.
MEANS, STANDARD_DEVIATIONS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
SIDE, CHANNELS, CLASSES = 32, 3, 10
ROW = 1 + CHANNELS * SIDE * SIDE
FOLDER = "cifar-10-batches-bin"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)
ARCHIVE = "cifar-10-binary.tar.gz"
ADDRESS = "https://www.cs.toronto.edu/~kriz/"
CHECKSUM = "md5:c32a1d4ab5d03f1284b67883e8d87530"


class CIFAR10(Dataset):
    """50 000 training and 10 000 test images of 32 × 32 pixels in three colours and ten classes.

    Pixels are (value / 255 - mean) / standard deviation, with their channel's mean and standard deviation,
    (0.4914, 0.4822, 0.4465) and (0.2470, 0.2435, 0.2616). The files are the six of the binary version,
    `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`; each may hold fewer images.

    Args:
        path: Folder with the files, or with the archive's folder `cifar-10-batches-bin`; None for the folder that the
            environment variable ASYNCSIM_DATA names. If that is not set either, the archive is downloaded once
            (170 MB) and kept in the user's cache.

    Raises:
        FileNotFoundError: If the folder or one of the files is missing, or the download failed.
        ValueError: If a file is damaged.
        ImportError: If the archive has to be downloaded and pooch is not installed.

    Example:
        >>> CIFAR10("no/such/folder")
        Traceback (most recent call last):
        FileNotFoundError: `path` 'no/such/folder' holds no CIFAR-10 files (data_batch_1.bin …), ...

    References:
        Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """

    path: str | os.PathLike[str] | None = None

    def check(self) -> None:
        """Load the files, and keep the folder's place whatever the working directory becomes."""
        super().check()
        keep_absolute(self)

    @cached_property
    def folder(self) -> Path:
        """Where the files are."""
        return named_folder(self.path, FOLDER, _has_files, f"CIFAR-10 files ({TRAIN[0]} …)") or _download()

    def files(self) -> list[Path]:
        """The six files, as far as they are there."""
        return [self.folder / name for name in (*TRAIN, *TEST) if (self.folder / name).is_file()]

    def load(self) -> tuple[Any, ...]:
        """Read the six files."""
        return self.name, *_read(self.folder, TRAIN), *_read(self.folder, TEST), CLASSES


def _has_files(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (*TRAIN, *TEST))


def _read(folder: Path, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Normalised images (n, 32, 32, 3) and labels of some files."""
    rows = np.concatenate([_rows(folder / name) for name in names])
    images = rows[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    inputs = np.divide(images, 255, dtype=np.float32, order="C")
    inputs -= np.array(MEANS, np.float32)  # in place: a second copy would be another 614 MB
    inputs /= np.array(STANDARD_DEVIATIONS, np.float32)
    return inputs, rows[:, 0]


def _rows(path: Path) -> np.ndarray:
    """The bytes of a file, one row per image."""
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is missing. Put it there; it is part of {ARCHIVE!r}.")
    content = np.fromfile(path, np.uint8)
    if not content.size or content.size % ROW:
        reason = f"it holds {content.size} bytes, which are not one or more rows of {ROW}"
        raise ValueError(f"{str(path)!r} is not a whole CIFAR-10 file: {reason}. Fetch it again.")
    rows = content.reshape(-1, ROW)
    if (largest := rows[:, 0].max()) >= CLASSES:
        reason = f"a label is {largest}, but labels go up to {CLASSES - 1}"
        raise ValueError(f"{str(path)!r} is not a whole CIFAR-10 file: {reason}. Fetch it again.")
    return rows


def _download() -> Path:
    """The user's cache, with the archive unpacked in it."""
    pooch = import_optional("pooch", package="pooch", needed_by="Downloading CIFAR-10")
    cache = Path(pooch.os_cache("asyncsim"))
    unpack = pooch.Untar(extract_dir=".")
    try:
        pooch.retrieve(ADDRESS + ARCHIVE, known_hash=CHECKSUM, fname=ARCHIVE, path=cache, processor=unpack)
    except (OSError, ValueError) as error:  # no network, or not the expected file
        raise FileNotFoundError(
            f"{ARCHIVE!r} could not be downloaded: {in_one_line(error)}. Give a folder with CIFAR-10's files as `path` "
            f"or in {VARIABLE}."
        ) from None
    return cache / FOLDER
