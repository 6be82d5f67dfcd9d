"""The report of one run: four panels on a page; and what other pages are made of."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.engine import Run
from asyncsim.plots.curves import draw_energies, draw_loss, draw_pi
from asyncsim.plots.staleness import MOST_BARS, SHOWN, draw_staleness, in_bins
from asyncsim.plots.style import BLUE, GREY, INK, VERMILION, draw_legend_below, wrapped
from asyncsim.trace import Trace

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (9.6, 6.6)  # inches


def draw_report(
    figure: "Figure", trace: Trace, run: Run, title: str, subtitle: str = "", *, predicted: ArrayLike | None = None
) -> "list[Axes]":
    """Loss, staleness, energies and π of a run.

    Args:
        figure: An empty figure; see `asyncsim.plots.style` for the look.
        trace: Schedule of the run.
        run: The run.
        title: First line, say what was run.
        subtitle: Second line, in grey: with which settings.
        predicted: (size,) P(τ = k), drawn over the staleness that was measured; see `draw_staleness`.

    Returns:
        The four panels. What a run does not have is said in its panel.
    """
    panels = list(figure.subplots(2, 2).flat)
    draw_loss(panels[0], run)
    draw_staleness(panels[1], trace, predicted=predicted)
    draw_energies(panels[2], run)
    draw_pi(panels[3], run)
    names = ("Training loss", "Staleness", "Kinetic energy", "Scaling π of the updates")
    for panel, name in zip(panels, names, strict=True):
        panel.set_title(name)
    draw_title(figure, title, subtitle)
    return panels


def draw_shares(
    ax: "Axes", shares: ArrayLike, *, predicted: ArrayLike | None = None, most: int | None = None
) -> "list[Artist]":
    """A distribution of staleness as it was measured, filled, and as theory predicts it, an outline; with the means.

    Args:
        ax: Where to draw.
        shares: (size,) share of the commits with staleness 0, 1, …
        predicted: (size,) P(τ = k), or None.
        most: Largest staleness shown; by default 99.95 % of the commits are.

    Returns:
        The measured shares, the predicted ones where there are any, and the line at the measured mean.

    Example:
        >>> from matplotlib.figure import Figure
        >>> measured, outline, mean = draw_shares(Figure().subplots(), [0.5, 0.5], predicted=[0.4, 0.6])
        >>> outline.get_data().values.tolist(), float(mean.get_xdata()[0])
        ([0.4, 0.6, 0.0], 0.5)
    """
    from matplotlib.ticker import MaxNLocator

    measured = np.asarray(shares, np.float64)
    most = int(np.searchsorted(np.cumsum(measured), SHOWN)) + 1 if most is None else most
    width = -(-(most + 1) // MOST_BARS)
    bins = -(-(most + 1) // width)
    edges = np.arange(bins + 1) * width - 0.5
    look = {"fill": True, "color": BLUE, "alpha": 0.85, "label": "simulated"}
    artists: list[Artist] = [ax.stairs(in_bins(measured, bins, width), edges, **look)]
    if predicted is not None:
        expected = in_bins(np.asarray(predicted, np.float64), bins, width)
        artists.append(ax.stairs(expected, edges, color=INK, linewidth=1.3, label="predicted"))
    mean = float(measured @ np.arange(len(measured)))
    artists.append(ax.axvline(mean, color=VERMILION, linewidth=1.4, linestyle=(0, (4, 3)), label=f"mean {mean:.4g}"))
    ax.set(xlabel="staleness of a commit, in server versions", xlim=(-0.02 * most - 1, edges[-1] + 0.5))
    ax.set_ylabel("share of commits" if width == 1 else f"share of commits per {width} versions")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    draw_legend_below(ax, artists)
    return artists


def draw_title(figure: "Figure", title: str, subtitle: str) -> None:
    """A title at the top left of a figure, and below it a subtitle that wraps; room is made for both."""
    inch = 1 / figure.get_figheight()
    lines = wrapped(subtitle, 0.96 * 72 * figure.get_figwidth(), size=9)
    further = 0.17 * (len(lines) - 1)  # inches of the lines beyond the first
    engine = figure.get_layout_engine()
    if engine is not None:
        rect = (0.01, 0.01, 0.98, 0.98 - (0.6 + further) * inch)
        engine.set(rect=rect, h_pad=0.12, w_pad=0.12)  # type: ignore[call-arg]
    figure.text(0.02, 1 - 0.24 * inch, title, size=13, weight="bold", va="center")
    for number, line in enumerate(lines):
        figure.text(0.02, 1 - (0.51 + 0.17 * number) * inch, line, size=9, color=GREY, va="center")
