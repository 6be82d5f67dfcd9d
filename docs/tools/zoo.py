"""The zoo's table for the documentation: `python docs/tools/zoo.py runs/zoo/numbers.npz docs/reference/zoo.csv`.

A row for each rule, the best first: median and quartiles of the training loss and the step size at which they are best,
and the median where the workers' data differ.
"""

import csv
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = ("rule", "loss", "step size", "loss where data differ")


def rows(numbers: Any) -> list[tuple[str, ...]]:
    """Those of the table, as text."""
    quartiles = zip(numbers["loss"], numbers["lower_quartile"], numbers["upper_quartile"], strict=True)
    losses = [
        f"{short(median)} ({short(low)} to {short(high)})" if np.isfinite(median) else "lost"
        for median, low, high in quartiles
    ]
    steps = [str(Fraction(step)) if np.isfinite(step) else "every one" for step in numbers["step_size"]]
    differing = [short(loss) if np.isfinite(loss) else "lost" for loss in numbers["differing"]]
    return [tuple(map(str, row)) for row in zip(numbers["rule"], losses, steps, differing, strict=True)]


def short(loss: float) -> str:
    """Three digits.

    Example:
        >>> short(0.00398), short(0.0550), short(2.3)
        ('0.0040', '0.0550', '2.30')
    """
    if not np.isfinite(loss):
        return "lost"
    return f"{loss:.4f}" if loss < 0.1 else f"{loss:.3f}" if loss < 1 else f"{loss:.2f}"


if __name__ == "__main__":
    source, target = sys.argv[1:]
    with np.load(source) as numbers, Path(target).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows(numbers)])
