"""What is wrong with a trace, and where."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FIELDS = ("column", "rule", "remedy", "found", "row", "value", "unit", "source")
_LONGEST = 80  # characters of a value in a message


class TraceError(ValueError):
    """A trace, or a log that should become one, breaks a rule."""

    def __init__(
        self,
        column: str | None,
        rule: str,
        remedy: str,
        *,
        found: str = "",
        row: int | None = None,
        value: object = None,
        unit: str = "row",
        source: str = "",
    ) -> None:
        self.column = column
        self.rule = rule
        self.remedy = remedy
        self.found = found
        self.row = row
        self.value = value
        self.unit = unit
        self.source = source
        subject = "it" if column is None else f"`{column}`"
        seen = found if row is None else f"{unit} {row} has {_shown(value)}"
        super().__init__(f"{source}{subject} {rule}{seen and '; '}{seen}. {remedy}")

    def replace(self, **changes: Any) -> "TraceError":
        """The same error with other fields."""
        return TraceError(**{name: getattr(self, name) for name in _FIELDS} | changes)

    def renumber(self, rows: NDArray[np.int64], **changes: Any) -> "TraceError":
        """The same error in another table, in which this table's row i is row `rows[i]`, and with other fields."""
        return self.replace(row=None if self.row is None else int(rows[self.row]), **changes)

    def __reduce__(self) -> Any:
        return _rebuilt, tuple(getattr(self, name) for name in _FIELDS)  # an exception is pickled by its message alone


def refuse(bad: NDArray[np.bool_], column: str, values: NDArray[Any] | None, rule: str, remedy: str) -> None:
    """Raise for the first row in which `bad` holds."""
    if bad.any():
        row = int(bad.argmax())
        raise TraceError(column, f"must {rule}", remedy, row=row, value=None if values is None else values[row].item())


def _rebuilt(*fields: Any) -> TraceError:
    return TraceError(**dict(zip(_FIELDS, fields, strict=True)))


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


TraceError.__module__ = "asyncsim"  # where users find it, and what a traceback says
