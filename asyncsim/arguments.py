"""Checks of numbers that a caller passes in: one line with the argument, the value and the remedy."""

import math
from numbers import Integral, Real
from typing import TypeGuard


def require_integer(name: str, value: object, *, least: int, remedy: str) -> int:
    """Return `value` as an int.

    Raises:
        ValueError: If it is not an integer (a bool is none) or is below `least`.

    Example:
        >>> require_integer("workers", 0, least=1, remedy="Use one worker or more.")
        Traceback (most recent call last):
        ValueError: `workers` must be an integer of at least 1; got 0. Use one worker or more.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise ValueError(f"`{name}` must be an integer of at least {least}; got {value!r}. {remedy}")
    return int(value)


def require_positive(name: str, value: object, *, remedy: str) -> float:
    """Return `value` as a float.

    Raises:
        ValueError: If it is not a finite number above 0.
    """
    if not (_is_finite(value) and value > 0):
        raise ValueError(f"`{name}` must be finite and positive; got {value!r}. {remedy}")
    return float(value)


def require_not_negative(name: str, value: object, *, remedy: str) -> float:
    """Return `value` as a float.

    Raises:
        ValueError: If it is not a finite number of at least 0.
    """
    if not (_is_finite(value) and value >= 0):
        raise ValueError(f"`{name}` must be finite and not negative; got {value!r}. {remedy}")
    return float(value)


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and math.isfinite(value)
