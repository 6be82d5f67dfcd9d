"""The time of each worker in parts: a stacked bar for each worker."""

from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.costs import Cost
from asyncsim.plots import _spans as sp
from asyncsim.plots._page import draw_legend_below, say
from asyncsim.plots._timeline import LOOKS
from asyncsim.plots.style import PALE_SKY, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.text import Text

MOST_APART = 60  # workers whose bars do not touch
PARTS: dict[str, dict[str, Any]] = {  # from the bottom to the top, in the colours of the timeline
    "compute": LOOKS[sp.COMPUTING],
    "download": {"facecolor": SKY},
    "upload": {"facecolor": PALE_SKY, "edgecolor": SKY, "hatch": "......"},
    "queue": LOOKS[sp.WAITING],
    "service": LOOKS[sp.SERVICE],
    "waiting": LOOKS[sp.IDLE],
    "down": LOOKS[sp.DOWN],
}


def draw_time_budget(ax: "Axes", cost: Cost) -> "list[BarContainer] | list[Text]":
    """The time of each worker, in parts that sum to the whole: one stacked bar for each worker.

    Args:
        ax: Where to draw.
        cost: The cost of a run, as `asyncsim.cost` returns it.

    Returns:
        The bars of each part that occurs, from the bottom to the top, named by `get_label()`; heights are shares of the
        duration. One text if no time passed.

    Example:
        >>> import asyncsim as asim
        >>> from matplotlib.figure import Figure
        >>> server = asim.Server(service=asim.delays.Constant(0.5))
        >>> trace = asim.simulate(asim.Cluster(4, asim.delays.Constant(1.0), server=server), commits=40)
        >>> bars = draw_time_budget(Figure().subplots(), asim.cost(trace, message_bytes=0, parameter_bytes=0))
        >>> [bar.get_label() for bar in bars]
        ['compute', 'queue', 'service']
    """
    if not cost.duration:
        return [say(ax, "Nothing has happened yet: no time was spent.")]  # type: ignore[list-item]
    place, base = np.arange(cost.workers), np.zeros(cost.workers)
    width = 0.8 if cost.workers <= MOST_APART else 1.0
    drawn = []
    for name, look in PARTS.items():
        share = cost.seconds[name] / cost.duration
        if share.any():
            drawn.append(ax.bar(place, share, width, bottom=base, label=name, **{"linewidth": 0, **look}))
            base = base + share
    ax.set(xlabel="worker", ylabel="share of the time", xlim=(-0.6, cost.workers - 0.4), ylim=(0, 1))
    ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[attr-defined]
    ax.grid(visible=False, axis="x")
    draw_legend_below(ax, drawn)
    return drawn
