"""One-line errors for hyper-parameters that cannot be meant."""

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np


def finite(name: str, value: Any) -> Any:
    """The value itself if it is a finite number (or an array of such), else an error that names it."""
    try:
        numbers = np.asarray(value, float)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be a number; got {value!r}.") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"`{name}` must be finite; got {value!r}.")
    return value


def not_negative(name: str, value: Any) -> Any:
    """The value itself if finite and at least zero."""
    if (np.asarray(finite(name, value)) < 0).any():
        raise ValueError(f"`{name}` must not be negative; got {value!r}.")
    return value


def fraction(name: str, value: Any) -> Any:
    """The value itself if it lies in [0, 1)."""
    if (np.asarray(not_negative(name, value)) >= 1).any():
        raise ValueError(f"`{name}` must be at least 0 and less than 1; got {value!r}.")
    return value


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """The value itself if it is known, else an error that suggests the nearest known one."""
    known = list(known)
    if value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"`{name}` must be one of {', '.join(map(repr, known))}; got {value!r}.{hint}")
