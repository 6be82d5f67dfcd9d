"""What is wrong with a trace, and where."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FIELDS = ("column", "rule", "remedy", "found", "row", "value", "unit", "source")
_LONGEST = 80  # characters of a value in a message


class TraceError(ValueError):
    """A trace, or a log that should become one, breaks a rule.

    Attributes:
        column: Name of the column, together with its table where that is not the table of commits: "version",
            "unfinished.fate", "faults.kind". None if the error is not about one column.
        rule: What is wrong, in words: "must not decrease from row to row".
        remedy: What to do.
        found: What there is instead; "" where the row and the value say it.
        row: Row of the table, from 0, or line of a CSV file, from 1; None if the error is not about one row.
        value: What stands there; None if nothing does.
        unit: What `row` counts, "row" or "line".
        source: Where the message begins, say with the name of the file; mostly "".

    Example:
        >>> error = TraceError("version", "must be 0", "Start at 0.", row=2, value=7)
        >>> str(error)
        '`version` must be 0; row 2 has 7. Start at 0.'
        >>> str(error.renumber(np.array([2, 3, 4]), unit="line", source="log.csv: "))
        'log.csv: `version` must be 0; line 4 has 7. Start at 0.'
    """

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
    """Raise for the first row in which `bad` holds.

    Args:
        bad: (rows,) which rows break the rule.
        column: Name of the column.
        values: (rows,) the column; None if nothing stands there.
        rule: What must hold; the message says "must" before it.
        remedy: What to do.

    Raises:
        TraceError: If there is such a row.
    """
    if bad.any():
        row = int(bad.argmax())
        raise TraceError(column, f"must {rule}", remedy, row=row, value=None if values is None else values[row].item())


def _rebuilt(*fields: Any) -> TraceError:
    return TraceError(**dict(zip(_FIELDS, fields, strict=True)))


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
