"""Numbers of any result, their hashes, and how much two of them differ."""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

WIDEST = {"b": np.int64, "i": np.int64, "u": np.int64, "f": np.float64, "V": np.float64, "c": np.complex128}
TEXTS = (type(None), str, bytes, type(Ellipsis))


class Part(NamedTuple):
    """A part of a case, such as its losses."""

    hash: str
    values: np.ndarray  # all its numbers in one axis, empty if only the hash was kept


Parts = dict[str, Part]
Case = Parts | str  # or why it could not be computed
Cases = dict[str, Case]


def hash_part(value: Any) -> Part:
    """Hash the numbers of a result: neither texts, nor names, nor the width of a number, which may all change."""
    arrays = [array for array in arrays_of(value) if array.size]
    code = hashlib.sha256()
    for array in arrays:
        wide = array.astype(WIDEST[array.dtype.kind])
        code.update(repr(wide.shape).encode() + np.where(wide == wide, wide, np.nan).astype(wide.dtype).tobytes())
    return Part(code.hexdigest()[:16], np.concatenate([array.ravel() for array in arrays] or [np.zeros(0)]))


def arrays_of(value: Any) -> Iterator[np.ndarray]:
    """Yield the numbers in arrays, sequences, mappings and dataclasses, in an order that does not depend on places."""
    if isinstance(value, TEXTS) or (callable(value) and not dataclasses.is_dataclass(value)):
        return
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from arrays_of(value[key])
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from arrays_of({f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name[0] != "_"})
    elif isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        yield np.asarray(jax.random.key_data(value))
    elif isinstance(value, list | tuple) and not all(isinstance(one, int | float) for one in value):
        for one in value:
            yield from arrays_of(one)
    else:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            raise TypeError(f"No numbers are known of {type(value).__name__}.")
        if array.dtype.kind in WIDEST:
            yield array


def compare_parts(here: Parts, there: Parts) -> str:
    """Return the parts that differ, each with its largest difference, or an empty text."""
    parts = [part for part in here if part in there and here[part].hash != there[part].hash]
    return ", ".join(f"{part} {largest_difference(here[part], there[part])}" for part in parts)


def largest_difference(one: Part, other: Part) -> str:
    """Return the largest difference of two numbers in the same place, relative to the larger of them, as a text."""
    if not one.values.size or not other.values.size:
        return "numbers unknown"
    if one.values.size != other.values.size:
        return f"{other.values.size} -> {one.values.size} numbers"
    a, b = (part.values.astype(complex if part.values.dtype.kind == "c" else float) for part in (one, other))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        apart = np.where((a == b) | ((a != a) & (b != b)), 0.0, abs(a - b) / np.maximum(abs(a), abs(b)))
    return f"{np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max():.2g}"
