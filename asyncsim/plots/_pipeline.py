"""A pipeline's timetable: what every stage computes when, and the bubbles between."""

from typing import TYPE_CHECKING

import numpy as np

from asyncsim.cluster._pipeline import Timetable
from asyncsim.plots.style import BLUE, INK, SKY

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

HEIGHT = 0.8  # of a stage's lane, of the distance to the next
MOST_NUMBERED = 60  # passes in which the number of the micro-batch can be read


def draw_timetable(ax: "Axes", timetable: Timetable) -> "list[Artist]":
    """Every forward and backward pass as a bar in the lane of its stage, the first stage on top.

    Few passes carry the number of their micro-batch. Where a stage computes two passes at once, they share its lane:
    forward passes in the upper half, backward passes in the lower.

    Args:
        ax: Where to draw.
        timetable: That of an `asyncsim.Pipeline`.

    Returns:
        The bars of the forward and of the backward passes, named by `get_label()`; `get_paths()` has one path each.

    Example:
        >>> import asyncsim as asim
        >>> from matplotlib.figure import Figure
        >>> pipeline = asim.Pipeline(stages=3, forward=asim.delays.Constant(1.0))
        >>> bars = draw_timetable(Figure().subplots(), pipeline.timetable(5))
        >>> [(artist.get_label(), len(artist.get_paths())) for artist in bars]
        [('forward', 15), ('backward', 15)]
    """
    from matplotlib.collections import PolyCollection

    stages = timetable.forward_start.shape[1]
    half = HEIGHT / 2 if _overlap(timetable) else 0.0
    kinds = (
        ("forward", timetable.forward_start, timetable.forward_end, SKY, INK, (-HEIGHT / 2, HEIGHT / 2 - half)),
        ("backward", timetable.backward_start, timetable.backward_end, BLUE, "white", (half - HEIGHT / 2, HEIGHT / 2)),
    )
    artists: list[Artist] = []
    for name, start, end, color, ink, (top, bottom) in kinds:
        lane = np.broadcast_to(np.arange(stages), start.shape)
        corners = [(start, lane + top), (end, lane + top), (end, lane + bottom), (start, lane + bottom)]
        boxes = np.stack([np.stack([x.ravel(), y.ravel()], axis=1) for x, y in corners], axis=1)
        artists.append(ax.add_collection(PolyCollection([*boxes], facecolor=color, edgecolor="white", linewidth=0.8)))
        artists[-1].set_label(name)
        if start.size <= MOST_NUMBERED:
            for (m, s), x in np.ndenumerate((start + end) / 2):
                ax.text(x, s + (top + bottom) / 2, str(m), ha="center", va="center", color=ink, fontsize="x-small")
    ax.set(xlim=(0, timetable.seconds or 1.0), ylim=(stages - 0.5, -0.5), xlabel="seconds", ylabel="stage")
    ax.set_yticks(range(stages))
    return artists


def _overlap(timetable: Timetable) -> bool:
    """Whether a stage computes two passes at once."""
    for stage in range(timetable.forward_start.shape[1]):
        start = np.concatenate([timetable.forward_start[:, stage], timetable.backward_start[:, stage]])
        end = np.concatenate([timetable.forward_end[:, stage], timetable.backward_end[:, stage]])
        order = np.lexsort((end, start))
        if (start[order][1:] < end[order][:-1]).any():
            return True
    return False
