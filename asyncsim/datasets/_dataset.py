"""Data sets: inputs and labels for training and for testing, made from their arguments when they are needed."""

from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from asyncsim import _checks as checks
from asyncsim.components._component import Component, arguments
from asyncsim.components._families import Named, is_ours
from asyncsim.components._frozen import frozen, owned
from asyncsim.files._hash import hash_parts

MOST_CLASSES = 2**31  # labels are int32


class Contents(NamedTuple):
    name: str
    train_inputs: np.ndarray
    train_labels: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    classes: int


class _MakesArrays:
    """A base class of `Dataset` by which `Dataset(…)` is an object of `Arrays`, as `Path(…)` is a `PosixPath`.

    It stands apart because `inspect.signature`, and so `help`, prefers `__new__` to an `__init__` in the same class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        kind: Any = Arrays if cls is Dataset else cls
        return object.__new__(kind)


class Dataset(Component, Named, _MakesArrays, family="datasets", example="Digits()"):
    """A classification problem: `Dataset(name, train_inputs, …)` of your own arrays, or a class that loads them.

    Other kinds of numbers are converted if that loses nothing but digits. The arrays are copied once, and the copies
    are read-only, so you may change your own afterwards. A class of your own annotates its arguments and has a method
    `load`, which returns a name, the four arrays and the number of classes. A process loads equal arguments once, and a
    pickle holds the arguments only.

    Args:
        name: Its name, in summaries and files.
        train_inputs: (examples, …) float32, at least one axis after the first.
        train_labels: (examples,) int32, from 0 to `classes` - 1.
        test_inputs: Like `train_inputs`, with examples of the same shape.
        test_labels: Like `train_labels`.
        classes: Number of classes.

    Raises:
        ValueError: If shapes or labels do not match, or an input is not finite, has an imaginary part, a unit or a
            mask, or is an integer that no float32 equals.

    Example:
        >>> points = np.linspace(-1.0, 1.0, 20).reshape(10, 2)
        >>> halves = Dataset("halves", points, np.arange(10) >= 5, points, np.arange(10) >= 5, classes=2)
        Traceback (most recent call last):
        ValueError: `train_labels` must be integers; got bool. Number the classes from 0.
        >>> labels = np.repeat([0, 1], 5)
        >>> halves = Dataset("halves", points, labels, points[::2], labels[::2], classes=2)
        >>> len(halves.train_inputs), len(halves.test_inputs), halves.shape, halves.fingerprint
        (10, 5, (2,), 'd34cec4a8008e622')
    """

    name = ""  # of a class the name in `by_name`, of a data set that in summaries and files

    def __init__(
        self, name: str, train_inputs: Any, train_labels: Any, test_inputs: Any, test_labels: Any, classes: int
    ) -> None:
        raise NotImplementedError  # The objects are `Arrays`, which have a constructor of their own.

    def load(self) -> Iterable[Any]:
        """Return name, training inputs and labels, test inputs and labels, and number of classes."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `load`.")

    def files(self) -> Iterable[Path]:
        """Return the files that `load` reads. After a change in them it is called again."""
        return ()

    def check(self) -> None:
        """Load the contents, so that an error comes where the data set is created."""
        object.__setattr__(self, "name", self.contents.name)

    @cached_property
    def contents(self) -> Contents:
        """All that the data set holds."""
        stats = [(str(file), file.stat()) for file in self.files()]
        contents = loaded(self, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))
        expected = vars(self).get("fingerprint")
        if expected not in (None, self._fingerprint_of(contents)):
            raise ValueError(f"{self!r} holds other data here than where it was pickled. Give both the same files.")
        return contents

    def __getstate__(self) -> dict[str, Any]:
        """Return arguments and name, with the fingerprint if it is known. The contents are loaded again."""
        return {
            name: vars(self)[name] for name in (*arguments(type(self)), "name", "fingerprint") if name in vars(self)
        }

    @cached_property
    def train_inputs(self) -> np.ndarray:
        """(examples, …) float32."""
        return self.contents.train_inputs

    @cached_property
    def train_labels(self) -> np.ndarray:
        """(examples,) int32."""
        return self.contents.train_labels

    @cached_property
    def test_inputs(self) -> np.ndarray:
        """(test examples, …) float32."""
        return self.contents.test_inputs

    @cached_property
    def test_labels(self) -> np.ndarray:
        """(test examples,) int32."""
        return self.contents.test_labels

    @cached_property
    def classes(self) -> int:
        """Number of classes."""
        return self.contents.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return self.train_inputs.shape[1:]

    @cached_property
    def fingerprint(self) -> str:
        """First digits of the SHA-256 of the arrays: equal for equal data from any file."""
        return self._fingerprint_of(self.contents)

    @classmethod
    def _checked(cls, contents: Iterable[Any]) -> Contents:
        """Return what `load` returns, converted, or refuse arrays that do not match."""
        return checked_contents(*contents)

    def _fingerprint_of(self, contents: Contents) -> str:
        return hash_parts(*(part for array in contents[1:5] for part in (repr((array.shape, array.dtype.str)), array)))


def _checked_inputs(name: str, values: Any) -> np.ndarray:
    """Return the values as a frozen float32 array, copied once."""
    array = checks.require_array(name, values)
    with np.errstate(over="ignore"):  # Infinities are refused below, with another error.
        inputs = array.astype(np.float32, copy=False)
    if inputs.ndim < 2 or not inputs.size:
        raise ValueError(
            f"`{name}` must have shape (examples, …) with at least one example of at least one number; "
            f"got {inputs.shape}."
        )
    if not np.isfinite([inputs.min(), inputs.max()]).all():  # isfinite(inputs) would need memory.
        raise ValueError(f"`{name}` must be finite as float32; remove or replace the other values.")
    if (lost := checks.inexact(array)).size:
        raise ValueError(
            f"`{name}` must be exact as float32; {lost[0]} becomes {np.float32(lost[0]):.0f}. Give smaller integers, "
            "or floating-point numbers."
        )
    return frozen(name, inputs) if inputs is array else owned(inputs)


class Arrays(Dataset, named=False):
    """A data set that holds its arrays, as `Dataset(…)` makes it."""

    name: str
    train_inputs: Annotated[Any, _checked_inputs]
    train_labels: Any
    test_inputs: Annotated[Any, _checked_inputs]
    test_labels: Any
    classes: int  # type: ignore[assignment]

    def check(self) -> None:
        """Convert the arrays, and refuse those that do not match."""
        vars(self).update(self.contents._asdict())

    @cached_property
    def contents(self) -> Contents:
        """The arguments."""
        return checked_contents(*(getattr(self, name) for name in Contents._fields))

    def __hash__(self) -> int:
        return hash(self.fingerprint)


# Messages name the class that a person called. Pickles need the `__qualname__` of the class itself.
Arrays.__name__ = Dataset.__name__
Arrays.__init__.__qualname__ = Dataset.__init__.__qualname__


@lru_cache(maxsize=3)
def loaded(data: Dataset, files: tuple[tuple[str, int, int], ...]) -> Contents:
    """Return the contents of a data set, loaded anew if its files have other sizes or times."""
    contents = data.load()  # Classes of the library return new arrays, which need no copy.
    return data._checked(map(owned, contents) if is_ours(type(data)) else contents)


def checked_contents(
    name: str, train_inputs: Any, train_labels: Any, test_inputs: Any, test_labels: Any, classes: int
) -> Contents:
    classes = checks.require_count("classes", classes, remedy="Give the number of different labels.")
    checks.require_at_most("classes", classes, largest=MOST_CLASSES, remedy="Labels are int32.")
    inputs, labels = {"train": train_inputs, "test": test_inputs}, {"train": train_labels, "test": test_labels}
    for part in inputs:
        inputs[part] = _checked_inputs(f"{part}_inputs", inputs[part])
        labels[part] = _checked_labels(f"{part}_labels", labels[part], len(inputs[part]), classes)
    shape, test_shape = inputs["train"].shape[1:], inputs["test"].shape[1:]
    if test_shape != shape:
        raise ValueError(f"`test_inputs` must have examples of the shape of `train_inputs`, {shape}; got {test_shape}.")
    return Contents(name, inputs["train"], labels["train"], inputs["test"], labels["test"], classes)


def _checked_labels(name: str, values: Any, examples: int, classes: int) -> np.ndarray:
    labels = np.asarray(checks.refuse_mask(name, values))
    if labels.shape != (examples,):
        raise ValueError(f"`{name}` must have shape ({examples},), one label per input; got {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"`{name}` must be integers; got {labels.dtype}. Number the classes from 0.")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"`{name}` must lie from 0 to `classes` - 1, here {classes - 1}; "
            f"got {labels.min()} to {labels.max()}. Number the classes from 0."
        )
    return frozen(name, labels) if labels.dtype == np.int32 else owned(labels.astype(np.int32))
