"""Photographs in one folder per class, and small images enlarged to stand in for them."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from asyncsim import _checks as checks
from asyncsim._checks import require_count
from asyncsim.components._frozen import empty_aligned
from asyncsim.datasets._dataset import Dataset
from asyncsim.datasets._partition import Partition
from asyncsim.datasets._published import keep_absolute, not_named

# ImageNet's, red, green and blue, on a scale from 0 to 1, rounded as is customary.
MEANS, STANDARD_DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ENDINGS = (".jpeg", ".jpg", ".png")
MARGIN = 256 / 224  # the shorter side before the centre is cut out, over its width
GIB = 2**30


class ImageFolder(Dataset):
    """Images from `path/train/CLASS/` and `path/val/CLASS/`, all of them in memory.

    An image is resized so that its shorter side is 256/224 of `size`, and its centre of `size` × `size` pixels is
    taken. There is no augmentation: every epoch sees the same pixels. They are (value / 255 - mean) / standard
    deviation, with ImageNet's mean and standard deviation of their channel. Classes are numbered in the order of their
    folders' names.

    Args:
        path: Folder with `train` and `val`. Files end in .JPEG, .jpg or .png, in any case.
        size: Width and height of an example.
        classes: Number of classes to take, the first by name. None for all.
        per_class: Largest number of images of a class to take from either half, the first by name. None for all.
        limit_gib: Largest memory that the images may take, in GiB. An image of 224 × 224 pixels takes 0.0006.

    Raises:
        FileNotFoundError: If a folder is missing or holds no images.
        ValueError: If the two halves differ in their classes, a file is not an image, or there are too many images.

    Example:
        >>> ImageFolder("no/such/folder")
        Traceback (most recent call last):
        FileNotFoundError: 'no/such/folder/train' holds no class folders with images ...
    """

    path: str | os.PathLike[str]
    size: Annotated[int, require_count, "AlexNet reads 224."] = 224
    _: KW_ONLY
    classes: int | None = None  # type: ignore[assignment]
    per_class: int | None = None
    limit_gib: float = 8.0

    @classmethod
    def _obstacle(cls, arguments: Mapping[str, Any]) -> str | None:
        """Say why a description cannot read the files: it reads only those that the user has named."""
        return not_named(arguments["path"])

    def check(self) -> None:
        """Load the images, and set `classes` to their number."""
        super().check()
        keep_absolute(self)
        object.__setattr__(self, "classes", self.contents.classes)

    @cached_property
    def halves(self) -> tuple[dict[str, list[Path]], dict[str, list[Path]]]:
        """Class name -> its images, to train and to test on."""
        folder = Path(self.path).expanduser()
        train, test = (_files(folder / part, self.classes, self.per_class) for part in ("train", "val"))
        if train.keys() != test.keys():
            odd, place = min(train.keys() ^ test.keys()), os.fspath(self.path)
            raise ValueError(f"{place!r} must have the same classes in train and val; {odd!r} is in one only.")
        return train, test

    def files(self) -> Iterator[Path]:
        return (file for half in self.halves for files in half.values() for file in files)

    def load(self) -> tuple[Any, ...]:
        train, test = self.halves
        limit = checks.require_positive("limit_gib", self.limit_gib, remedy="Use 8, say.")
        images = sum(len(files) for half in self.halves for files in half.values())
        needed = images * self.size**2 * 3 * 4 / GIB
        if needed > limit:
            raise ValueError(
                f"`limit_gib` must be at least the {needed:.3g} GiB of the {images} images; got {limit:g}. "
                "Take fewer images, with `per_class` or `classes`, or raise it."
            )
        name = f"{Path(self.path).name}-{self.size}x{self.size}x3"
        return name, *_read(train, self.size), *_read(test, self.size), len(train)


def _files(folder: Path, classes: int | None, per_class: int | None) -> dict[str, list[Path]]:
    for name, value in (("classes", classes), ("per_class", per_class)):
        if value is not None:
            checks.require_count(name, value, remedy="Leave it out for all.")
    folders = sorted(entry for entry in folder.iterdir() if entry.is_dir())[:classes] if folder.is_dir() else []
    images = {
        entry.name: sorted(f for f in entry.iterdir() if f.suffix.lower() in ENDINGS)[:per_class] for entry in folders
    }
    empty = next((name for name, files in images.items() if not files), None)
    if empty is not None:
        raise FileNotFoundError(
            f"{str(folder / empty)!r} holds no images ({', '.join(ENDINGS)}). Add some or remove it."
        )
    if not images:
        raise FileNotFoundError(
            f"{str(folder)!r} holds no class folders with images ({', '.join(ENDINGS)}). Put each class in one."
        )
    return images


def _read(files: dict[str, list[Path]], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Read normalised images (n, size, size, 3) and labels."""
    paths = [path for group in files.values() for path in group]
    inputs = empty_aligned((len(paths), size, size, 3), np.float32)
    for image, path in zip(inputs, paths, strict=True):
        image[:] = _pixels(path, size)
    inputs /= 255  # This is in place, as there may be no room for a second copy.
    inputs -= np.array(MEANS, np.float32)
    inputs /= np.array(STANDARD_DEVIATIONS, np.float32)
    return inputs, np.repeat(np.arange(len(files)), [len(group) for group in files.values()])


def _pixels(path: Path, size: int) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except (OSError, SyntaxError) as error:  # Pillow raises either for damaged files.
        raise ValueError(
            f"{str(path)!r} is not a whole image: {checks.truncate(str(error), 200).rstrip('.')}. Fetch it again."
        ) from None
    scale = size * MARGIN / min(image.size)
    width, height = (max(size, round(side * scale)) for side in image.size)
    x, y = (width - size) // 2, (height - size) // 2
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized.crop((x, y, x + size, y + size)))


CHANNELS = 3


class AsColour(Dataset):
    """Any images as `size` × `size` pixels in three channels, for models that read colour images.

    Every pixel becomes a square of the largest whole number of pixels that fits, 4 × 4 for digits and 1 × 1 for
    MNIST. The margin around the image continues its edge. A grey image is repeated in each of the three channels.
    Such data contain no more information than the small images, as their name shows: digits-32x32x3.

    Args:
        data: Images (examples, height, width), or with a last axis of three channels.
        size: Width and height of the result.

    Example:
        >>> from asyncsim.datasets import Digits
        >>> images = AsColour(Digits())
        >>> images.name, images.shape, images.classes
        ('digits-32x32x3', (32, 32, 3), 10)
    """

    data: Dataset
    size: Annotated[int, require_count, "Use 32, say."] = 32

    def check(self) -> None:
        data, size = self.data, self.size
        if not isinstance(data, Dataset) or len(data.shape) < 2 or data.shape[2:] not in ((), (CHANNELS,)):
            received = f"{data.name!r}, {data.shape}" if isinstance(data, Dataset) else type(data).__name__
            raise ValueError(
                f"`data` must be a Dataset of images, (height, width) or (height, width, {CHANNELS}); got {received}. "
                "Reshape the inputs."
            )
        if isinstance(data, Partition):
            raise ValueError("`data` must not be shared out to workers yet. Use partition(AsColour(data), …).")
        if max(data.shape[:2]) > size:
            raise ValueError(
                f"`size` must be at least that of the images, {data.shape[0]} × {data.shape[1]}; got "
                f"{checks.brief(size)}. Use {max(data.shape[:2])} or more."
            )
        super().check()

    def load(self) -> tuple[Any, ...]:
        data, size = self.data, self.size
        train, test = (_enlarged(inputs, size) for inputs in (data.train_inputs, data.test_inputs))
        name = f"{data.name}-{size}x{size}x{CHANNELS}"
        return name, train, data.train_labels, test, data.test_labels, data.classes


def _enlarged(images: np.ndarray, size: int) -> np.ndarray:
    """Enlarge images (n, height, width) or (n, height, width, 3) to (n, size, size, 3)."""
    if images.ndim == 3:
        images = np.broadcast_to(images[..., None], (*images.shape, CHANNELS))
    times = size // max(images.shape[1:3])
    # One copy, by the row and column of the small image that each pixel of the result has.
    rows, columns = (_source_pixels(length, times, size) for length in images.shape[1:3])
    return images[:, rows[:, None], columns]


def _source_pixels(length: int, times: int, size: int) -> np.ndarray:
    """Return which of `length` pixels, each repeated `times` times and centred, is at each of `size` places."""
    before = (size - length * times) // 2
    return np.clip((np.arange(size) - before) // times, 0, length - 1)
