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


def table(question: str, labels: dict[str, str], quantities: dict[str, str] | None = None) -> Any:
    """Return a Markdown table with a row for each setting at its best step, which a page shows.

    Args:
        question: Of the table, for example "story".
        labels: Setting -> its name in the page.
        quantities: Quantity -> the head of its column, by default the seconds.
    """
    from IPython.display import Markdown

    columns = quantities or {"seconds": "seconds"}
    values = {quantity: best(question, quantity) for quantity in columns}
    has_steps = bool(np.isfinite([one.step for one in values[next(iter(columns))].values()]).any())
    lines = [["", *(head for column in columns.values() for head in (column, *["best η"] * has_steps))]]
    lines.append(["---"] * len(lines[0]))
    for setting, label in labels.items():
        cells = []
        for quantity in columns:
            one = values[quantity][setting]
            cells += [f"{one.mean:.3g} ({one.low:.3g} to {one.high:.3g})", *[f"{one.step:.2g}"] * has_steps]
        lines.append([label, *cells])
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in lines))


def by_workers(fleets: dict[str, str], workers: tuple[int, ...] = (4, 16, 64)) -> Any:
    """Return a Markdown table of the stability limits: a row for each fleet, a column for each number of workers."""
    from IPython.display import Markdown

    limits = best("limits", "limit")
    lines = [["times of the workers", *(f"n = {n}" for n in workers), f"{workers[0]} to {workers[-1]} workers"]]
    lines.append(["---"] * len(lines[0]))
    for fleet, label in fleets.items():
        values = [limits[f"{n}, {fleet}"].mean for n in workers]
        lines.append([label, *(f"{value:.3f}" for value in values), f"{values[0] / values[-1]:.1f} times lower"])
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in lines))
