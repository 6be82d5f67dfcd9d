"""MNIST, and any other data that come as the same four files."""

import os
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from asyncsim.datasets._dataset import Dataset
from asyncsim.datasets._idx import read_idx
from asyncsim.datasets._sources import VARIABLE, import_optional, in_one_line, keep_absolute, named_folder

# Of the training pixels on a scale from 0 to 1, rounded as is customary.
MEAN = 0.1307
STANDARD_DEVIATION = 0.3081
SUBFOLDER = "mnist"
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
CHECKSUMS = {  # of the files as the mirrors have them, compressed
    "train-images-idx3-ubyte": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}


class MNIST(Dataset):
    """60 000 training and 10 000 test images of 28 × 28 pixels in ten classes.

    Pixels are (value / 255 - 0.1307) / 0.3081, as in the paper. The files are the four usual ones in IDX
    format, `train-images-idx3-ubyte` and so on, each gzipped (`.gz`) or not. They may hold other data, such as
    Fashion-MNIST, images of other sizes, or fewer images.

    Args:
        path: Folder with the files, or with a folder `mnist` that holds them; None for the folder that the environment
            variable ASYNCSIM_DATA names. If that is not set either, the files are downloaded once (11 MB) and kept in
            the user's cache.

    Raises:
        FileNotFoundError: If the folder or one of the files is missing, or the download failed.
        ValueError: If a file is damaged, or there are not as many labels as images.
        ImportError: If the files have to be downloaded and pooch is not installed.

    Example:
        >>> MNIST("no/such/folder")
        Traceback (most recent call last):
        FileNotFoundError: `path` 'no/such/folder' holds no MNIST files (train-images-idx3-ubyte …), ...
    """

    path: str | os.PathLike[str] | None = None

    def check(self) -> None:
        """Load the files, and keep the folder's place whatever the working directory becomes."""
        super().check()
        keep_absolute(self)

    @cached_property
    def folder(self) -> Path:
        """Where the files are."""
        what = f"MNIST files ({next(iter(CHECKSUMS))} …)"
        return named_folder(self.path, SUBFOLDER, _has_files, what) or _download()

    def files(self) -> list[Path]:
        """The four files, as far as they are there."""
        return [file for name in CHECKSUMS if (file := _find(self.folder, name)) is not None]

    def load(self) -> tuple[Any, ...]:
        """Read the four files."""
        train, test = _read(self.folder, "train"), _read(self.folder, "t10k")
        return self.name, *train, *test, 1 + int(max(train[1].max(), test[1].max()))


def _has_files(folder: Path) -> bool:
    return any(_find(folder, name) for name in CHECKSUMS)


def _find(folder: Path, name: str) -> Path | None:
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _read(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Normalised images and labels of `train` or `t10k`."""
    image_file, images = _read_file(folder, f"{part}-images-idx3-ubyte", axes=3)
    label_file, labels = _read_file(folder, f"{part}-labels-idx1-ubyte", axes=1)
    if len(images) != len(labels) or not images.size:
        raise ValueError(
            f"{str(image_file)!r} holds {len(images)} images of {images.shape[1:]} pixels and "
            f"{label_file.name!r} {len(labels)} labels; there must be one label per image, and at least one. "
            "Fetch both again."
        )
    return _normalised(images), labels


def _read_file(folder: Path, name: str, axes: int) -> tuple[Path, np.ndarray]:
    path = _find(folder, name)
    if path is None:
        raise FileNotFoundError(f"{str(folder / name)!r} is missing, as is {name + '.gz'!r}. Put one of them there.")
    return path, read_idx(path, axes)


def _normalised(images: np.ndarray) -> np.ndarray:
    inputs = np.divide(images, 255, dtype=np.float32)
    inputs -= MEAN  # in place: a second copy would be another 188 MB
    inputs /= STANDARD_DEVIATION
    return inputs


def _download() -> Path:
    """The user's cache, with the files in it."""
    pooch = import_optional("pooch", package="pooch", needed_by="Downloading MNIST")
    folder = Path(pooch.os_cache("asyncsim")) / SUBFOLDER
    for name in CHECKSUMS:
        _fetch(pooch, f"{name}.gz", CHECKSUMS[name], folder)
    return folder


def _fetch(pooch: ModuleType, file: str, checksum: str, folder: Path) -> None:
    """Put a file into the folder; an existing file is checked, and fetched again if it is damaged."""
    problem = ""
    for mirror in MIRRORS:
        try:
            pooch.retrieve(mirror + file, known_hash=checksum, fname=file, path=folder)
        except (OSError, ValueError) as error:  # no network, or not the expected file
            problem = in_one_line(error)
        else:
            return
    raise FileNotFoundError(
        f"{file!r} could not be downloaded: {problem}. Give a folder with MNIST's files as `path` or in {VARIABLE}."
    )
