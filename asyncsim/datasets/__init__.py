"""Labelled examples: digits, MNIST, CIFAR-10, folders of photographs, and arrays of your own."""

from asyncsim.datasets.cifar import cifar10
from asyncsim.datasets.colour import as_colour
from asyncsim.datasets.dataset import Dataset
from asyncsim.datasets.digits import digits
from asyncsim.datasets.images import image_folder
from asyncsim.datasets.mnist import mnist

__all__ = ["Dataset", "as_colour", "cifar10", "digits", "image_folder", "mnist"]
