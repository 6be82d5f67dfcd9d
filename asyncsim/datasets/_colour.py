"""Small grey images as colour images of CIFAR's size: a stand-in when no such images are available."""

from typing import Any

import numpy as np

from asyncsim._checks import require_integer
from asyncsim.datasets._dataset import Dataset
from asyncsim.datasets._partition import Partition

CHANNELS = 3


class AsColour(Dataset):
    """Any images as `size` × `size` pixels in three channels, for models that read colour images.

    Every pixel becomes a square of the largest whole number of pixels that fits, 4 × 4 for digits and 1 × 1 for
    MNIST; the margin around the image continues its edge. A grey image is repeated in each of the three channels.
    Such data teach nothing that the small images do not contain, and their name says so: digits-32x32x3.

    Args:
        data: Images (examples, height, width), or with a last axis of three channels.
        size: Width and height of the result.

    Raises:
        ValueError: If the data are not images, or are larger than `size`.

    Example:
        >>> from asyncsim.datasets import Digits
        >>> images = AsColour(Digits())
        >>> images.name, images.shape, images.classes
        ('digits-32x32x3', (32, 32, 3), 10)
    """

    data: Dataset
    size: int = 32

    def check(self) -> None:
        """Refuse what are not such images."""
        _require_images(self.data, require_integer("size", self.size, least=1, remedy="Use 32, say."))
        super().check()

    def load(self) -> tuple[Any, ...]:
        """Enlarge the images."""
        data, size = self.data, self.size
        train, test = (_enlarged(inputs, size) for inputs in (data.train_inputs, data.test_inputs))
        name = f"{data.name}-{size}x{size}x{CHANNELS}"
        return name, train, data.train_labels, test, data.test_labels, data.classes


def _require_images(data: object, size: int) -> None:
    if not isinstance(data, Dataset) or len(data.shape) < 2 or data.shape[2:] not in ((), (CHANNELS,)):
        found = f"{data.name!r}, {data.shape}" if isinstance(data, Dataset) else type(data).__name__
        raise ValueError(
            f"`data` must be a Dataset of images, (height, width) or (height, width, {CHANNELS}); got {found}. "
            "Reshape the inputs."
        )
    if isinstance(data, Partition):
        raise ValueError("`data` must not be shared out to workers yet. Use partition(AsColour(data), …).")
    if max(data.shape[:2]) > size:
        raise ValueError(
            f"`size` must be at least that of the images, {data.shape[0]} × {data.shape[1]}; got {size}. "
            f"Use {max(data.shape[:2])} or more."
        )


def _enlarged(images: np.ndarray, size: int) -> np.ndarray:
    """Images (n, size, size, 3) of images (n, height, width) or (n, height, width, 3)."""
    if images.ndim == 3:
        images = np.broadcast_to(images[..., None], (*images.shape, CHANNELS))
    times = size // max(images.shape[1:3])
    # Copied once, pixel by pixel of the result: the row and column of the small image that each one shows.
    rows, columns = (_shown(length, times, size) for length in images.shape[1:3])
    return images[:, rows[:, None], columns]


def _shown(length: int, times: int, size: int) -> np.ndarray:
    """Which of `length` pixels, each repeated `times` times and centred, is shown at each of `size` places."""
    before = (size - length * times) // 2
    return np.clip((np.arange(size) - before) // times, 0, length - 1)
