"""Labelled examples to learn from: scikit-learn's digits, MNIST, and arrays of your own."""

from asyncsim.datasets.dataset import Dataset
from asyncsim.datasets.digits import digits
from asyncsim.datasets.mnist import mnist

__all__ = ["Dataset", "digits", "mnist"]
