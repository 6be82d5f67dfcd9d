"""The law of measured timings, resampled."""

import csv
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief, require_not_negative, require_one_of
from asyncsim.components._checked import Checked, checked
from asyncsim.delays._law import Durations, FloatArray


def _sorted_values(name: str, values: Any) -> tuple[float, ...]:
    values = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise ValueError(f"`{name}` must be a sequence of delays, at least one; got {brief(values)}. {_UNIT}")
    return tuple(sorted(require_not_negative(f"{name}[{i}]", value, remedy=_UNIT) for i, value in enumerate(values)))


@dataclass(frozen=True)
class Empirical(Checked):
    """Each delay is one of the measured values, all equally likely and drawn with replacement.

    The mean and the variance (divided by the number of values, not by one less) are those of this law. The
    values are sorted, so that the same measurements in another order are the same law.

    Args:
        values: One or more measured delays, in seconds, at least 0 (kept as a sorted tuple).

    Example:
        >>> law = Empirical([3.0, 1.0, 1.0, 3.0])
        >>> law.mean, law.variance, float(law.cdf(1.0))
        (2.0, 1.0, 0.5)
    """

    values: Annotated[Sequence[float] | FloatArray, _sorted_values]
    in_seconds: ClassVar[tuple[str, ...]] = ("values",)

    @classmethod
    @checked
    def from_csv(cls, path: str | os.PathLike[str], *, column: str) -> "Empirical":
        """Read measured timings from a CSV file whose first row names the columns.

        Args:
            path: The file, in UTF-8, columns separated by commas.
            column: Name of the column with the timings, in seconds. If they are in milliseconds, use
                `scaled(law, 0.001)`.

        Returns:
            The law of the timings.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it is not such a file, lacks the column, or holds a timing that is not a finite number of
                at least 0 (named by its row, where the row of names is row 1).

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = Path(folder, "timings.csv")
            ...     _ = path.write_text("worker,seconds\\n0,1.5\\n1,2.5\\n")
            ...     Empirical.from_csv(path, column="seconds")
            Empirical(values=(1.5, 2.5))
        """
        try:
            timings = list(_read(Path(path), column))
        except OSError as error:
            raise OSError(error.errno, f"`path` {str(path)!r} could not be read: {error.strerror}. {_FORM}") from error
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"`path` {str(path)!r} is not a CSV file in UTF-8: {error}. {_FORM}") from error
        if not timings:
            raise ValueError(f"`path` {str(path)!r} holds no timings. {_FORM}")
        return cls(timings)

    @classmethod
    @checked
    def fit(cls, durations: Durations, censored: Durations = ()) -> "Empirical":
        """Return the law of the durations themselves, each as likely as any other.

        Args:
            durations: (jobs,) measured, in seconds, one or more.
            censored: Must be empty, because this law does not say how unfinished jobs continue.

        Example:
            >>> Empirical.fit([2.0, 1.0])
            Empirical(values=(1.0, 2.0))
        """
        if len(np.asarray(censored)):
            remedy = "Leave those jobs out, or fit another law."
            raise ValueError(f"`censored` must be empty for measured timings; got {np.size(censored)}. {remedy}")
        return cls(np.asarray(durations, dtype=np.float64).tolist())

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return self._moments[0]

    @property
    def variance(self) -> float:
        """Mean squared deviation of the values from their mean."""
        return self._moments[1]

    @cached_property
    def _sorted(self) -> FloatArray:
        return np.asarray(self.values, dtype=np.float64)

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and variance. A type checker does not accept a cached property as one of `Delay`."""
        mean = math.fsum(self.values) / len(self.values)
        return mean, math.fsum((value - mean) ** 2 for value in self.values) / len(self.values)

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return the share of the values that are at most `t`, with the shape of `t`."""
        return np.asarray(np.searchsorted(self._sorted, t, side="right") / len(self.values))

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return the logarithm of the share of the values above `t`, with the shape of `t`."""
        longer = len(self.values) - np.searchsorted(self._sorted, t, side="right")
        with np.errstate(divide="ignore"):
            return np.log(longer / len(self.values))

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return the smallest value whose `cdf` is at least `p`, for `p` in [0, 1), with the shape of `p`."""
        place = np.ceil(np.asarray(p, dtype=np.float64) * len(self.values)).astype(int) - 1
        return self._sorted[np.maximum(place, 0)]

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self._sorted[generator.integers(len(self.values), size=size)]


_UNIT = "Give measured delays in seconds."
_FORM = "Give a CSV file whose first row names the columns."


def _read(path: Path, column: str) -> Iterator[float]:
    with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte-order mark
        reader = csv.DictReader(file)
        if reader.fieldnames:
            require_one_of("column", column, choices=reader.fieldnames)
        for row in reader:
            try:
                timing = float(row[column] or "")
            except ValueError:
                timing = math.nan
            if not (math.isfinite(timing) and timing >= 0):
                place = f"`path` {path.name!r}, row {reader.line_num}, column {column!r}"
                requirement = "must be a finite number of at least 0"
                raise ValueError(f"{place}, {requirement}; got {brief(row[column])}. Correct or remove the row.")
            yield timing
