"""Several runs in one picture."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from asyncsim.plots.page import draw_legend_below, draw_legend_beside, draw_title, use_logarithm
from asyncsim.plots.style import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SIZE = (7.2, 4.8)  # inches
MARKERS = "osD^vP"
SIZE_OF_VALUES, SIZE_OF_NAMES = 8.5, 9.0  # points
ROOM_FOR_NAMES = 270.0  # points from the first row to the last
ROOM_FOR_VALUES = 0.15  # of the width, on both sides

Points = Sequence[tuple[int, float | None]]


def draw_final_losses(ax: "Axes", losses: Mapping[str, Points], start: float | None = None) -> "list[Line2D]":
    """Final training loss against the number of workers, one line per rule or setting, on a logarithmic axis.

    Args:
        ax: Where to draw.
        losses: Line -> (workers, final loss) pairs; the loss is None or not finite for a run that diverged.
        start: Loss before training, drawn as a dashed line: a run that ends there has learned nothing.

    Returns:
        One line per rule or setting. A diverged run is a cross at the upper edge, not a gap.

    Example:
        >>> from matplotlib.figure import Figure
        >>> losses = {"gem": [(5, 0.07), (10, 0.05), (20, None)]}
        >>> lines = draw_final_losses(Figure().subplots(), losses, start=2.3)
        >>> lines[0].get_label(), lines[0].get_ydata().tolist()
        ('gem', [0.07, 0.05, nan])
    """
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    lines = []
    for number, (rule, points) in enumerate(losses.items()):
        x, y = (np.array(column, float) for column in zip(*sorted(points, key=lambda p: p[0]), strict=True))
        y[~np.isfinite(y)] = np.nan
        lines += ax.plot(x, y, marker=MARKERS[number % len(MARKERS)], label=rule)
        lost = x[np.isnan(y)]
        if len(lost):
            style = {"color": lines[-1].get_color(), "transform": ax.get_xaxis_transform(), "clip_on": False}
            ax.plot(lost, np.full(len(lost), 0.97 - 0.03 * number), "x", markeredgewidth=2, **style)
    if any(np.isnan(line.get_ydata()).any() for line in lines):
        ax.text(0.01, 0.97, "×  diverged", transform=ax.transAxes, color=GREY, va="top", size=8.5)
    if start is not None and math.isfinite(start):
        ax.axhline(start, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1, label="before training")
    use_logarithm(ax, *(line.get_ydata() for line in lines), [] if start is None else [start])
    workers = sorted({n for points in losses.values() for n, _ in points})
    ax.xaxis.set_major_locator(FixedLocator(workers))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.set(xlabel="workers n", ylabel="final training loss")
    return lines


def draw_ranking(ax: "Axes", losses: Mapping[str, Points], start: float | None = None) -> "list[Line2D]":
    """Final training losses with one number of workers: a row per rule or setting, the lowest loss at the top.

    Args:
        ax: Where to draw.
        losses: As in `draw_final_losses`; of several losses in a row, the lowest counts for the order.
        start: As in `draw_final_losses`.

    Returns:
        The points of each row, from the top. Beside each point is its value; a diverged run is a cross at the right
        edge.

    Example:
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()
        >>> rows = draw_ranking(ax, {"downpour": [(20, 2.3)], "gem": [(20, 0.05)], "agn": [(20, None)]})
        >>> [label.get_text() for label in ax.get_yticklabels()], rows[0].get_xdata().tolist()
        (['gem', 'downpour', 'agn'], [0.05])
    """
    found = {name: np.sort(np.array([loss for _, loss in points], float)) for name, points in losses.items()}
    for row in found.values():
        row[~np.isfinite(row)] = np.nan
    names = sorted(found, key=lambda name: float(np.nan_to_num(found[name][0], nan=np.inf)))
    lines = [ax.plot(found[name], np.full(len(found[name]), place), "o")[0] for place, name in enumerate(names)]
    beside = {"textcoords": "offset points", "va": "center", "size": SIZE_OF_VALUES}
    for place, name in enumerate(names):
        for loss in found[name]:
            if np.isfinite(loss):
                ax.annotate(f"{loss:.3g}", (loss, place), xytext=(6, 0), **beside)
        if np.isnan(found[name]).any():
            edge = {"xycoords": ax.get_yaxis_transform(), "ha": "right", "color": lines[place].get_color()}
            ax.annotate("diverged ×", (1.0, place), xytext=(0, 0), **edge, **beside)
    if start is not None and math.isfinite(start):
        ax.axvline(start, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1, label="before training")
    values = np.concatenate([*found.values(), [] if start is None else [start]])
    if np.isfinite(values).any() and np.nanmin(values) > 0:
        ax.set_xscale("log")
    ax.margins(x=ROOM_FOR_VALUES)
    ax.set_yticks(range(len(names)), names, size=min(SIZE_OF_NAMES, ROOM_FOR_NAMES / len(names)))
    ax.set(xlabel="final training loss", ylim=(len(names) - 0.5, -0.5))
    ax.grid(visible=False, axis="y")
    return lines


def draw_comparison(
    figure: "Figure", losses: Mapping[str, Points], start: float | None, title: str, subtitle: str = ""
) -> "Axes":
    """The page of a comparison: final losses against the number of workers, or in a row each where there is but one.

    Args:
        figure: An empty figure.
        losses, start: As in `draw_final_losses` and `draw_ranking`.
        title, subtitle: Lines above the picture.

    Returns:
        The axes.
    """
    ax = figure.subplots()
    workers = {n for points in losses.values() for n, _ in points}
    if len(workers) == 1:
        draw_ranking(ax, losses, start)
        ax.set_xlabel(f"final training loss, {workers.pop()} workers")
        if start is not None:
            draw_legend_below(ax, ax.get_legend_handles_labels()[0])
        draw_title(figure, title, subtitle)
        return ax
    lines = draw_final_losses(ax, losses, start)
    ends = {line.get_label(): float(np.nan_to_num(np.asarray(line.get_ydata())[-1], nan=np.inf)) for line in lines}
    handles, labels = ax.get_legend_handles_labels()
    entries = sorted(zip(labels, handles, strict=True), key=lambda entry: -ends.get(entry[0], np.inf))
    draw_legend_beside(ax, entries)
    draw_title(figure, title, subtitle)
    return ax
