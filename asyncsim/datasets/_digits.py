"""The small handwritten digits that come with scikit-learn: no file, no network."""

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from asyncsim._component import positive
from asyncsim.datasets._dataset import Dataset
from asyncsim.datasets._files import import_optional

# Of all 1797 images, in the file's units of 0 to 16: with these the pixels have mean 0 and variance 1.
MEAN = 4.8842
STANDARD_DEVIATION = 6.0168
FILE = Path("datasets", "data", "digits.csv.gz")  # inside scikit-learn, whose import takes longer than all else here


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

    test_fraction: Annotated[float, positive("Use 0.2, say.")] = 0.2

    def load(self) -> tuple[Any, ...]:
        images, labels = _images_and_labels()
        test = _test_images(labels, self.test_fraction)
        if test.all() or not test.any():
            raise ValueError(
                f"`test_fraction` must leave images to train on and to test on; got {self.test_fraction}, that is "
                f"{test.sum()} of {len(test)} to test on. Use 0.2, say."
            )
        inputs = ((images - MEAN) / STANDARD_DEVIATION).astype(np.float32)
        return self.name, inputs[~test], labels[~test], inputs[test], labels[test], 10


def _images_and_labels() -> tuple[np.ndarray, np.ndarray]:
    """Values (1797, 8, 8) and classes (1797,), as scikit-learn's own function reads them."""
    package = importlib.util.find_spec("sklearn")
    places = [] if package is None else package.submodule_search_locations or []
    for file in (Path(place) / FILE for place in places):
        if file.is_file():
            table = np.loadtxt(file, delimiter=",")
            return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(int)
    source = import_optional("sklearn.datasets", package="scikit-learn", needed_by="`Digits`").load_digits()
    return source.images, source.target


def _test_images(labels: np.ndarray, fraction: float) -> np.ndarray:
    """Mask of the images to test on: the j-th of the list if j·fraction passes a whole number there."""
    # The small addition keeps 5 · 0.2 at 1 however it is rounded.
    passed = np.floor(np.arange(len(labels) + 1) * min(fraction, 1.0) + 1e-9)
    test = np.empty(len(labels), bool)
    test[np.argsort(labels, kind="stable")] = np.diff(passed) > 0
    return test
