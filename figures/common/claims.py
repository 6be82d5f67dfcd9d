"""Claims of the paper, and the table that says whether they hold."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np


class Claim(NamedTuple):
    """One claim, judged.

    Attributes:
        says: What the paper says.
        judged: How that is judged from the numbers.
        measured: The numbers, of all seeds.
        holds: Whether it holds; None where this scale cannot tell.
    """

    says: str
    judged: str
    measured: str
    holds: bool | None


ANSWERS = {True: "holds", False: "**does not hold**", None: "cannot be told here"}


def claims_table(claims: Mapping[str, Iterable[Claim]]) -> str:
    """Markdown, one row a claim; the figure that it belongs to comes first.

    Example:
        >>> print(claims_table({"figure3": [Claim("π falls", "medians", "0.8, 0.5", True)]}))
        | figure | the paper says | judged by | measured, all seeds | |
        |---|---|---|---|---|
        | figure3 | π falls | medians | 0.8, 0.5 | holds |
    """
    lines = ["| figure | the paper says | judged by | measured, all seeds | |", "|---|---|---|---|---|"]
    for figure, rows in claims.items():
        lines += [_row(figure, row.says, row.judged, row.measured, ANSWERS[row.holds]) for row in rows]
    return "\n".join(lines)


def _row(*cells: str) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def numbers(values: Iterable[float]) -> str:
    """Numbers for a cell: all of them, three digits each.

    Example:
        >>> numbers([0.0312, 2.3026, float("nan")])
        '.0312 2.3 –'
    """
    return " ".join(_short(float(value)) for value in values)


def each(labels: Iterable[object], columns: np.ndarray) -> str:
    """Numbers of all seeds, (seeds, columns), a column after the other.

    Example:
        >>> each(["n = 5", "n = 10"], np.array([[0.1, 0.2], [0.3, 0.4]]))
        'n = 5: .1 .3; n = 10: .2 .4'
    """
    return "; ".join(f"{label}: {numbers(column)}" for label, column in zip(labels, columns.T, strict=True))


def each_n(workers: Iterable[int], columns: np.ndarray) -> str:
    """The same, a column a number of workers."""
    return each((f"n = {n}" for n in workers), columns)


def _short(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.3g}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3g}"
