"""Claims, each judged by numbers, and the table that says which of them hold."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

ANSWERS = {True: "holds", False: "does not hold", None: "cannot be judged here"}


class Claim(NamedTuple):
    """A claim and its judgement.

    Attributes:
        says: The claim.
        judged: How it is judged from the numbers.
        measured: The numbers, of all seeds.
        holds: Whether it holds; None if the numbers cannot tell.
    """

    says: str
    judged: str
    measured: str
    holds: bool | None

    @property
    def answer(self) -> str:
        """Whether it holds, in words.

        Example:
            >>> Claim("π falls", "medians", "0.8, 0.5", True).answer
            'holds'
        """
        return ANSWERS[self.holds]


def claims_table(claims: Mapping[str, Iterable[Claim]]) -> str:
    """A Markdown table with one row per claim, which begins with the name of its figure.

    Example:
        >>> print(claims_table({"figure3": [Claim("π falls", "medians", "0.8, 0.5", True)]}))
        | figure | claim | judged by | measured, all seeds | |
        |---|---|---|---|---|
        | figure3 | π falls | medians | 0.8, 0.5 | holds |
    """
    lines = ["| figure | claim | judged by | measured, all seeds | |", "|---|---|---|---|---|"]
    for figure, rows in claims.items():
        for row in rows:
            answer = f"**{row.answer}**" if row.holds is False else row.answer
            lines.append(_table_row(figure, row.says, row.judged, row.measured, answer))
    return "\n".join(lines)


def _table_row(*cells: str) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def numbers(values: Iterable[float]) -> str:
    """Numbers for a cell of the table, three digits each.

    Example:
        >>> numbers([0.0312, 2.3026, float("nan")])
        '.0312 2.3 –'
    """
    return " ".join(_short(float(value)) for value in values)


def each(labels: Iterable[object], columns: np.ndarray) -> str:
    """The numbers of all seeds, column by column.

    Args:
        labels: One per column.
        columns: (seeds, columns).

    Example:
        >>> each(["n = 5", "n = 10"], np.array([[0.1, 0.2], [0.3, 0.4]]))
        'n = 5: .1 .3; n = 10: .2 .4'
    """
    return "; ".join(f"{label}: {numbers(column)}" for label, column in zip(labels, columns.T, strict=True))


def each_n(workers: Iterable[int], columns: np.ndarray) -> str:
    """The numbers of all seeds, (seeds, numbers of workers), as `each` shows them."""
    return each((f"n = {n}" for n in workers), columns)


def _short(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.3g}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3g}"
