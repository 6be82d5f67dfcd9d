"""The distribution of staleness."""

from typing import TYPE_CHECKING

import numpy as np

from asyncsim.plots.curves import remark, say
from asyncsim.plots.style import BLUE, VERMILION
from asyncsim.trace import Trace

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

MOST_BARS = 80


def draw_staleness(ax: "Axes", trace: Trace) -> "Artist":
    """Histogram of staleness, as shares of the commits; n - 1, the mean of equal workers, is marked.

    Returns:
        The steps of the histogram (`get_data().values` are the shares), or a text if there are no commits.

    Example:
        >>> from matplotlib.figure import Figure
        >>> steps = draw_staleness(Figure().subplots(), Trace.from_commits([0, 1, 2, 0, 1, 2]))
        >>> steps.get_data().values.round(3).tolist()  # staleness 0, 1 and 2
        [0.167, 0.167, 0.667]
    """
    if not len(trace):
        return say(ax, "No commits, no staleness.")
    longest, mean = int(trace.staleness.max()), float(trace.staleness.mean())
    width = -(-(longest + 1) // MOST_BARS)
    edges = np.arange(0, longest + width + 1, width) - 0.5
    shares = np.histogram(trace.staleness, edges)[0] / len(trace)
    steps = ax.stairs(shares, edges, fill=True, color=BLUE, alpha=0.85)
    n = trace.workers
    ax.axvline(n - 1, color=VERMILION, linewidth=1.4, linestyle=(0, (4, 3)), label=f"n − 1 = {n - 1}")
    share = "share of commits" if width == 1 else f"share of commits per {width} versions"
    ax.set(xlabel="staleness of a commit, in server versions", ylabel=share, ylim=(0, None))
    ax.set_xlim(right=max(np.quantile(trace.staleness, 0.9995), n) + width)
    remark(ax, f"mean {mean:.2f}, longest {longest}")
    ax.legend(loc="upper right")
    return steps
