"""Which examples each worker has: parts of different sizes, one after another in a single array."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asyncsim.store._files import digest


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """Numbers of the examples that each worker has. No example has two owners, and every worker has at least one.

    Attributes:
        order: (owned examples,) int32, the examples of worker 0, then those of worker 1, and so on; read-only.
        offsets: (workers + 1,) int64, where each worker's part begins in `order`, and where the last one ends.

    `len` is the number of workers, `parts[w]` has the examples of worker w, and a loop takes the workers in turn.

    Raises:
        ValueError: If a part is empty, or an example is in two parts.

    Example:
        >>> parts = Parts.of([[0, 3], [1, 2, 4]])
        >>> len(parts), parts[1].tolist(), parts.sizes.tolist()
        (2, [1, 2, 4], [2, 3])
        >>> Parts.of([[0, 3], [3, 4]])
        Traceback (most recent call last):
        ValueError: `parts` must not share examples; example 3 is in two of them. Give each example one owner.
    """

    order: np.ndarray = field(repr=False)
    offsets: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        for name, dtype in (("order", np.int32), ("offsets", np.int64)):
            array = np.array(getattr(self, name), dtype)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if len(self.offsets) < 2 or (self.sizes < 1).any():
            empty = int(self.sizes.argmin()) if len(self.offsets) > 1 else 0
            raise ValueError(
                f"`parts` must have at least one example each; worker {empty} has none. Use fewer workers, or give it "
                "some."
            )
        if self.order.min() < 0:
            raise ValueError(f"`parts` must have numbers of examples from 0; got {self.order.min()}. Count from 0.")
        counted = np.bincount(self.order)
        if counted.max() > 1:
            raise ValueError(
                f"`parts` must not share examples; example {counted.argmax()} is in two of them. Give each example "
                "one owner."
            )

    @classmethod
    def of(cls, parts: "Parts | Iterable[Any]") -> "Parts":
        """From one sequence of example numbers per worker.

        Raises:
            ValueError: If they are no such sequences, or as for the class.
        """
        if isinstance(parts, Parts):
            return parts
        if isinstance(parts, str) or not isinstance(parts, Iterable):
            raise ValueError(f"`parts` must be one sequence of example numbers per worker; got {parts!r:.60}.")
        arrays = [np.asarray(part) for part in parts]
        for worker, array in enumerate(arrays):
            if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
                raise ValueError(
                    f"`parts` must be one sequence of example numbers per worker; that of worker {worker} is "
                    f"{array.dtype} of shape {array.shape}. Give, say, [[0, 1], [2, 3, 4]]."
                )
        sizes = [array.size for array in arrays]
        return cls(np.concatenate(arrays) if sizes else np.zeros(0), np.cumsum([0, *sizes]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, worker: int) -> np.ndarray:
        if not -len(self) <= worker < len(self):
            raise IndexError(f"there are {len(self)} workers; got {worker}")
        worker %= len(self)
        return self.order[self.offsets[worker] : self.offsets[worker + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[worker] for worker in range(len(self)))

    def __repr__(self) -> str:
        return f"Parts({len(self)} workers, {span(self.sizes)})"

    @property
    def sizes(self) -> np.ndarray:
        """(workers,) examples of each worker."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """(owned examples,) int32, the worker of each entry of `order`."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)

    @property
    def fingerprint(self) -> str:
        """First digits of the SHA-256 of the arrays."""
        return digest(self.order, self.offsets)


def span(sizes: np.ndarray) -> str:
    """Sizes of parts in words."""
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low} to {high} examples each" if low < high else f"{low} examples each"
