"""Colours of curves, and the paper's own curves behind ours."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.plots.style import BLUE, GREEN, PINK, SKY, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

COLOURS = (BLUE, GREEN, VERMILION, PINK, SKY)
THE_PAPER, PAPER_COLOUR = "the paper", "#B4B8BF"
BELOW = 30  # points from an axis to what stands below its label


def draw_paper(ax: "Axes", x: ArrayLike, y: ArrayLike) -> "Line2D":
    """The paper's own curve, thin and grey, behind the others; only the first one in a panel appears in its legend.

    Raises:
        ValueError: If the curve has no points.
    """
    if not len(np.atleast_1d(x)):
        raise ValueError("`x` must have points; got none: the paper's curve is not in its file. Check the name.")
    named = any(line.get_label() == THE_PAPER for line in ax.get_lines())
    label = f"_{THE_PAPER}" if named else THE_PAPER
    return ax.plot(np.asarray(x), np.asarray(y), color=PAPER_COLOUR, linewidth=0.8, zorder=1, label=label)[0]


def name_below(ax: "Axes", columns: int, title: str | None = None) -> "Legend":
    """The legend of a panel whose curves fill it: below the axis and its label, where it covers nothing."""
    from matplotlib.transforms import ScaledTranslation

    below = ax.transAxes + ScaledTranslation(0, -BELOW / 72, ax.figure.dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}
    return ax.legend(ncols=columns, columnspacing=1, title=title, **place)
