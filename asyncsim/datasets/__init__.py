"""Labelled examples: digits, MNIST, CIFAR-10, photographs, texts, arrays of your own, and partitions of them.

Neighbours use `_partition` (ways to share a data set out, and their settings).
"""

from asyncsim.components import _families as families
from asyncsim.datasets._dataset import Dataset
from asyncsim.datasets._images import AsColour, ImageFolder
from asyncsim.datasets._partition import Partition, Parts, partition
from asyncsim.datasets._published import CIFAR10, MNIST, Digits
from asyncsim.datasets._sequences import Markov, Sequences, Text

__all__ = [
    "CIFAR10",
    "MNIST",
    "AsColour",
    "Dataset",
    "Digits",
    "ImageFolder",
    "Markov",
    "Partition",
    "Parts",
    "Sequences",
    "Text",
    "by_name",
    "partition",
]


def by_name(name: str) -> type[Dataset]:
    """Return the class with this command-line name among the datasets, those of your own included.

    Args:
        name: The name, for example "digits".

    Raises:
        ValueError: If there is none. The nearest name is suggested.

    Example:
        >>> by_name("digits")()
        Digits(test_fraction=0.2)
    """
    return families.by_name("datasets", name)
