"""Drawing: curves of several seeds, the paper's own behind them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.plots.style import BLUE, GREEN, PINK, SKY, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

COLOURS = (BLUE, GREEN, VERMILION, PINK, SKY)
THE_PAPER, PAPER_COLOUR = "the paper", "#B4B8BF"


def draw_curve(ax: "Axes", x: ArrayLike, ys: ArrayLike, **look: Any) -> "Line2D":
    """The median over seeds as a line, and all between the least and the greatest seed as a band.

    Args:
        ax: Where to draw.
        x: (points,).
        ys: (seeds, points); where a seed is not finite the median is that of the others, and a cross marks where the
            last of them ends before the curve does.
        look: Of the line: `label`, `color`, …

    Returns:
        The line.

    Example:
        >>> from matplotlib.figure import Figure
        >>> line = draw_curve(Figure().subplots(), [1, 2], [[1.0, 2.0], [3.0, np.nan], [5.0, 4.0]])
        >>> line.get_ydata().tolist()
        [3.0, 3.0]
    """
    x, ys = np.asarray(x), np.atleast_2d(np.asarray(ys, np.float64))
    ys = np.where(np.isfinite(ys), ys, np.nan)
    some = np.asarray(np.isfinite(ys).any(axis=0))
    middle, low, high = (np.full(len(x), np.nan) for _ in range(3))
    middle[some], low[some], high[some] = (f(ys[:, some], axis=0) for f in (np.nanmedian, np.nanmin, np.nanmax))
    (line,) = ax.plot(x, middle, **look)
    if len(ys) > 1:
        ax.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0)
    if some.any() and not some[-1]:
        last = np.flatnonzero(some)[-1]
        ax.plot(x[last], middle[last], "x", color=line.get_color(), markeredgewidth=2, clip_on=False)
    return line


def draw_paper(ax: "Axes", x: ArrayLike, y: ArrayLike) -> "Line2D":
    """The paper's own curve, thin and grey, behind the others; a legend names but the first of a panel."""
    if not len(np.atleast_1d(x)):
        raise ValueError("`x` must have points; the paper's curve that was asked for is not in its file.")
    named = any(line.get_label() == THE_PAPER for line in ax.get_lines())
    label = f"_{THE_PAPER}" if named else THE_PAPER
    return ax.plot(np.asarray(x), np.asarray(y), color=PAPER_COLOUR, linewidth=0.8, zorder=1, label=label)[0]
