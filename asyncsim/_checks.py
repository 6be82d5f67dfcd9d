"""One-line errors for invalid arguments: each says the name, the value received and the remedy.

A check is called as `check(name, value, remedy=…)` and returns the value as it is kept. `require_…` take a scalar, and
`require_all_…` a scalar or an array, such as hyper-parameters with one value per seed.
"""

import difflib
import math
import sys
import warnings
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

MOST_EXACT = 2**24  # a float32 has all whole numbers up to here
NO_NUMBERS = (bool, np.timedelta64)  # though Python and NumPy count them among the integers
LONGEST = 80  # characters of a value in a message
MOST_NUMBERS = 10  # of an array in a message, which gives the shape of a larger one
MOST_DIGITS = 20  # of an integer in a message, which gives the magnitude of a larger one
PER_SEED = "Give a scalar, or one value per seed."
SIMILAR = 0.52  # of 1: "sync" for "synchronous" is similar, "rule" for "pull" is not
ABBREVIATIONS = {  # names of an argument in papers, other programs and habit, where the spelling does not help
    "algorithm": ("rule",),
    "beta": ("momentum",),
    "delay": ("compute", "latency"),
    "dir": ("out",),
    "duration": ("seconds",),
    "epochs": ("commits_per_worker",),
    "eta": ("learning_rate",),
    "iterations": ("commits",),
    "law": ("compute",),
    "method": ("rule",),
    "model": ("workload",),
    "mu": ("momentum", "mean"),
    "n": ("workers",),
    "nodes": ("workers",),
    "o": ("out",),
    "optimizer": ("optimiser", "rule"),
    "overwrite": ("force",),
    "s": ("seed",),
    "scale": ("mean",),
    "sd": ("cv",),
    "sigma": ("cv", "sd"),
    "std": ("cv", "sd"),
    "step_size": ("learning_rate",),
    "steps": ("commits",),
    "task": ("workload",),
    "updates": ("commits",),
    "w": ("workers",),
}


def truncate(text: str, length: int = LONGEST, tail: int = 0) -> str:
    """Return a text in one line, with an ellipsis in place of all between its beginning and its last `tail` characters.

    Example:
        >>> truncate("one line\\n  and another", 80), truncate("a long text", 8), truncate("a long text", 8, tail=4)
        ('one line and another', 'a long …', 'a l…text')
    """
    line = " ".join(part.strip() for part in text.splitlines())
    return line if len(line) <= length else f"{line[: length - tail - 1]}…{line[len(line) - tail :]}"


def brief(value: Any) -> str:
    """Return the `repr` of a value for a message, or the shape of a large array, or the magnitude of a large integer.

    Example:
        >>> brief("none"), brief(np.ones(50)), brief(10**400), len(brief([0.1] * 50))
        ("'none'", 'shape (50,)', '1.00e+400', 80)
    """
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        return f"{Decimal(value):.3g}"
    if hasattr(value, "dtype") and math.prod(np.shape(value)) >= MOST_NUMBERS:
        return f"shape {np.shape(value)}"
    try:
        return truncate(repr(value))
    except Exception:  # A class may fail here, and integers inside a list may have more digits than Python writes.
        return truncate(object.__repr__(value))


def require_all_finite(name: str, value: Any, *, remedy: str = PER_SEED) -> Any:
    """Return finite numbers: a float, or an array of floats."""
    numbers = np.asarray(refuse_mask(name, value))
    if numbers.dtype.kind not in "iuf" or not numbers.size:
        raise ValueError(f"`{name}` must be a number; got {brief(value)}. {remedy}")
    if not np.isfinite(numbers).all():
        raise ValueError(f"`{name}` must be finite; got {brief(value)}. {remedy}")
    return numbers.astype(float) if numbers.ndim else float(numbers)


def refuse_mask(name: str, value: Any) -> Any:
    """The value itself, unless it is an array with masked numbers, which would count like all others."""
    if np.ma.is_masked(value):
        raise ValueError(
            f"`{name}` must not have masked numbers, which would count as they are under the mask; got "
            f"{np.ma.count_masked(value)} of them. Leave them out, or fill them by `.filled(…)`."
        )
    return value


def require_array(name: str, value: Any) -> np.ndarray:
    """Return real numbers as an array. Texts, dates and complex numbers, which NumPy would convert, are refused."""
    try:
        array = np.asarray(refuse_mask(name, value))
    except (TypeError, ValueError) as error:  # The rows have several lengths.
        raise error if str(error).startswith("`") else _no_numbers(name, value) from None
    if array.dtype.hasobject and array.dtype.kind == "O" and all(isinstance(item, Real) for item in array.flat):
        array = array.astype(float)
    if not np.can_cast(array.dtype, np.float32, "same_kind"):
        raise _no_numbers(name, value, array.dtype)
    return array


def _no_numbers(name: str, values: Any, dtype: Any = "") -> ValueError:
    kind = f"{type(values).__name__}{f' of {dtype}' if dtype else ''}"
    return ValueError(f"`{name}` must be one array of numbers; got {kind}. Convert it to real numbers.")


def inexact(array: np.ndarray) -> np.ndarray:
    """The integers of an array that no float32 equals."""
    if array.dtype.kind not in "iu":
        return array[:0]
    large = array[(array > MOST_EXACT) | (array < -MOST_EXACT)] if array.dtype.itemsize > 2 else array.ravel()[:0]
    size = np.where(large < 0, ~large.astype(np.uint64) + np.uint64(1), large.astype(np.uint64))
    return large[size // (size & (~size + np.uint64(1))) > MOST_EXACT]  # without the powers of 2 in it


def require_fits(name: str, value: Any, *, dtype: np.dtype) -> None:
    """Refuse an array with numbers that are too large for another type of the same kind."""
    if value.dtype == dtype:
        return
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    for part in (value.real, value.imag) if dtype.kind == "c" else (value,):
        beyond = part[(part < limits.min) | (part > limits.max)]
        if (beyond := beyond[np.isfinite(beyond)]).size:
            raise ValueError(
                f"`{name}` must be from {limits.min:.4g} to {limits.max:.4g}, as {dtype.name} is; got {beyond[0]}. "
                f'Give smaller numbers, or keep {value.dtype.name} by `jax.config.update("jax_enable_x64", True)`.'
            )


def require_representable(name: str, value: Any, *, precision: Any) -> None:
    """Refuse finite numbers that would be infinite in a precision, a `finfo`."""
    largest, magnitude = float(precision.max), np.abs(np.asarray(value, float)).max(initial=0.0)
    if largest < magnitude < np.inf:
        raise ValueError(
            f"`{name}` must be at most {largest:.3g}, the largest {np.dtype(precision.dtype).name} number; got "
            f"{brief(value)}. Give a smaller one."
        )


def require_all_not_negative(name: str, value: Any, *, remedy: str = "Give 0 or more.") -> Any:
    """Return finite numbers of at least 0."""
    numbers = require_all_finite(name, value)
    if np.any(numbers < 0):
        raise ValueError(f"`{name}` must not be negative; got {brief(value)}. {remedy}")
    return numbers


def require_all_positive(name: str, value: Any, *, remedy: str) -> Any:
    """Return finite numbers above 0."""
    numbers = require_all_not_negative(name, value)
    if np.any(numbers == 0):
        raise ValueError(f"`{name}` must be positive; got {brief(value)}. {remedy}")
    return numbers


def require_all_fractions(name: str, value: Any, *, remedy: str = "0.9 is usual.") -> Any:
    """Return numbers of at least 0 and less than 1."""
    numbers = require_all_not_negative(name, value)
    if np.any(numbers >= 1):
        raise ValueError(f"`{name}` must be at least 0 and less than 1; got {brief(value)}. {remedy}")
    return numbers


def require_all_signed_fractions(name: str, value: Any, *, remedy: str = "0.9 is usual.") -> Any:
    """Return numbers between -1 and 1, both excluded."""
    numbers = require_all_finite(name, value)
    if np.any(np.abs(numbers) >= 1):
        raise ValueError(f"`{name}` must be between -1 and 1, both excluded; got {brief(value)}. {remedy}")
    return numbers


def require_all_integers(name: str, value: Any, *, least: int = 0, remedy: str) -> Any:
    """Return integers of at least `least`: an int, or an int32 array."""
    if not np.ndim(value):
        return require_integer(name, value, least=least, remedy=remedy)
    numbers = np.asarray(refuse_mask(name, value))
    if numbers.dtype.kind not in "iu" or (numbers < least).any() or (numbers > MOST_EXACT).any():
        raise ValueError(f"`{name}` must be integers from {least} to {MOST_EXACT}; got {brief(value)}. {remedy}")
    return numbers.astype(np.int32)


def columns(**values: Any) -> list[np.ndarray]:
    """Return arguments that are one number per row as arrays of one length, at least 1."""
    arrays = {name: np.asarray(refuse_mask(name, value), np.float64) for name, value in values.items()}
    first = next(iter(arrays))
    for name, column in arrays.items():
        if column.ndim != 1 or not len(column):
            raise ValueError(f"`{name}` must be a list of numbers, at least one; got shape {column.shape}.")
        if len(column) != len(arrays[first]):
            raise ValueError(
                f"`{name}` must be as long as `{first}`, {len(arrays[first])} numbers; got shape {column.shape}."
            )
    return list(arrays.values())


def require_one_of(name: str, value: Any, *, choices: Iterable[str]) -> str:
    """Return a name that is one of the choices. The error suggests the nearest one."""
    choices = list(choices)
    if getattr(value, "ndim", 0) == 0 and value in choices:
        return value
    hint = did_you_mean(value, choices, quote="'") if isinstance(value, str) else ""
    raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {brief(value)}.{hint}")


def require_switch(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"`{name}` must be True or False; got {brief(value)}.")
    return bool(value)


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the name among the choices that is meant by another."""
    spellings = {other.lower().replace("-", "_"): other for other in choices}
    name = name.lower().replace("-", "_")
    candidates = [other for other in ABBREVIATIONS.get(name, ()) if other in spellings]
    candidates += [
        other for other in spellings if len(name) > 1 and name == "".join(word[:1] for word in other.split("_"))
    ]
    candidates += [other for other in spellings if len(name) > 2 and other.startswith(name)]
    if name not in ABBREVIATIONS:
        candidates += difflib.get_close_matches(name, spellings, n=1, cutoff=SIMILAR)
    return spellings[candidates[0]] if candidates else None


def did_you_mean(name: str, choices: Iterable[str], quote: str = "`") -> str:
    """Return a hint at the most similar name, to end a message with, or an empty text if no name is similar."""
    closest = nearest(name, choices)
    return f" Did you mean {quote}{closest}{quote}?" if closest else ""


def require_count(name: str, value: object, *, remedy: str) -> int:
    """Return an integer of at least 1."""
    return require_integer(name, value, least=1, remedy=remedy)


def require_all_counts(name: str, value: Any, *, remedy: str) -> int | tuple[int, ...]:
    """Return an integer of at least 1, or a tuple of them with one per worker."""
    if isinstance(value, Sequence | np.ndarray) and np.ndim(value) == 1 and len(value):
        return tuple(require_count(name, each, remedy=remedy) for each in value)
    return require_count(name, value, remedy=remedy)


def require_integer(name: str, value: object, *, least: int = 0, remedy: str) -> int:
    """Return an integer of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, NO_NUMBERS) or int(value) < least:
        raise ValueError(f"`{name}` must be an integer of at least {brief(least)}; got {brief(value)}. {remedy}")
    if int(value) > sys.float_info.max:
        raise ValueError(f"`{name}` must be at most {sys.float_info.max:.3g}; got {brief(value)}. {remedy}")
    return int(value)


def require_positive(name: str, value: object, *, remedy: str) -> float:
    """Return a positive number as a float."""
    if not (_is_finite(value) and value > 0):
        raise ValueError(f"`{name}` must be finite and positive; got {brief(value)}. {remedy}")
    return float(value)


def require_share(name: str, value: object, *, remedy: str) -> float:
    """Return a number above 0 and at most 1."""
    return require_at_most(name, require_positive(name, value, remedy=remedy), largest=1, remedy=remedy)


def require_positive_or_infinite(name: str, value: Any, *, remedy: str) -> float:
    """Return a positive number as a float, or infinity."""
    if isinstance(value, Real) and value == math.inf:
        return math.inf
    return require_positive(name, value, remedy=remedy)


def require_not_negative(name: str, value: object, *, remedy: str) -> float:
    """Return a number that is not negative as a float."""
    if not (_is_finite(value) and value >= 0):
        raise ValueError(f"`{name}` must be finite and not negative; got {brief(value)}. {remedy}")
    return float(value)


def require_at_most(name: str, value: float, *, largest: float, remedy: str) -> float:
    """Return a number of at most `largest`."""
    if value > largest:
        raise ValueError(f"`{name}` must be at most {largest:g}; got {brief(value)}. {remedy}")
    return value


def is_integer(value: Any) -> bool:
    if isinstance(value, Integral):
        return not isinstance(value, NO_NUMBERS)
    return getattr(value, "ndim", None) == 0 and value.dtype.kind in "iu"


def is_number(value: Any) -> bool:
    """Return whether a value is a number or infinite, but no integer larger than every float."""
    if isinstance(value, Real):
        return _is_finite(value) or (not isinstance(value, Integral) and math.isinf(value))
    return getattr(value, "ndim", None) == 0 and value.dtype.kind in "iuf" and bool(value == value)


def _is_finite(value: object) -> TypeGuard[float]:
    if not isinstance(value, Real) or isinstance(value, NO_NUMBERS):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer larger than every float
        return False


def warn(message: str) -> None:
    """Warn where the library was called, however deep inside it the reason lies."""
    frame, level = sys._getframe(1), 2
    library = f"{__name__.partition('.')[0]}."
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(library):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
