"""Labelled examples: digits, MNIST, CIFAR-10, folders of photographs, arrays of your own, and partitions of them."""

from asyncsim import _component as families
from asyncsim._arguments import check_arguments
from asyncsim.datasets._dataset import Arrays, Dataset
from asyncsim.datasets._files import CIFAR10, MNIST, Digits
from asyncsim.datasets._images import AsColour, ImageFolder
from asyncsim.datasets._partition import Partition, Parts, partition

by_name = families.finder(__name__, "datasets", type[Dataset], '("digits")()', "Digits(test_fraction=0.2)")

__all__ = [
    "CIFAR10",
    "MNIST",
    "AsColour",
    "Dataset",
    "Digits",
    "ImageFolder",
    "Partition",
    "Parts",
    "by_name",
    "partition",
]

check_arguments(__name__, [*__all__, Arrays.__qualname__])
