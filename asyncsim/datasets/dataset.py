"""Inputs and labels for training and for testing, checked once when a data set is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from asyncsim.checks import require_integer
from asyncsim.files import digest


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification problem.

    Attributes:
        name: Its name, in summaries and files.
        train_inputs: (examples, …) float32, at least one axis after the first.
        train_labels: (examples,) int32, from 0 to `classes` - 1.
        test_inputs: Like `train_inputs`, with examples of the same shape.
        test_labels: Like `train_labels`.
        classes: Number of classes.
        source: The function of `asyncsim.datasets` that made it, with its arguments, so that it can be made again; None
            for arrays of your own.

    Other kinds of numbers are converted if that loses nothing but digits. The arrays are read-only.

    Raises:
        ValueError: If shapes or labels do not match, or an input is not finite.

    Example:
        >>> points = np.linspace(-1.0, 1.0, 20).reshape(10, 2)
        >>> halves = Dataset("halves", points, np.arange(10) >= 5, points, np.arange(10) >= 5, classes=2)
        Traceback (most recent call last):
        ValueError: `train_labels` must be integers; got bool. Number the classes from 0.
        >>> labels = np.repeat([0, 1], 5)
        >>> halves = Dataset("halves", points, labels, points[::2], labels[::2], classes=2)
        >>> described = halves.describe()
        >>> described["train"], described["test"], described["shape"], described["fingerprint"]
        (10, 5, [2], 'd34cec4a8008e622')
    """

    name: str
    train_inputs: np.ndarray = field(repr=False)
    train_labels: np.ndarray = field(repr=False)
    test_inputs: np.ndarray = field(repr=False)
    test_labels: np.ndarray = field(repr=False)
    classes: int
    source: Mapping[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_integer("classes", self.classes, least=1, remedy="Give the number of different labels.")
        for part in ("train", "test"):
            inputs = _checked_inputs(f"{part}_inputs", getattr(self, f"{part}_inputs"))
            labels = _checked_labels(f"{part}_labels", getattr(self, f"{part}_labels"), len(inputs), self.classes)
            object.__setattr__(self, f"{part}_inputs", inputs)
            object.__setattr__(self, f"{part}_labels", labels)
        if self.test_inputs.shape[1:] != self.shape:
            raise ValueError(
                f"`test_inputs` must have examples of the shape of `train_inputs`, {self.shape}; "
                f"got {self.test_inputs.shape[1:]}."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return self.train_inputs.shape[1:]

    @cached_property
    def fingerprint(self) -> str:
        """First digits of the SHA-256 of the arrays: equal for equal data, whatever file they came from."""
        arrays = (self.train_inputs, self.train_labels, self.test_inputs, self.test_labels)
        return digest(*(part for array in arrays for part in (repr((array.shape, array.dtype.str)), array)))

    def describe(self) -> dict[str, Any]:
        """Name, sizes and fingerprint as plain data."""
        return {
            "name": self.name,
            "train": len(self.train_inputs),
            "test": len(self.test_inputs),
            "shape": list(self.shape),
            "classes": int(self.classes),
            "fingerprint": self.fingerprint,
        }


def _checked_inputs(name: str, values: Any) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # found below, with an error of our own
            inputs = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be one array of numbers; got {type(values).__name__}.") from None
    if inputs.ndim < 2 or not inputs.size:
        raise ValueError(
            f"`{name}` must have shape (examples, …) with at least one example of at least one number; "
            f"got {inputs.shape}."
        )
    if not np.isfinite([inputs.min(), inputs.max()]).all():  # unlike isfinite(inputs), needs no memory
        raise ValueError(f"`{name}` must be finite as float32; remove or replace the other values.")
    return _read_only(inputs)


def _checked_labels(name: str, values: Any, examples: int, classes: int) -> np.ndarray:
    labels = np.asarray(values)
    if labels.shape != (examples,):
        raise ValueError(f"`{name}` must have shape ({examples},), one label per input; got {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"`{name}` must be integers; got {labels.dtype}. Number the classes from 0.")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"`{name}` must lie from 0 to `classes` - 1, here {classes - 1}; "
            f"got {labels.min()} to {labels.max()}. Number the classes from 0."
        )
    return _read_only(labels.astype(np.int32, copy=False))


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
