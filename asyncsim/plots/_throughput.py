"""Throughput against the number of workers: when adding workers stops helping."""

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import require_positive
from asyncsim.components._checked import checked
from asyncsim.plots._page import draw_legend_inside, of_shape, tick_at_whole_numbers
from asyncsim.plots.style import BLUE, DASHED, GREY, VERMILION

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

ONE_EACH = "Give one number per point."
DOTTED = (0, (1, 1.5))  # points of a dot and of the gap after it


@checked
def draw_throughput(
    ax: "Axes",
    workers: ArrayLike,
    throughput: ArrayLike,
    *,
    predicted: ArrayLike | None = None,
    standard_error: ArrayLike | None = None,
    knee: Annotated[float, require_positive, "Give n* in workers, or None."] | None = None,
    limit: Annotated[float, require_positive, "Give slots over mean service time, or None."] | None = None,
) -> "list[Artist]":
    """Draw commits per second against the number of workers.

    Below the knee n* the workers are the bottleneck and the throughput grows as n · limit / n*. Above it the server is,
    and its limit is slots over mean service time. Without variance, the throughput would follow these two lines.

    Args:
        ax: Where to draw.
        workers: (points,) numbers of workers, increasing.
        throughput: (points,) commits per second, NaN where it was only predicted.
        predicted: (points,) commits per second, drawn as a curve.
        standard_error: (points,) of `throughput`, where bars extend by twice this to either side.
        knee: n*, in workers.
        limit: Largest number of commits per second that the server can handle.

    Returns:
        One artist for each of these, named by its `get_label()`.

    Raises:
        ValueError: If the length of an array is not that of `workers`, or `knee` or `limit` is not positive.

    Example:
        >>> from matplotlib.figure import Figure
        >>> artists = draw_throughput(Figure().subplots(), [1, 2, 4], [1.0, 1.9, 3.1], knee=4.0, limit=4.0)
        >>> [artist.get_label() for artist in artists]
        ['measured', 'knee n* = 4', 'limit of the server', 'without queueing']
    """
    n = np.asarray(workers, np.float64)
    if n.ndim != 1 or not len(n):
        raise ValueError(f"`workers` must have shape (points,); got {n.shape}. {ONE_EACH}")
    measured = of_shape("throughput", throughput, n.shape, ONE_EACH)
    artists: list[Artist] = []
    if standard_error is not None:
        half = 2 * of_shape("standard_error", standard_error, n.shape, ONE_EACH)
        bars = ax.vlines(n, measured - half, measured + half, color=BLUE, linewidth=1.4, zorder=3)
        bars.set_label("± 2 standard errors")
        artists.append(bars)
    artists[:0] = ax.plot(n, measured, "o", color=BLUE, label="measured", zorder=3)
    if predicted is not None:
        curve = of_shape("predicted", predicted, n.shape, ONE_EACH)
        artists += ax.plot(n, curve, color=VERMILION, label="predicted", zorder=2.5)
    thin: dict[str, Any] = {"color": GREY, "linewidth": 0.9, "zorder": 1.5}
    if knee is not None:
        artists.append(ax.axvline(knee, linestyle=DASHED, label=f"knee n* = {knee:.3g}", **thin))
    if limit is not None:
        artists.append(ax.axhline(limit, label="limit of the server", **thin))
    if knee is not None and limit is not None:
        top = min(float(n.max()), 1.08 * knee)
        artists += ax.plot([0, top], [0, top * limit / knee], linestyle=DOTTED, label="without queueing", **thin)
    ax.set(xlabel="workers n", ylabel="commits per second", xlim=(0, 1.03 * n.max()), ylim=(0, None))
    tick_at_whole_numbers(ax.xaxis)
    draw_legend_inside(ax, "lower right", artists)
    return artists
