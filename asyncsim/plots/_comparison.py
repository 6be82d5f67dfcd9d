"""Several runs in one picture."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from asyncsim._metrics import metric
from asyncsim.plots._page import draw_legend_beside, draw_title, use_logarithm
from asyncsim.plots.style import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SIZE = (7.2, 4.8)  # inches
MARKERS = "osD^vP"

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
    ax.set(xlabel="workers n", ylabel=metric("final_loss").label)
    return lines


def draw_comparison(
    figure: "Figure", losses: Mapping[str, Points], start: float | None, title: str, subtitle: str = ""
) -> "Axes":
    """The page of a comparison: `draw_final_losses`, a legend in the order in which the lines end, and a title."""
    ax = figure.subplots()
    lines = draw_final_losses(ax, losses, start)
    ends = {line.get_label(): float(np.nan_to_num(np.asarray(line.get_ydata())[-1], nan=np.inf)) for line in lines}
    handles, labels = ax.get_legend_handles_labels()
    entries = sorted(zip(labels, handles, strict=True), key=lambda entry: -ends.get(entry[0], np.inf))
    draw_legend_beside(ax, entries)
    draw_title(figure, title, subtitle)
    return ax
