"""Read the table of measurements that the tutorials quote, which `docs/tools/story.py` writes."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TABLE = Path(__file__).parents[1] / "reference" / "story.csv"


class Best(NamedTuple):
    """A setting at its own best step size: the mean over the schedules, and the lowest and highest of them."""

    step: float
    mean: float
    low: float
    high: float


NEVER = Best(np.nan, np.inf, np.inf, np.inf)  # no step size reaches the target on all schedules


def rows(question: str, quantity: str = "seconds") -> dict[tuple[str, float], np.ndarray]:
    """Return (setting, step size) -> the values of the schedules."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        lines = [line for line in list(csv.reader(file))[1:] if line[0] == question and line[2] == quantity]
    if not lines:
        raise ValueError(f"{TABLE.name} has no rows of {question!r} and {quantity!r}.")
    return {(line[1], float(line[3])): np.array(line[4:], float) for line in lines}


def best(question: str, quantity: str = "seconds") -> dict[str, Best]:
    """Return setting -> the step size with the lowest mean over the schedules, and its values.

    Settings without a step size have NaN there.
    """
    found: dict[str, Best] = {}
    for (setting, step), values in rows(question, quantity).items():
        mean = float(np.mean(values))
        if np.isfinite(mean) and (setting not in found or mean < found[setting].mean):
            found[setting] = Best(step, mean, float(values.min()), float(values.max()))
    return found


def table(question: str, labels: dict[Any, str], quantities: dict[str, str] | None = None) -> Any:
    """Return a Markdown table with a row for each setting at its best step, which a page shows.

    Args:
        question: Of the table, for example "story".
        labels: Setting, or a pair of a setting and one of its step sizes -> its name in the page.
        quantities: Quantity -> the head of its column, by default the seconds.
    """
    columns = quantities or {"seconds": "seconds"}
    values = {quantity: best(question, quantity) for quantity in columns}
    has_steps = bool(np.isfinite([one.step for one in values[next(iter(columns))].values()]).any())
    lines = [["", *(head for column in columns.values() for head in (column, *["best η"] * has_steps))]]
    for setting, label in labels.items():
        cells = []
        for quantity in columns:
            chosen = isinstance(setting, tuple)
            one = at(question, quantity, *setting) if chosen else values[quantity].get(setting, NEVER)
            cells += [in_range(one), *[f"{one.step:.2g}" if np.isfinite(one.step) else "–"] * has_steps]
        lines.append([label, *cells])
    return markdown(lines)


def crossed(question: str, rows: dict[str, str], columns: dict[str, str], corner: str = "") -> Any:
    """Return a Markdown table of seconds and best steps with a row and a column for each part of a setting's name.

    Args:
        question: Of the table, for example "batch".
        rows: Last part of the names of settings -> the name of their row.
        columns: First part of the names of settings -> the name of their column.
        corner: Head of the first column.
    """
    values = best(question)
    lines = [[corner, *(head for column in columns.values() for head in (column, "best η"))]]
    for row, label in rows.items():
        several = [values[f"{column}, {row}"] for column in columns]
        lines.append([label, *(cell for one in several for cell in (in_range(one), f"{one.step:.2g}"))])
    return markdown(lines)


def at(question: str, quantity: str, setting: str, step: float) -> Best:
    """Return the values of a setting at one of its step sizes."""
    values = rows(question, quantity)[setting, step]
    return Best(step, float(values.mean()), float(values.min()), float(values.max()))


def in_range(one: Best) -> str:
    """Return the mean and the range over the schedules, as a cell has them."""
    return f"{one.mean:.3g} ({one.low:.3g} to {one.high:.3g})" if np.isfinite(one.mean) else "not reached"


def at_steps(question: str, labels: dict[str, str], steps: tuple[float, ...], quantity: str, form: str = ".3g") -> Any:
    """Return a Markdown table of means over the schedules: a row for each setting, a column for each step size.

    Args:
        question: Of the table, for example "tolerance".
        labels: Setting -> its name in the page.
        steps: Step sizes, as the table has them.
        quantity: For example "test accuracy".
        form: How a number is written, for example ".0%".
    """
    values = rows(question, quantity)
    lines = [["step size η", *(f"{step:.2g}" for step in steps)]]
    for setting, label in labels.items():
        means = [float(np.mean(values[setting, step])) for step in steps]
        lines.append([label, *(f"{mean:{form}}" if np.isfinite(mean) else "not reached" for mean in means)])
    return markdown(lines)


def by_workers(fleets: dict[str, str]) -> Any:
    """Return a Markdown table of the stability limits: a row for each fleet, a column for each number of workers."""
    limits, workers = best("limits", "limit"), (4, 8, 16, 40, 64)
    pairs = ((4, 64), (8, 40))
    lines = [["times of the workers", *(f"n = {n}" for n in workers), *(f"{few} to {many}" for few, many in pairs)]]
    for fleet, label in fleets.items():
        of = {n: limits[f"{n}, {fleet}"].mean for n in workers}
        ratios = (f"÷ {of[few] / of[many]:.1f}" for few, many in pairs)
        lines.append([label, *(f"{value:.3g}" for value in of.values()), *ratios])
    return markdown(lines)


def markdown(lines: list[list[str]]) -> Any:
    """Return a Markdown table, whose first line is its head."""
    from IPython.display import Markdown

    head, *body = lines
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body]))
