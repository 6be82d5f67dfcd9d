"""Labelled examples: digits, MNIST, CIFAR-10, folders of photographs, arrays of your own; and who has which."""

from asyncsim.arguments import check_arguments
from asyncsim.datasets.cifar import cifar10
from asyncsim.datasets.colour import as_colour
from asyncsim.datasets.dataset import Dataset
from asyncsim.datasets.digits import digits
from asyncsim.datasets.images import image_folder
from asyncsim.datasets.mnist import mnist
from asyncsim.datasets.partition import Partition, partition
from asyncsim.datasets.parts import Parts

__all__ = ["Dataset", "Partition", "Parts", "as_colour", "cifar10", "digits", "image_folder", "mnist", "partition"]

check_arguments(__name__)
