"""Data sets in files: scikit-learn's digits, and from a folder or downloaded once MNIST, its like, and CIFAR-10."""

import gzip
import importlib.util
import math
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

import numpy as np

from asyncsim._checks import require_positive, truncate
from asyncsim.components._frozen import empty_aligned
from asyncsim.datasets._dataset import Dataset

VARIABLE = "ASYNCSIM_DATA"  # environment variable that names the folder

# Of all 1797 digits, in the file's units of 0 to 16: with these the pixels have mean 0 and variance 1.
DIGITS_MEAN, DIGITS_DEVIATION = 4.8842, 6.0168
DIGITS_FILE = Path("datasets", "data", "digits.csv.gz")  # inside scikit-learn, whose import takes longer than all here

# Of MNIST's training pixels on a scale from 0 to 1, rounded as is customary.
MNIST_MEAN, MNIST_DEVIATION = 0.1307, 0.3081
MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
CHECKSUMS = {  # of the files as the mirrors have them, compressed
    "train-images-idx3-ubyte": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}
GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTES = 0x0800  # third byte of IDX's magic number: kind of element; fourth: number of axes

# Of CIFAR-10's training pixels, red, green and blue, on a scale from 0 to 1, rounded to four digits.
CIFAR_MEANS, CIFAR_DEVIATIONS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
SIDE, CHANNELS, CLASSES = 32, 3, 10
ROW = 1 + CHANNELS * SIDE * SIDE
FOLDER = "cifar-10-batches-bin"
TRAIN = tuple(map("data_batch_{}.bin".format, range(1, 6)))
TEST = ("test_batch.bin",)
ARCHIVE = "cifar-10-binary.tar.gz"
ADDRESS = "https://www.cs.toronto.edu/~kriz/"
CHECKSUM = "md5:c32a1d4ab5d03f1284b67883e8d87530"


class Digits(Dataset):
    """1797 images of 8 × 8 pixels in ten classes.

    Pixels are (value - 4.8842) / 6.0168, so that all of them together have mean 0 and variance 1.

    The split is fixed and involves no random numbers: the images are listed class by class, each class in the
    order of the source, and test images are taken from the list at equal intervals. Every class therefore has its
    share of the test images.

    Args:
        test_fraction: Share of the images kept for testing, between 0 and 1, rounded down to whole images.

    Raises:
        ValueError: If `test_fraction` leaves no image to train on or none to test on.
        ImportError: If scikit-learn is not installed.

    Example:
        >>> data = Digits()
        >>> data.train_inputs.shape, data.test_inputs.shape, data.classes
        ((1438, 8, 8), (359, 8, 8), 10)
        >>> np.bincount(data.test_labels).tolist()
        [35, 37, 35, 37, 36, 36, 36, 36, 35, 36]
    """

    test_fraction: Annotated[float, require_positive, "Use 0.2, say."] = 0.2

    def load(self) -> tuple[Any, ...]:
        images, labels = _digits()
        # An image is to test on if j·fraction passes a whole number there; 5 · 0.2 is 1 however it is rounded.
        passed = np.floor(np.arange(len(labels) + 1) * min(self.test_fraction, 1.0) + 1e-9)
        test = np.empty(len(labels), bool)
        test[np.argsort(labels, kind="stable")] = np.diff(passed) > 0
        if test.all() or not test.any():
            raise ValueError(
                f"`test_fraction` must leave images to train on and to test on; got {self.test_fraction}, that is "
                f"{test.sum()} of {len(test)} to test on. Use 0.2, say."
            )
        inputs = ((images - DIGITS_MEAN) / DIGITS_DEVIATION).astype(np.float32)
        return self.name, inputs[~test], labels[~test], inputs[test], labels[test], 10


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Return values (1797, 8, 8) and classes (1797,), as scikit-learn's own function reads them."""
    package = importlib.util.find_spec("sklearn")
    places = [] if package is None else package.submodule_search_locations or []
    for file in (Path(place) / DIGITS_FILE for place in places):
        if file.is_file():
            table = np.loadtxt(file, delimiter=",")
            return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(int)
    source = import_optional("sklearn.datasets", package="scikit-learn", needed_by="`Digits`").load_digits()
    return source.images, source.target


class InFolder(Dataset, named=False):
    """A data set in the files of a folder, or of a folder in it. Without one they are downloaded."""

    path: str | os.PathLike[str] | None = None

    title = ""  # in messages
    subfolder = ""
    names: ClassVar[Sequence[str]] = ()  # of the files
    endings: ClassVar[Sequence[str]] = ("",)  # any of which may follow a name
    fetched: ClassVar[Sequence[str]] = ()  # files in the cache once they are downloaded

    @classmethod
    def _obstacle(cls, arguments: Mapping[str, Any]) -> str | None:
        """Say why a description cannot read the files: it downloads nothing, and reads only what the user has named."""
        if arguments.get("path") is not None:
            return not_named(arguments["path"])
        if os.environ.get(VARIABLE) or cls._is_cached():
            return None
        return f"{cls.title} is not on this machine, and nothing is downloaded for a folder. Set {VARIABLE}."

    @classmethod
    def _is_cached(cls) -> bool:
        """Return whether the files were downloaded before."""
        cache = import_optional("pooch", package="pooch", needed_by=f"Finding {cls.title}").os_cache("asyncsim")
        return all(Path(cache, name).is_file() for name in cls.fetched)

    def check(self) -> None:
        """Load the files, and keep the folder's place if the working directory changes."""
        super().check()
        keep_absolute(self)

    @cached_property
    def folder(self) -> Path:
        path, source = (os.environ.get(VARIABLE) or None, VARIABLE) if self.path is None else (self.path, "`path`")
        if path is None:
            return self.download()
        folder = Path(path).expanduser()
        for place in (folder, folder / self.subfolder):
            if any(self.find(place, name) for name in self.names):
                return place
        raise FileNotFoundError(
            f"{source} {os.fspath(path)!r} holds no {self.title} files ({self.names[0]} …), nor does a folder "
            f"{self.subfolder!r} in it. Name the folder that does; if none is named, the files are downloaded."
        )

    def download(self) -> Path:
        """Return the folder in the user's cache, with the files in it."""
        raise NotImplementedError

    def find(self, folder: Path, name: str) -> Path | None:
        return next((file for end in self.endings if (file := folder / f"{name}{end}").is_file()), None)

    def files(self) -> list[Path]:
        return [file for name in self.names if (file := self.find(self.folder, name)) is not None]

    def fetch(self, mirrors: Sequence[str], file: str, checksum: str, folder: Path, **options: Any) -> None:
        """Download a file into a folder. An existing file is checked, and fetched again if it is damaged."""
        problem = ""
        for mirror in mirrors:
            try:
                self.pooch.retrieve(mirror + file, known_hash=checksum, fname=file, path=folder, **options)
            except (OSError, ValueError) as error:  # There is no network, or the file is not the expected one.
                problem = truncate(str(error), 200).rstrip(".")
            else:
                return
        raise FileNotFoundError(
            f"{file!r} could not be downloaded: {problem}. Give a folder with {self.title}'s files as `path` or in "
            f"{VARIABLE}."
        )

    @property
    def pooch(self) -> ModuleType:
        return import_optional("pooch", package="pooch", needed_by=f"Downloading {self.title}")

    @property
    def cache(self) -> Path:
        return Path(self.pooch.os_cache("asyncsim"))


class MNIST(InFolder):
    """60 000 training and 10 000 test images of 28 × 28 pixels in ten classes.

    Pixels are (value / 255 - 0.1307) / 0.3081, as in the paper. The files are the four usual ones in IDX
    format, `train-images-idx3-ubyte` and so on, each gzipped (`.gz`) or not. They may hold other data, such as
    Fashion-MNIST, images of other sizes, or fewer images.

    Args:
        path: Folder with the files, or with a folder `mnist` that holds them. By default it is the folder that the
            environment variable ASYNCSIM_DATA names. If that is not set either, the files are downloaded once (11 MB)
            and kept in the user's cache.

    Raises:
        FileNotFoundError: If the folder or one of the files is missing, or the download failed.
        ValueError: If a file is damaged, or there are not as many labels as images.
        ImportError: If the files have to be downloaded and pooch is not installed.

    Example:
        >>> MNIST("no/such/folder")
        Traceback (most recent call last):
        FileNotFoundError: `path` 'no/such/folder' holds no MNIST files (train-images-idx3-ubyte …), ...
    """

    title = "MNIST"
    subfolder = "mnist"
    names = tuple(CHECKSUMS)
    endings = ("", ".gz")
    fetched = tuple(f"mnist/{name}.gz" for name in CHECKSUMS)

    def download(self) -> Path:
        folder = self.cache / self.subfolder
        for name, checksum in CHECKSUMS.items():
            self.fetch(MIRRORS, f"{name}.gz", checksum, folder)
        return folder

    def load(self) -> tuple[Any, ...]:
        train, test = self._half("train"), self._half("t10k")
        return self.name, *train, *test, 1 + int(max(train[1].max(), test[1].max()))

    def _half(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Read the normalised images and labels of `train` or `t10k`."""
        image_file, images = self._read(f"{part}-images-idx3-ubyte", axes=3)
        label_file, labels = self._read(f"{part}-labels-idx1-ubyte", axes=1)
        if len(images) != len(labels) or not images.size:
            raise ValueError(
                f"{str(image_file)!r} holds {len(images)} images of {images.shape[1:]} pixels and "
                f"{label_file.name!r} {len(labels)} labels; there must be one label per image, and at least one. "
                "Fetch both again."
            )
        return _normalised(images, MNIST_MEAN, MNIST_DEVIATION), labels

    def _read(self, name: str, axes: int) -> tuple[Path, np.ndarray]:
        path = self.find(self.folder, name)
        if path is None:
            place = str(self.folder / name)
            raise FileNotFoundError(f"{place!r} is missing, as is {name + '.gz'!r}. Put one of them there.")
        return path, read_idx(path, axes)


def read_idx(path: Path, axes: int) -> np.ndarray:
    """Return the unsigned bytes in an IDX file, gzipped or not, behind a magic number and the sizes of the axes."""
    content = path.read_bytes()
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, struct.error, zlib.error) as error:
            raise _damaged(path, "IDX", f"its gzip compression is damaged ({error})") from None
    magic, start = int.from_bytes(content[:4], "big"), 4 + 4 * axes
    if len(content) >= 4 and magic != UNSIGNED_BYTES + axes:
        raise _damaged(path, "IDX", f"its magic number is {magic:#010x}, not {UNSIGNED_BYTES + axes:#010x}")
    if len(content) < start:
        raise _damaged(path, "IDX", f"it ends in its header, after {len(content)} bytes")
    shape = struct.unpack(f">{axes}I", content[4:start])
    expected, length = math.prod(shape), len(content) - start
    if length != expected:
        fault = "is truncated" if length < expected else "has trailing bytes"
        raise _damaged(path, "IDX", f"it {fault}: {length} bytes of data instead of the {expected} in its header")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _normalised(pixels: np.ndarray, means: Any, deviations: Any) -> np.ndarray:
    """Scale bytes to 0 to 1, less the mean and over the standard deviation, of each channel if they differ."""
    inputs = np.divide(pixels, 255, out=empty_aligned(pixels.shape, np.float32), dtype=np.float32)
    inputs -= np.float32(means)  # This is in place: a second copy would take hundreds of megabytes more.
    inputs /= np.float32(deviations)
    return inputs


def _damaged(path: Path, kind: str, reason: str) -> ValueError:
    return ValueError(f"{str(path)!r} is not a whole {kind} file: {reason}. Fetch it again.")


class CIFAR10(InFolder):
    """50 000 training and 10 000 test images of 32 × 32 pixels in three colours and ten classes.

    Pixels are (value / 255 - mean) / standard deviation, with their channel's mean and standard deviation,
    (0.4914, 0.4822, 0.4465) and (0.2470, 0.2435, 0.2616). The files are the six of the binary version,
    `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`. Each may hold fewer images.

    Args:
        path: Folder with the files, or with the archive's folder `cifar-10-batches-bin`. By default it is the folder
            that the environment variable ASYNCSIM_DATA names. If that is not set either, the archive is downloaded
            once (170 MB) and kept in the user's cache.

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

    title = "CIFAR-10"
    subfolder = FOLDER
    names = (*TRAIN, *TEST)
    fetched = (ARCHIVE,)

    def download(self) -> Path:
        unpack = self.pooch.Untar(extract_dir=".")
        self.fetch([ADDRESS], ARCHIVE, CHECKSUM, self.cache, processor=unpack)
        return self.cache / FOLDER

    def load(self) -> tuple[Any, ...]:
        return self.name, *_images_and_labels(self.folder, TRAIN), *_images_and_labels(self.folder, TEST), CLASSES


def _images_and_labels(folder: Path, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Read the normalised images (n, 32, 32, 3) and labels of some of CIFAR-10's files."""
    rows = np.concatenate([_rows(folder / name) for name in names])
    images = rows[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    return _normalised(images, CIFAR_MEANS, CIFAR_DEVIATIONS), rows[:, 0]


def _rows(path: Path) -> np.ndarray:
    """Return the bytes of a file, one row per image: a byte for the label, then 3072 for the pixels."""
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is missing. Put it there; it is part of {ARCHIVE!r}.")
    content = np.fromfile(path, np.uint8)
    if not content.size or content.size % ROW:
        reason = f"it holds {content.size} bytes, which are not one or more rows of {ROW}"
        raise _damaged(path, "CIFAR-10", reason)
    rows = content.reshape(-1, ROW)
    if (largest := rows[:, 0].max()) >= CLASSES:
        raise _damaged(path, "CIFAR-10", f"a label is {largest}, but labels go up to {CLASSES - 1}")
    return rows


def keep_absolute(data: Any) -> None:
    if data.path is not None:
        object.__setattr__(data, "path", str(Path(data.path).expanduser().absolute()))
        name_place(data.path)


def name_place(path: str | os.PathLike[str]) -> None:
    """Remember a folder or a file that the user has named, so that descriptions may read it as well."""
    _named.add(os.path.realpath(path))


_named: set[str] = set()  # folders and files of which this process has made data sets


def not_named(path: str) -> str | None:
    """Say why no files are read from a folder that only a description names, or None if the user named it, too."""
    place = Path(os.path.realpath(path))
    if any(place.is_relative_to(os.path.realpath(name)) for name in (*_named, os.environ.get(VARIABLE)) if name):
        return None
    return f"it names files in {path!r}, which are read only if you name them. Set {VARIABLE} to this folder."


def import_optional(module: str, *, package: str, needed_by: str) -> ModuleType:
    """Import a module of the extra `datasets`, or raise an error with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError(
            f"{needed_by} needs {package}, which is not installed. Run: pip install 'asyncsim[datasets]'"
        ) from None
